"""`callboard providers`: lists providers, adds, changes and removes them.

It says what was done, and what is left to do; through the daemon when one runs, whose configuration,
keys and environment these then are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...providers.catalog.book import ProviderBook
from ...providers.catalog.known import KNOWN
from ...runtime.errors import ValidationError
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import (
    ChangeProvider,
    NewProvider,
    ProviderChanged,
    ProviderRow,
    Providers,
)
from ..backend import FileBackend, serving_daemon
from ..exit_codes import ANSWERED
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line


def list_providers(config: Path | None, data: Path, *, json: bool) -> int:
    """List all providers; open no key."""
    found = _open(config, data).ask(
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
    changed = _open(config, data).ask(
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
    changed = _open(config, data).ask(
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
    return _open(config, data).ask(
        lambda client: client.request("provider/update", change, ProviderChanged),
        lambda book: book.update(change),
    )


def _open(config: Path | None, data: Path) -> FileBackend[ProviderBook]:
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
