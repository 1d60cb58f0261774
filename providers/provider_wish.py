"""What a provider is asked to be, as settings: checked, and with its key left where it belongs."""

from __future__ import annotations

from typing import Any

import msgspec

from ..config.base_url import origin
from ..config.settings import DialectName, ProviderSettings
from ..runtime.errors import ValidationError
from ..runtime.wire.providers import ChangeProvider, NewProvider
from .known_providers import KnownProvider

FIELDS = ("base_url", "dialect", "key_env", "model", "models")
"""What may be changed of a provider; its name is what it is found by."""


def as_settings(provider: KnownProvider) -> ProviderSettings:
    """The settings that are a built-in provider."""
    return ProviderSettings(
        name=provider.name,
        base_url=provider.base_url,
        dialect=provider.dialect,
        key_env=provider.key_env,
        model=provider.model,
    )


def new_settings(new: NewProvider) -> ProviderSettings:
    """Those of a new one; raises `ValidationError`."""
    return _settings({field: getattr(new, field) for field in ("name", *FIELDS)})


def changed_settings(
    before: ProviderSettings, change: ChangeProvider
) -> tuple[ProviderSettings, str | None]:
    """Those with a change; and the variable of a key that stays behind, because the place is another.

    Raises:
        ValidationError: A value is not what it may be.
    """
    values = msgspec.to_builtins(before)
    values |= {field: value for field in FIELDS if (value := getattr(change, field)) is not None}
    after = _settings(values)
    is_moved = origin(before.base_url) != origin(after.base_url)
    if not is_moved or before.key_env is None or change.key_env is not None:
        return after, None
    # The key in it is the old place's, and nobody said to send it here.
    return msgspec.structs.replace(after, key_env=None), before.key_env


def _settings(given: dict[str, Any]) -> ProviderSettings:
    values: dict[str, Any] = {
        field: (value.strip() or None) if isinstance(value, str) else value
        for field, value in given.items()
    }
    if values["base_url"] is None:
        raise ValidationError("base_url is empty: say where the server is.", field="base_url")
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
