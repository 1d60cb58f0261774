"""Log browsers in and out: tickets and tokens become the two halves of a login, and both halves a credential."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import trio

from ...config.keys.console_logins import (
    REMEMBERED_MS,
    ConsoleLogin,
    ConsoleLogins,
    console_link,
    digest_of,
)
from ...config.keys.tokens import Credential
from ...embedding.runtime import host_of
from ...runtime.errors import CallboardError, ConflictError, PermissionRefused
from ...runtime.kernel.live_lists import ListName
from ...runtime.redaction import redacting_logger
from ...runtime.wire.daemon import ConsoleTicket
from ...runtime.wire.fields import Role
from ..door.exchange import Exchange, Route
from ..door.http import JSON, BadHead, HttpAnswer
from ..shared.state import DaemonState, OpenConnection
from .pages import ConsolePages

logger = redacting_logger(__name__)

SESSION_PATH = "/console/session"
LOGOUT_PATH = "/console/logout"
COOKIE_PATH = "/ws"
MAX_BODY_BYTES = 4096
"""A token or a ticket, and two words beside it."""
TICKET_SECONDS = 60
"""From the command that prints a link to the browser that follows it."""
TICKET_BYTES = 16
MAX_TICKETS = 64
"""That wait for their browser; then the oldest is dropped: people log in one after the other."""
USE_SECONDS = 600.0
"""Between two notes that a login with an open page is in use."""
RULES_BROKEN = 1008

_now = trio.current_time


class SessionWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page logs in with: a ticket or a token; whether the browser is its person's own; a lower role."""

    ticket: str = ""
    token: str = ""
    remember: bool = False
    role: Role | None = None


class SessionEnded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The page's half of the login that ends."""

    key: str


class SessionMade(msgspec.Struct, frozen=True):
    """The page's half of a login, and as whom it acts."""

    key: str
    name: str
    role: Role


class _Ticket(msgspec.Struct, frozen=True):
    made_at: float
    credential: Credential
    role: Role


class ConsoleAccess:
    """Who may use the console of a daemon.

    Args:
        daemon: What it acts on.
        data: The folder with the file of logins.
        port: Where the daemon listens; the cookie's name has it, as cookies know no ports.
        pages: What is served.
    """

    def __init__(self, daemon: DaemonState, data: Path, port: int, pages: ConsolePages) -> None:
        self._daemon = daemon
        self._logins = ConsoleLogins(data)
        self._cookie = f"callboard_{port}"
        self._pages = pages
        self._tickets: dict[str, _Ticket] = {}

    @property
    def routes(self) -> dict[str, Route]:
        """The routes by path: those that log in and out, and the files."""
        routes = {
            SESSION_PATH: Route(answer=self._log_in, methods=("POST",), token="none"),
            LOGOUT_PATH: Route(answer=self._log_out, methods=("POST",), token="none"),
        }
        return routes | self._pages.routes

    # ── tickets ──────────────────────────────────────────────────────────────────────────────────

    def ticket(self, credential: Credential, role: Role | None) -> ConsoleTicket:
        """Return a ticket with which a browser logs in once, as this credential or in a lower role.

        Raises:
            ConflictError: There is no console to log in at.
            PermissionRefused: The role is a higher one.
        """
        if not self._pages.are_served:
            raise ConflictError(
                "this daemon serves no console: it was turned off ([server] console, --no-console), or "
                "this build has none"
            )
        its = _checked_role(credential, role)
        if len(self._tickets) >= MAX_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(TICKET_BYTES)
        self._tickets[digest_of(ticket)] = _Ticket(_now(), credential, its)
        return ConsoleTicket(ticket=ticket, seconds=TICKET_SECONDS)

    def link(self, url: str) -> str:
        """Return an address at which this user's browser logs in; empty where there is no console.

        Args:
            url: The websocket's.
        """
        local = self._daemon.local
        if local is None or not self._pages.are_served:
            return ""
        return console_link(url, self.ticket(local, None).ticket)

    def _redeemed(self, ticket: str) -> _Ticket | None:
        """Take a ticket out, so that it opens once; `None` if there is none, or it is too old."""
        found = self._tickets.pop(digest_of(ticket), None)
        if found is None or _now() - found.made_at > TICKET_SECONDS:
            return None
        return found

    # ── routes ───────────────────────────────────────────────────────────────────────────────────

    async def _log_in(self, exchange: Exchange) -> HttpAnswer:
        origin = self._checked_origin(exchange)
        wanted = await _body(exchange, SessionWanted)
        if bool(wanted.ticket) == bool(wanted.token):
            raise BadHead(400, "log in with a ticket or a token, one of the two")
        if wanted.ticket:
            found = self._redeemed(wanted.ticket)
            # A token may have been revoked since it made the ticket.
            if found is None or not await self._holds(found.credential):
                raise BadHead(
                    401,
                    "this link was used already, or is older than a minute: `callboard console` opens another",
                )
            credential, role = found.credential, found.role
            if wanted.role is not None:
                role = _checked_role(msgspec.structs.replace(credential, role=role), wanted.role)
        else:
            by_token = await self._daemon.credential_of(wanted.token)
            if by_token is None:
                raise BadHead(
                    401, "this is no token: `callboard token create` makes one on the server"
                )
            credential, role = by_token, _checked_role(by_token, wanted.role)
        create = partial(self._logins.create, credential, role, is_remembered=wanted.remember)
        login, cookie, key = await trio.to_thread.run_sync(create)
        logger.info("a browser is logged in as %s (%s)", login.name, login.role)
        self._changed()
        made = SessionMade(key.reveal(), login.name, login.role)
        age = f"; Max-Age={REMEMBERED_MS // 1000}" if wanted.remember else ""
        header = self._cookie_header(origin, cookie.reveal(), age)
        return HttpAnswer(200, msgspec.json.encode(made), JSON, (header,))

    async def _log_out(self, exchange: Exchange) -> HttpAnswer:
        """End the login of a key. The cookie is not needed: who has a key alone can do no more than this."""
        origin = self._checked_origin(exchange)
        digest = digest_of((await _body(exchange, SessionEnded)).key)
        await self.end(lambda login: hmac.compare_digest(login.key, digest))
        header = self._cookie_header(origin, "", "; Max-Age=0")
        return HttpAnswer(200, b"{}", JSON, (header,))

    def _cookie_header(self, origin: str, value: str, age: str) -> tuple[str, str]:
        name, secure = self._cookie_name(origin)
        text = f"{name}={value}; HttpOnly; SameSite=Strict; Path={COOKIE_PATH}{secure}{age}"
        return "set-cookie", text

    def _cookie_name(self, origin: str) -> tuple[str, str]:
        if origin.startswith("https://"):
            return f"__Secure-{self._cookie}", "; Secure"
        return self._cookie, ""

    def _checked_origin(self, exchange: Exchange) -> str:
        """Return the origin of a page of this very port; raise `BadHead` for every other, and for none."""
        if not self._daemon.settings.console:
            raise BadHead(404, "this daemon serves no console ([server] console, --no-console)")
        origin = exchange.head.one("origin")
        if origin is None or not self._is_own(origin, exchange.head.one("host")):
            raise BadHead(403, "only the console's own page logs in and out")
        return origin

    def _is_own(self, origin: str, host: str | None) -> bool:
        """Whether a page comes from where it asks. The door has checked both, but lets other pages connect too."""
        if origin == self._daemon.settings.public_url:
            return True
        return host is not None and urlsplit(origin).netloc == host.lower()

    # ── both halves ──────────────────────────────────────────────────────────────────────────────

    async def admitted(
        self, key: str, cookies: tuple[str, ...], origin: str | None, host: str | None
    ) -> tuple[Credential, ConsoleLogin] | None:
        """Return as whom a page acts that shows its key and its browser's cookie; `None` without both.

        Raises:
            StorageError: The logins, or the tokens, can't be read.
        """
        if origin is None or not self._is_own(origin, host) or not self._daemon.settings.console:
            return None
        name, _ = self._cookie_name(origin)
        found = [
            value.strip()
            for header in cookies
            for each in header.split(";")
            for its_name, _, value in [each.partition("=")]
            if its_name.strip() == name
        ]
        if len(found) != 1:
            return None
        login = await trio.to_thread.run_sync(self._logins.find, found[0], key)
        credential = None if login is None else await self._daemon.credential_behind(login)
        return None if login is None or credential is None else (credential, login)

    async def keep(self, login: ConsoleLogin, connection: OpenConnection) -> None:
        """Note that a login is used, as long as its page is open; end the page if it was logged out meanwhile."""
        while True:
            try:
                if not await trio.to_thread.run_sync(self._logins.use, login):
                    connection.close(RULES_BROKEN, "it is logged out", at_once=True)
                    return
            except CallboardError as error:
                logger.error("a login of the console can't be noted as used: %s", error)
            await trio.sleep(USE_SECONDS)

    async def list(self) -> tuple[ConsoleLogin, ...]:
        """Return the logins that hold, the oldest first."""
        listed = await trio.to_thread.run_sync(self._logins.list)
        return tuple([each for each in listed if await self._daemon.credential_behind(each)])

    async def end(self, is_meant: Callable[[ConsoleLogin], bool]) -> int:
        """Log out all that are meant, and end their pages; return how many."""
        ended = await trio.to_thread.run_sync(self._logins.end, is_meant)
        keys = {each.key for each in ended}
        for connection in list(self._daemon.connections):
            if connection.login is not None and connection.login.key in keys:
                connection.close(RULES_BROKEN, "it is logged out", at_once=True)
        if ended:
            self._changed()
        return len(ended)

    def _changed(self) -> None:
        host_of(self._daemon.runtime).lists.changed(ListName.TOKENS)

    async def _holds(self, credential: Credential) -> bool:
        if self._daemon.is_local(credential):
            await trio.lowlevel.checkpoint()
            return True
        listed: tuple[Credential, ...] = await trio.to_thread.run_sync(
            self._daemon.credentials.list
        )
        return credential in listed


def _checked_role(credential: Credential, role: Role | None) -> Role:
    if role is None:
        return credential.role
    if not credential.role.includes(role):
        raise PermissionRefused(f"this is for {credential.role}, and no {role}")
    return role


Wanted = TypeVar("Wanted", SessionWanted, SessionEnded)


async def _body(exchange: Exchange, kind: type[Wanted]) -> Wanted:
    data = await exchange.body(MAX_BODY_BYTES)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadHead(400, "this is nothing that a page of the console sends") from None
