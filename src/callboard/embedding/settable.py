"""Settings as programs, clients and commands read and set them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from ..config.files import place_of_setting, setting_places
from ..config.managed import save_setting
from ..config.setting_rows import SettingRow, setting_rows
from ..runtime.errors import ConflictError, NotFoundError
from ..runtime.text import did_you_mean
from .configuration import Configuration
from .host import Host


class RuntimeSettings:
    """`Runtime.settings`: the settings in force, without secrets; sets those that bound and pace work.

    Example:
        for row in await runtime.settings.list():
            if row.can_be_set:
                print(row.name, row.value, row.schema)
    """

    def __init__(self, host: Host, files: Callable[[], Configuration]) -> None:
        self._host = host
        self._files = files

    async def list(self) -> builtins.list[SettingRow]:
        """Return every setting in force."""
        settings = self._host.settings
        places = await trio.to_thread.run_sync(setting_places, settings.files)
        return setting_rows(settings, places).settings

    async def get(self, name: str) -> SettingRow:
        """Return a setting, as `limits.idle_seconds`; raise `NotFoundError`."""
        return row_named(await self.list(), name)

    async def set(self, name: str, value: bool | float | str | None) -> SettingRow:
        """Set a setting, or with `None` take back what was set; it holds when this returns.

        Raises:
            NotFoundError: There is no such setting.
            ConflictError: The runtime has no configuration file, or callboard.toml says what it is.
            ValidationError: It is none that programs may set, or the value can't be; names it.
        """
        await self.get(name)
        files = self._files()
        await files.change(partial(set_in_files, files.file, name, value), self._host)
        return await self.get(name)


def set_in_files(file: Path, name: str, value: Any) -> None:
    """Write a setting beside the operator's file; blocks. Raises as `RuntimeSettings.set`."""
    table, _, field = name.partition(".")
    if value is not None and (place := place_of_setting(file, table, field)) is not None:
        raise ConflictError(f"{name} stands in {place}, which wins: change it there.")
    save_setting(file.parent, name, value)


def row_named(rows: builtins.list[SettingRow], name: str) -> SettingRow:
    """Return the row of that name; raise `NotFoundError`."""
    found = next((row for row in rows if row.name == name), None)
    if found is None:
        close = did_you_mean(name, [row.name for row in rows])
        raise NotFoundError(
            f"there is no setting {name!r}.{close} `callboard settings` lists them."
        )
    return found
