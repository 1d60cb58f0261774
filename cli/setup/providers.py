"""`callboard providers`: lists providers, adds, changes, removes and tests them.

It says what was done, and what is left to do; through the daemon when one runs, whose configuration,
keys and environment these then are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ...config.files import load_settings
from ...providers.catalog.book import ProviderBook
from ...providers.catalog.catalog import ModelSelection, find_provider
from ...providers.catalog.known import KNOWN
from ...providers.catalog.table import REHEARSAL
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import ValidationError
from ...runtime.redaction import redact
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import (
    ChangeProvider,
    NewProvider,
    ProviderChanged,
    ProviderRow,
    Providers,
)
from ..backend import FileBackend, ask_daemon, serving_daemon
from ..exit_codes import ANSWERED, FAILED
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

if TYPE_CHECKING:
    from ...client.client import Client
    from ...providers.catalog.connection_test import ConnectionReport


def list_providers(config: Path | None, data: Path, *, json: bool) -> int:
    """List all providers; open no key."""
    found = open_providers(config, data).ask(
        lambda client: client.request("provider/list", Nothing(), Providers),
        lambda book: book.providers(),
    )
    for row in found.providers:
        sys.stdout.write(_line(row) if json else _row(row))
    if found.problem:
        complain(found.problem)
    return ANSWERED


def add_provider(
    config: Path | None, data: Path, name: str, options: Mapping[str, str | None], *, json: bool
) -> int:
    """Add a provider that does not exist yet."""
    new = NewProvider(name=name, **_fields(options))  # type: ignore[arg-type]
    changed = open_providers(config, data).ask(
        lambda client: client.request("provider/create", new, ProviderChanged),
        lambda book: book.create(new),
    )
    return _report(f"Added {name}.", changed, json=json)


def edit_provider(
    config: Path | None, data: Path, name: str, options: Mapping[str, str | None], *, json: bool
) -> int:
    """Change a provider that was added, or lay changes over a built-in one."""
    fields = _fields(options)
    if not fields:
        raise ValidationError(
            f"Nothing of {name} was changed: say what, for example --model MODEL."
        )
    change = ChangeProvider(provider=name, **fields)  # type: ignore[arg-type]
    changed = _update(config, data, change)
    return _report(f"Changed {name}.", changed, json=json, wants_key=not changed.notes)


def remove_provider(config: Path | None, data: Path, name: str, *, json: bool) -> int:
    """Remove a provider that a command added, or what a command changed of a built-in one."""
    changed = open_providers(config, data).ask(
        lambda client: client.providers.delete(name), lambda book: book.delete(name)
    )
    done = f"{name} is as it was built in." if name in KNOWN else f"Removed {name}."
    return _report(done, changed, json=json, wants_key=False)


def activate_provider(
    config: Path | None, data: Path, name: str, *, active: bool, json: bool
) -> int:
    """Let a provider be used, or not."""
    changed = _update(config, data, ChangeProvider(provider=name, is_active=active))
    done = "Activated" if active else "Deactivated"
    return _report(f"{done} {name}.", changed, json=json, wants_key=active)


def _update(config: Path | None, data: Path, change: ChangeProvider) -> ProviderChanged:
    return open_providers(config, data).ask(
        lambda client: client.request("provider/update", change, ProviderChanged),
        lambda book: book.update(change),
    )


def try_provider(
    config: Path | None, data: Path, name: str, model: str | None, *, json: bool
) -> int:
    """Test a provider, print the result and return the exit code."""
    from ...embedding.models import with_keys  # here: no other command of these connects
    from ...providers.catalog.connection_test import try_connection

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


def open_providers(config: Path | None, data: Path) -> FileBackend[ProviderBook]:
    """Return where providers are listed and changed: the daemon, or the files."""
    return FileBackend(serving_daemon(config, data), lambda: ProviderBook(config, data, os.environ))


def _report(text: str, changed: ProviderChanged, *, json: bool, wants_key: bool = True) -> int:
    """Print what was done, and how to give the provider a key where that is the next step."""
    for note in changed.notes:
        complain(note)
    row = changed.provider
    if json:
        if row is not None:
            sys.stdout.write(_line(row))
        return ANSWERED
    print(text)
    if row is None or not wants_key:
        return ANSWERED
    if row.note:
        complain(row.note)
    elif row.key == "missing":
        variable = f", or set {row.key_env}" if row.key_env is not None else ""
        print(f"It has no key yet: `callboard keys set {row.name}`{variable}.")
    return ANSWERED


def _fields(changes: Mapping[str, str | None]) -> dict[str, str | tuple[str, ...]]:
    """Return the fields that the options set."""
    fields: dict[str, str | tuple[str, ...]] = {
        field: text for field, text in changes.items() if text is not None
    }
    if fields.get("base_url") == "":
        raise ValidationError("--base-url is empty: say where the server is.", field="base_url")
    if (models := changes.get("models")) is not None:
        fields["models"] = tuple(each.strip() for each in models.split(",") if each.strip())
    return fields


def _line(row: ProviderRow) -> str:
    """Return the row as a line of JSON, in which `is_active` has its older name."""
    fields = msgspec.structs.asdict(row)
    return json_line({"active" if n == "is_active" else n: value for n, value in fields.items()})


def _row(row: ProviderRow) -> str:
    key = f"${row.key_env}" if row.key == "environment" else row.key.replace("none", "no key")
    source = row.source.replace("_", "-")
    note = "" if row.is_active else "  (inactive)"
    note += f"  ({row.note.rstrip('.')})" if row.note else ""
    url = safe_line(row.base_url)
    return f"{row.name:12}  {row.dialect:16}  {url:48}  {key:16}  {source}{note}\n"
