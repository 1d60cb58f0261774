"""Changes of providers and of the default model, by commands and clients.

The operator's callboard.toml is never written, and its entries win; they can only be changed there.
Changes go to managed.toml beside it. Everything here blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...config.base_url import checked_base_url, origin
from ...config.files import config_file, load_own_settings, load_settings
from ...config.keys.store import KeyStore, open_key_store
from ...config.managed import (
    load_managed,
    remove_provider,
    save_provider,
    set_active,
    set_default_model,
)
from ...config.settings import DialectName, ProviderSettings, Settings
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.wire.providers import (
    ChangeProvider,
    ModelChosen,
    NewProvider,
    OneModel,
    ProviderChanged,
    ProviderRow,
    Providers,
)
from .cache import ModelCache
from .known import KNOWN, KnownProvider
from .rows import provider_rows
from .table import REHEARSAL, provider_named, providers_of

FIELDS = ("base_url", "dialect", "key_env", "model", "models")
"""Fields of a provider that can be changed; its name is its key."""


def as_settings(provider: KnownProvider) -> ProviderSettings:
    """Return a built-in provider as settings."""
    return ProviderSettings(
        name=provider.name,
        base_url=provider.base_url,
        dialect=provider.dialect,
        key_env=provider.key_env,
        model=provider.model,
    )


def new_settings(new: NewProvider) -> ProviderSettings:
    """Return the settings of a new provider; raise `ValidationError` for a bad value."""
    return _settings({field: getattr(new, field) for field in ("name", *FIELDS)})


def changed_settings(
    before: ProviderSettings, change: ChangeProvider
) -> tuple[ProviderSettings, str | None]:
    """Return settings with a change, and the variable of a key that is for the old origin.

    Raises:
        ValidationError: A value is not what it may be.
    """
    values = msgspec.to_builtins(before)
    values |= {field: value for field in FIELDS if (value := getattr(change, field)) is not None}
    after = _settings(values)
    is_moved = origin(before.base_url) != origin(after.base_url)
    if not is_moved or before.key_env is None or change.key_env is not None:
        return after, None
    # The key in it belongs to the old origin, and nobody asked to send it to the new one.
    return msgspec.structs.replace(after, key_env=None), before.key_env


def _settings(given: dict[str, Any]) -> ProviderSettings:
    values: dict[str, Any] = {
        field: (value.strip() or None) if isinstance(value, str) else value
        for field, value in given.items()
    }
    if values["base_url"] is None:
        raise ValidationError("base_url is empty: say where the server is.", field="base_url")
    try:
        checked_base_url(values["base_url"])
    except ValueError as error:  # a struct's own check does not say which field it is about
        raise ValidationError(f"{error}.", field="base_url") from None
    models = [model.strip() for model in given["models"]]
    values["models"] = [model for model in models if model]
    values["name"] = given["name"]
    try:
        return msgspec.convert(values, ProviderSettings)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$.")
        if where == "dialect`":
            text = f"there is no such wire format; there are: {', '.join(DialectName)}"
        raise ValidationError(
            f"{text.removesuffix('.')}.", field=where.strip("`") or None
        ) from None


class ProviderBook:
    """Lists providers, and changes those that commands may change.

    Args:
        config: The operator's file; `None` is the usual one.
        data: The data folder, for stored keys and lists of models.
        environ: Where keys of the environment are.
    """

    def __init__(self, config: Path | None, data: Path, environ: Mapping[str, str]) -> None:
        self._config = config
        self._folder = config_file(config).parent
        self._data = data
        self._environ = environ

    @property
    def folder(self) -> Path:
        """The folder of managed.toml."""
        return self._folder

    # ── providers ────────────────────────────────────────────────────────────────────────────────

    def providers(self) -> Providers:
        """Return all providers. No key is opened."""
        rows = self._rows()
        is_stored = any(row.key == "stored" for row in rows)
        return Providers(rows, (self._store().why_locked() or "") if is_stored else "")

    def create(self, new: NewProvider) -> ProviderChanged:
        """Add a new provider.

        Raises:
            ConflictError: There is one of that name.
            ValidationError: A value is not what it may be.
            StorageError: It can't be written.
        """
        if new.name in providers_of(load_settings(self._config)):
            raise ConflictError(
                f"There is a provider {new.name!r} already: `callboard providers edit {new.name}` "
                "changes it, or choose another name."
            )
        save_provider(self._folder, new_settings(new))
        return self._changed(new.name)

    def update(self, change: ChangeProvider) -> ProviderChanged:
        """Change an added provider, lay changes over a built-in one, or (de)activate it.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml.
            ValidationError, StorageError: As `create`.
        """
        notes: list[str] = []
        has_fields = any(getattr(change, field) is not None for field in FIELDS)
        if not has_fields and change.is_active is None:
            raise ValidationError(f"Nothing of {change.provider} was changed: say what.")
        if change.is_active is not None:
            self._check_activation(change.provider, is_active=change.is_active)
        if has_fields:
            notes += self._update_fields(change)
        if change.is_active is not None:
            set_active(self._folder, change.provider, active=change.is_active)
            notes += [] if change.is_active else self._about_default(change.provider)
        return self._changed(change.provider, notes)

    def delete(self, name: str) -> ProviderChanged:
        """Remove an added provider, or the changes of a built-in one.

        Raises:
            NotFoundError: It was not added.
            ConflictError: It stands in callboard.toml.
            StorageError: It can't be written.
        """
        self._check_not_own(name, "removed")
        if name == REHEARSAL or "/" in name:
            provider_named(load_settings(self._config), name)  # says what it is instead
        remove_provider(self._folder, name)
        if name in KNOWN:
            return self._changed(name)
        notes = self._about_default(name)
        if any(row.binding.provider == name for row in self._store().rows()):
            notes.append(
                f"A key is still stored for it: `callboard keys remove {name}` removes it."
            )
        return ProviderChanged(None, tuple(notes))

    # ── models ───────────────────────────────────────────────────────────────────────────────────

    def add_model(self, one: OneModel) -> ProviderChanged:
        """Add a model to those of a provider, whether or not it lists it; raises as `update`."""
        models = self._models(one.provider)
        if one.model in models:
            raise ConflictError(f"{one.provider} has the model {one.model} already.")
        return self.update(ChangeProvider(provider=one.provider, models=(*models, one.model)))

    def remove_model(self, one: OneModel) -> ProviderChanged:
        """Remove a model that was added; raises as `update`."""
        models = self._models(one.provider)
        if one.model not in models:
            raise NotFoundError(f"Nobody said that {one.provider} has the model {one.model}.")
        left = tuple(model for model in models if model != one.model)
        return self.update(ChangeProvider(provider=one.provider, models=left))

    def default(self) -> ModelChosen:
        """Return the default model that was chosen."""
        model = load_settings(self._config).model
        if model is None:
            return ModelChosen(None, None)
        is_own = load_own_settings(self._config).model is not None
        return ModelChosen(model, "callboard.toml" if is_own else "managed")

    def choose(self, choice: str | None) -> ModelChosen:
        """Choose the default model, or take the choice back.

        Raises:
            NotFoundError: There is no such provider.
            ValidationError: It names no model, or the provider is not to be used.
            StorageError: It can't be written.
        """
        settings = load_settings(self._config)
        if choice is not None:
            _check_choice(settings, choice)
        set_default_model(self._folder, choice)
        chosen, notes = self.default(), []
        if chosen.model != choice:
            notes.append(
                f"{config_file(self._config)} says model = {chosen.model!r}, which wins: change it "
                "there."
            )
        if choice is not None and self._is_unlisted(settings, choice):
            name, _, model = choice.partition("/")
            notes.append(
                f"{name} did not list {model} when it was asked last: `callboard models {name} "
                "--refresh` asks it again."
            )
        return ModelChosen(chosen.model, chosen.source, tuple(notes))

    # ── parts ────────────────────────────────────────────────────────────────────────────────────

    def _update_fields(self, change: ChangeProvider) -> list[str]:
        name = change.provider
        self._check_not_own(name, "changed")
        provider = provider_named(load_settings(self._config), name)
        before = load_managed(self._folder).providers.get(name) or as_settings(provider)
        after, left = changed_settings(before, change)
        save_provider(self._folder, after)
        old, new = origin(before.base_url), origin(after.base_url)
        notes = []
        if left is not None:
            notes.append(
                f"The key in {left} is for {old}, and is not sent to {new}: `callboard providers "
                f"edit {name} --key-env {left}` lets it."
            )
        return [*notes, *self._about_moved_key(name, before, after)]

    def _changed(self, name: str, notes: list[str] | None = None) -> ProviderChanged:
        row = next(row for row in self._rows() if row.name == name)
        return ProviderChanged(row, tuple(notes or ()))

    def _rows(self) -> list[ProviderRow]:
        settings, own = load_settings(self._config), load_own_settings(self._config)
        return provider_rows(settings, own, self._environ, self._store().rows())

    def _store(self) -> KeyStore:
        return open_key_store(self._data, load_settings(self._config).keys, self._environ)

    def _models(self, name: str) -> tuple[str, ...]:
        return provider_named(load_settings(self._config), name).models

    def _check_not_own(self, name: str, verb: str) -> None:
        if name in load_own_settings(self._config).providers:
            raise ConflictError(
                f"{name} stands in {config_file(self._config)}: it is {verb} there."
            )

    def _check_activation(self, name: str, *, is_active: bool) -> None:
        provider_named(load_settings(self._config), name)
        if is_active and name in load_own_settings(self._config).inactive:
            raise ConflictError(
                f"{config_file(self._config)} lists {name} as inactive: take it out there."
            )

    def _about_default(self, name: str) -> list[str]:
        model = load_settings(self._config).model
        if model is None or model.partition("/")[0] != name:
            return []
        return [f"The default model is still {model}: `callboard models default` chooses another."]

    def _about_moved_key(
        self, name: str, before: ProviderSettings, after: ProviderSettings
    ) -> list[str]:
        old, new = origin(before.base_url), origin(after.base_url)
        bindings = [row.binding for row in self._store().rows()]
        if old == new or all((its.provider, its.origin) != (name, old) for its in bindings):
            return []
        return [
            f"The stored key of {name} is for {old}, and is not sent to {new}: `callboard keys set "
            f"{name}` stores one for there."
        ]

    def _is_unlisted(self, settings: Settings, choice: str) -> bool:
        """Return whether the cached list lacks a model: a hint only, since lists change."""
        name, _, model = choice.partition("/")
        if name == REHEARSAL:
            return False
        found = ModelCache(self._data).load(provider_named(settings, name))
        return found is not None and all(listed.model != model for listed in found.models)


def _check_choice(settings: Settings, choice: str) -> None:
    name, _, model = choice.partition("/")
    if name == REHEARSAL:
        if model != REHEARSAL:
            raise NotFoundError(f"Write {REHEARSAL}/{REHEARSAL}: it is the only model of its kind.")
        return
    provider_named(settings, name)
    if not model:
        raise ValidationError(
            f"{choice!r} names no model: write {name}/MODEL. `callboard models {name}` lists them.",
            field="model",
        )
    if name in settings.inactive:
        raise ValidationError(
            f"The provider {name} is deactivated: `callboard providers activate {name}` first.",
            field="model",
        )
