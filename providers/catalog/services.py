"""What providers can be asked beside a session: their models, whether they answer, a short text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import trio

from ...runtime.definitions import ThinkingEffort
from ...runtime.errors import CallboardError, DeadlineError, StorageError, ValidationError
from ...runtime.history import Input, Round
from ...runtime.http.client import HttpClient
from ...runtime.wire.providers import ModelList, ModelSource, OfferedModel
from ..provider import Endpoint, ListedModel, ModelRequest, ModelTarget
from .cache import CachedList, ModelCache
from .catalog import ModelSelection, endpoint_of, find_provider
from .completion import Completion, complete
from .connection_test import ConnectionReport, try_connection
from .known import KNOWN, KNOWN_MODELS, KnownProvider
from .lists import fetch_models
from .table import REHEARSAL

LIST_SECONDS = 10.0
"""Limit for all pages of a list; as long as a connection test."""


class ModelServices:
    """Requests to providers outside any session: lists of models, connection tests, completions.

    Args:
        selection: The settings, and where keys are looked up.
        http: The client for lists and completions.
        cache: The cache of model lists.
    """

    def __init__(self, selection: ModelSelection, http: HttpClient, cache: ModelCache) -> None:
        self._selection = selection
        self._http = http
        self._cache = cache

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """Return the models of a provider, from the cache unless `refresh` is set.

        If the provider can't be asked, fall back to the cached list, else to the models that
        callboard knows. An inactive provider can be asked too.

        Raises:
            NotFoundError: There is no such provider.
            CallboardError: It can't be asked, and none of its models is known.
        """
        if provider == REHEARSAL:
            return ModelList(provider=provider, models=(_REHEARSAL_MODEL,))
        known = find_provider(self._selection, provider)
        before = await trio.to_thread.run_sync(self._cache.load, known)
        if before is not None and not refresh:
            return _listed(known, before, is_cached=True)
        try:
            models = await self._fetch(known.name, endpoint_of(known, self._selection))
        except CallboardError as error:
            found = _fallback(known, before, str(error))
            if not found.models:
                raise
            return found
        return await self._kept(known, models)

    async def list_at(self, target: ModelTarget) -> ModelList:
        """Return the models of the place of one model, which is not a provider of the settings.

        Raises:
            CallboardError: It can't be asked.
        """
        models: tuple[ListedModel, ...] = ()
        if target.endpoint is not None:
            models = await self._fetch(target.provider, target.endpoint)
        offered = (_offered_at(target.provider, each, ModelSource.LISTED) for each in models)
        return ModelList(provider=target.provider, models=tuple(offered))

    async def test_provider(self, provider: str, model: str | None = None) -> ConnectionReport:
        """Test whether a provider answers, and report what fails, within ten seconds.

        The test fetches the list of models and asks a model for a word, which costs some tokens.
        An inactive provider can be tested too.

        Raises:
            NotFoundError: There is no such provider.
            ValidationError: It is the rehearsal model, which needs no connection.
        """
        if provider == REHEARSAL:
            raise ValidationError(
                "The rehearsal model is built in: there is no connection to test.",
                field="provider",
            )
        return await try_connection(
            find_provider(self._selection, provider), self._selection, model, http=self._http
        )

    async def complete(
        self,
        target: ModelTarget,
        prompt: str,
        *,
        system: str = "",
        max_output_tokens: int | None = None,
        thinking: ThinkingEffort | None = ThinkingEffort.OFF,
        seconds: float,
    ) -> Completion:
        """Return a short text for a prompt, such as a title, without tools and without a session.

        The model is asked once, and nothing is recorded.

        Args:
            target: The model.
            prompt: What the model is asked.
            system: The system prompt.
            max_output_tokens: Limit of the answer, reasoning included.
            thinking: How much it reasons first. A model that can't switch reasoning off uses its least.
            seconds: Limit for the whole call.

        Raises:
            DeadlineError: It took longer.
            CallboardError: The call failed, or the model refused or wrote nothing.
        """
        request = ModelRequest(
            model=target.model,
            provider=target.provider,
            system=system,
            rounds=(Round([Input(prompt)]),),
            max_output_tokens=max_output_tokens,
            thinking=thinking,
        )
        return await complete(self._http, target, request, seconds)

    async def _fetch(self, name: str, endpoint: Endpoint) -> tuple[ListedModel, ...]:
        try:
            with trio.fail_after(LIST_SECONDS):
                return await fetch_models(self._http, endpoint)
        except trio.TooSlowError as late:
            raise DeadlineError(
                f"{name} did not list its models within {LIST_SECONDS:g} s. "
                f"`callboard providers test {name}` says more."
            ) from late

    async def _kept(self, provider: KnownProvider, models: tuple[ListedModel, ...]) -> ModelList:
        problem = ""
        try:
            await trio.to_thread.run_sync(self._cache.save, provider, models)
        except StorageError as error:
            problem = f"The list could not be kept: {error}"
        fresh = self._cache.load(provider)
        assert fresh is not None
        return msgspec.structs.replace(_listed(provider, fresh), problem=problem)


_REHEARSAL_MODEL = OfferedModel(
    choice=f"{REHEARSAL}/{REHEARSAL}",
    title="built in: rules, not a language model",
    source=ModelSource.BUILT_IN,
)


def _listed(provider: KnownProvider, found: CachedList, *, is_cached: bool = False) -> ModelList:
    known = {model.model: model for model in known_models(provider)}
    listed = [_completed(model, known.get(model.model)) for model in found.models]
    return ModelList(
        provider=provider.name,
        models=tuple(_offered(provider, listed, ModelSource.LISTED)),
        listed_at_ms=found.listed_at_ms,
        is_cached=is_cached,
    )


def _fallback(provider: KnownProvider, before: CachedList | None, problem: str) -> ModelList:
    if before is not None:
        found = _listed(provider, before, is_cached=True)
        return msgspec.structs.replace(found, problem=problem)
    return ModelList(
        provider=provider.name,
        models=tuple(_offered(provider, known_models(provider), ModelSource.KNOWN)),
        problem=problem,
    )


def known_models(provider: KnownProvider) -> tuple[ListedModel, ...]:
    """Return the known models of the built-in provider with the same base URL."""
    twins = (name for name, known in KNOWN.items() if known.base_url == provider.base_url)
    return KNOWN_MODELS.get(next(twins, ""), ())


def _completed(model: ListedModel, known: ListedModel | None) -> ListedModel:
    """Add what the provider's list lacks and our table has: OpenAI lists ids only."""
    if known is None:
        return model
    return ListedModel(
        model=model.model,
        title=model.title or known.title,
        context_tokens=model.context_tokens or known.context_tokens,
        max_output_tokens=model.max_output_tokens or known.max_output_tokens,
    )


def _offered(
    provider: KnownProvider, models: Iterable[ListedModel], source: ModelSource
) -> Iterator[OfferedModel]:
    """Yield the models that the configuration adds, then these."""
    models = list(models)
    ids = {model.model for model in models}
    for added in provider.models:
        if added not in ids:
            yield OfferedModel(choice=f"{provider.name}/{added}", source=ModelSource.MANUAL)
    for model in models:
        yield _offered_at(provider.name, model, source)


def _offered_at(name: str, model: ListedModel, source: ModelSource) -> OfferedModel:
    return OfferedModel(
        choice=f"{name}/{model.model}",
        title=model.title,
        context_tokens=model.context_tokens,
        max_output_tokens=model.max_output_tokens,
        source=source,
    )
