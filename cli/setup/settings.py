"""`callboard settings`: lists the settings in force, and sets those that bound and pace work."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from ...config.files import config_file, load_settings_of, setting_places
from ...config.setting_rows import SettingRow, setting_rows
from ...embedding.settable import row_named, set_in_files
from ..backend import FileBackend, serving_daemon
from ..exit_codes import ANSWERED
from ..parameters import Config, Data, Json, data_path
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list

SettingName = Annotated[str, Parameter(help="As limits.idle_seconds.")]
Value = Annotated[str, Parameter(help="The value, as JSON; a bare word is a text.")]

settings = App(name="settings", help="List the settings in force, and set some of them.")


@settings.default
def list_settings(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List every setting, its value, and what becomes of a change."""
    rows = _rows(config, data)
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        write_list(("setting", "value", "a change"), map(_cells, rows))
    return ANSWERED


@settings.command(name="get")
def get_setting(
    name: SettingName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Print the value of a setting as JSON; with --json, all that is known of it."""
    row = row_named(_rows(config, data), name)
    sys.stdout.write(json_line(row) if json else f"{json_text.dumps(row.value)}\n")
    return ANSWERED


@settings.command(name="set")
def set_setting(
    name: SettingName, value: Value, /, *, config: Config = None, data: Data = None
) -> int:
    """Set a setting beside callboard.toml, which wins; a daemon follows at once."""
    return _set(name, _value(value), config, data)


@settings.command(name="unset")
def unset_setting(name: SettingName, /, *, config: Config = None, data: Data = None) -> int:
    """Take back what was set."""
    return _set(name, None, config, data)


def _set(name: str, value: Any, config: Path | None, data: Path | None) -> int:
    file = config_file(config)

    def here(file: Path) -> SettingRow:
        row_named(_rows_of(file), name)
        set_in_files(file, name, value)
        return row_named(_rows_of(file), name)

    row = _open(file, config, data).ask(lambda client: client.settings.set(name, value), here)
    print(f"{name} = {json_text.dumps(row.value)}")
    if row.needs_restart:
        complain(f"{name} holds from the next start on")
    return ANSWERED


def _value(text: str) -> Any:
    try:
        return json_text.loads(text)
    except ValueError:
        return text


def _rows(config: Path | None, data: Path | None) -> list[SettingRow]:
    async def there(client: Any) -> list[SettingRow]:
        return [*await client.settings.list()]

    return _open(config_file(config), config, data).ask(there, _rows_of)


def _rows_of(file: Path) -> list[SettingRow]:
    settings = load_settings_of(file)
    return setting_rows(settings, setting_places(settings.files)).settings


def _open(file: Path, config: Path | None, data: Path | None) -> FileBackend[Path]:
    """Return where settings are read and set: the daemon, or the files."""
    return FileBackend(serving_daemon(config, data_path(data)), lambda: file)


def _cells(row: SettingRow) -> tuple[str, ...]:
    when = "at the next start" if row.needs_restart else "at once"
    where = "`callboard settings set`" if row.can_be_set else "callboard.toml"
    return row.name, safe_line(json_text.dumps(row.value)), f"{when}, by {where}"
