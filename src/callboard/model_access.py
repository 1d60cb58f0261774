"""What a runtime asks of providers beside its sessions: models, whether they answer, short texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .models import ModelFinder
from .runtime.http import HttpClient

if TYPE_CHECKING:
    from .providers.catalog import Wish
    from .providers.connection_trial import ConnectionReport
    from .providers.model_services import ModelList, ModelServices


class ModelAccess:
    """The part of a runtime that needs no session.

    Args:
        models: Finds the models.
        http: Reaches the providers.
        data: The data folder, where lists of models are kept; `None` keeps them in memory.
    """

    def __init__(self, models: ModelFinder, http: HttpClient, data: Path | None) -> None:
        self._models = models
        self._http = http
        self._data = data
        self._services: ModelServices | None = None
        self._services_wish = models.wish

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """The models of a provider: those that it listed last, or lists now to `refresh`.

        When it can't be asked, those that callboard knows of; `problem` says why.

        Raises:
            NotFoundError: There is no such provider.
            CallboardError: It can't be asked, and none of its models are known.
        """
        return await self._model_services().list_models(provider, refresh=refresh)

    async def test_provider(self, provider: str, *, model: str | None = None) -> ConnectionReport:
        """Whether a provider answers, and when not, what of it fails; ten seconds at most.

        A model is asked for a word, which costs some tokens.

        Args:
            provider: Its name.
            model: The model that is asked; its default, else the first that it lists.

        Raises:
            NotFoundError: There is no such provider.
        """
        return await self._model_services().test_provider(provider, model)

    async def complete(
        self, prompt: str, *, model: str | None = None, system: str = "", seconds: float = 30.0
    ) -> str:
        """A short text outside every session: a title, a summary. Nothing of it is recorded.

        Args:
            prompt: What to write.
            model: `PROVIDER/MODEL`; the runtime's by default. It reasons as little as it can.
            system: The system prompt.
            seconds: How long it may take: a model that needs more is the wrong one for this.

        Raises:
            DeadlineError: It took longer.
            CallboardError: The call failed, or the model refused or wrote nothing.
        """
        target = self._models.target(model)
        services = self._model_services()
        return (await services.complete(target, prompt, system=system, seconds=seconds)).text

    def _model_services(self) -> ModelServices:
        from .providers.model_cache import ModelCache  # here: most programs ask for none of it
        from .providers.model_services import ModelServices

        if self._services is None or self._services_wish is not self._models.wish:
            self._services_wish = self._models.wish
            cache = ModelCache(self._data)
            self._services = ModelServices(self._models.wish, self._http, cache)
        return self._services


def wish_of(access: ModelAccess) -> Wish:
    """The settings of a runtime, and where it looks up keys, for what serves it to others."""
    return access._models.wish


def data_of(access: ModelAccess) -> Path | None:
    """The data folder of a runtime, for what serves it to others; `None` when all is in memory."""
    return access._data


def forget_keys(access: ModelAccess) -> None:
    """Looks keys up anew from the next request on: one was stored or removed."""
    access._models.forget_keys()
