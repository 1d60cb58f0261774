"""The daemon's tokens: who may control a runtime over its socket, in which role, and what each sees.

A token is 256 random bits. The file keeps only its SHA-256, so that nobody who reads the file, or a backup
of it, can use it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import msgspec

from ...runtime.errors import (
    ConflictError,
    NotFoundError,
    PermissionRefused,
    StorageError,
    ValidationError,
)
from ...runtime.identity import now_ms
from ...runtime.redaction import Secret
from ...runtime.wire.fields import Role as Role
from ..private_file import locked, make_private_folder, read_private, write_private
from ..toml_reader import NAME

FILE_NAME = "tokens.json"
LOCK_NAME = "tokens.lock"
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Room for ten thousand credentials, some with long lists; one beyond it is not made."""
MAX_CREDENTIALS = 10_000
"""More than one owner hands out; each connection is compared with all of them."""

PREFIX = "cb_"
"""Tells whoever finds a token, and scanners for lost secrets, what it is."""

LOCAL_NAME = "local"
"""Name of the token that a daemon makes for its own user's commands; see `daemon_file`."""


class Credential(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token as it is kept.

    Attributes:
        digest: The SHA-256 of the token, in hex.
        created_at_ms: When this token was made, in Unix milliseconds.
        agents: Agents whose sessions it sees; `None` is all.
        sessions: Sessions that it sees; `None` is all.
        made_as: What it is called at the node of a cluster that made it, where another token has that name here.
    """

    name: str
    role: Role
    digest: str
    created_at_ms: int
    agents: tuple[str, ...] | None = None
    sessions: tuple[str, ...] | None = None
    made_as: str = ""

    @property
    def sender(self) -> str:
        """The name by which its requests are known as sent before, at each node of a cluster."""
        return self.made_as or self.name

    @property
    def is_limited(self) -> bool:
        """Whether there are sessions that it does not see."""
        return self.agents is not None or self.sessions is not None

    def sees(self, session_id: str, agent: str) -> bool:
        """Whether it may know of a session."""
        return (self.agents is None or agent in self.agents) and (
            self.sessions is None or session_id in self.sessions
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    credentials: tuple[Credential, ...]


# Made before threads use it: msgspec looks at a type when it is first decoded, and two threads that do so at
# once crash the interpreter.
_DECODER = msgspec.json.Decoder(_File)


class Credentials:
    """The credentials of a data folder; every method reads the file again, and blocks.

    Raises `StorageError` when the file can't be read or is not safe.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._folder = folder

    def list(self) -> tuple[Credential, ...]:
        """Return all credentials, the oldest first."""
        data = read_private(self.path, MAX_FILE_BYTES)
        if data is None:
            return ()
        try:
            return _DECODER.decode(data).credentials
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StorageError(
                f"{self.path} is damaged ({error}). Nobody can connect until it is repaired, or "
                "removed: `callboard serve` then makes a new token."
            ) from error

    def find(self, token: str) -> Credential | None:
        """Return the credential of a token; takes as long for a wrong one as for a right one."""
        digest = _digest(token)
        found = None
        for credential in self.list():
            if hmac.compare_digest(credential.digest, digest):
                found = credential
        return found

    def create(
        self,
        name: str,
        role: Role,
        *,
        agents: tuple[str, ...] | None = None,
        sessions: tuple[str, ...] | None = None,
        by: Credential | None = None,
    ) -> Secret:
        """Make a token and return it; it can't be read again later.

        Args:
            by: Who requests it, if not the owner; must still be in the file.

        Raises:
            PermissionRefused: `by` is gone.
            ValidationError: The name is not allowed.
            ConflictError: A token of that name exists, or the file would be too large to be read again.
        """
        _check_name(name)
        token = _new_token()
        credential = Credential(
            name=name,
            role=role,
            digest=_digest(token),
            created_at_ms=now_ms(),
            agents=agents,
            sessions=sessions,
        )

        def add(present: tuple[Credential, ...]) -> tuple[Credential, ...]:
            if any(each.name == name for each in present):
                raise ConflictError(
                    f"there is a token {name!r} already: rotate it, or choose another name"
                )
            if len(present) >= MAX_CREDENTIALS:
                raise ConflictError(f"there are {MAX_CREDENTIALS} tokens already: revoke some")
            return (*present, credential)

        self._change(add, by)
        return Secret(token)

    def rotate(self, name: str, *, by: Credential | None = None) -> Secret:
        """Replace a token by a new one; raise `NotFoundError`; `by` as for `create`."""
        token = _new_token()

        def renew(present: tuple[Credential, ...]) -> tuple[Credential, ...]:
            old = _named(name, present)
            new = msgspec.structs.replace(old, digest=_digest(token), created_at_ms=now_ms())
            return tuple(new if each is old else each for each in present)

        self._change(renew, by)
        return Secret(token)

    def revoke(self, name: str, *, by: Credential | None = None) -> None:
        """End a token; raise `NotFoundError`; `by` as for `create`."""

        def leave(present: tuple[Credential, ...]) -> tuple[Credential, ...]:
            gone = _named(name, present)
            return tuple(each for each in present if each is not gone)

        self._change(leave, by)

    def merge(self, new: Iterable[Credential], revoked: Collection[str]) -> None:
        """Take over what other nodes of a cluster did: add credentials, and end those of some digests.

        A name that another token has here gets a part of the digest behind it.
        """

        def change(present: tuple[Credential, ...]) -> tuple[Credential, ...]:
            kept = [each for each in present if each.digest not in revoked]
            for each in new:
                if all(other.digest != each.digest for other in kept):
                    is_taken = any(other.name == each.name for other in kept)
                    if is_taken:
                        name = f"{each.name[:55]}-{each.digest[:8]}"
                        each = msgspec.structs.replace(each, name=name, made_as=each.sender)
                    kept.append(each)
            return tuple(kept)

        self._change(change, None)

    def _change(
        self,
        change: Callable[[tuple[Credential, ...]], tuple[Credential, ...]],
        by: Credential | None,
    ) -> None:
        make_private_folder(self._folder)
        with locked(self._folder / LOCK_NAME):
            present = self.list()
            if by is not None and by not in present:
                raise PermissionRefused("the token that asks for this is gone, or has other rights")
            data = msgspec.json.encode(_File(change(present)))
            if len(data) > MAX_FILE_BYTES:  # nobody could connect, and no token be revoked
                raise ConflictError(
                    f"{self.path} would be larger than {MAX_FILE_BYTES} bytes: revoke some tokens, or "
                    "name fewer agents and sessions. Nothing was changed."
                )
            write_private(self.path, data, replace=True)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ValidationError(
            f"{name!r} can't be the name of a token: letters, digits, `.`, `_` and `-`, at "
            "most 64.",
            field="name",
        )
    if name == LOCAL_NAME:
        raise ValidationError(
            f"{LOCAL_NAME!r} is the name of the daemon's own token: choose another", field="name"
        )


def local_credential() -> tuple[Credential, Secret]:
    """Return an administrator's credential that is in no file, and its token."""
    token = _new_token()
    credential = Credential(
        name=LOCAL_NAME, role=Role.ADMIN, digest=_digest(token), created_at_ms=now_ms()
    )
    return credential, Secret(token)


def is_token_of(credential: Credential, token: str) -> bool:
    """Whether a token is a credential's; takes the same time either way."""
    return hmac.compare_digest(credential.digest, _digest(token))


def _named(name: str, present: tuple[Credential, ...]) -> Credential:
    for each in present:
        if each.name == name:
            return each
    raise NotFoundError(f"there is no token {name!r}: `callboard token list` shows those there are")


def _new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
