"""What `callboard providers` does: lists providers, and changes those that commands may change.

The operator's callboard.toml is never written, and wins: what stands there is changed there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..config.base_url import may_carry_key, origin
from ..config.files import config_file, load_own_settings, load_settings
from ..config.key_store import KeyStore, open_key_store
from ..config.managed import load_managed, remove_provider, save_provider, set_active
from ..config.settings import DialectName, ProviderSettings
from ..providers.known_providers import KNOWN, KnownProvider
from ..providers.provider_keys import has_environment_key
from ..providers.provider_table import REHEARSAL, provider_named, providers_of
from ..runtime.errors import ConflictError, ValidationError
from .complaint import complain
from .escaping import safe_line
from .exit_codes import ANSWERED
from .json_lines import json_line


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


class ProviderDesk:
    """The commands over one configuration; each gives its exit code.

    Args:
        config: The operator's file; `None` is the usual one.
        data: The data folder, for stored keys.
        environ: Where keys of the environment are.
    """

    def __init__(self, config: Path | None, data: Path, environ: Mapping[str, str]) -> None:
        self._config = config
        self._folder = config_file(config).parent
        self._data = data
        self._environ = environ

    def show(self, *, json: bool) -> int:
        """Lists all of them; opens no key."""
        settings = load_settings(self._config)
        store = open_key_store(self._data, settings.keys, self._environ)
        lines = self._lines(store)
        for line in lines:
            sys.stdout.write(json_line(line) if json else _row(line))
        if any(line.key == "stored" for line in lines) and (why := store.why_locked()) is not None:
            complain(why)
        return ANSWERED

    def add(self, name: str, changes: Mapping[str, str | None], *, json: bool) -> int:
        """Adds one that does not exist yet."""
        if name in providers_of(load_settings(self._config)):
            raise ConflictError(
                f"There is a provider {name!r} already: `callboard providers edit {name}` changes "
                "it, or choose another name."
            )
        save_provider(self._folder, _settings({"name": name}, changes))
        return self._said(f"Added {name}.", name, json=json)

    def edit(self, name: str, changes: Mapping[str, str | None], *, json: bool) -> int:
        """Changes one that was added, or lays changes over a built-in one."""
        self._check_not_own(name, "changed")
        provider = provider_named(load_settings(self._config), name)
        if all(value is None for value in changes.values()):
            raise ValidationError(
                f"Nothing of {name} was changed: say what, for example --model MODEL."
            )
        before = load_managed(self._folder).providers.get(name) or _template(provider)
        after = _settings(msgspec.to_builtins(before), changes)
        is_moved = origin(before.base_url) != origin(after.base_url)
        left = before.key_env if is_moved and changes.get("key_env") is None else None
        if left is not None:  # the key in it is the old place's, and nobody said to send it here
            after = msgspec.structs.replace(after, key_env=None)
        save_provider(self._folder, after)
        if left is not None:
            complain(
                f"The key in {left} is for {origin(before.base_url)}, and is not sent to "
                f"{origin(after.base_url)}: `callboard providers edit {name} --key-env {left}` "
                "lets it."
            )
        self._warn_of_moved_key(name, before.base_url, after.base_url)
        return self._said(f"Changed {name}.", name, json=json, wants_key=left is None)

    def remove(self, name: str, *, json: bool) -> int:
        """Removes one that a command added, or what a command changed of a built-in one."""
        self._check_not_own(name, "removed")
        if name == REHEARSAL or "/" in name:
            provider_named(load_settings(self._config), name)  # says what it is instead
        remove_provider(self._folder, name)
        if name in KNOWN:
            done = f"{name} is as it was built in."
            return self._said(done, name, json=json, wants_key=False)
        self._warn_of_default(name)
        if not json:
            print(f"Removed {name}.")
            self._warn_of_left_keys(name)
        return ANSWERED

    def set_active(self, name: str, *, active: bool, json: bool) -> int:
        """Lets it be used, or not."""
        provider_named(load_settings(self._config), name)
        if active and name in load_own_settings(self._config).inactive:
            raise ConflictError(
                f"{config_file(self._config)} lists {name} as inactive: take it out there."
            )
        set_active(self._folder, name, active=active)
        if not active:
            self._warn_of_default(name)
        done = "Activated" if active else "Deactivated"
        return self._said(f"{done} {name}.", name, json=json, wants_key=active)

    # ── what is said ─────────────────────────────────────────────────────────────────────────────

    def _said(self, text: str, name: str, *, json: bool, wants_key: bool = True) -> int:
        """What was done; and what is left to do about its key, where that is the next step."""
        if not json:
            print(text)
        for line in self._lines(self._store()):
            if line.name != name:
                continue
            if json:
                sys.stdout.write(json_line(line))
            elif wants_key and line.note:
                complain(line.note)
            elif wants_key and line.key == "missing":
                variable = f", or set {line.key_env}" if line.key_env is not None else ""
                print(f"It has no key yet: `callboard keys set {name}`{variable}.")
        return ANSWERED

    def _store(self) -> KeyStore:
        return open_key_store(self._data, load_settings(self._config).keys, self._environ)

    def _lines(self, store: KeyStore) -> list[ProviderLine]:
        settings = load_settings(self._config)
        own = load_own_settings(self._config)
        stored = {(row.binding.provider, row.binding.origin) for row in store.rows()}

        def source(name: str) -> str:
            if name in own.providers:
                return "callboard.toml"
            return "managed" if name in settings.providers else "built_in"

        return [
            ProviderLine(
                name=name,
                base_url=its.base_url,
                dialect=its.dialect,
                key=self._key(its, is_stored=(name, origin(its.base_url)) in stored),
                key_env=its.variable(self._environ),
                active=name not in settings.inactive,
                source=source(name),
                model=its.model,
                models=its.models,
                note=_note(its, self._environ, (name, origin(its.base_url)) in stored),
            )
            for name, its in sorted(providers_of(settings).items(), key=_order)
        ]

    def _key(self, provider: KnownProvider, *, is_stored: bool) -> str:
        if has_environment_key(provider.variable(self._environ), self._environ):
            return "environment"
        if is_stored:
            return "stored"
        return "missing" if provider.key_required else "none"

    def _check_not_own(self, name: str, verb: str) -> None:
        if name in load_own_settings(self._config).providers:
            raise ConflictError(
                f"{name} stands in {config_file(self._config)}: it is {verb} there."
            )

    def _warn_of_default(self, name: str) -> None:
        model = load_settings(self._config).model
        if model is not None and model.partition("/")[0] == name:
            complain(
                f"The default model is still {model}: `callboard models default` chooses another."
            )

    def _warn_of_moved_key(self, name: str, before: str, after: str) -> None:
        if origin(before) == origin(after):
            return
        bindings = [row.binding for row in self._store().rows()]
        if any((its.provider, its.origin) == (name, origin(before)) for its in bindings):
            complain(
                f"The stored key of {name} is for {origin(before)}, and is not sent to "
                f"{origin(after)}: `callboard keys set {name}` stores one for there."
            )

    def _warn_of_left_keys(self, name: str) -> None:
        if any(row.binding.provider == name for row in self._store().rows()):
            complain(f"A key is still stored for it: `callboard keys remove {name}` removes it.")


def _order(item: tuple[str, KnownProvider]) -> tuple[int, str]:
    """Built-in ones in their own order, then the others by name."""
    names = list(KNOWN)
    return (names.index(item[0]) if item[0] in KNOWN else len(names), item[0])


def _note(its: KnownProvider, environ: Mapping[str, str], is_stored: bool) -> str:
    has_key = is_stored or has_environment_key(its.variable(environ), environ)
    if not may_carry_key(its.base_url) and (has_key or its.key_env is not None):
        return (
            f"A key is not sent to {origin(its.base_url)}: http:// would show it to everybody on "
            "the way. Use https://, or name no key."
        )
    return "" if has_key else its.why_unused(environ) or ""


def _template(provider: KnownProvider) -> ProviderSettings:
    """The settings that are the built-in provider."""
    return ProviderSettings(
        name=provider.name,
        base_url=provider.base_url,
        dialect=provider.dialect,
        key_env=provider.key_env,
        model=provider.model,
    )


def _settings(before: Mapping[str, Any], changes: Mapping[str, str | None]) -> ProviderSettings:
    """The settings with these changes; an empty text takes one back.

    Raises:
        ValidationError: A value is not what it may be.
    """
    given = {field: text.strip() for field, text in changes.items() if text is not None}
    values: dict[str, Any] = {**before, **{name: text or None for name, text in given.items()}}
    if "models" in given:
        values["models"] = [each.strip() for each in given["models"].split(",") if each.strip()]
    if values.get("base_url") is None:
        raise ValidationError("--base-url is empty: say where the server is.", field="base_url")
    if values.get("dialect") is not None:
        values["dialect"] = DialectName(values["dialect"])
    try:
        return msgspec.convert(values, ProviderSettings)
    except msgspec.ValidationError as error:
        text = str(error).partition(" - at `$")[0]
        raise ValidationError(f"{text}.") from error


def _row(line: ProviderLine) -> str:
    key = f"${line.key_env}" if line.key == "environment" else line.key.replace("none", "no key")
    source = line.source.replace("_", "-")
    note = "" if line.active else "  (inactive)"
    note += f"  ({line.note.rstrip('.')})" if line.note else ""
    url = safe_line(line.base_url)
    return f"{line.name:12}  {line.dialect:16}  {url:48}  {key:16}  {source}{note}\n"
