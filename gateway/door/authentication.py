"""Authentication: the token of a request, wrong tokens, and tokens that are revoked while in use.

A valid token is accepted whatever else came from its address: otherwise anybody who shares the address,
as all programs of one machine do, could keep its owner out. The limit on wrong tokens makes one line in
the log and slows down a program that retries. It does not protect the tokens: nobody guesses 256 random
bits through a port.
"""

from __future__ import annotations

import os
from pathlib import Path

import trio

from ...config.keys.console_logins import ConsoleLogin
from ...config.keys.tokens import LOCAL_NAME, Credential
from ...embedding.runtime import host_of
from ...runtime.errors import AuthError, CallboardError
from ...runtime.kernel.live_lists import ListName
from ...runtime.redaction import redacting_logger
from ..shared.state import DaemonState, OpenConnection, OtherNodes
from .http import BadHead, RequestHead
from .rate_limits import MAX_BAD_TOKENS, RateLimits, Visitor

logger = redacting_logger(__name__)

TOKEN_PROTOCOL = "callboard.token."
"""Browsers cannot set Authorization for a websocket: they send the token as a subprotocol with this
prefix."""
PAGE_PROTOCOL = "callboard.page."
"""The console's page offers its half of a login with this prefix; the browser shows the other half as a cookie."""
MAX_TOKEN_LENGTH = 256
"""Tokens have 46 characters; longer ones are not looked up."""


class Authenticator:
    """Finds the credential of a request."""

    def __init__(self, daemon: DaemonState, rate_limits: RateLimits) -> None:
        self._daemon = daemon
        self._rate_limits = rate_limits
        self._is_blind = False

    async def authenticate(self, head: RequestHead, visitor: Visitor) -> Credential:
        """Return the credential of a request's token; raise `BadHead` without a valid one."""
        credential = await self._credential(token_of(head))
        if credential is not None:
            self._rate_limits.admitted(visitor)
            return credential
        raise self.refused(
            visitor, "no token, or a wrong one: `callboard token create` makes one on the server"
        )

    async def authenticate_page(
        self, head: RequestHead, visitor: Visitor
    ) -> tuple[Credential, ConsoleLogin | None]:
        """Return who opens a websocket: a token's owner, or a page of the console with its login.

        Raises:
            BadHead: Without a valid token, or one half of a login alone, or a token beside it.
        """
        keys = _offered(head, PAGE_PROTOCOL)
        if not keys:
            return await self.authenticate(head, visitor), None
        found = None
        if len(keys) == 1 and len(keys[0]) <= MAX_TOKEN_LENGTH and not _tokens(head):
            try:
                found = await self._daemon.console.admitted(
                    keys[0], head.all("cookie"), head.one("origin"), head.one("host")
                )
            except CallboardError as error:
                raise self._blind(error) from error
        if found is None:
            raise self.refused(visitor, "the console is not logged in here: log in again")
        self._rate_limits.admitted(visitor)
        return found

    async def authenticate_node(
        self, head: RequestHead, visitor: Visitor, relays: OtherNodes
    ) -> tuple[object, str]:
        """Return which node of the cluster shows its ticket, and the proof for it; raise `BadHead`."""
        found = _tokens(head)
        try:
            admitted = await relays.admit(found[0] if len(found) == 1 else "")
        except AuthError as error:
            raise self.refused(visitor, str(error)) from error
        except CallboardError as error:
            raise BadHead(503, "the nodes can't be read; the server's log says why") from error
        self._rate_limits.admitted(visitor)
        return admitted

    def refused(self, visitor: Visitor, why: str) -> BadHead:
        """Count a wrong token, or signature; return the refusal."""
        if self._rate_limits.is_locked_out(visitor.peer):
            return BadHead(429, "too many wrong tokens from this address; wait a minute")
        self._rate_limits.sent_bad_token(visitor.peer)
        if self._rate_limits.is_locked_out(visitor.peer):
            logger.warning(
                "%d wrong tokens came from %s within a minute", MAX_BAD_TOKENS, visitor.peer
            )
        return BadHead(401, why, (("www-authenticate", "Bearer"),))

    async def _credential(self, token: str) -> Credential | None:
        try:
            credential = await self._daemon.credential_of(token) if token else None
        except CallboardError as error:
            raise self._blind(error) from error
        self._is_blind = False
        return credential

    def _blind(self, error: CallboardError) -> BadHead:
        if not self._is_blind:
            logger.error("nobody can connect: %s", error)
        self._is_blind = True
        return BadHead(503, "the tokens can't be read; the server's log says why")


def token_of(head: RequestHead) -> str:
    """Return the token of a request; empty without one, or with two."""
    found = _tokens(head)
    return found[0] if len(found) == 1 and len(found[0]) <= MAX_TOKEN_LENGTH else ""


def _tokens(head: RequestHead) -> list[str]:
    bearer = [
        value.partition(" ")[2].strip()
        for value in head.all("authorization")
        if value.lower().startswith("bearer ")
    ]
    return [*bearer, *_offered(head, TOKEN_PROTOCOL), *head.all("x-api-key")]


def _offered(head: RequestHead, prefix: str) -> list[str]:
    names = head.subprotocols
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


logger = redacting_logger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks at the file: a revoked token is useless within a second."""
RULES_BROKEN = 1008


async def watch_credentials(daemon: DaemonState) -> None:
    """End connections of tokens that were revoked or changed, whoever changed the file.

    While the file cannot be read, existing connections stay. Runs until cancelled.
    """
    path = daemon.credentials.path
    seen: object = None
    known: dict[str, Credential] | None = None
    while True:
        changed = daemon.tokens_changed = trio.Event()
        # Taken before the file is read: a connection may come in by a later version of the file.
        connections = [each for each in daemon.connections if each.credential.name != LOCAL_NAME]
        state = state_of(path)
        if state != seen:
            try:
                listed = await trio.to_thread.run_sync(daemon.credentials.list)
            except CallboardError as error:
                logger.error("connections stay, but no new ones are accepted: %s", error)
            else:
                known = {each.digest: each for each in listed}
                if seen is not None:  # a command may have changed it
                    host_of(daemon.runtime).lists.changed(ListName.TOKENS)
            seen = state
        if known is not None:
            _end_stale(connections, known)
            for scope, credential in list(daemon.exchanges.items()):
                if known.get(credential.digest) != credential and credential.name != LOCAL_NAME:
                    scope.cancel(reason="its token is gone, or has other rights now")
        with trio.move_on_after(LOOK_SECONDS):
            await changed.wait()


def _end_stale(connections: list[OpenConnection], known: dict[str, Credential]) -> None:
    for connection in connections:
        current = known.get(connection.credential.digest)
        login = connection.login
        if current is None:
            connection.close(RULES_BROKEN, "its token is gone", at_once=True)
        elif (current if login is None else login.acts_as(current)) != connection.credential:
            connection.close(RULES_BROKEN, "its token has other rights now", at_once=True)


def state_of(path: Path) -> object:
    """Return a value that changes when the file does."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
