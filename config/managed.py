"""`managed.toml`: the settings that commands write, beside the operator's callboard.toml, which wins.

Each change reads the file, changes one thing, and puts a whole new file in its place under a lock, so
that two commands at once lose nothing. Everything here blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..runtime.definitions import Agent
from ..runtime.disk.private_folder import sync_path
from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.hooks.hook import Hook
from ..runtime.identity import now_ms
from ..runtime.schedules.schedule import Schedule
from ..runtime.text import in_json_words
from .files import MANAGED_NAME, MAX_FILE_BYTES, RESERVED_PROVIDERS, read_bytes, read_managed
from .mcp.settings import McpSettings
from .private_file import locked, make_private_folder, write_private
from .settings import MANAGED_TABLES, ManagedSettings, ProviderSettings
from .toml_reader import NAME
from .validation import explained

LOCK_NAME = "managed.lock"

_HEAD = """\
# Written by callboard's commands. Your own settings go into callboard.toml, which wins over this.

"""


def load_managed(folder: Path) -> ManagedSettings:
    """Return what commands wrote so far.

    Args:
        folder: The folder of callboard.toml.

    Raises:
        StorageError: The file exists and can't be read.
        ValidationError: It is not a file that commands write; the error names file, line and field.
    """
    return read_managed(folder / MANAGED_NAME)


def save_provider(folder: Path, provider: ProviderSettings) -> ManagedSettings:
    """Add a provider, or replace the one of its name.

    Raises:
        ValidationError: The name is not allowed, or built in. Or as `load_managed`.
        StorageError: The file can't be written.
    """
    name = provider.name
    if not NAME.fullmatch(name):
        raise ValidationError(
            f"{name!r} can't be a provider's name: use letters, digits, '.', '_' and '-', at "
            "most 64.",
            field="name",
        )
    if name in RESERVED_PROVIDERS:
        raise ValidationError(f"the name {name!r} is built in; choose another", field="name")
    return _change(
        folder,
        lambda managed: msgspec.structs.replace(
            managed, providers={**managed.providers, name: provider}
        ),
    )


def remove_provider(folder: Path, name: str) -> ManagedSettings:
    """Remove a provider that a command added, and its deactivation.

    Raises:
        NotFoundError: No command added it.
        StorageError, ValidationError: As `save_provider`.
    """

    def change(managed: ManagedSettings) -> ManagedSettings:
        if name not in managed.providers:
            raise NotFoundError(
                f"No command added a provider {name!r}: one of callboard.toml is removed there, "
                "and a built-in one can be deactivated."
            )
        return msgspec.structs.replace(
            managed,
            providers={n: its for n, its in managed.providers.items() if n != name},
            inactive=tuple(other for other in managed.inactive if other != name),
        )

    return _change(folder, change)


def set_active(folder: Path, name: str, *, active: bool) -> ManagedSettings:
    """Activate or deactivate a provider; the caller knows that it exists.

    A provider that callboard.toml lists as inactive stays inactive.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """

    def change(managed: ManagedSettings) -> ManagedSettings:
        others = tuple(other for other in managed.inactive if other != name)
        return msgspec.structs.replace(managed, inactive=others if active else (*others, name))

    return _change(folder, change)


def set_default_model(folder: Path, choice: str | None) -> ManagedSettings:
    """Set the default `PROVIDER/MODEL`; `None` removes it. The one of callboard.toml wins.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """
    return _change(folder, lambda managed: msgspec.structs.replace(managed, model=choice))


def save_agent(folder: Path, agent: Agent) -> ManagedSettings:
    """Add an agent, or replace the one of its name; the caller has checked it.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """
    return _change(
        folder,
        lambda managed: msgspec.structs.replace(
            managed, agents={**managed.agents, agent.name: agent}
        ),
    )


def remove_agent(folder: Path, name: str) -> ManagedSettings:
    """Remove an agent, and note in the same file that its sessions have yet to move.

    Raises:
        NotFoundError: No program or command made it.
        StorageError, ValidationError: As `save_provider`.
    """

    def change(managed: ManagedSettings) -> ManagedSettings:
        if name not in managed.agents:
            raise NotFoundError(f"No program or command made an agent {name!r}.")
        return msgspec.structs.replace(
            managed,
            agents={n: its for n, its in managed.agents.items() if n != name},
            deleted_agents=(*(n for n in managed.deleted_agents if n != name), name),
        )

    return _change(folder, change)


def forget_deleted_agent(folder: Path, name: str) -> ManagedSettings:
    """Note that the sessions of a deleted agent have moved.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """
    return _change(
        folder,
        lambda managed: msgspec.structs.replace(
            managed, deleted_agents=tuple(n for n in managed.deleted_agents if n != name)
        ),
    )


def save_schedule(folder: Path, schedule: Schedule) -> ManagedSettings:
    """Add a schedule, or replace the one of its name; the caller has checked it.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """
    return _change(
        folder,
        lambda managed: msgspec.structs.replace(
            managed, schedules={**managed.schedules, schedule.name: schedule}
        ),
    )


def remove_schedule(folder: Path, name: str) -> ManagedSettings:
    """Remove a schedule, and that it was paused.

    Raises:
        NotFoundError: No program or command made it.
        StorageError, ValidationError: As `save_provider`.
    """

    def change(managed: ManagedSettings) -> ManagedSettings:
        if name not in managed.schedules:
            raise NotFoundError(f"No program or command made a schedule {name!r}.")
        return msgspec.structs.replace(
            managed,
            schedules={n: its for n, its in managed.schedules.items() if n != name},
            paused_schedules=tuple(n for n in managed.paused_schedules if n != name),
        )

    return _change(folder, change)


def set_paused(folder: Path, name: str, *, paused: bool) -> ManagedSettings:
    """Pause a schedule, or let it fire again; the caller knows that it exists.

    One that callboard.toml says is paused stays so.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """

    def change(managed: ManagedSettings) -> ManagedSettings:
        others = tuple(n for n in managed.paused_schedules if n != name)
        schedules, its = managed.schedules, managed.schedules.get(name)
        if its is not None and not paused and (its.paused or others != managed.paused_schedules):
            resumed = msgspec.structs.replace(its, paused=False, updated_at_ms=now_ms())
            schedules = {**schedules, name: resumed}
        return msgspec.structs.replace(
            managed,
            schedules=schedules,
            paused_schedules=(*others, name) if paused else others,
        )

    return _change(folder, change)


def save_hook(folder: Path, hook: Hook) -> ManagedSettings:
    """Add a hook, or replace the one of its name; the caller has checked it.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """
    return _change(
        folder,
        lambda managed: msgspec.structs.replace(managed, hooks={**managed.hooks, hook.name: hook}),
    )


def remove_hook(folder: Path, name: str) -> ManagedSettings:
    """Remove a hook; its secret stays in the store of keys.

    Raises:
        NotFoundError: No program or command made it.
        StorageError, ValidationError: As `save_provider`.
    """

    def change(managed: ManagedSettings) -> ManagedSettings:
        if name not in managed.hooks:
            raise NotFoundError(f"No program or command made a hook {name!r}.")
        return msgspec.structs.replace(
            managed, hooks={n: its for n, its in managed.hooks.items() if n != name}
        )

    return _change(folder, change)


def save_setting(folder: Path, name: str, value: Any) -> ManagedSettings:
    """Set a setting as `limits.idle_seconds`, or with `None` take it back.

    Raises:
        ValidationError: It is none that may be written here, or the value can't be; `field` names it.
        StorageError: As `save_provider`.
    """
    table, _, field = name.partition(".")
    kind = MANAGED_TABLES.get(table)
    if kind is None or field not in kind.__struct_fields__:
        raise ValidationError(
            f"{name!r} can't be set by a program or command: the operator writes it into callboard.toml. "
            f"Those of these tables can: {', '.join(MANAGED_TABLES)}.",
            field=name,
        )

    def change(managed: ManagedSettings) -> ManagedSettings:
        values = {n: its for n, its in managed.tables[table].items() if n != field}
        values |= {} if value is None else {field: value}
        try:
            msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            path, problem = explained(str(error), kind)
            where = ".".join((table, *path))
            raise ValidationError(
                f"{where}: {in_json_words(problem).replace('`', '')}.", field=where
            ) from error
        return msgspec.structs.replace(managed, **{table: values})

    return _change(folder, change)


def save_server(folder: Path, server: McpSettings) -> ManagedSettings:
    """Add a server, or replace the one of its name; its accepted tools stand elsewhere.

    Raises:
        StorageError, ValidationError: As `save_provider`.
    """
    kept = msgspec.structs.replace(server, tools=())
    return _change(
        folder,
        lambda managed: msgspec.structs.replace(managed, mcp={**managed.mcp, server.name: kept}),
    )


def remove_server(folder: Path, name: str) -> ManagedSettings:
    """Remove a server that a command added.

    Raises:
        NotFoundError: No command added it.
        StorageError, ValidationError: As `save_provider`.
    """

    def change(managed: ManagedSettings) -> ManagedSettings:
        if name not in managed.mcp:
            raise NotFoundError(f"No command added a server {name!r}.")
        return msgspec.structs.replace(
            managed, mcp={n: its for n, its in managed.mcp.items() if n != name}
        )

    return _change(folder, change)


def managed_content(folder: Path) -> bytes | None:
    """Return the file's content, for `put_back`; `None` when there is none. Raises `StorageError`."""
    return read_bytes(folder / MANAGED_NAME)


def put_back(folder: Path, *, written: bytes | None, before: bytes | None) -> bool:
    """Undo a change that can't be used: if the file is still as `written`, make it as `before`.

    Return `False`, and leave the file alone, when another command has changed it since.

    Raises:
        StorageError, ConflictError: As `save_provider`.
    """
    path = folder / MANAGED_NAME
    make_private_folder(folder)
    with locked(folder / LOCK_NAME):
        if managed_content(folder) != written:
            return False
        if before is None:
            path.unlink(missing_ok=True)
            sync_path(folder)
        else:
            write_private(path, before, replace=True)
    return True


def _change(folder: Path, change: Callable[[ManagedSettings], ManagedSettings]) -> ManagedSettings:
    make_private_folder(folder)
    with locked(folder / LOCK_NAME):
        managed = change(load_managed(folder))
        content = _encoded(managed)
        if len(content) > MAX_FILE_BYTES:
            raise ValidationError(
                f"{folder / MANAGED_NAME} would be larger than {MAX_FILE_BYTES} bytes: remove something, "
                "or shorten a prompt. Nothing was changed."
            )
        write_private(folder / MANAGED_NAME, content, replace=True)
    return managed


def _encoded(managed: ManagedSettings) -> bytes:
    import tomli_w  # here: only writing needs it

    document = {
        "model": managed.model,
        "inactive": list(managed.inactive),
        "deleted_agents": list(managed.deleted_agents),
        "paused_schedules": list(managed.paused_schedules),
        **managed.tables,
        "providers": {name: _table(its) for name, its in managed.providers.items()},
        "agents": {name: _table(its) for name, its in managed.agents.items()},
        "schedules": {name: _table(its) for name, its in managed.schedules.items()},
        "hooks": {name: _table(its) for name, its in managed.hooks.items()},
        "mcp": {name: _table(its) for name, its in managed.mcp.items()},
    }
    present = {name: value for name, value in document.items() if value}
    return (_HEAD + tomli_w.dumps(present)).encode()


def _table(its: ProviderSettings | Agent | Schedule | Hook | McpSettings) -> dict[str, Any]:
    """Return the values that differ from the defaults; TOML has no null."""
    fields = (f for f in msgspec.structs.fields(type(its)) if f.name != "name")
    values = {
        f.name: value for f in fields if (value := getattr(its, f.name)) not in (f.default, {})
    }
    return _without_null(msgspec.to_builtins(values))


def fields_toml(its: Agent | Schedule | Hook) -> str:
    """Return an agent, schedule or hook as TOML with its fields at the top, for an editor, but its name and times."""
    import tomli_w

    shown = {f.name: getattr(its, f.name) for f in msgspec.structs.fields(type(its))}
    kept = {name: its for name, its in shown.items() if name not in NOT_EDITED}
    return tomli_w.dumps(_without_null(msgspec.to_builtins(kept)), multiline_strings=True)


NOT_EDITED = frozenset({"name", "created_at_ms", "updated_at_ms"})
"""Fields that are not a matter of taste."""


def _without_null(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_null(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }
