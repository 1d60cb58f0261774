"""`callboard models` and its options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ..parameters import Config, Data, Json, data_path

if TYPE_CHECKING:
    from .models import DefaultPlace

Provider = Annotated[str | None, Parameter(help="Only this provider's, as in PROVIDER/MODEL.")]
Refresh = Annotated[
    bool, Parameter(help="Ask the providers; else their lists from before hold.", negative=())
]
Choice = Annotated[str | None, Parameter(help="PROVIDER/MODEL; without it, shows what holds.")]
Unset = Annotated[bool, Parameter(help="Take the default back.", negative=())]

models = App(name="models", help="List the models of providers, and choose the default.")


@models.default
def list_models(
    provider: Provider = None,
    /,
    *,
    refresh: Refresh = False,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """List models: of one provider, or of all that can be asked."""
    from .models import show_models

    return show_models(config, data_path(data), provider, refresh=refresh, json=json)


@models.command(name="default")
def set_default(
    choice: Choice = None,
    /,
    *,
    unset: Unset = False,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Choose the model that answers when nothing else names one."""
    from .models import DefaultModel

    default = DefaultModel(_place(config, data_path(data)), json=json)
    if unset or choice is not None:
        return default.set(None if unset else choice)
    return default.show()


def _place(config: Path | None, data: Path) -> DefaultPlace:
    import os

    from ..remote.call import serving_daemon

    if (daemon := serving_daemon(config, data)) is not None:
        from ..remote.providers import RemoteProviders

        return RemoteProviders(daemon)
    from ...providers.catalog.book import ProviderBook

    return ProviderBook(config, data, os.environ)
