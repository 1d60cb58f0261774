"""What `callboard providers` does: lists providers, and changes those that commands may change.

It says what was done, and what is left to do; through the daemon when one runs, whose configuration,
keys and environment these then are.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Protocol

import msgspec

from ...providers.catalog.known import KNOWN
from ...runtime.errors import ValidationError
from ...runtime.wire.providers import (
    ChangeProvider,
    NewProvider,
    ProviderChanged,
    ProviderRow,
    Providers,
)
from ..exit_codes import ANSWERED
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line


class ProviderLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `callboard providers --json`.

    Attributes:
        name: As in `PROVIDER/MODEL`.
        base_url: Where it is.
        dialect: Its wire format.
        key: `environment`, `stored`, `missing`, or `none` when it wants none and has none.
        key_env: The environment variable that its key is looked up in first.
        active: Whether it is used.
        source: `built_in`, `callboard.toml`, or `managed`: a command added or changed it.
        model: Its model when only the provider is named.
        models: Models that the configuration names beside those that it lists.
        note: Why a key is not sent, or not taken, when there is something to know.
    """

    name: str
    base_url: str
    dialect: str
    key: str
    key_env: str | None
    active: bool
    source: str
    model: str | None
    models: tuple[str, ...]
    note: str = ""


class ProviderPlace(Protocol):
    """Where providers are listed and changed; what can't be done raises a `CallboardError`."""

    def providers(self) -> Providers:
        """All of them."""
        ...

    def create(self, new: NewProvider) -> ProviderChanged:
        """Adds one."""
        ...

    def update(self, change: ChangeProvider) -> ProviderChanged:
        """Changes one."""
        ...

    def delete(self, name: str) -> ProviderChanged:
        """Removes one that was added, or what was changed of a built-in one."""
        ...


class ProviderDesk:
    """The commands; each gives its exit code."""

    def __init__(self, place: ProviderPlace, *, json: bool) -> None:
        self._place = place
        self._json = json

    def show(self) -> int:
        """Lists all of them; opens no key."""
        found = self._place.providers()
        for row in found.providers:
            sys.stdout.write(json_line(_line(row)) if self._json else _row(row))
        if found.problem:
            complain(found.problem)
        return ANSWERED

    def add(self, name: str, changes: Mapping[str, str | None]) -> int:
        """Adds one that does not exist yet."""
        fields = _fields(changes)
        changed = self._place.create(NewProvider(name=name, **fields))  # type: ignore[arg-type]
        return self._said(f"Added {name}.", changed)

    def edit(self, name: str, changes: Mapping[str, str | None]) -> int:
        """Changes one that was added, or lays changes over a built-in one."""
        fields = _fields(changes)
        if not fields:
            raise ValidationError(
                f"Nothing of {name} was changed: say what, for example --model MODEL."
            )
        changed = self._place.update(
            ChangeProvider(provider=name, **fields)  # type: ignore[arg-type]
        )
        return self._said(f"Changed {name}.", changed, wants_key=not changed.notes)

    def remove(self, name: str) -> int:
        """Removes one that a command added, or what a command changed of a built-in one."""
        changed = self._place.delete(name)
        is_built_in = name in KNOWN
        done = f"{name} is as it was built in." if is_built_in else f"Removed {name}."
        return self._said(done, changed, wants_key=False)

    def set_active(self, name: str, *, active: bool) -> int:
        """Lets it be used, or not."""
        changed = self._place.update(ChangeProvider(provider=name, is_active=active))
        done = "Activated" if active else "Deactivated"
        return self._said(f"{done} {name}.", changed, wants_key=active)

    def _said(self, text: str, changed: ProviderChanged, *, wants_key: bool = True) -> int:
        """What was done; and what is left to do about its key, where that is the next step."""
        for note in changed.notes:
            complain(note)
        row = changed.provider
        if self._json:
            if row is not None:
                sys.stdout.write(json_line(_line(row)))
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
    """What the options say."""
    fields: dict[str, str | tuple[str, ...]] = {
        field: text for field, text in changes.items() if text is not None
    }
    if fields.get("base_url") == "":
        raise ValidationError("--base-url is empty: say where the server is.", field="base_url")
    if (models := changes.get("models")) is not None:
        fields["models"] = tuple(each.strip() for each in models.split(",") if each.strip())
    return fields


def _line(row: ProviderRow) -> ProviderLine:
    values = msgspec.structs.asdict(row)
    return ProviderLine(active=values.pop("is_active"), **values)


def _row(row: ProviderRow) -> str:
    key = f"${row.key_env}" if row.key == "environment" else row.key.replace("none", "no key")
    source = row.source.replace("_", "-")
    note = "" if row.is_active else "  (inactive)"
    note += f"  ({row.note.rstrip('.')})" if row.note else ""
    url = safe_line(row.base_url)
    return f"{row.name:12}  {row.dialect:16}  {url:48}  {key:16}  {source}{note}\n"
