"""Where configuration and data are, and how `callboard.toml` becomes settings.

Reading is all or nothing: one mistake, named with file, line and setting, and nothing of the file holds.
This module never writes.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from ..runtime.definitions import Agent
from ..runtime.disk.private_folder import at_home, check_file
from ..runtime.errors import CallboardError, NotFoundError, StorageError, ValidationError
from ..runtime.hooks.hook import NOTIFY, Hook
from ..runtime.schedules.schedule import MAX_SCHEDULES, Schedule
from .mcp.settings import PINS_NAME, McpSettings, check_servers
from .policy.tables import read_rules, without_rules
from .prices import Price
from .sections import PluginSettings, RootSettings, Webhook, checked_roots
from .settings import MANAGED_TABLES, ManagedSettings, ProviderSettings, Settings
from .toml_reader import TomlReader

_Kind = TypeVar("_Kind", Agent, Schedule, Hook)

FILE_NAME = "callboard.toml"

MANAGED_NAME = "managed.toml"
"""The file that commands write (see `managed`), beside the operator's own, which wins."""

MAX_FILE_BYTES = 1024 * 1024
"""A thousand agents with long prompts fit; a wrong file is not read whole."""

RESERVED_PROVIDERS = frozenset({"custom", "git", "mcp", "rehearsal"})
"""Names that are taken: the provider of `--base-url`, the credentials of git and of servers, the built-in model."""


def config_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of callboard.toml: `$CALLBOARD_HOME/config`, or the user's configuration folder.

    It need not exist.
    """
    return _folder(environ, "config", "XDG_CONFIG_HOME", ".config")


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the store: `$CALLBOARD_HOME/data`, or the user's data folder.

    It need not exist.
    """
    return _folder(environ, "data", "XDG_DATA_HOME", ".local/share")


def _folder(
    environ: Mapping[str, str] | None, kind: Literal["config", "data"], variable: str, below: str
) -> Path:
    home = (os.environ if environ is None else environ).get("CALLBOARD_HOME", "").strip()
    if home:
        return at_home(Path(home)).absolute() / kind
    if (own := _users_own(environ, variable, below)) is not None:
        return own
    import platformdirs  # here: it takes 20 ms that CALLBOARD_HOME saves

    find = platformdirs.user_config_path if kind == "config" else platformdirs.user_data_path
    return find("callboard", appauthor=False)


def _users_own(environ: Mapping[str, str] | None, variable: str, below: str) -> Path | None:
    """Return the user's folder by an environment that a program passed; `None` when it does not say."""
    if environ is None or environ is os.environ:
        return None
    if named := environ.get(variable, "").strip():
        return Path(named).absolute() / "callboard"
    home = environ.get("HOME", "").strip()
    if sys.platform == "darwin":
        below = "Library/Application Support"
    return Path(home).absolute() / below / "callboard" if home else None


def load_settings(path: Path | None = None) -> Settings:
    """Read the configuration; blocks on the disk, so call it before the event loop runs.

    What commands wrote, in managed.toml beside the file, holds where the file says nothing.

    Args:
        path: The file; `None` is callboard.toml in `config_folder()`, which need not exist.

    Raises:
        NotFoundError: `path` was given and does not exist.
        StorageError: The file exists and can't be read, or others can change it.
        ValidationError: It has a mistake; the error names file, line and setting.

    Example:
        import pathlib

        pathlib.Path("my.toml").write_text('policy = "strict"')
        settings = callboard.load_settings(pathlib.Path("my.toml"))
        async with callboard.open_runtime(settings=settings) as runtime:
            print(settings.policy)
    """
    return _merged(config_file(path), required=path is not None)


def load_settings_of(file: Path) -> Settings:
    """Read the configuration of a file that need not exist; as `load_settings`."""
    return _merged(file, required=False)


def _merged(file: Path, *, required: bool) -> Settings:
    managed = read_managed(file.with_name(MANAGED_NAME))
    text = _read(file, required=required)
    own = Settings()
    if text is not None or any(managed.tables.values()):
        own = parse_settings(text or "", file, managed.tables)
    _check_clash(file, "agents", own.agents.keys() & managed.agents.keys(), "agents delete")
    _check_clash(
        file, "schedules", own.schedules.keys() & managed.schedules.keys(), "schedule remove"
    )
    _check_clash(file, "hooks", own.hooks.keys() & managed.hooks.keys(), "hooks remove")
    schedules = {**managed.schedules, **own.schedules}
    for name in schedules.keys() & set(managed.paused_schedules):
        schedules[name] = msgspec.structs.replace(schedules[name], paused=True)
    if len(schedules) > MAX_SCHEDULES:
        raise ValidationError(
            f"{file}: schedules: there are {len(schedules)}, and at most {MAX_SCHEDULES} may be. Nothing of it "
            "was used.",
            field="schedules",
        )
    servers = {**managed.mcp, **own.mcp}
    if servers:
        from .mcp.pins import with_pins  # here: most starts have no server

        try:
            check_servers(servers)
        except ValueError as error:
            raise ValidationError(f"{file}: mcp: {error}. Nothing of it was used.") from error
        servers = with_pins(servers, file.parent)
    return msgspec.structs.replace(
        own,
        files=configuration_files(file),
        mcp=servers,
        model=own.model or managed.model,
        inactive=tuple(dict.fromkeys((*own.inactive, *managed.inactive))),
        providers={**managed.providers, **own.providers},
        agents={**managed.agents, **own.agents},
        hooks={**managed.hooks, **own.hooks},
        schedules=schedules,
    )


def _check_clash(file: Path, table: str, names: Collection[str], command: str) -> None:
    """Raise `ValidationError` if one of these stands in the operator's file and in the managed one."""
    for name in names:
        both = place_of(file.with_name(MANAGED_NAME), table, name)
        raise ValidationError(
            f"{place_of(file, table, name)}: {table}.{name}: there is one of that name in {both}, too. "
            f"Give yours another name, or remove the other one: `callboard {command} {name}`. "
            "Nothing of it was used.",
            field=f"{table}.{name}",
        )


def place_of(file: Path, table: str, name: str) -> str:
    """Return where an agent, a schedule or a hook stands in a file, as `FILE, line 12`. Raises `StorageError`."""
    return TomlReader(_read(file, required=False) or "", file).where((table, name))


def watched_files(file: Path) -> tuple[Path, ...]:
    """Return the files that make up the configuration of an operator's file; none needs to exist."""
    return file, file.with_name(MANAGED_NAME), file.with_name(PINS_NAME)


def place_of_setting(file: Path, table: str, field: str) -> str | None:
    """Return where the operator's file has a setting, as `FILE, line 12`; `None` when it says nothing."""
    document, reader = _parsed(_read(file, required=False) or "", file)
    its = document.get(table)
    if not isinstance(its, dict) or field not in its:
        return None
    return reader.where((table, field))


def setting_places(files: Collection[str]) -> dict[str, str]:
    """Return where settings stand, as `callboard.toml, line 12`, by name; blocks. What stands nowhere has its default.

    Args:
        files: `Settings.files`; of a program's own settings, nothing.
    """
    found: dict[str, str] = {}
    for each in files:
        file = Path(each)
        if file.name == PINS_NAME:
            continue
        try:
            document, reader = _parsed(_read(file, required=False) or "", file)
        except CallboardError:
            continue  # a file that is being mended: what holds was read from it before
        for table, its in document.items():
            for path in ((table,), *((table, field) for field in its if isinstance(its, dict))):
                place = reader.where(path).removeprefix(f"{file.parent}{os.sep}")
                found.setdefault(".".join(path), place)
    return found


def load_own_settings(path: Path | None = None, *, required: bool | None = None) -> Settings:
    """Read the operator's own file, without what commands wrote; as `load_settings`."""
    file = config_file(path)
    text = _read(file, required=path is not None if required is None else required)
    return Settings() if text is None else parse_settings(text, file)


def config_file(path: Path | None = None) -> Path:
    """Return the operator's file: `path`, or callboard.toml in `config_folder()`."""
    return config_folder() / FILE_NAME if path is None else path


def configuration_files(file: Path) -> tuple[str, ...]:
    """Return the absolute paths of the operator's file and of those that commands write beside it."""
    return tuple(map(str, watched_files(file.expanduser().absolute())))


def read_managed(file: Path) -> ManagedSettings:
    """Read what commands wrote; return the defaults when there is no such file.

    Raises:
        StorageError: The file exists and can't be read.
        ValidationError: As `load_settings`.
    """
    text = _read(file, required=False)
    if text is None:
        return ManagedSettings()
    document, reader = _parsed(text, file)
    providers = _providers(reader, document)
    agents = reader.tables(document, "agents", Agent, {})
    schedules = reader.tables(document, "schedules", Schedule, {})
    hooks = reader.tables(document, "hooks", Hook, {})
    rest = {**document, "providers": {}, "agents": {}, "schedules": {}, "hooks": {}, "mcp": {}}
    managed = reader.convert(rest, ManagedSettings, ())
    for table, kind in MANAGED_TABLES.items():
        reader.convert(managed.tables[table], kind, (table,))
    return msgspec.structs.replace(
        managed,
        providers=providers,
        agents=agents,
        schedules=schedules,
        hooks=hooks,
        mcp=_servers(reader, document),
    )


def parse_fields(text: str, file: Path, kind: type[_Kind], defaults: Mapping[str, Any]) -> _Kind:
    """Return the agent, schedule or hook of a TOML text, whose fields stand at the top.

    Raises:
        ValidationError: It has a mistake; the error names file, line and field.
    """
    document, reader = _parsed(text, file)
    return reader.convert({**defaults, **document}, kind, ())


def parse_settings(
    text: str, file: Path, under: Mapping[str, Mapping[str, Any]] | None = None
) -> Settings:
    """Return the settings of a TOML text; `file` is only named in errors.

    Args:
        text: The text.
        file: Its file.
        under: Settings of tables that hold where the text says nothing.

    Raises:
        ValidationError: As `load_settings`.
    """
    document, reader = _parsed(text, file)
    providers = _providers(reader, document)
    prices = _prices(reader, document)
    rules = read_rules(reader, document)
    if "files" in document:
        raise reader.error(("files",), "a file does not say where it is; remove the line")
    document = without_rules(document)
    for table, given in (under or {}).items():
        if given and isinstance(document.get(table, {}), dict):
            document = {**document, table: {**given, **document.get(table, {})}}
    empty: dict[str, Any] = {
        "agents": {}, "plugins": {}, "providers": {}, "prices": {}, "rules": [], "hooks": {}, "webhooks": {},
        "schedules": {}, "mcp": {}, "roots": {},
    }  # fmt: skip
    settings = reader.convert({**document, **empty}, Settings, ())
    webhooks = reader.tables(document, "webhooks", Webhook, {})
    if NOTIFY in webhooks and settings.notify.webhook is not None:
        place = reader.where(("notify", "webhook"))
        problem = f"[notify] webhook ({place}) has this name already; choose another, or remove one"
        raise reader.error(("webhooks", NOTIFY), problem)
    agents = reader.tables(document, "agents", Agent, {"policy": settings.policy})
    return msgspec.structs.replace(
        settings,
        agents=agents,
        hooks=reader.tables(document, "hooks", Hook, {}),
        webhooks=webhooks,
        schedules=reader.tables(document, "schedules", Schedule, {}),
        roots=_roots(reader, document),
        mcp=_servers(reader, document),
        plugins=reader.tables(document, "plugins", PluginSettings, {}),
        providers=providers,
        prices=prices,
        rules=rules,
    )


def _parsed(text: str, file: Path) -> tuple[dict[str, Any], TomlReader]:
    import tomllib  # here: most starts have no configuration file

    try:
        return tomllib.loads(text), TomlReader(text, file)
    except (ValueError, RecursionError) as exc:  # ValueError: an integer of thousands of digits
        raise ValidationError(f"{file} is not TOML: {exc}. Nothing of it was used.") from exc


def _roots(reader: TomlReader, document: Mapping[str, Any]) -> dict[str, str | RootSettings]:
    given = document.get("roots", {})
    if not isinstance(given, dict):
        raise reader.error(("roots",), 'expected a table, [roots], with NAME = "FOLDER" in it')
    found: dict[str, str | RootSettings] = {}
    for name, root in given.items():
        table = {"path": root} if isinstance(root, str) else root
        if not isinstance(table, dict):
            problem = 'expected a folder, "/srv/projects", or a table with path and shared'
            raise reader.error(("roots", name), problem)
        found[name] = reader.convert(table, RootSettings, ("roots", name))
    try:
        checked_roots(found)
    except ValueError as error:
        raise reader.error(("roots",), str(error)) from error
    return found


def _providers(reader: TomlReader, document: Mapping[str, Any]) -> dict[str, ProviderSettings]:
    providers = reader.tables(document, "providers", ProviderSettings, {})
    for name in RESERVED_PROVIDERS & providers.keys():
        raise reader.error(("providers", name), f"the name {name!r} is built in; choose another")
    return providers


def _servers(reader: TomlReader, document: Mapping[str, Any]) -> dict[str, McpSettings]:
    servers = reader.tables(document, "mcp", McpSettings, {})
    for name, server in servers.items():
        if server.tools:
            raise reader.error(
                ("mcp", name, "tools"),
                f"what is accepted stands in {PINS_NAME}, and is written there",
            )
    try:
        check_servers(servers)
    except ValueError as error:
        raise reader.error(("mcp",), str(error)) from error
    return servers


def _prices(reader: TomlReader, document: Mapping[str, Any]) -> dict[str, Price]:
    form = '[prices."PROVIDER/MODEL"]'
    tables = document.get("prices", {})
    if not isinstance(tables, dict):
        raise reader.error(("prices",), f"expected tables like {form}")
    prices: dict[str, Price] = {}
    for name, table in tables.items():
        provider, slash, model = name.partition("/")
        if not (provider and slash and model):
            problem = f"expected {form}, with the quotes, or {form.replace('MODEL', '*')} for all"
            # [prices.openai.gpt-5] is a table inside a table, and its line is that of the inner one.
            inner = list(table)[:1] if isinstance(table, dict) and not slash else []
            raise reader.error(("prices", name, *inner), problem)
        if not isinstance(table, dict):
            raise reader.error(("prices", name), f"expected a table {form}, got a single value")
        prices[name] = reader.convert(table, Price, ("prices", name))
    return prices


def read_bytes(file: Path) -> bytes | None:
    """Return the beginning of a file, one byte more than may be; `None` when there is none.

    Raises:
        StorageError: It can't be read, is a pipe or another special file, or others can change it.
    """
    try:
        # O_NONBLOCK: the name may be a pipe's.
        with open(
            file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)
        ) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise StorageError(f"{file} can't be read: it is not a regular file.")
            check_file(file)
            return stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StorageError(f"{file} can't be read: {exc.strerror or exc}.") from exc


def _read(file: Path, *, required: bool) -> str | None:
    data = read_bytes(file)
    if data is None:
        if not required:
            return None
        raise NotFoundError(f"There is no configuration file {file}.")
    if len(data) > MAX_FILE_BYTES:
        raise ValidationError(f"{file} is larger than {MAX_FILE_BYTES} bytes; is it the right one?")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ValidationError(
            f"{file}, line {line}: not UTF-8 text. Nothing of it was used."
        ) from exc
