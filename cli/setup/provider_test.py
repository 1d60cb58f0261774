"""`callboard providers test`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

from ...config.files import load_settings
from ...embedding.models import with_keys
from ...providers.catalog.catalog import Wish, find_provider
from ...providers.catalog.connection_test import ConnectionReport, try_connection
from ...providers.catalog.table import REHEARSAL
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.redaction import redact
from ..exit_codes import ANSWERED, FAILED
from ..remote.call import serving_daemon
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line


def try_provider(
    config: Path | None, data: Path, name: str, model: str | None, *, json: bool
) -> int:
    """Tests it and says how that went; gives the exit code."""
    forbid_core_dumps()
    if name != REHEARSAL and (daemon := serving_daemon(config, data)) is not None:
        from ..remote.models import try_there  # here: most of the time no daemon runs

        is_active, there = try_there(daemon, name, model)
        return _said(name, there, is_active=is_active, json=json)
    settings = load_settings(config)
    if name == REHEARSAL:
        print("rehearsal works: it is built in, and needs no connection.")
        return ANSWERED
    wish = with_keys(Wish(settings=settings, environ=os.environ), data)
    provider = find_provider(wish, name)
    choice = model.removeprefix(f"{name}/") if model is not None else None
    report: ConnectionReport = trio.run(try_connection, provider, wish, choice)
    return _said(name, report, is_active=name not in settings.inactive, json=json)


def _said(name: str, report: ConnectionReport, *, is_active: bool, json: bool) -> int:
    if not is_active:
        complain(f"{name} is inactive: `callboard providers activate {name}` lets it be used.")
    if json:
        sys.stdout.write(json_line(report))
    elif report.works:
        print(safe_line(redact(report.message)))
    else:
        complain(f"{name} ({report.fault}): {report.message}")
    return ANSWERED if report.works else FAILED
