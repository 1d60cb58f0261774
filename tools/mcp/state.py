"""What is known of a server while it is used, and the words between its actor and who calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs

import msgspec
import trio

from ...config.mcp.wire import McpOffer, ServerInfo, StateWord
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.http.client import HttpClient
from ...runtime.identity import TraceContext
from ...runtime.kernel.mailbox import Message, Request
from ...runtime.redaction import Secret, redact
from ...runtime.taint.tracked_network import Connect
from ..sandbox.sandbox import Sandbox
from .asking.questions import CallAsker


class ConnectionLost(Exception):
    """The server ended, or its connection broke; the text says why, if that is known.

    Attributes:
        may_have_run: Whether a call that was sent may have been done.
    """

    def __init__(self, text: str = "", *, may_have_run: bool = True) -> None:
        super().__init__(text)
        self.may_have_run = may_have_run


class AnsweredError(ToolFailure):
    """The server answered with an error of the protocol.

    Attributes:
        code: The protocol's code of it.
    """

    def __init__(self, code: int, error_type: ErrorType, message: str, /, **details: Any) -> None:
        super().__init__(error_type, message, **details)
        self.code = code


class CallFaults:
    """What failed under a call, below the protocol; it ends with its call.

    Attributes:
        failure: Why there is no answer.
        is_cut_off: Whether an answer ended before it was there.
        has_ended: Whether the call is over, so that nothing may be begun for it.
    """

    def __init__(self) -> None:
        self.failure: ToolFailure | ConnectionLost | None = None
        self.is_cut_off = False
        self.has_ended = False
        self._ends: list[Callable[[], None]] = []

    def at_end(self, end: Callable[[], None]) -> None:
        """Have this called when the call is over."""
        self._ends.append(end)

    def end(self) -> None:
        """End what still runs for the call."""
        self.has_ended = True
        for end in self._ends:
            end()


class LoginStore(Protocol):
    """Where logins are kept: the key store; both methods block."""

    def get(self, provider: str, origin: str, name: str, /, *, masks: bool) -> Secret | None:
        """See `KeyStore.get`."""
        ...

    def put(self, provider: str, origin: str, key: Secret, name: str, /, *, masks: bool) -> object:
        """See `KeyStore.put`."""
        ...


class LoginDesk(Protocol):
    """A person with a browser."""

    @property
    def redirect_uri(self) -> str:
        """Where the browser is sent to when they have decided."""
        ...

    async def authorize(self, url: str) -> dict[str, str]:
        """Have them look at an address; return what the browser came back with: `code`, `state`, `iss`.

        Raises `ToolFailure` when they refuse, or do nothing.
        """
        ...


LOGIN_SECONDS = 600.0
"""How long a person may take to log in."""
MAX_LOGIN_FIELDS = 20
"""Of what a browser comes back with; more are not read."""
MAX_LOGIN_CHARS = 300
"""Shown of why a login was refused."""


def login_fields(query: str) -> dict[str, str]:
    """Return what a browser comes back with; nothing of a query that is none."""
    try:
        fields = parse_qs(query, max_num_fields=MAX_LOGIN_FIELDS)
    except ValueError:
        return {}
    return {name: its[0] for name, its in fields.items()}


def login_answer(came: Mapping[str, str]) -> dict[str, str]:
    """Return what a `LoginDesk` does of what a browser came back with, if it did; raise `ToolFailure`."""
    if not came:
        raise ToolFailure(ErrorType.TIMEOUT, "nobody logged in within ten minutes")
    if "code" not in came:
        why = f"{came.get('error', '?')} {came.get('error_description', '')}".strip()
        said = redact(why.encode("unicode_escape").decode())[:MAX_LOGIN_CHARS]
        raise ToolFailure(ErrorType.PERMISSION_DENIED, f"the login was refused: {said}")
    return {name: came[name] for name in ("code", "state", "iss") if name in came}


def login_page(is_ours: bool) -> str:
    """Return what the person reads in the browser that came back."""
    if is_ours:
        return "callboard has heard. You can close this page."
    return "This is not a login that callboard waits for."


class McpPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """What servers are started with.

    Attributes:
        sandbox: Where programs run; `None` where none may.
        connect: Makes the connections of programs, to addresses that tools may reach.
        http: Makes the requests to servers over HTTP, to the same addresses.
        data: The data folder, or `None` in memory.
        environ: Where `${env:NAME}` is looked up.
        stored: Returns the key of a server by its name; blocks.
        logins: Where logins are kept; `None` keeps none.
        desk: A person who may log in now.
        client_document: The URL of a document that says who callboard is, for issuers that read one.
        is_of_session: Whether they are of one session, and so no command has them reviewed or started again.
    """

    sandbox: Sandbox | None
    connect: Connect | None = None
    http: HttpClient | None = None
    data: Path | None = None
    environ: Mapping[str, str] = {}
    stored: Callable[[str, str], Secret | None] = lambda server, name: None
    logins: LoginStore | None = None
    desk: LoginDesk | None = None
    client_document: str | None = None
    is_of_session: bool = False


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it is now.

    Attributes:
        state: `failed` is one that is not started again by itself.
        problem: Why it is not running, when it should.
        info: What it says of itself, once it was asked.
        listed: The digests of the definitions that it offers, by its own names; `None` before it was asked.
        refused: Why other tools of it can't be used.
        prompts: The same as `listed`, of its prompts; `None` as long as they were not asked for.
        errors: The end of what it wrote to stderr, when it ended.
    """

    state: StateWord = "not started"
    problem: str = ""
    info: ServerInfo = ServerInfo()
    listed: Mapping[str, str] | None = None
    refused: Mapping[str, str] = {}
    prompts: Mapping[str, str] | None = None
    errors: str = ""


class ShowProgress(Protocol):
    """Takes the progress of a call, as servers report it."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Show it."""
        ...


class TaskNote(Protocol):
    """Where a call writes down the task that it waits for; see `tasks.book`."""

    async def find(self) -> str | None:
        """Return the task that the same call left open before."""
        ...

    async def begun(self, task_id: str) -> None:
        """Note a task; it is on disk when this returns."""
        ...

    async def over(self) -> None:
        """Note that it is over."""
        ...


class Callee(Protocol):
    """A connection, for who calls tools over it; see `connection.Connection`."""

    lost: trio.Event
    info: ServerInfo

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: ShowProgress | None,
        ask: CallAsker | None = None,
        trace: TraceContext | None = None,
        note: TaskNote | None = None,
    ) -> dict[str, Any]:
        """See `connection.ServerConnection`."""
        ...

    async def list_resources(self) -> dict[str, Any]:
        """See `connection.ServerConnection`."""
        ...

    async def read(self, uri: str, ask: CallAsker | None = None) -> dict[str, Any]:
        """See `connection.ServerConnection`."""
        ...

    async def list_prompts(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """See `connection.ServerConnection`."""
        ...

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """See `connection.ServerConnection`."""
        ...

    async def complete(
        self, prompt: str, argument: str, value: str, arguments: dict[str, str]
    ) -> list[str]:
        """See `connection.ServerConnection`."""
        ...


class ServerLink(NamedTuple):
    """A running server, for who calls it.

    Attributes:
        connection: What is called.
        listed: The digests of the definitions that the server offered last, by its own names.
    """

    connection: Callee
    listed: Mapping[str, str]


class OpenServer(Request[ServerLink], frozen=True, kw_only=True):
    """Start the server if it does not run; the answer comes when it can be called, or can't be."""


class LookAtServer(Request[McpOffer], frozen=True, kw_only=True):
    """Start the server if it does not run, and list its tools now."""


class RestartServer(Request[None], frozen=True, kw_only=True):
    """End the server, forget its failures, and start it again when it is needed."""


class EndServer(Message, frozen=True):
    """End the server and its actor."""


ServerMessage = OpenServer | LookAtServer | RestartServer | EndServer
