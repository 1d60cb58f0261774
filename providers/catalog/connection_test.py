"""A test of one provider: does it answer, and if not, which part fails and what to do about it.

name ──► connection ──► TLS ──► the list of models ──► a word of a model
 dns        tcp         tls     key, not a model server    model, quota

The test opens its own connection, since a pooled one would hide that no new one can be made. The
list of models alone proves little: many servers send it without a key, or to an account without
credit. So a model is asked for a word, too.
"""

from __future__ import annotations

import enum
import re
from contextlib import closing

import msgspec
import trio

from ...runtime.errors import AuthError, DeadlineError, NetworkError, NetworkStage, ProviderError
from ...runtime.history import Input, Round
from ...runtime.http.client import HttpClient
from ...runtime.stream import AnyStreamEvent, StreamError, Usage
from ..error_answer import is_misplaced
from ..provider import Endpoint, ModelPage, ModelRequest, ModelTarget
from .catalog import ModelSelection, endpoint_of, first_chat_model
from .completion import ask
from .keys import has_environment_key
from .known import KnownProvider
from .lists import fetch_page

TRIAL_SECONDS = 10.0
"""Limit of the whole test (RFC-000)."""
CONNECT_SHARE = 0.6
"""Part of the limit that connecting may take; the rest is for an answer."""
MAX_OUTPUT_TOKENS = 256
"""The test ends with the first word, but some models refuse a limit below their reasoning."""
PROMPT = "Answer with the word OK."

_REFUSALS = frozenset({400, 403, 404, 422})
"""Statuses with which providers refuse a model that they lack, or that the account may not use."""
_NO_SUCH = re.compile(r"\bnot (?:\w+ ){0,2}(?:found|exist|available|valid|supported|have access)")
_NO_SUCH_MODEL = re.compile(
    r"\b(?:invalid|unknown|no such|no access to) (?:the )?model", re.IGNORECASE
)


class ConnectionFault(enum.StrEnum):
    """The part of a provider that fails."""

    NAME = "dns"
    """Its host name can't be resolved."""
    CONNECT = "tcp"
    """Nothing accepts the connection."""
    TLS = "tls"
    """TLS fails: the certificate is wrong, or the server does not speak TLS."""
    BROKEN = "connection"
    """The connection broke."""
    SILENT = "timeout"
    """It accepts connections and sends nothing in time."""
    NO_MODELS = "not_a_model_server"
    """The server is not a model server, or speaks another wire format."""
    KEY = "key"
    """The key is missing, locked, refused, or lacks permission."""
    MODEL = "model"
    """The provider works but does not have this model."""
    QUOTA = "quota"
    """The account has no credit left."""
    BUSY = "busy"
    """It limits the request rate or is overloaded; it may work a little later."""
    PROVIDER = "provider"
    """It failed or refused the request."""


_STAGES: dict[NetworkStage | None, ConnectionFault] = {
    "name": ConnectionFault.NAME,
    "connect": ConnectionFault.CONNECT,
    "tls": ConnectionFault.TLS,
    "http": ConnectionFault.NO_MODELS,
    None: ConnectionFault.BROKEN,
}


class ConnectionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a connection test.

    Attributes:
        provider: Its name.
        base_url: Its base URL.
        dialect: The wire format that was used.
        model: The model that was asked, if the test got that far.
        works: Whether a model answered.
        fault: The part that fails, if one does.
        message: One line for a person, with what to do.
        listed: Number of models on the first page of its list, if it sent one.
        duration_ms: Duration of the test.
    """

    provider: str
    base_url: str
    dialect: str
    model: str | None = None
    works: bool
    fault: ConnectionFault | None = None
    message: str
    listed: int | None = None
    duration_ms: int


async def try_connection(
    provider: KnownProvider,
    selection: ModelSelection,
    model: str | None = None,
    seconds: float = TRIAL_SECONDS,
    http: HttpClient | None = None,
) -> ConnectionReport:
    """Ask a provider for its models and a model for a word, within a deadline.

    Args:
        provider: The provider, which may be inactive.
        selection: The settings and the places where its key is looked up.
        model: The model to ask; else the provider's default, else the first that it lists.
        seconds: Limit of the whole test.
        http: The way to providers. Its open connections are not used, since one that is open
            already would hide that no new one can be made.
    """
    trial = _Trial(provider, selection, model)
    began = trio.current_time()
    fault: _Fault | None = None
    try:
        with trio.fail_after(seconds):
            own = (http or HttpClient()).with_own_connections(seconds * CONNECT_SHARE)
            with closing(own):
                await trial.run(own)
    except _Fault as found:
        fault = found
    except trio.TooSlowError:
        fault = trial.silence(seconds)
    took = trio.current_time() - began
    return ConnectionReport(
        provider=provider.name,
        base_url=provider.base_url,
        dialect=provider.dialect,
        model=trial.model,
        works=fault is None,
        fault=fault.kind if fault is not None else None,
        message=fault.message if fault is not None else trial.success(took),
        listed=len(trial.page.models) if trial.page is not None else None,
        duration_ms=round(took * 1000),
    )


class _Fault(Exception):
    """Ends a test. Never leaves this module."""

    def __init__(self, kind: ConnectionFault, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class _Trial:
    """One test.

    Attributes:
        model: The model to ask, once it is known.
        page: The first page of the list of models, once it has come.
    """

    def __init__(
        self, provider: KnownProvider, selection: ModelSelection, model: str | None
    ) -> None:
        self.model = model or provider.model
        self.page: ModelPage | None = None
        self._provider = provider
        self._selection = selection
        self._refusal = ""

    async def run(self, http: HttpClient) -> None:
        """Run all steps in order; raise `_Fault` at the first that fails."""
        try:
            endpoint = endpoint_of(self._provider, self._selection)
        except AuthError as missing:
            raise _Fault(ConnectionFault.KEY, str(missing)) from missing
        try:
            await self._fetch_list(http, endpoint)
            await self._ask(http, endpoint, self._chosen())
        except NetworkError as error:
            raise _Fault(_STAGES[error.stage], str(error)) from error
        except DeadlineError as error:
            kind = ConnectionFault.TLS if error.stage == "tls" else ConnectionFault.CONNECT
            raise _Fault(kind, f"{error} Check the URL and the network.") from error

    def silence(self, seconds: float) -> _Fault:
        """Return the fault for a test that ran out of time."""
        if self.page is None and not self._refusal:
            who = f"{self._provider.base_url} took the connection and said"
            advice = "Check that a model server listens there, and the URL."
        else:
            who = f"{self._provider.name} answers, but its model {self.model} said"
            advice = "It may be loading or overloaded: try again, or --model another one."
        return _Fault(ConnectionFault.SILENT, f"{who} nothing within {seconds:g} s. {advice}")

    def success(self, seconds: float) -> str:
        """Return the message of a test that passed."""
        listed = ""
        if self.page is not None and self.page.models:
            more = "more than " if self.page.next_page else ""
            count = len(self.page.models)
            is_one = count == 1 and not more
            listed = f"; it lists {more}{count} {'model' if is_one else 'models'}"
        took = f"{seconds:.1f} s" if seconds >= 0.1 else "less than 0.1 s"
        return f"{self._provider.name} works: {self.model} answered in {took}{listed}."

    # ── the list ─────────────────────────────────────────────────────────────────────────────────

    async def _fetch_list(self, http: HttpClient, endpoint: Endpoint) -> None:
        """Fetch the first page. Many servers have no list: no fault, if a model answers."""
        try:
            fetched = await fetch_page(http, endpoint)
        except ProviderError as error:
            self._refusal = str(error)
            return
        if isinstance(fetched, ModelPage):
            self.page = fetched
            return
        self._refusal = fetched.text
        if fetched.status == 401:
            raise self._key_fault(fetched)

    def _chosen(self) -> str:
        """Return the model to ask."""
        if self.model is None and self.page is not None:
            self.model = first_chat_model([listed.model for listed in self.page.models])
        if self.model is not None:
            return self.model
        if self.page is None:
            raise _Fault(ConnectionFault.NO_MODELS, self._refusal)
        raise _Fault(
            ConnectionFault.MODEL,
            f"{self._provider.name} answers, but lists no model to ask. Name one with --model.",
        )

    # ── the model ────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, http: HttpClient, endpoint: Endpoint, model: str) -> None:
        """Ask a model for a word; the first piece of an answer is enough."""
        request = ModelRequest(
            model=model,
            provider=endpoint.name,
            rounds=(Round([Input(PROMPT)]),),
            max_output_tokens=MAX_OUTPUT_TOKENS,
        )
        target = ModelTarget(provider=endpoint.name, model=model, endpoint=endpoint)
        received: list[AnyStreamEvent] = []

        def take(events: list[AnyStreamEvent]) -> bool:
            received.extend(event for event in events if not isinstance(event, Usage))
            return bool(received)

        await ask(http, target, request, take)
        first = received[0] if received else None
        if isinstance(first, StreamError):
            raise self._fault_of(first, model)
        if first is None:
            text = "The model's answer was empty. Check the wire format (--dialect)."
            raise _Fault(ConnectionFault.NO_MODELS, text)

    def _fault_of(self, error: StreamError, model: str) -> _Fault:
        message = error.text
        if self._is_about_model(error, model):
            hint = f"`callboard models {self._provider.name} --refresh` lists what it has."
            return _Fault(ConnectionFault.MODEL, f"{message} {hint}")
        match error.error_type:
            case "auth":
                return self._key_fault(error)
            case "quota":
                return _Fault(ConnectionFault.QUOTA, message)
            case "overloaded" | "timeout":
                return _Fault(ConnectionFault.BUSY, message)
        is_strange = error.status is None or error.status < 400 or is_misplaced(error)
        if is_strange and self.page is None:
            where = self._provider.base_url
            return _Fault(ConnectionFault.NO_MODELS, f"{message} Is {where} its base URL?")
        return _Fault(ConnectionFault.PROVIDER, message)

    def _is_about_model(self, error: StreamError, model: str) -> bool:
        if error.status not in _REFUSALS or error.error_type in {"quota", "context_overflow"}:
            return False
        said = error.message
        is_named = re.search(rf"(?<![\w.-]){re.escape(model)}(?![\w-])", said) is not None
        if is_named and (_NO_SUCH.search(said) or _NO_SUCH_MODEL.search(said)):
            return True
        if error.error_type == "auth" or self.page is None:
            return False
        # A model that is not listed may be an alias, but not if it is refused as well.
        is_listed = any(listed.model == model for listed in self.page.models)
        return error.status == 404 or not (is_listed or self.page.next_page)

    def _key_fault(self, error: StreamError) -> _Fault:
        name, variable = self._provider.name, self._provider.variable(self._selection.environ)
        if has_environment_key(variable, self._selection.environ):
            source = f"It is the one in {variable}."
        else:
            source = f"`callboard keys set {name}` stores another one."
            if unused := self._provider.why_unused(self._selection.environ):
                source += f" {unused}"
        return _Fault(ConnectionFault.KEY, f"{error.text} {source}")
