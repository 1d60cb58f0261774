"""The settings as people see them, and what becomes of a change: at once, or at the next start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..runtime.redaction import redact
from .settings import MANAGED_TABLES, Settings

RESTART: dict[str, str] = {
    "limits.connect_seconds": "belongs to the pools of connections",
    "memory": "an index in another form is built at the start",
    "sandbox": "its strength is measured with these",
    "keys": "the store of keys is opened with its master key",
    "store": "the database is opened at the start",
    "sessions.titles": "read when titles start",
    "telemetry": "who sends it is set up at the start",
    "plugins": "their code is loaded at the start",
    "server.host": "the socket is open",
    "server.port": "the socket is open",
    "cluster": "the node has joined with these",
    "roots": "the node has joined with these",
}
"""Settings, or whole tables, that need a restart; and why."""


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """What comes of reading the configuration again.

    Attributes:
        settings: The settings that hold now: the new ones, with old values where a restart is needed.
        changed: Settings that changed and hold, as `limits.idle_seconds`.
        waiting: Settings that changed and need a restart.
    """

    settings: Settings
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def effect_of(old: Settings, new: Settings) -> SettingsChange:
    """Return what holds of `new` while `old` holds."""
    changed: list[str] = []
    waiting: list[str] = []
    values: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if not isinstance(before, msgspec.Struct):
            if before != after:
                (waiting if needs_restart(name) else changed).append(name)
            values[name] = before if needs_restart(name) else after
            continue
        kept = {}
        for field in before.__struct_fields__:
            setting = f"{name}.{field}"
            is_kept = needs_restart(setting)
            if getattr(before, field) != getattr(after, field):
                (waiting if is_kept else changed).append(setting)
            kept[field] = getattr(before if is_kept else after, field)
        values[name] = type(before)(**kept)
    return SettingsChange(
        settings=Settings(**values), changed=tuple(changed), waiting=tuple(waiting)
    )


def needs_restart(setting: str) -> bool:
    """Whether a setting, as `limits.idle_seconds` or `rules`, needs a restart."""
    return setting in RESTART or setting.partition(".")[0] in RESTART


def all_settings() -> Iterator[str]:
    """Yield the name of every setting."""
    defaults = Settings()
    for name in Settings.__struct_fields__:
        if name == "files":  # where settings stand is none of them
            continue
        value = getattr(defaults, name)
        if isinstance(value, msgspec.Struct):
            yield from (f"{name}.{field}" for field in value.__struct_fields__)
        else:
            yield name


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and its value.

    Attributes:
        name: As `limits.idle_seconds`, or `rules`.
        value: As in callboard.toml; of a webhook, its host only.
        needs_restart: Whether a change needs a restart.
        can_be_set: Whether programs and commands may set it; the others stand in callboard.toml alone.
        schema: Of one that can be set, the JSON Schema of its value.
        place: Where it stands, as `callboard.toml, line 12`, which wins, or `managed.toml, line 3`, which programs and
            commands write; empty for a default, and for a program's own settings.
    """

    name: str
    value: Any
    needs_restart: bool
    can_be_set: bool = False
    schema: dict[str, Any] | None = None
    place: str = ""


class SettingRows(msgspec.Struct, frozen=True):
    """All settings, in the order in which the documents have them."""

    settings: list[SettingRow]


def setting_rows(settings: Settings, places: Mapping[str, str]) -> SettingRows:
    """Return all settings for people, each with its place; no setting holds a key, but all are masked."""
    values = msgspec.to_builtins(settings)
    for server in values["mcp"].values():
        server["tools"] = [tool["name"] for tool in server["tools"]]
    if settings.notify.webhook is not None:
        values["notify"]["webhook"] = shown_url(settings.notify.webhook)
    for its in values["webhooks"].values():
        its["url"] = shown_url(its["url"])
    schemas = _schemas()
    values = msgspec.json.decode(redact(msgspec.json.encode(values).decode()))
    return SettingRows(
        [
            SettingRow(
                name=name,
                value=_at(values, name),
                needs_restart=needs_restart(name),
                can_be_set=name in schemas,
                schema=schemas.get(name),
                place=places.get(name, ""),
            )
            for name in all_settings()
        ]
    )


def shown_url(url: str) -> str:
    """Return what is shown of a URL that may be a secret: its host and port."""
    where = urlsplit(url)
    return f"{where.scheme}://{where.netloc.rpartition('@')[2]}/…"


def _schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of the settings that can be set, by name."""
    found: dict[str, dict[str, Any]] = {}
    for table, kind in MANAGED_TABLES.items():
        (_,), parts = msgspec.json.schema_components([kind])
        for field, schema in parts[kind.__name__]["properties"].items():
            found[f"{table}.{field}"] = _whole(schema, parts)
    return found


def _whole(schema: Any, parts: dict[str, Any]) -> Any:
    """Return a schema with what it refers to in its place."""
    if isinstance(schema, list):
        return [_whole(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _whole(parts[schema["$ref"].rpartition("/")[2]], parts)
    return {name: _whole(its, parts) for name, its in schema.items()}


def _at(values: dict[str, Any], name: str) -> Any:
    table, _, field = name.partition(".")
    return values[table][field] if field else values[table]
