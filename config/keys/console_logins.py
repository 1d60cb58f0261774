"""Logins of the web console: which browser may act as which token, kept as the SHA-256 of both halves.

A login has two halves. The browser holds one in a cookie that no script can read, and the page holds the other in
storage that belongs to its port. Neither opens anything alone: a cookie goes to every port of its host, and a
script in the page can't take the cookie along.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from ...runtime.errors import StorageError
from ...runtime.identity import now_ms as now_ms
from ...runtime.redaction import Secret
from ...runtime.wire.daemon import TokenRow
from ...runtime.wire.fields import Role
from ..private_file import locked, make_private_folder, read_private, write_private
from .tokens import LOCAL_NAME, Credential

FILE_NAME = "console.json"
LOCK_NAME = "console.lock"
MAX_LOGINS = 100
"""Browsers of one owner; the one that was used longest ago is logged out for a further one."""
MAX_FILE_BYTES = 64 * 1024
"""`MAX_LOGINS` take half of it."""
REST_MS = 12 * 3600 * 1000
"""An unused login ends after a night."""
REMEMBERED_MS = 30 * 24 * 3600 * 1000
"""An unused login of a browser that is its person's own ends after a month."""
HALF_BYTES = 32
"""As many random bits as a token has."""

LISTED_AS = "console of {}"
"""The name of a login in a list of tokens; no token has spaces in its name."""


class ConsoleLogin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A browser that is logged in.

    Attributes:
        name: Of the token that it acts as; `local` is whoever owns the data folder.
        credential: The digest of that token; empty for `local`, whose token is another one each time.
        role: What it may do, which is never more than the token may.
        cookie, key: The digests of its halves.
        used_at_ms: When it was last seen.
        is_remembered: Whether it ends after a month of rest, and not after a night.
    """

    name: str
    credential: str
    role: Role
    cookie: str
    key: str
    created_at_ms: int
    used_at_ms: int
    is_remembered: bool = False

    @property
    def listed_as(self) -> str:
        """Its name in a list of tokens."""
        return LISTED_AS.format(self.name)

    def has_ended(self, at_ms: int) -> bool:
        """Whether it was not used for too long."""
        rest = REMEMBERED_MS if self.is_remembered else REST_MS
        return at_ms - self.used_at_ms > rest

    def acts_as(self, credential: Credential) -> Credential | None:
        """Return what it may do by a credential; `None` if that is not its own, or has a lower role now."""
        own = "" if credential.name == LOCAL_NAME else credential.digest
        if self.name != credential.name or self.credential != own:
            return None
        if not credential.role.includes(self.role):
            return None
        if self.role is credential.role:
            return credential
        return msgspec.structs.replace(credential, role=self.role)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    logins: tuple[ConsoleLogin, ...]


_DECODER = msgspec.json.Decoder(_File)


class ConsoleLogins:
    """The logins of a data folder; every method reads the file again, and blocks.

    Raises `StorageError` when the file can't be read or is not safe.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._folder = folder

    def list(self) -> tuple[ConsoleLogin, ...]:
        """Return the logins that have not ended, the oldest first."""
        now = now_ms()
        return tuple(each for each in self._read() if not each.has_ended(now))

    def create(
        self, credential: Credential, role: Role, *, is_remembered: bool
    ) -> tuple[ConsoleLogin, Secret, Secret]:
        """Log a browser in; return the login, its cookie and its key, which can't be read again."""
        cookie, key = (secrets.token_urlsafe(HALF_BYTES) for _ in range(2))
        now = now_ms()
        login = ConsoleLogin(
            name=credential.name,
            credential="" if credential.name == LOCAL_NAME else credential.digest,
            role=role,
            cookie=digest_of(cookie),
            key=digest_of(key),
            created_at_ms=now,
            used_at_ms=now,
            is_remembered=is_remembered,
        )

        def add(present: tuple[ConsoleLogin, ...]) -> tuple[ConsoleLogin, ...]:
            kept = sorted(present, key=lambda each: each.used_at_ms)[-(MAX_LOGINS - 1) :]
            return (*(each for each in present if each in kept), login)

        self._change(add)
        return login, Secret(cookie), Secret(key)

    def find(self, cookie: str, key: str) -> ConsoleLogin | None:
        """Return the login of which these are the two halves."""
        wanted_cookie, wanted_key = digest_of(cookie), digest_of(key)
        found = None
        for each in self.list():
            # Both are compared whatever the first one says: how long it takes tells of no half.
            is_cookie = hmac.compare_digest(each.cookie, wanted_cookie)
            if hmac.compare_digest(each.key, wanted_key) and is_cookie:
                found = each
        return found

    def use(self, login: ConsoleLogin) -> bool:
        """Note that a login is used now; return whether it still holds: one that has ended stays ended."""
        is_there = False

        def note(present: tuple[ConsoleLogin, ...]) -> tuple[ConsoleLogin, ...]:
            nonlocal is_there
            is_there = any(each.key == login.key for each in present)
            used = now_ms()
            return tuple(
                msgspec.structs.replace(each, used_at_ms=used) if each.key == login.key else each
                for each in present
            )

        self._change(note)
        return is_there

    def end(self, is_meant: Callable[[ConsoleLogin], bool]) -> tuple[ConsoleLogin, ...]:
        """Log out all that are meant; return them."""
        ended: list[ConsoleLogin] = []

        def leave(present: tuple[ConsoleLogin, ...]) -> tuple[ConsoleLogin, ...]:
            ended.extend(each for each in present if is_meant(each))
            return tuple(each for each in present if not is_meant(each))

        if any(is_meant(each) for each in self._read()):
            self._change(leave)
        return tuple(ended)

    def _read(self) -> tuple[ConsoleLogin, ...]:
        data = read_private(self.path, MAX_FILE_BYTES)
        if data is None:
            return ()
        try:
            return _DECODER.decode(data).logins
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StorageError(
                f"{self.path} is damaged ({error}). Remove it: browsers log in again."
            ) from error

    def _change(
        self, change: Callable[[tuple[ConsoleLogin, ...]], tuple[ConsoleLogin, ...]]
    ) -> None:
        make_private_folder(self._folder)
        with locked(self._folder / LOCK_NAME):
            data = msgspec.json.encode(_File(change(self.list())))
            write_private(self.path, data, replace=True)


def is_login_name(name: str) -> bool:
    """Return whether it names logins in a list of tokens, and no token."""
    return name.startswith(LISTED_AS.format(""))


def token_rows(credentials: Iterable[Credential], logins: Iterable[ConsoleLogin]) -> list[TokenRow]:
    """Return tokens, and the logins of the console that hold by one of them, as a list shows them."""
    known = tuple(credentials)
    rows = [_row(each.name, each.role, each.created_at_ms, each) for each in known]
    for login in logins:
        behind = next((each for each in known if login.acts_as(each)), None)
        if behind is not None or login.name == LOCAL_NAME:
            rows.append(_row(login.listed_as, login.role, login.created_at_ms, behind))
    return rows


def _row(name: str, role: Role, created_at_ms: int, behind: Credential | None) -> TokenRow:
    return TokenRow(
        name=name,
        role=role,
        created_at_ms=created_at_ms,
        agents=None if behind is None else behind.agents,
        sessions=None if behind is None else behind.sessions,
    )


def console_link(websocket: str, ticket: str) -> str:
    """Return the address at which a browser logs in: the ticket is in no request, log or Referer.

    Args:
        websocket: The URL of the daemon's websocket.
    """
    origin = websocket.replace("ws", "http", 1).removesuffix("/ws")
    return f"{origin}/#ticket={ticket}"


def digest_of(half: str) -> str:
    """Return what is kept of a half of a login, or of a ticket."""
    return hashlib.sha256(half.encode(errors="replace")).hexdigest()
