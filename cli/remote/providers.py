"""Providers and the default model by way of the daemon, where a change holds at once."""

from __future__ import annotations

from ...config.daemon_file import RunningDaemon
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import (
    ChangeProvider,
    ChooseModel,
    ModelChosen,
    NamedProvider,
    NewProvider,
    ProviderChanged,
    Providers,
)
from .call import ask_daemon


class RemoteProviders:
    """A `ProviderPlace`, and a `DefaultPlace`."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self._daemon = daemon

    def providers(self) -> Providers:
        """See `ProviderPlace`."""
        return ask_daemon(self._daemon, "provider/list", Nothing(), Providers)

    def create(self, new: NewProvider) -> ProviderChanged:
        """See `ProviderPlace`."""
        return ask_daemon(self._daemon, "provider/create", new, ProviderChanged)

    def update(self, change: ChangeProvider) -> ProviderChanged:
        """See `ProviderPlace`."""
        return ask_daemon(self._daemon, "provider/update", change, ProviderChanged)

    def delete(self, name: str) -> ProviderChanged:
        """See `ProviderPlace`."""
        return ask_daemon(self._daemon, "provider/delete", NamedProvider(name), ProviderChanged)

    def default(self) -> ModelChosen:
        """See `DefaultPlace`."""
        return ask_daemon(self._daemon, "model/chosen", Nothing(), ModelChosen)

    def choose(self, choice: str | None) -> ModelChosen:
        """See `DefaultPlace`."""
        return ask_daemon(self._daemon, "model/set_default", ChooseModel(choice), ModelChosen)
