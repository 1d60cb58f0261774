"""What providers can be asked beside a session: their models, whether they answer, a short text."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import msgspec
import trio

from ...runtime.definitions import ThinkingEffort
from ...runtime.errors import CallboardError, DeadlineError, StorageError, ValidationError
from ...runtime.history import Input, Round
from ...runtime.http.client import HttpClient
from ..provider import ListedModel, ModelRequest, ModelTarget
from .cache import CachedList, ModelCache
from .catalog import Wish, endpoint_of, find_provider
from .completion import Completion, complete
from .connection_test import ConnectionReport, try_connection
from .known import KNOWN, KNOWN_MODELS, KnownProvider
from .lists import fetch_models
from .table import REHEARSAL

LIST_SECONDS = 10.0
"""For all pages of a list: as long as a test of the connection."""


class ModelSource(enum.StrEnum):
    """How a model is known."""

    LISTED = "listed"
    """Its provider lists it."""
    KNOWN = "known"
    """callboard knows that the provider has it."""
    MANUAL = "manual"
    """The configuration names it."""
    BUILT_IN = "built_in"
    """It is the rehearsal model."""


class OfferedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be asked for.

    Attributes:
        choice: `PROVIDER/MODEL`.
        title: Its name for people; may be empty.
        context_tokens: How much it reads at once, when that is known.
        max_output_tokens: How much it writes at once, when that is known.
        source: How it is known.
    """

    choice: str
    title: str = ""
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    source: ModelSource


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The models of a provider.

    Attributes:
        provider: Its name.
        models: Those of the configuration first, then the provider's in its own order.
        listed_at_ms: When the provider gave its list, in Unix milliseconds; `None` when it did not.
        is_cached: Whether that was before.
        problem: Why it could not be asked now, when it should have been, or its list not be kept.
    """

    provider: str
    models: tuple[OfferedModel, ...]
    listed_at_ms: int | None = None
    is_cached: bool = False
    problem: str = ""


class ModelServices:
    """Asks providers; any number at once.

    Args:
        wish: The settings, and where keys are looked up.
        http: Reaches the providers.
        cache: Where lists of models are kept.
    """

    def __init__(self, wish: Wish, http: HttpClient, cache: ModelCache) -> None:
        self._wish = wish
        self._http = http
        self._cache = cache

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """The models of a provider; asked for when there is no list from before, or to `refresh`.

        When it can't be asked, the list from before holds, else the models that callboard knows.
        A provider that is inactive can be asked too.

        Raises:
            NotFoundError: There is no such provider.
            CallboardError: It can't be asked, and nothing is known about its models; says why.
        """
        if provider == REHEARSAL:
            return ModelList(provider=provider, models=(_REHEARSAL_MODEL,))
        known = find_provider(self._wish, provider)
        before = await trio.to_thread.run_sync(self._cache.load, known)
        if before is not None and not refresh:
            return _listed(known, before, is_cached=True)
        try:
            models = await self._fetch(known)
        except CallboardError as error:
            found = _fallback(known, before, str(error))
            if not found.models:
                raise
            return found
        return await self._kept(known, models)

    async def test_provider(self, provider: str, model: str | None = None) -> ConnectionReport:
        """Whether a provider answers, and when not, what fails: ten seconds in all.

        It asks for the list of models, and a model for a word, which costs some tokens. A provider
        that is inactive can be tested too.

        Raises:
            NotFoundError: There is no such provider.
            ValidationError: It is the rehearsal model, which is in this process.
        """
        if provider == REHEARSAL:
            raise ValidationError(
                "The rehearsal model is built in: there is no connection to test.",
                field="provider",
            )
        return await try_connection(find_provider(self._wish, provider), self._wish, model)

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
        """A short text from a prompt, without tools and outside every session: a title, a summary.

        It is asked for once; nothing of it is recorded.

        Args:
            target: The model.
            prompt: What to write.
            system: The system prompt.
            max_output_tokens: The limit of the answer; reasoning counts too.
            thinking: How much it reasons first; where it can't be off, it is as little as it can.
            seconds: How long it may take.

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

    async def _fetch(self, provider: KnownProvider) -> tuple[ListedModel, ...]:
        try:
            with trio.fail_after(LIST_SECONDS):
                return await fetch_models(self._http, endpoint_of(provider, self._wish))
        except trio.TooSlowError as late:
            raise DeadlineError(
                f"{provider.name} did not list its models within {LIST_SECONDS:g} s. "
                f"`callboard providers test {provider.name}` says more."
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
    known = {model.model: model for model in _known_models(provider)}
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
        models=tuple(_offered(provider, _known_models(provider), ModelSource.KNOWN)),
        problem=problem,
    )


def _known_models(provider: KnownProvider) -> tuple[ListedModel, ...]:
    """Those of the built-in provider at the same base URL, whatever this one is called."""
    twins = (name for name, known in KNOWN.items() if known.base_url == provider.base_url)
    return KNOWN_MODELS.get(next(twins, ""), ())


def _completed(model: ListedModel, known: ListedModel | None) -> ListedModel:
    """The model with what its provider does not say of it: OpenAI lists ids alone."""
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
    """The models that the configuration adds, and then these."""
    models = list(models)
    ids = {model.model for model in models}
    for added in provider.models:
        if added not in ids:
            yield OfferedModel(choice=f"{provider.name}/{added}", source=ModelSource.MANUAL)
    for model in models:
        yield OfferedModel(
            choice=f"{provider.name}/{model.model}",
            title=model.title,
            context_tokens=model.context_tokens,
            max_output_tokens=model.max_output_tokens,
            source=source,
        )
