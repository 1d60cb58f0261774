"""JSON-RPC 2.0 as this protocol uses it: one message in a text frame, no batches.

Both sides share these structs: the gateway decodes requests and encodes the rest, the client the other
way around.
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
"""The protocol version that both sides must share; a change that breaks readers increases it."""

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
"""The longest id of a request. It is repeated in the answer, which must not become large by it."""

RequestId = (
    Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
    | Annotated[str, msgspec.Meta(max_length=MAX_ID_LENGTH)]
)


class RpcRequest(msgspec.Struct, frozen=True):
    """A request. The id is required: clients send no notifications."""

    method: str
    jsonrpc: Literal["2.0"]
    id: RequestId
    params: msgspec.Raw = msgspec.Raw(b"{}")


class ErrorData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What programs need to know about an error; `type` is one of `runtime.errors`."""

    type: str
    retryable: bool = False
    field: str | None = None
    kind: str | None = None
    retry_after_ms: int | None = None


class RpcError(msgspec.Struct, frozen=True):
    """The error of an answer; `message` is for people and holds no secret."""

    code: int
    message: str
    data: ErrorData


class RpcAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request, with either a result or an error."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: RequestId | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: RpcError | msgspec.UnsetType = msgspec.UNSET


class RpcNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the server sends without a request."""

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
"""How long an overloaded server asks its client to wait: enough for some commits."""


def rpc_error(error: CallboardError) -> RpcError:
    """Return the wire form of an error."""
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
    """Return the exception that a client raises for an error on the wire."""
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
