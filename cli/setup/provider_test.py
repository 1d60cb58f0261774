"""`callboard providers test`: whether a provider answers, and what fails when it does not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...config.files import load_settings
from ...embedding.models import with_keys
from ...providers.catalog.catalog import ModelSelection, find_provider
from ...providers.catalog.connection_test import ConnectionReport, try_connection
from ...providers.catalog.table import REHEARSAL
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.redaction import redact
from ..backend import ask_daemon, serving_daemon
from ..exit_codes import ANSWERED, FAILED
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

if TYPE_CHECKING:
    from ...client.client import Client


def try_provider(
    config: Path | None, data: Path, name: str, model: str | None, *, json: bool
) -> int:
    """Test a provider, print the result and return the exit code."""
    forbid_core_dumps()
    choice = model.removeprefix(f"{name}/") if model is not None else None
    if name == REHEARSAL:
        load_settings(config)
        print("rehearsal works: it is built in, and needs no connection.")
        return ANSWERED
    if (daemon := serving_daemon(config, data)) is not None:

        async def test(client: Client) -> tuple[bool, ConnectionReport]:
            report = await client.providers.test(name, model=choice)
            rows = await client.providers.list()
            return all(row.is_active for row in rows if row.name == name), report

        is_active, report = ask_daemon(daemon, test)
    else:
        settings = load_settings(config)
        wish = with_keys(ModelSelection(settings=settings, environ=os.environ), data)
        report = trio.run(try_connection, find_provider(wish, name), wish, choice)
        is_active = name not in settings.inactive
    if not is_active:
        complain(f"{name} is inactive: `callboard providers activate {name}` lets it be used.")
    if json:
        sys.stdout.write(json_line(report))
    elif report.works:
        print(safe_line(redact(report.message)))
    else:
        complain(f"{name} ({report.fault}): {report.message}")
    return ANSWERED if report.works else FAILED
