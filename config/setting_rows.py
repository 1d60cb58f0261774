"""The settings as they are shown: every one with its value, and nothing that is a secret."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..runtime.redaction import redact
from .setting_effects import all_settings, needs_restart
from .settings import Settings


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it holds.

    Attributes:
        name: As `limits.idle_seconds`, or `rules`.
        value: As in callboard.toml; of a webhook, its host alone.
        needs_restart: Whether another value holds from the next start on.
    """

    name: str
    value: Any
    needs_restart: bool


class SettingRows(msgspec.Struct, frozen=True):
    """All settings, in the order in which the documents have them."""

    settings: list[SettingRow]


def setting_rows(settings: Settings) -> SettingRows:
    """What holds, for people; keys stand in no setting, and are masked all the same."""
    values = msgspec.to_builtins(settings)
    if settings.notify.webhook is not None:
        where = urlsplit(settings.notify.webhook)
        values["notify"]["webhook"] = f"{where.scheme}://{where.hostname}/…"
    values = msgspec.json.decode(redact(msgspec.json.encode(values).decode()))
    return SettingRows(
        [
            SettingRow(name=name, value=_at(values, name), needs_restart=needs_restart(name))
            for name in all_settings()
        ]
    )


def _at(values: dict[str, Any], name: str) -> Any:
    table, _, field = name.partition(".")
    return values[table][field] if field else values[table]
