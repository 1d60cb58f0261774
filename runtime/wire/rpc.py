"""JSON-RPC 2.0 as this protocol speaks it: one message a text frame, no batches.

Both sides share these: the gateway decodes requests and encodes the rest, the client the other way
around.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from ..errors import (
    AuthError,
    CallboardError,
    ConflictError,
    InternalError,
    NotFoundError,
    OverloadedError,
    PermissionRefused,
    StorageError,
    StorageFailed,
    ValidationError,
    error_of,
)

PROTOCOL = 1
"""The version that both sides must have in common; it grows when a change breaks readers."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
OVERLOADED = -32001
NOT_AUTHORIZED = -32002
NOT_FOUND = -32003
CONFLICT = -32004
INVALID_STATE = -32005
STORAGE_FAILED = -32006

MAX_ID_LENGTH = 128
"""Of the id of a request: it comes back in the answer, which must not be larger for it."""

RequestId = (
    Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
    | Annotated[str, msgspec.Meta(max_length=MAX_ID_LENGTH)]
)


class RpcRequest(msgspec.Struct, frozen=True):
    """A request; without an id it would be a notification, of which a client sends none."""

    method: str
    jsonrpc: Literal["2.0"]
    id: RequestId
    params: msgspec.Raw = msgspec.Raw(b"{}")


class ErrorData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program needs to know of an error; `type` is one of `runtime.errors`."""

    type: str
    retryable: bool = False
    field: str | None = None
    kind: str | None = None
    retry_after_ms: int | None = None


class RpcError(msgspec.Struct, frozen=True):
    """The error object of an answer; `message` is for a person and holds no secret."""

    code: int
    message: str
    data: ErrorData


class RpcAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says to a request: it has either a result or an error."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: RpcError | msgspec.UnsetType = msgspec.UNSET


class RpcNotification(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says by itself."""

    jsonrpc: Literal["2.0"] = "2.0"
    method: str
    params: Any


class ServerFrame(msgspec.Struct, frozen=True):
    """Any frame of the server, as a client decodes it: an answer has no `method`."""

    id: RequestId | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: RpcError | None = None


_CODES: tuple[tuple[type[CallboardError], int], ...] = (
    (OverloadedError, OVERLOADED),
    (AuthError, NOT_AUTHORIZED),
    (PermissionRefused, NOT_AUTHORIZED),
    (NotFoundError, NOT_FOUND),
    (ConflictError, CONFLICT),
    (StorageError, STORAGE_FAILED),
    (ValidationError, INVALID_PARAMS),
    (InternalError, INTERNAL_ERROR),
)

RETRY_AFTER_MS = 1000
"""What an overloaded server asks its client to wait: long enough for some commits."""


def rpc_error(error: CallboardError) -> RpcError:
    """How an error of ours goes over the wire."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), INVALID_STATE)
    if isinstance(error, ConflictError) and error.kind == "state":
        code = INVALID_STATE
    return RpcError(
        code,
        str(error),
        ErrorData(
            type=error.type,
            retryable=error.retryable,
            field=getattr(error, "field", None),
            kind=getattr(error, "kind", None),
            retry_after_ms=RETRY_AFTER_MS if code == OVERLOADED else None,
        ),
    )


def error_from(error: RpcError) -> CallboardError:
    """The error that a client raises for what came over the wire."""
    data = error.data
    if data.type == ValidationError.type:
        return ValidationError(error.message, field=data.field)
    if data.type == ConflictError.type:
        return ConflictError(error.message, kind=data.kind)  # type: ignore[arg-type]
    if data.type == OverloadedError.type:
        return OverloadedError(error.message, kind=data.kind)  # type: ignore[arg-type]
    if data.kind == StorageFailed.kind:
        return StorageFailed(error.message)
    return error_of(data.type, error.message)
