"""The errors that callboard raises, named by whose fault they are.

One shallow tree: each leaf is one `type` of the wire errors. A message says what happened, to
what, and what to do; it never holds a secret. Foreign exceptions are turned into these once, where
they arrive.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import ClassVar, Literal

NetworkStage = Literal["name", "connect", "tls", "http"]
OverloadKind = Literal["stopping", "taken", "owner"]
ConflictKind = Literal[
    "answered", "expired", "grant", "scope", "seq", "key", "told", "state", "owner", "root"
]


class CallboardError(Exception):
    """The base of all errors that callboard raises for its caller.

    Attributes:
        type: The stable name for programs; see the subclasses.
        retryable: Whether the same request may succeed later, unchanged.

    Example:
        try:
            await runtime.create_session(agent="nobody")
        except callboard.CallboardError as error:
            print(error.type, error.retryable, error)
    """

    type: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False


class NetworkError(CallboardError):
    """A connection could not be made, or broke.

    Attributes:
        stage: What failed: `name` (resolving the host name), `connect`, `tls`, or `http` (the server
            speaks another protocol); `None` if the connection broke later.
    """

    type = "network"
    retryable = True

    def __init__(self, message: str = "", *, stage: NetworkStage | None = None) -> None:
        super().__init__(message)
        self.stage: NetworkStage | None = stage


class AuthError(CallboardError):
    """A credential is missing, wrong, or not allowed to do this."""

    type = "auth"


class DeadlineError(CallboardError):
    """Something took longer than its deadline.

    Attributes:
        stage: What a connection was waiting for: `connect` (its name, or TCP) or `tls`; `None` if the
            deadline was not for a connection.
    """

    type = "timeout"
    retryable = True

    def __init__(self, message: str = "", *, stage: NetworkStage | None = None) -> None:
        super().__init__(message)
        self.stage: NetworkStage | None = stage


class ValidationError(CallboardError):
    """An input does not have the required form.

    Attributes:
        field: The dotted path of the invalid value, or `None` for the whole input.
    """

    type = "validation"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class StorageError(CallboardError):
    """The store can't be read or written; nothing was acknowledged that is not stored."""

    type = "storage"


class StorageFull(StorageError):
    """The disk has no room; the store works again when there is some."""

    retryable = True


class StorageFailed(StorageFull):
    """The disk has room only for ending what runs, so nothing new begins."""

    kind = "storage_failed"


class DiskBroken(StorageError):
    """The disk lost a write; only a new process can find out what is stored."""


class NodeFenced(StorageError):
    """This node of a cluster was away for longer than its lease, and others have its sessions."""


class RecordLost(NodeFenced):
    """A standby took over whose record lacks what was acknowledged: what is known of it in memory is void."""


class StoreUnavailable(StorageError):
    """The database does not answer; nothing was done, and the same request may succeed once it does."""

    kind = "store_unavailable"
    retryable = True


class StoreLimitReached(StorageError):
    """The store has reached `[sessions] max_store_mib`, so no session begins."""


class PermissionRefused(CallboardError):
    """A policy, a grant or a person said no."""

    type = "permission"


class ProviderError(CallboardError):
    """A model's provider refused the request or broke its own protocol."""

    type = "provider"


class ContextOverflow(CallboardError):
    """The conversation is longer than the model's window."""

    type = "context_overflow"


class QuotaError(CallboardError):
    """The account at the provider is used up."""

    type = "quota"


class BudgetError(CallboardError):
    """A budget of the turn, of its session or of one above it is used up."""

    type = "budget"


class ToolError(CallboardError):
    """A tool could not do what it was asked to; see `runtime.definitions.ToolFailure`."""

    type = "tool"


class NotFoundError(CallboardError):
    """A named thing does not exist."""

    type = "not_found"


class ConflictError(CallboardError):
    """The request contradicts the present state (a turn is running, a lock is held).

    Attributes:
        kind: Why an answer to a question was refused: `answered` (it no longer waits), `expired`,
            `grant` (the grant behind it does not hold there) or `scope` (it can't be remembered for
            that). Why a request over the wire was: `seq` (it is of another store: start over), `key`
            (the key was used for another request) or `told` (it was done, and its result is sent only
            once). `state` if there is no turn to run again, `owner` if another node of a cluster owns the session,
            `root` if no node that is up has the root of the session, or this one has it not. Otherwise `None`.
    """

    type = "conflict"

    def __init__(self, message: str = "", *, kind: ConflictKind | None = None) -> None:
        super().__init__(message)
        self.kind: ConflictKind | None = kind


class SessionElsewhere(ConflictError):
    """Another node of the cluster owns the session.

    Attributes:
        session_id: The session.
        url: Where that node is, as `http://…`; empty if it has not said.
    """

    def __init__(self, message: str, session_id: str, url: str) -> None:
        super().__init__(message, kind="owner")
        self.session_id = session_id
        self.url = url


class OverloadedError(CallboardError):
    """A limit was reached; the same request may succeed a little later.

    Attributes:
        kind: `stopping` if the daemon stops and will accept the request after its restart, `taken` if another command
            works in the session, `owner` if the node of a cluster that owns the session can't be reached; else `None`.
    """

    type = "overloaded"
    retryable = True

    def __init__(self, message: str = "", *, kind: OverloadKind | None = None) -> None:
        super().__init__(message)
        self.kind: OverloadKind | None = kind


class InternalError(CallboardError):
    """A fault of callboard's own."""

    type = "internal"


class ActorStopped(InternalError):
    """The actor has ended, so there will be no answer."""


def error_of(error_type: str, message: str) -> CallboardError:
    """Return the error with a stored `type`; `InternalError` for an unknown one."""
    for leaf in CallboardError.__subclasses__():
        if leaf.type == error_type:
            return leaf(message)
    return InternalError(message)


class ShortTracebacks:
    """A block around what a program calls: an error that says all in its message shows the program's lines alone.

    The frames inside of callboard and below it are cut off, and the foreign exception behind the error is
    kept as its `__context__`, which is not printed. Faults of callboard's own keep everything, and
    `python -X dev` keeps it of all errors.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, CallboardError) and not sys.flags.dev_mode:
            shorten(error)


def shorten(error: CallboardError) -> None:
    """Cut an error's traceback and what led to it, unless it is a fault of callboard's own."""
    cause = error.__cause__
    if isinstance(error, InternalError) and (type(error) is InternalError or cause is not None):
        return
    error.__traceback__ = None
    if cause is not None:
        error.__cause__, error.__context__ = None, cause
