"""Logins at servers of MCP that clients begin: a person's browser comes back to `/oauth/mcp` of the daemon.

Whoever has the state of a login, which its server was sent and nobody else, may end it, once and within ten minutes.
With a public https address the daemon also serves the document that says who callboard is, for issuers that take
new clients by it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
import trio

from ..config.mcp.settings import McpSettings
from ..config.mcp.wire import McpLogin
from ..config.sections import ServerSettings
from ..embedding.runtime import Runtime, host_of
from ..runtime.errors import (
    CallboardError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    ToolError,
)
from ..tools.mcp.state import LOGIN_SECONDS, login_answer, login_fields, login_page
from .door.exchange import Exchange, Route
from .door.http import JSON, HttpAnswer
from .door.rules import LOCAL_NAMES

REDIRECT_PATH = "/oauth/mcp"
DOCUMENT_PATH = "/.well-known/oauth-client.json"
MAX_LOGINS = 8
"""At once: people log in one after the other."""

_PAGE_HEADERS = (("cache-control", "no-store"), ("referrer-policy", "no-referrer"))
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}


class McpLogins:
    """The logins of a daemon, and their routes; `run` must run for them to be begun.

    Args:
        runtime: Has the servers.
        settings: Returns those of the door, as they hold now.
        port: Where it listens.
    """

    def __init__(self, runtime: Runtime, settings: Callable[[], ServerSettings], port: int) -> None:
        self._port = port
        self._runtime = runtime
        self._settings = settings
        self._logins: dict[str, _Login] = {}
        self._nursery: trio.Nursery | None = None

    @property
    def routes(self) -> dict[str, Route]:
        """The routes by path."""
        came = Route(answer=self._came, methods=("GET",), token="none", is_linked=True)
        return {REDIRECT_PATH: came, DOCUMENT_PATH: Route(answer=self._document, token="none")}

    async def run(self) -> None:
        """Serve until cancelled; no login outlives this."""
        try:
            async with trio.open_nursery() as self._nursery:
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self._logins.clear()

    async def begin(self, server: McpSettings) -> McpLogin:
        """Reach a server; return where a person logs in, or nothing if that is not wanted.

        Raises:
            ConflictError: No browser could come back to this daemon.
            OverloadedError: Too many people log in.
            ToolError: The server can't be used, or not logged in at.
        """
        if self._nursery is None:
            raise OverloadedError("logins begin again in a moment")
        login = _Login(f"{self._origin()}{REDIRECT_PATH}", self._document_url())
        for other in [name for name, each in self._logins.items() if each.server == server.name]:
            self._logins.pop(other).scope.cancel(reason="another login was begun")
        self._logins = {name: each for name, each in self._logins.items() if each.is_alive}
        if len(self._logins) >= MAX_LOGINS:
            raise OverloadedError(f"{MAX_LOGINS} people log in at servers already; try again soon")
        login.server, ident = server.name, secrets.token_hex(8)
        self._logins[ident] = login
        self._nursery.start_soon(self._log_in, login, server, name=f"login at {server.name}")
        try:
            await login.is_known.wait()
        except trio.Cancelled:
            login.scope.cancel(reason="who began it has left")
            raise
        if login.url:
            return McpLogin(url=login.url, login=ident)
        self._logins.pop(ident, None)  # a login that was begun meanwhile has taken it out
        login.check()
        return McpLogin()

    async def finish(self, ident: str) -> None:
        """Wait until a login is over; raise `ToolError` if it failed, `NotFoundError` if there is none."""
        login = self._logins.get(ident)
        if login is None:
            raise NotFoundError("There is no such login: it has ended, or another one was begun.")
        await login.is_over.wait()
        self._logins.pop(ident, None)
        login.check()

    async def _log_in(self, login: _Login, server: McpSettings) -> None:
        try:
            with login.scope:
                await host_of(self._runtime).servers().log_in(server, login, login.document)
                login.problem = ""
        except CallboardError as error:
            login.problem = str(error)
        finally:
            login.is_known.set()
            login.is_over.set()
            login.ended_at = trio.current_time()

    def _origin(self) -> str:
        settings = self._settings()
        if settings.public_url is not None:
            return settings.public_url
        host = _EVERY_ADDRESS.get(settings.host, settings.host)
        if host not in LOCAL_NAMES:
            raise ConflictError(
                "no browser can come back to this daemon: set public_url in [server] to the https address "
                "under which browsers reach it"
            )
        return f"http://{host}:{self._port}"

    def _document_url(self) -> str | None:
        public = self._settings().public_url
        is_https = public is not None and public.startswith("https://")
        return f"{public}{DOCUMENT_PATH}" if is_https else None

    def _document(self, _: Exchange) -> HttpAnswer:
        url = self._document_url()
        if url is None:
            return HttpAnswer(404, "there is nothing here")
        said = {
            "client_id": url,
            "client_name": "callboard",
            "redirect_uris": [f"{self._origin()}{REDIRECT_PATH}"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        return HttpAnswer(200, msgspec.json.encode(said), JSON)

    def _came(self, exchange: Exchange) -> HttpAnswer:
        """Take what a browser brings; any page can send one here, so that only a state that waits counts."""
        fields = login_fields(exchange.query)
        is_ours = any(each.take(fields) for each in self._logins.values())
        return HttpAnswer(200 if is_ours else 400, login_page(is_ours), headers=_PAGE_HEADERS)


class _Login:
    """A `LoginDesk` whose person is at a browser somewhere.

    Attributes:
        server: Where the login is.
        document: The URL of the document that says who callboard is.
        url: Where the person is sent to; empty until it is known, or if no login is wanted.
        is_known: Set when that is known.
        is_over: Set when it is over.
        problem: Why it failed; empty if it did not.
    """

    def __init__(self, redirect_uri: str, document: str | None) -> None:
        self.server = ""
        self.document = document
        self.url = ""
        self.problem = "it was ended before it was done"
        self.is_known, self.is_over = trio.Event(), trio.Event()
        self.ended_at = 0.0
        self.scope = trio.CancelScope()
        self._redirect_uri = redirect_uri
        self._state = b""
        self._fields: dict[str, str] = {}
        self._has_come = trio.Event()

    @property
    def redirect_uri(self) -> str:
        """See `LoginDesk`."""
        return self._redirect_uri

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or ended so lately that its end may still be asked for."""
        return not self.is_over.is_set() or trio.current_time() - self.ended_at < LOGIN_SECONDS

    async def authorize(self, url: str) -> dict[str, str]:
        """See `LoginDesk`."""
        self._state = login_fields(urlsplit(url).query).get("state", "").encode()
        self.url = url
        self.is_known.set()
        with trio.move_on_after(LOGIN_SECONDS):
            await self._has_come.wait()
        self._state = b""
        return login_answer(self._fields)

    def take(self, fields: dict[str, str]) -> bool:
        """Take what a browser came with, if it is what is waited for; it is taken once."""
        given = fields.get("state", "").encode()
        if not self._state or not hmac.compare_digest(given, self._state):
            return False
        self._state, self._fields = b"", fields
        self._has_come.set()
        return True

    def check(self) -> None:
        """Raise `ToolError` if it failed."""
        if self.problem:
            raise ToolError(self.problem)
