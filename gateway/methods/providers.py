"""`provider/…` and `model/…`: where models are, and which is the default; no key goes out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import trio

from ...config.keys.store import open_key_store
from ...embedding.runtime import Runtime, data_of, host_of, lend, wish_of
from ...providers.catalog.book import ProviderBook
from ...providers.catalog.connection_test import ConnectionReport
from ...providers.catalog.rows import provider_rows
from ...providers.recording import RECORDINGS, open_recorder
from ...runtime.errors import CallboardError, ConflictError, PermissionRefused
from ...runtime.kernel.live_lists import ListName
from ...runtime.wire import providers as wire
from ...runtime.wire.fields import Role
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing

methods = MethodTable()

Result = TypeVar("Result")

OWN_SETTINGS = (
    "this server belongs to a program, which has its settings: there is no file to change"
)


@methods.add("provider/list", Role.OPERATOR)
async def list_providers(caller: Caller, params: Nothing) -> wire.Providers:
    """Return the providers, and whether each has a key; never a key itself."""
    configuration = caller.daemon.configuration
    if configuration is not None and configuration.book is not None:
        return await trio.to_thread.run_sync(configuration.book.providers)
    wish, data = wish_of(caller.runtime), data_of(caller.runtime)

    def rows() -> list[wire.ProviderRow]:
        store = None if data is None else open_key_store(data, wish.settings.keys, wish.environ)
        stored = () if store is None else store.rows()
        return provider_rows(wish.settings, wish.settings, wish.environ, stored)

    return wire.Providers(await trio.to_thread.run_sync(rows))


@methods.add("provider/create", Role.ADMIN)
async def create_provider(caller: Caller, params: wire.NewProvider) -> wire.ProviderChanged:
    """Add a provider, which may be used at once."""
    _check_variable(caller, params.key_env)
    return await changed(caller, lambda book: book.create(params))


@methods.add("provider/update", Role.ADMIN)
async def update_provider(caller: Caller, params: wire.ChangeProvider) -> wire.ProviderChanged:
    """Change a provider, or switch it on or off; turns that run go on."""
    _check_variable(caller, params.key_env)
    return await changed(caller, lambda book: book.update(params))


@methods.add("provider/delete", Role.ADMIN)
async def delete_provider(caller: Caller, params: wire.NamedProvider) -> wire.ProviderChanged:
    """Remove an added provider, or the changes to a built-in one."""
    return await changed(caller, lambda book: book.delete(params.provider))


@methods.add("provider/test", Role.ADMIN, is_slow=True)
async def test_provider(caller: Caller, params: wire.TryProvider) -> ConnectionReport:
    """Test whether a provider answers, and if not, which step fails."""
    return await caller.runtime.test_provider(params.provider, model=params.model)


@methods.add("model/list", Role.OBSERVER, is_slow=True)
async def list_models(caller: Caller, params: wire.ListModels) -> wire.ModelList:
    """Return the models that a provider listed last."""
    return await caller.runtime.list_models(params.provider)


@methods.add("model/refresh", Role.OPERATOR, is_slow=True)
async def refresh_models(caller: Caller, params: wire.ListModels) -> wire.ModelList:
    """Ask a provider for its models."""
    found = await caller.runtime.list_models(params.provider, refresh=True)
    host_of(caller.runtime).lists.changed(ListName.MODELS)
    return found


@methods.add("model/default", Role.OBSERVER)
def default_model(caller: Caller, params: Nothing) -> wire.SelectedModel:
    """Return the model that answers when nothing else names one."""
    return default_of(caller.runtime)


def default_of(runtime: Runtime) -> wire.SelectedModel:
    """Return the default model, or why there is none: its key may have been removed."""
    try:
        return wire.SelectedModel(runtime.model, runtime.model_reason)
    except CallboardError as error:
        return wire.SelectedModel("", str(error))


@methods.add("model/chosen", Role.OBSERVER)
async def chosen_model(caller: Caller, params: Nothing) -> wire.ModelChosen:
    """Return the default that the configuration names."""
    configuration = caller.daemon.configuration
    if configuration is None or configuration.book is None:
        raise ConflictError(OWN_SETTINGS)
    return await trio.to_thread.run_sync(configuration.book.default)


@methods.add("model/lend", Role.ADMIN, is_slow=True)
async def lend_model(caller: Caller, params: wire.LendModel) -> wire.SelectedModel:
    """Have a model as a command of the daemon's own user has it; return a name that its turns give."""
    if not caller.daemon.is_local(caller.credential):
        raise PermissionRefused("only commands of the daemon's own user lend it a model")
    runtime, data = caller.runtime, data_of(caller.runtime)
    wish = msgspec.structs.replace(
        wish_of(runtime),
        choice=params.model,
        base_url=params.base_url,
        dialect=params.dialect,
        environ=params.environ,
    )
    recorder = None
    if params.is_recorded and data is not None:
        recorder = await open_recorder(data / RECORDINGS)
    return wire.SelectedModel(*await lend(runtime, wish, recorder, params.name))


@methods.add("model/set_default", Role.ADMIN)
async def set_default_model(caller: Caller, params: wire.ChooseModel) -> wire.ModelChosen:
    """Choose the default model of sessions that name none, or take the choice back."""
    chosen = await changed(caller, lambda book: book.choose(params.model))
    answers = default_of(caller.runtime)
    if params.model is None or chosen.notes or answers.model == params.model:
        return chosen
    note = f"{answers.model} answers all the same, {answers.reason}."
    return msgspec.structs.replace(chosen, notes=(note,))


@methods.add("model/add", Role.ADMIN)
async def add_model(caller: Caller, params: wire.OneModel) -> wire.ProviderChanged:
    """Add a model that a provider does not list."""
    return await changed(caller, lambda book: book.add_model(params))


@methods.add("model/remove", Role.ADMIN)
async def remove_model(caller: Caller, params: wire.OneModel) -> wire.ProviderChanged:
    """Remove a model that was added."""
    return await changed(caller, lambda book: book.remove_model(params))


async def changed(caller: Caller, edit: Callable[[ProviderBook], Result]) -> Result:
    """Apply a change of the configuration, or raise a `CallboardError` and change nothing."""
    configuration = caller.daemon.configuration
    if configuration is None or (book := configuration.book) is None:
        raise ConflictError(OWN_SETTINGS)
    return await configuration.change(partial(edit, book), host_of(caller.runtime))


def _check_variable(caller: Caller, key_env: str | None) -> None:
    """Raise `PermissionRefused` if a remote client names a variable, whose value it could have sent anywhere."""
    if key_env and not caller.daemon.is_local(caller.credential):
        raise PermissionRefused(
            "key_env is for commands of the daemon's own user: it says where a variable of its "
            "environment is sent. Store the key with provider/set_key instead."
        )
