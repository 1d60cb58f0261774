"""Rows of the list of providers: place, source, key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...config.base_url import may_carry_key, origin
from ...config.keys.store import StoredKey
from ...config.settings import Settings
from ...runtime.wire.providers import ProviderRow
from .keys import has_environment_key
from .known import KNOWN, KnownProvider
from .table import providers_of


def provider_rows(
    settings: Settings,
    own: Settings,
    environ: Mapping[str, str],
    stored: Sequence[StoredKey],
) -> list[ProviderRow]:
    """Return a row for each provider. No key is opened.

    Args:
        settings: The whole configuration.
        own: The part of it in the operator's file.
        environ: Where keys of the environment are.
        stored: The keys that are stored.
    """
    places = {(row.binding.provider, row.binding.origin) for row in stored}
    return [
        ProviderRow(
            name=name,
            base_url=its.base_url,
            dialect=its.dialect,
            key=_key(its, environ, is_stored=(name, origin(its.base_url)) in places),
            key_env=its.variable(environ),
            is_active=name not in settings.inactive,
            source=_source(name, settings, own),
            model=its.model,
            models=its.models,
            note=_note(its, environ, is_stored=(name, origin(its.base_url)) in places),
        )
        for name, its in sorted(providers_of(settings).items(), key=_order)
    ]


def _source(name: str, settings: Settings, own: Settings) -> str:
    if name in own.providers:
        return "callboard.toml"
    return "managed" if name in settings.providers else "built_in"


def _order(item: tuple[str, KnownProvider]) -> tuple[int, str]:
    """Sort key: built-in providers in their own order, then others by name."""
    names = list(KNOWN)
    return (names.index(item[0]) if item[0] in KNOWN else len(names), item[0])


def _key(its: KnownProvider, environ: Mapping[str, str], *, is_stored: bool) -> str:
    if has_environment_key(its.variable(environ), environ):
        return "environment"
    if is_stored:
        return "stored"
    return "missing" if its.key_required else "none"


def _note(its: KnownProvider, environ: Mapping[str, str], *, is_stored: bool) -> str:
    has_key = is_stored or has_environment_key(its.variable(environ), environ)
    if not may_carry_key(its.base_url) and (has_key or its.key_env is not None):
        return (
            f"A key is not sent to {origin(its.base_url)}: http:// would show it to everybody on "
            "the way. Use https://, or name no key."
        )
    return "" if has_key else its.why_unused(environ) or ""
