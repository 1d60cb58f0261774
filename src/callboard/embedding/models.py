"""Find the model of a turn: the program's choice, the configured one, or a server on this machine."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ..config.settings import Settings
from ..providers.catalog.catalog import ModelSelection, ResolvedModel, resolve_model, servers_to_ask
from ..providers.catalog.lists import fetch_models
from ..providers.catalog.table import CUSTOM, mask_environment_keys
from ..providers.provider import LENT_SIGN, Endpoint, LocalModel, ModelTarget
from ..providers.recording import Recorder
from ..runtime.errors import CallboardError, DeadlineError, NetworkError, NotFoundError
from ..runtime.http.client import HttpClient
from .host import Host

if TYPE_CHECKING:
    from ..providers.catalog.connection_test import ConnectionReport
    from ..providers.catalog.services import ModelServices
    from ..runtime.wire.providers import ModelList

PROBE_SECONDS = 2.0
"""How long a server on this machine may take to list its models before it counts as absent."""

LENT_BYTES = 4
"""Of what tells lent models of one name apart: enough for `MAX_LENT`, and for those of two processes."""
MAX_LENT = 1000
"""Models that are lent at once: one or a few for each command that runs."""


def open_finder(
    wish: ModelSelection, model: str | LocalModel | None, data: Path | None
) -> ModelFinder:
    """Find models for a runtime with this data folder, whose stored keys it uses.

    Args:
        wish: The rest of the selection: settings, environment, base URL.
        model: What the program wants: a `PROVIDER/MODEL`, or a model object.
        data: The data folder; `None` is for a runtime that keeps everything in memory.
    """
    wish = with_keys(wish, data)
    if isinstance(model, LocalModel):
        return ModelFinder(wish, local=model)
    return ModelFinder(msgspec.structs.replace(wish, choice=model))


def with_keys(wish: ModelSelection, data: Path | None) -> ModelSelection:
    """Return the selection with the stored keys of a data folder; all keys are masked from now on."""
    mask_environment_keys(wish.settings, wish.environ)
    if data is None:
        return wish
    from ..config.keys.store import open_key_store  # here: an app in memory needs it not

    store = open_key_store(data, wish.settings.keys, wish.environ)
    return msgspec.structs.replace(wish, stored=store.get, stored_places=store.places)


class ModelFinder:
    """Resolves `PROVIDER/MODEL` to what a turn calls; remembers what it found.

    Args:
        wish: What decides when a session names no model itself.
        local: A model object of the embedding program, which then answers every session.

    Attributes:
        reason: Why the default is that one, for a person.
    """

    def __init__(self, wish: ModelSelection, local: LocalModel | None = None) -> None:
        self.wish = wish
        self._listed: dict[str, tuple[str, ...] | None] = {}
        self._found: dict[str | None, ModelTarget] = {}
        self._fallbacks: dict[str, ModelTarget] = {}
        self._lent: dict[str, ModelTarget] = {}
        self._is_decided = local is not None or bool(wish.choice or wish.base_url)
        self._is_local = local is not None
        self.reason = "because the program passed it"
        if local is not None:
            self._found[None] = ModelTarget(
                provider="local", model=type(local).__name__, local=local
            )

    def target(self, choice: str | None, preferred: str | None = None) -> ModelTarget:
        """Return the model of a `PROVIDER/MODEL`, or the default one.

        Args:
            choice: What the session was created with; wins over all.
            preferred: What the agent prefers; the program's own choice wins over it.

        Raises:
            NotFoundError: It does not exist; says which do.
            AuthError: Its key is missing.
        """
        if choice is not None:
            if (lent := self._lent.get(choice)) is not None:
                return lent
            choice, is_lent, _ = choice.partition(LENT_SIGN)  # to an earlier process
            if is_lent and choice.startswith(f"{CUSTOM}/"):
                raise NotFoundError(
                    f"{choice} is the model of a command's own --base-url, and that command is gone: run it "
                    "again, or choose another model."
                )
        if choice is None and not self._is_decided:
            choice = preferred
        if (found := self._found.get(choice)) is None:
            found = self._found[choice] = self._resolve(choice)
        return found

    def fallback(self, name: str) -> ModelTarget:
        """Return the model to fall back to when another one fails.

        It is at its own provider, also where the program's choice is a base URL.

        Raises:
            CallboardError: As `target`.
        """
        if name in self._lent:
            return self._lent[name]
        is_elsewhere = self.wish.base_url is not None
        if not is_elsewhere or name.partition("/")[0] == self.target(None).provider:
            return self.target(name)
        if (found := self._fallbacks.get(name)) is None:
            wish = msgspec.structs.replace(self.wish, base_url=None, dialect=None, choice=name)
            found = self._fallbacks[name] = _target_of(resolve_model(wish))
        return found

    def lent(self, name: str) -> ModelTarget | None:
        """Return the model that was lent by this name, if one was."""
        return self._lent.get(name)

    async def lend(
        self,
        wish: ModelSelection,
        http: HttpClient,
        recorder: Recorder | None = None,
        before: str | None = None,
    ) -> tuple[str, str]:
        """Find a model as another command of this user would; return a name for it, and why it is that one.

        The name holds as long as the runtime, for whoever knows it: nobody else's turns use the place or
        the key. In another runtime it is that of the `PROVIDER/MODEL` with which it begins, unless it is
        lent there too, by the name that it had `before`.

        Raises:
            CallboardError: As `target`.
        """
        finder = ModelFinder(with_keys(wish, None))
        await finder.look_around(http)
        target = finder.target(None)
        if recorder is not None and target.endpoint is not None:
            recorded = msgspec.structs.replace(target.endpoint, recorder=recorder)
            target = msgspec.structs.replace(target, endpoint=recorded)
        name = f"{target.provider}/{target.model}"
        if before is not None and before.startswith(f"{name}{LENT_SIGN}"):
            name = before
        elif self._is_known(name, target):
            return name, finder.reason
        else:
            name = f"{name}{LENT_SIGN}{secrets.token_hex(LENT_BYTES)}"
        self._lent.pop(name, None)
        while len(self._lent) >= MAX_LENT:
            self._lent.pop(next(iter(self._lent)))
        self._lent[name] = target
        return name, finder.reason

    def _is_known(self, name: str, target: ModelTarget) -> bool:
        """Return whether a name is that of this very model here, with the same key."""
        try:
            here = self.target(name)
            return (here.provider, here.endpoint) == (target.provider, target.endpoint)
        except CallboardError:
            return False

    async def look_around(self, http: HttpClient) -> None:
        """Ask the servers whose lists of models the default depends on; usually none."""
        if None in self._found:
            return
        endpoints = servers_to_ask(self.wish)  # ahead of the nursery: it may refuse the wish
        async with trio.open_nursery() as nursery:
            for endpoint in endpoints:
                nursery.start_soon(self._ask, http, endpoint, name=f"models of {endpoint.name}")

    async def _ask(self, http: HttpClient, endpoint: Endpoint) -> None:
        try:
            with trio.fail_after(PROBE_SECONDS):
                models = await fetch_models(http, endpoint, asks_windows=False)
        except (NetworkError, DeadlineError, trio.TooSlowError):
            self._listed[endpoint.base_url] = None
            return
        except CallboardError:
            return  # absent, or not what it seems: then it isn't offered
        self._listed[endpoint.base_url] = tuple(listed.model for listed in models)

    def with_settings(self, settings: Settings) -> ModelFinder:
        """Return a finder for other settings, which has found nothing yet; a model object stays."""
        mask_environment_keys(settings, self.wish.environ)
        found = self._found.get(None)
        local = found.local if self._is_local and found is not None else None
        return ModelFinder(msgspec.structs.replace(self.wish, settings=settings), local)

    def replace(self, other: ModelFinder) -> None:
        """Take over the settings and findings of another finder."""
        self.wish, self.reason = other.wish, other.reason
        self._listed, self._found = other._listed, other._found
        self._fallbacks.clear()

    def forget_keys(self) -> None:
        """Resolve every model again at its next use, with the key of that moment.

        A model object stays, and which model is the default: what was listed is remembered.
        """
        local = self._found.get(None) if self._is_local else None
        self._found = {} if local is None else {None: local}
        self._fallbacks.clear()

    def _resolve(self, choice: str | None) -> ModelTarget:
        wish = self.wish
        if choice is not None:
            wish = msgspec.structs.replace(wish, choice=choice)
        resolved = resolve_model(wish, self._listed)
        if choice is None or choice == self.wish.choice:
            self.reason = resolved.reason
        return _target_of(resolved)


def _target_of(resolved: ResolvedModel) -> ModelTarget:
    local = None
    if resolved.endpoint is None:
        from ..providers.rehearsal.model import RehearsalModel  # here: a real model needs it not

        local = RehearsalModel()
    return ModelTarget(
        provider=resolved.provider,
        model=resolved.model,
        endpoint=resolved.endpoint,
        local=local,
    )


class RuntimeModels:
    """The part of `Runtime` about models outside of sessions."""

    _host: Host
    _models: ModelFinder
    _data: Path | None

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """Return the models that a provider listed last; with `refresh`, ask it again.

        When it can't be asked, these are the models that callboard knows, and `problem` says why.
        The name of a model that was lent stands for the place where that is, which is always asked.

        Raises:
            NotFoundError: There is no such provider.
            CallboardError: It can't be asked, and none of its models are known.
        """
        services = self._model_services()
        if (lent := self._models.lent(provider)) is not None:
            return await services.list_at(lent)
        return await services.list_models(provider, refresh=refresh)

    async def test_provider(self, provider: str, *, model: str | None = None) -> ConnectionReport:
        """Test whether a provider answers, and if not, which step fails; takes ten seconds at most.

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
        """Return a short text written outside of sessions: a title, a summary. Nothing is recorded.

        Args:
            prompt: What to write.
            model: `PROVIDER/MODEL`; the runtime's by default. It reasons as little as it can.
            system: The system prompt.
            seconds: How long it may take.

        Raises:
            DeadlineError: It took longer.
            CallboardError: The call failed, or the model refused or wrote nothing.
        """
        target = self._models.target(model)
        services = self._model_services()
        return (await services.complete(target, prompt, system=system, seconds=seconds)).text

    def _model_services(self) -> ModelServices:
        from ..providers.catalog.cache import ModelCache  # here: most programs ask for none of it
        from ..providers.catalog.services import ModelServices

        return ModelServices(self._models.wish, self._host.http, ModelCache(self._data))
