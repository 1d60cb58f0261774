"""`callboard providers` and its options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ..parameters import Config, Data, DialectOption, Json, data_path

if TYPE_CHECKING:
    from .providers import ProviderDesk

Name = Annotated[str, Parameter(help="The provider's name, as in PROVIDER/MODEL.")]
BaseUrl = Annotated[
    str, Parameter(help="Everything before the wire format's own path; often it ends in /v1.")
]
NewBaseUrl = Annotated[str | None, Parameter(help="Another base URL.")]
KeyEnv = Annotated[
    str | None,
    Parameter(help="The NAME of the environment variable of its key; '' takes it back."),
]
Model = Annotated[
    str | None, Parameter(help="Its model when only the provider is named; '' takes it back.")
]
Models = Annotated[
    str | None,
    Parameter(help="Models that it does not list, separated by commas; '' takes them back."),
]
Asked = Annotated[str | None, Parameter(help="The model to ask; by default the provider's.")]

providers = App(
    name="providers", help="List, test, add, change, remove and switch off providers of models."
)


@providers.default
def list_providers(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List the providers: where they are, whether they have a key, where they come from."""
    return _desk(config, data, json=json).show()


@providers.command
def add(
    name: Name,
    /,
    *,
    base_url: BaseUrl,
    dialect: DialectOption = None,
    key_env: KeyEnv = None,
    model: Model = None,
    models: Models = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Add a provider: any server that speaks one of the wire formats.

    Its key is stored with `callboard keys set NAME`, or named with --key-env; it is never an
    option.
    """
    changes = {"dialect": dialect, "key_env": key_env, "model": model, "models": models}
    return _desk(config, data, json=json).add(name, {"base_url": base_url, **changes})


@providers.command
def edit(
    name: Name,
    /,
    *,
    base_url: NewBaseUrl = None,
    dialect: DialectOption = None,
    key_env: KeyEnv = None,
    model: Model = None,
    models: Models = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Change a provider that was added, or one that is built in; the rest of it stays."""
    changes = {
        "base_url": base_url,
        "dialect": dialect,
        "key_env": key_env,
        "model": model,
        "models": models,
    }
    return _desk(config, data, json=json).edit(name, changes)


@providers.command
def remove(name: Name, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Remove a provider that was added; what was changed of a built-in one is as before."""
    return _desk(config, data, json=json).remove(name)


@providers.command
def activate(name: Name, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Let a provider be used again."""
    return _desk(config, data, json=json).set_active(name, active=True)


@providers.command
def deactivate(
    name: Name, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Let a provider not be used; it keeps its key and its settings."""
    return _desk(config, data, json=json).set_active(name, active=False)


@providers.command(name="test")
def try_out(
    name: Name,
    /,
    *,
    model: Asked = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Test a provider, ten seconds at most; says what fails: DNS, TLS, key, model, quota.

    A model is asked for a word, which costs some tokens. Exits with 1 when it does not work.
    """
    from .provider_test import try_provider

    return try_provider(config, data_path(data), name, model, json=json)


def _desk(config: Path | None, data: Path | None, *, json: bool) -> ProviderDesk:
    import os

    from ..remote.call import serving_daemon
    from .providers import ProviderDesk

    folder = data_path(data)
    if (daemon := serving_daemon(config, folder)) is not None:
        from ..remote.providers import RemoteProviders

        return ProviderDesk(RemoteProviders(daemon), json=json)
    from ...providers.catalog.book import ProviderBook

    return ProviderDesk(ProviderBook(config, folder, os.environ), json=json)
