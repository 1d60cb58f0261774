"""`provider/…` and `model/…`: who answers, and with which key; no key goes out."""

from __future__ import annotations

import trio

from ..config.base_url import may_carry_key, origin
from ..config.key_store import open_key_store
from ..config.key_text import is_key
from ..model_access import data_of, wish_of
from ..providers.catalog import Wish
from ..providers.connection_trial import ConnectionReport
from ..providers.known_providers import KnownProvider
from ..providers.model_services import ModelList
from ..providers.provider_keys import has_environment_key
from ..providers.provider_table import provider_named, providers_of
from ..runtime.errors import AuthError, ConflictError, ValidationError
from ..runtime.redaction import redactor
from ..runtime.secrets import Secret
from ..runtime.wire.providers import (
    DefaultModel,
    KeyStored,
    ListModels,
    ProviderRow,
    Providers,
    SetKey,
    TryProvider,
)
from ..runtime.wire.roles import Role
from .caller import Caller
from .methods import MethodTable, Nothing

methods = MethodTable()


@methods.add("provider/list", Role.OPERATOR)
async def list_providers(caller: Caller, params: Nothing) -> Providers:
    """The providers, and whether each has a key; never a key itself."""
    wish = wish_of(caller.runtime)

    def rows() -> list[ProviderRow]:
        return [_row(wish, its) for its in providers_of(wish.settings).values()]

    return Providers(await trio.to_thread.run_sync(rows))


@methods.add("provider/test", Role.ADMIN, is_slow=True)
async def test_provider(caller: Caller, params: TryProvider) -> ConnectionReport:
    """Whether a provider answers, and when not, what of it fails."""
    return await caller.runtime.test_provider(params.provider, model=params.model)


@methods.add("provider/set_key", Role.ADMIN)
async def set_key(caller: Caller, params: SetKey) -> KeyStored:
    """Stores a provider's key, encrypted; it is never told again."""
    key = Secret(params.key.strip())
    redactor.add(key)
    wish, data = wish_of(caller.runtime), data_of(caller.runtime)
    if not is_key(key.reveal()):
        raise ValidationError(
            "that is no key: it is empty, too long, or has a character that no key has", field="key"
        )
    if data is None:
        raise ConflictError("this runtime keeps everything in memory: it stores no keys")
    provider = provider_named(wish.settings, params.provider)
    place = origin(provider.base_url)
    if not may_carry_key(provider.base_url):
        raise AuthError(
            f"a key for {provider.name} is not stored: it would go to {place} in clear text"
        )
    store = open_key_store(data, wish.settings.keys, wish.environ)
    _, made = await trio.to_thread.run_sync(store.put, provider.name, place, key)
    return KeyStored(provider=provider.name, origin=place, master_key=made)


@methods.add("model/list", Role.OBSERVER, is_slow=True)
async def list_models(caller: Caller, params: ListModels) -> ModelList:
    """The models of a provider, as it listed them before."""
    return await caller.runtime.list_models(params.provider)


@methods.add("model/refresh", Role.OPERATOR, is_slow=True)
async def refresh_models(caller: Caller, params: ListModels) -> ModelList:
    """Asks a provider for its models."""
    return await caller.runtime.list_models(params.provider, refresh=True)


@methods.add("model/default", Role.OBSERVER)
def default_model(caller: Caller, params: Nothing) -> DefaultModel:
    """The model that answers when nothing else names one."""
    return DefaultModel(caller.runtime.model, caller.runtime.model_reason)


def _row(wish: Wish, its: KnownProvider) -> ProviderRow:
    return ProviderRow(
        name=its.name,
        base_url=its.base_url,
        dialect=its.dialect,
        key=_key(wish, its),
        is_active=its.name not in wish.settings.inactive,
        model=its.model,
        models=its.models,
    )


def _key(wish: Wish, its: KnownProvider) -> str:
    if has_environment_key(its.variable(wish.environ), wish.environ):
        return "environment"
    if origin(its.base_url) in wish.stored_places(its.name):
        return "stored"
    return "missing" if its.key_required else "none"
