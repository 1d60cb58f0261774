"""Where the configuration and the data live, and the one edge at which TOML becomes settings.

Reading is all or nothing: a broken file is named with what is wrong and where, and nothing of it
holds. This module never writes.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import types
import typing
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..runtime.definitions import Agent
from ..runtime.errors import NotFoundError, StorageError, ValidationError
from .policy.tables import read_rules, without_rules
from .prices import Price
from .sections import PluginSettings
from .settings import ManagedSettings, ProviderSettings, Settings
from .toml_lines import TomlLines

FILE_NAME = "callboard.toml"

MANAGED_NAME = "managed.toml"
"""What commands write (see `managed`), beside the operator's own file, which wins over it."""

MAX_FILE_BYTES = 1024 * 1024
"""A configuration of a thousand agents with long prompts fits; a wrong file is not read whole."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of agents and providers: they stand in commands and before the slash of a model."""

RESERVED_PROVIDERS = frozenset({"custom", "git", "rehearsal"})
"""Names that mean something of their own: `--base-url`'s provider, git's credentials, the built-in model."""

TOML_WORDS = {
    " | null`": "`",
    "`object": "`table",
    "`str`": "`string`",
    "`int`": "`integer`",
    "`float`": "`number`",
}
"""What TOML calls the types that msgspec names."""

_Any = TypeVar("_Any")
_Table = TypeVar("_Table", Agent, PluginSettings, ProviderSettings)


def config_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of callboard.toml: `$CALLBOARD_HOME/config`, else the user's configuration folder.

    It need not exist.
    """
    home = _home(os.environ if environ is None else environ)
    if home is not None:
        return home / "config"
    if (own := _users_own(environ, "XDG_CONFIG_HOME", ".config")) is not None:
        return own
    import platformdirs  # here: it takes 20 ms that CALLBOARD_HOME saves

    return platformdirs.user_config_path("callboard", appauthor=False)


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the store: `$CALLBOARD_HOME/data`, else the user's data folder.

    It need not exist.
    """
    home = _home(os.environ if environ is None else environ)
    if home is not None:
        return home / "data"
    if (own := _users_own(environ, "XDG_DATA_HOME", ".local/share")) is not None:
        return own
    import platformdirs

    return platformdirs.user_data_path("callboard", appauthor=False)


def _home(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("CALLBOARD_HOME", "").strip()
    return Path(home).expanduser().absolute() if home else None


def _users_own(environ: Mapping[str, str] | None, variable: str, below: str) -> Path | None:
    """The user's folder by an environment that a program gave; `None` when it does not say."""
    if environ is None or environ is os.environ:
        return None
    if named := environ.get(variable, "").strip():
        return Path(named).absolute() / "callboard"
    home = environ.get("HOME", "").strip()
    if sys.platform == "darwin":
        below = "Library/Application Support"
    return Path(home).absolute() / below / "callboard" if home else None


def load_settings(path: Path | None = None) -> Settings:
    """Reads the configuration; blocks on the disk, so that it is called before the event loop.

    What commands wrote, in managed.toml beside the file, holds where the file says nothing.

    Args:
        path: The file; `None` is callboard.toml in `config_folder()`, which need not exist.

    Raises:
        NotFoundError: `path` was given and does not exist.
        StorageError: The file exists and can't be read.
        ValidationError: It is not what a configuration looks like; names file, line and field.

    Example:
        import pathlib

        pathlib.Path("my.toml").write_text('policy = "strict"')
        settings = callboard.load_settings(pathlib.Path("my.toml"))
        async with callboard.open_runtime(settings=settings) as runtime:
            print(settings.policy)
    """
    managed = config_file(path).with_name(MANAGED_NAME)
    return _merged(load_own_settings(path), read_managed(managed))


def load_own_settings(path: Path | None = None) -> Settings:
    """What the operator's own file says, without what commands wrote; as `load_settings`."""
    file = config_file(path)
    text = _read(file, required=path is not None)
    return Settings() if text is None else parse_settings(text, file)


def config_file(path: Path | None = None) -> Path:
    """The operator's file: this one, else callboard.toml in `config_folder()`."""
    return config_folder() / FILE_NAME if path is None else path


def read_managed(file: Path) -> ManagedSettings:
    """What commands wrote, or the defaults when there is no such file.

    Raises:
        StorageError: The file exists and can't be read.
        ValidationError: As `load_settings`.
    """
    text = _read(file, required=False)
    if text is None:
        return ManagedSettings()
    document, reader = _parsed(text, file)
    providers = _providers(reader, document)
    managed = reader.convert({**document, "providers": {}}, ManagedSettings, ())
    return msgspec.structs.replace(managed, providers=providers)


def parse_settings(text: str, file: Path) -> Settings:
    """Makes settings of TOML text; `file` is only named in errors.

    Raises:
        ValidationError: As `load_settings`.
    """
    document, reader = _parsed(text, file)
    providers = _providers(reader, document)
    prices = _prices(reader, document)
    rules = read_rules(reader, document)
    document = without_rules(document)
    empty: dict[str, Any] = {
        "agents": {}, "plugins": {}, "providers": {}, "prices": {}, "rules": []
    }  # fmt: skip
    settings = reader.convert({**document, **empty}, Settings, ())
    agents = reader.tables(document, "agents", Agent, {"policy": settings.policy})
    return msgspec.structs.replace(
        settings,
        agents=agents,
        plugins=reader.tables(document, "plugins", PluginSettings, {}),
        providers=providers,
        prices=prices,
        rules=rules,
    )


def _parsed(text: str, file: Path) -> tuple[dict[str, Any], _Reader]:
    import tomllib  # here: most starts have no configuration file

    try:
        return tomllib.loads(text), _Reader(text, file)
    except (ValueError, RecursionError) as exc:  # ValueError: an integer of thousands of digits
        raise ValidationError(f"{file} is not TOML: {exc}. Nothing of it was used.") from exc


def _providers(reader: _Reader, document: Mapping[str, Any]) -> dict[str, ProviderSettings]:
    providers = reader.tables(document, "providers", ProviderSettings, {})
    for name in RESERVED_PROVIDERS & providers.keys():
        raise reader.error(("providers", name), f"the name {name!r} is built in; choose another")
    return providers


def _prices(reader: _Reader, document: Mapping[str, Any]) -> dict[str, Price]:
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


def _merged(settings: Settings, managed: ManagedSettings) -> Settings:
    return msgspec.structs.replace(
        settings,
        model=settings.model or managed.model,
        inactive=tuple(dict.fromkeys((*settings.inactive, *managed.inactive))),
        providers={**managed.providers, **settings.providers},
    )


def _read(file: Path, *, required: bool) -> str | None:
    try:
        with open(file, "rb", opener=_open) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise StorageError(f"{file} can't be read: it is no plain file.")
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as exc:
        if not required:
            return None
        raise NotFoundError(f"There is no configuration file {file}.") from exc
    except OSError as exc:
        raise StorageError(f"{file} can't be read: {exc.strerror or exc}.") from exc
    if len(data) > MAX_FILE_BYTES:
        raise ValidationError(f"{file} is larger than {MAX_FILE_BYTES} bytes; is it the right one?")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ValidationError(
            f"{file}, line {line}: not UTF-8 text. Nothing of it was used."
        ) from exc


def _open(path: str, flags: int) -> int:
    # Without blocking: the name may be a pipe's.
    return os.open(path, flags | os.O_NONBLOCK)


class _Reader:
    """Turns parsed TOML into structs, and msgspec's complaints into ours."""

    def __init__(self, text: str, file: Path) -> None:
        self._text = text
        self._file = file

    @cached_property
    def _lines(self) -> TomlLines:
        return TomlLines(self._text)

    def tables(
        self,
        document: Mapping[str, Any],
        key: str,
        kind: type[_Table],
        defaults: Mapping[str, Any],
    ) -> dict[str, _Table]:
        """The tables `[key.NAME]`, each with its name filled in."""
        tables = document.get(key, {})
        if not isinstance(tables, dict):
            raise self.error((key,), f"expected tables like [{key}.NAME]")
        found: dict[str, _Table] = {}
        for name, table in tables.items():
            path: tuple[str, ...] = (key, name)
            if not isinstance(table, dict):
                raise self.error(path, f"expected a table [{key}.NAME], got a single value")
            if not NAME.fullmatch(name):
                raise self.error(path, "a name has letters, digits, '.', '_' and '-', at most 64")
            if table.get("name", name) != name:
                raise self.error((*path, "name"), f"expected {name!r}, the name of its table")
            found[name] = self.convert({**defaults, **table, "name": name}, kind, path)
        return found

    def convert(self, value: Any, kind: type[_Any], path: tuple[str, ...]) -> _Any:
        """One struct of one table."""
        try:
            return msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as exc:
            raise self._explained(str(exc), kind, path) from exc

    def _explained(self, complaint: str, kind: type[Any], path: tuple[str, ...]) -> ValidationError:
        """msgspec says ``Expected `int`, got `str` - at `$.limits.idle_seconds` ``."""
        text, _, where = complaint.partition(" - at `$")
        inner = tuple(re.findall(r"[A-Za-z0-9_]+", where.partition("[")[0]))
        unknown = re.search(r"unknown field `(.*)`$", text)
        missing = re.search(r"missing required field `(.*)`$", text)
        if unknown is not None:
            import difflib  # here: a configuration without a mistake needs it not

            known = _fields(kind, inner)
            close = difflib.get_close_matches(unknown[1], known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            return self.error((*path, *inner, unknown[1]), f"there is no such setting; {hint}")
        if missing is not None:
            return self.error((*path, *inner, missing[1]), "it is required")
        name, colon, rest = text.partition(": ")
        if colon and name in _fields(kind, inner):  # a struct's own check names its field
            return self.error((*path, *inner, name), rest)
        if text.startswith("Invalid enum value"):
            text += f"; choices: {', '.join(_choices(kind, inner))}"
        for word, plain in TOML_WORDS.items():
            text = text.replace(word, plain)
        return self.error((*path, *inner), text[:1].lower() + text[1:].replace("`", ""))

    def error(self, path: tuple[str, ...], problem: str) -> ValidationError:
        """The error for the setting at `path`."""
        line = self._lines.line_of(path)
        where = f"{self._file}, line {line}" if line else str(self._file)
        field = _dotted(path)
        end = "" if problem.endswith("?") else "."
        return ValidationError(
            f"{where}: {field}: {problem}{end} Nothing of it was used.", field=field
        )

    def place(self, path: tuple[str, ...]) -> str:
        """Where the table at `path` stands, for people; the file by its name alone."""
        line = self._lines.line_of(path)
        where = f"{self._file.name}, line {line}" if line else self._file.name
        return f"{_dotted(path)} ({where})"


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(".[", "[")


def _fields(kind: Any, inner: tuple[str, ...]) -> list[str]:
    """The names that a struct, or the struct inside it at `inner`, knows."""
    for name in inner:
        kind = _type_of(kind, name)
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def _choices(kind: Any, inner: tuple[str, ...]) -> list[str]:
    """The values of the enumeration that stands at `inner`."""
    *outer, last = inner
    for name in outer:
        kind = _type_of(kind, name)
    found = _type_of(kind, last)
    members = next(
        iter(typing.get_args(found)), found
    )  # of an optional one, the one that is not None
    return [str(member.value) for member in members]


def _type_of(kind: Any, name: str) -> Any:
    found = next(field.type for field in msgspec.structs.fields(kind) if field.name == name)
    return typing.get_args(found)[0] if isinstance(found, types.UnionType) else found
