"""`callboard providers test`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

from ..config.files import load_settings
from ..models import with_keys
from ..providers.catalog import Wish, find_provider
from ..providers.connection_trial import ConnectionReport, try_connection
from ..providers.provider_table import REHEARSAL
from ..runtime.core_dumps import forbid_core_dumps
from ..runtime.redaction import redact
from .complaint import complain
from .escaping import safe_line
from .exit_codes import ANSWERED, FAILED
from .json_lines import json_line


def try_provider(
    config: Path | None, data: Path, name: str, model: str | None, *, json: bool
) -> int:
    """Tests it and says how that went; gives the exit code."""
    forbid_core_dumps()
    settings = load_settings(config)
    if name == REHEARSAL:
        print("rehearsal works: it is built in, and needs no connection.")
        return ANSWERED
    wish = with_keys(Wish(settings=settings, environ=os.environ), data)
    provider = find_provider(wish, name)
    if name in settings.inactive:
        complain(f"{name} is inactive: `callboard providers activate {name}` lets it be used.")
    choice = model.removeprefix(f"{name}/") if model is not None else None
    report: ConnectionReport = trio.run(try_connection, provider, wish, choice)
    if json:
        sys.stdout.write(json_line(report))
    elif report.works:
        print(safe_line(redact(report.message)))
    else:
        complain(f"{name} ({report.fault}): {report.message}")
    return ANSWERED if report.works else FAILED
