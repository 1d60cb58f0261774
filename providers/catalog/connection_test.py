"""Whether a provider answers, and when not, what of it fails: one line, with what to do.

name ──► connection ──► TLS ──► the list of models ──► a word of a model
 dns        tcp         tls     key, not a model server    model, quota

Over a connection of its own: one that is open already would hide that no new one can be made. The
list alone proves little: many servers give it without a key, and accounts without money get it too.
"""

from __future__ import annotations

import enum
import re

import msgspec
import trio

from ...runtime.errors import (
    AuthError,
    DeadlineError,
    NetworkError,
    NetworkStage,
    ProviderError,
)
from ...runtime.history import Input, Round
from ...runtime.http.client import HttpClient, open_http_client
from ...runtime.stream import AnyStreamEvent, StreamError, Usage
from ..error_answer import is_misplaced
from ..provider import Endpoint, ModelPage, ModelRequest, ModelTarget
from .catalog import Wish, endpoint_of, first_chat_model
from .completion import ask
from .keys import has_environment_key
from .known import KnownProvider
from .lists import fetch_page

TRIAL_SECONDS = 10.0
"""For all of it: RFC-000's figure."""
CONNECT_SHARE = 0.6
"""Of these, how much the connection may take: the rest is for an answer."""
MAX_OUTPUT_TOKENS = 256
"""The test ends with the first word; some models refuse a limit that their reasoning exceeds."""
PROMPT = "Answer with the word OK."

_REFUSALS = frozenset({400, 403, 404, 422})
"""How providers answer to a model that they don't have, or not for this account."""
_NO_SUCH = re.compile(r"\bnot (?:\w+ ){0,2}(?:found|exist|available|valid|supported|have access)")
_NO_SUCH_MODEL = re.compile(
    r"\b(?:invalid|unknown|no such|no access to) (?:the )?model", re.IGNORECASE
)


class ConnectionFault(enum.StrEnum):
    """What of a provider fails."""

    NAME = "dns"
    """The name of its host can't be resolved."""
    CONNECT = "tcp"
    """Nothing takes the connection."""
    TLS = "tls"
    """There is no secure connection: the certificate is wrong, or TLS is not spoken."""
    BROKEN = "connection"
    """The connection broke."""
    SILENT = "timeout"
    """It takes connections, and says nothing in time."""
    NO_MODELS = "not_a_model_server"
    """What answers is no model server, or one that speaks another wire format."""
    KEY = "key"
    """The key is missing, locked, refused, or not allowed to do this."""
    MODEL = "model"
    """The provider works, and does not have this model."""
    QUOTA = "quota"
    """The account has nothing left."""
    BUSY = "busy"
    """It limits the rate of requests, or is overloaded; it may work a little later."""
    PROVIDER = "provider"
    """It failed, or refused the request."""


_STAGES: dict[NetworkStage | None, ConnectionFault] = {
    "name": ConnectionFault.NAME,
    "connect": ConnectionFault.CONNECT,
    "tls": ConnectionFault.TLS,
    "http": ConnectionFault.NO_MODELS,
    None: ConnectionFault.BROKEN,
}


class ConnectionReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a test of a provider went.

    Attributes:
        provider: Its name.
        base_url: Where it is.
        dialect: The wire format that was spoken.
        model: The model that was asked, if it came to that.
        works: Whether a model answered.
        fault: What fails, when something does.
        message: One line for a person; says what to do.
        listed: How many models its list has at least, when it gave one.
        duration_ms: How long the test took.
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
    wish: Wish,
    model: str | None = None,
    seconds: float = TRIAL_SECONDS,
) -> ConnectionReport:
    """Asks a provider for its models and a model for a word, within a deadline.

    The model that is asked costs some tokens.

    Args:
        provider: It may be inactive.
        wish: Where its key is looked up.
        model: The model that is asked; its default, else the first that it lists.
        seconds: How long all of it may take.
    """
    trial = _Trial(provider, wish, model)
    began = trio.current_time()
    fault: _Fault | None = None
    try:
        with trio.fail_after(seconds):
            async with open_http_client(connect_seconds=seconds * CONNECT_SHARE) as http:
                await trial.run(http)
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
    """Ends a test; never leaves this module."""

    def __init__(self, kind: ConnectionFault, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class _Trial:
    """One test.

    Attributes:
        model: The model that is asked, once that is known.
        page: The first page of its list of models, once it came.
    """

    def __init__(self, provider: KnownProvider, wish: Wish, model: str | None) -> None:
        self.model = model or provider.model
        self.page: ModelPage | None = None
        self._provider = provider
        self._wish = wish
        self._refusal = ""

    async def run(self, http: HttpClient) -> None:
        """All steps in their order; raises `_Fault` at the first that fails."""
        try:
            endpoint = endpoint_of(self._provider, self._wish)
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
        """What it means that the time is up."""
        if self.page is None and not self._refusal:
            who = f"{self._provider.base_url} took the connection and said"
            advice = "Check that a model server listens there, and the URL."
        else:
            who = f"{self._provider.name} answers, but its model {self.model} said"
            advice = "It may be loading or overloaded: try again, or --model another one."
        return _Fault(ConnectionFault.SILENT, f"{who} nothing within {seconds:g} s. {advice}")

    def success(self, seconds: float) -> str:
        """What to say when all went well."""
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
        """The first page; many servers have none, which is no fault when a model answers."""
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
        """The model to ask."""
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
        """Asks for a word; its first sign is enough."""
        request = ModelRequest(
            model=model,
            provider=endpoint.name,
            rounds=(Round([Input(PROMPT)]),),
            max_output_tokens=MAX_OUTPUT_TOKENS,
        )
        target = ModelTarget(provider=endpoint.name, model=model, endpoint=endpoint)
        heard: list[AnyStreamEvent] = []

        def take(events: list[AnyStreamEvent]) -> bool:
            heard.extend(event for event in events if not isinstance(event, Usage))
            return bool(heard)

        await ask(http, target, request, take)
        first = heard[0] if heard else None
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
        # What it does not list may be an alias, but not when it is refused too.
        is_listed = any(listed.model == model for listed in self.page.models)
        return error.status == 404 or not (is_listed or self.page.next_page)

    def _key_fault(self, error: StreamError) -> _Fault:
        name, variable = self._provider.name, self._provider.variable(self._wish.environ)
        if has_environment_key(variable, self._wish.environ):
            source = f"It is the one in {variable}."
        else:
            source = f"`callboard keys set {name}` stores another one."
            if unused := self._provider.why_unused(self._wish.environ):
                source += f" {unused}"
        return _Fault(ConnectionFault.KEY, f"{error.text} {source}")
