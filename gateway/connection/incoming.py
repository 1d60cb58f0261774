"""Decode and check what clients send: frames into requests, parameters into their types.

Nothing is built of a frame but what the types of its method name: until the method is known, its
parameters are bytes, of which the decoder has found that they are JSON, and not nested without end.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import trio

from ...runtime.text import in_json_words
from ...runtime.wire.fields import IdempotencyKey
from ...runtime.wire.rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_AUTHORIZED,
    PARSE_ERROR,
    ErrorData,
    RequestId,
    RpcError,
    RpcRequest,
)
from ..shared.json_values import decoder

LARGE_FRAME = 64 * 1024
"""Characters; a larger one is looked through in a thread, so that nobody waits for it."""

_DECODER = msgspec.json.Decoder(RpcRequest)


class Refused(Exception):
    """A frame that no method gets to see; `error` is what its sender is told."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        kind = "auth" if code == NOT_AUTHORIZED else "validation"
        self.error = RpcError(code, message, ErrorData(type=kind))
        self.request_id = request_id


async def read_request(message: str | bytes) -> RpcRequest:
    """Return a message as a request; raise `Refused`."""
    if isinstance(message, bytes):
        raise Refused(PARSE_ERROR, "a message is one text frame, this one is binary")
    if len(message) <= LARGE_FRAME:
        return _request(message)
    return await trio.to_thread.run_sync(_request, message)


async def read_params(request: RpcRequest, kind: type[Any]) -> Any:
    """Return the parameters of a request as this type; raise `Refused`."""
    if len(bytes(request.params)) <= LARGE_FRAME:
        return _params(request, kind)
    return await trio.to_thread.run_sync(_params, request, kind)


def _request(message: str) -> RpcRequest:
    try:
        return _DECODER.decode(message)
    except RecursionError:
        raise Refused(PARSE_ERROR, "brackets stand too deep in this message") from None
    except msgspec.ValidationError as error:
        raise Refused(
            INVALID_REQUEST, f"no JSON-RPC 2.0 request: {in_json_words(str(error))}"
        ) from None
    except msgspec.DecodeError as error:
        raise Refused(PARSE_ERROR, f"no JSON: {error}") from None


def _params(request: RpcRequest, kind: type[Any]) -> Any:
    try:
        return decoder(kind).decode(request.params)
    except RecursionError:
        raise Refused(INVALID_PARAMS, "brackets stand too deep in params", request.id) from None
    except msgspec.MsgspecError as error:
        said = in_json_words(str(error))
        raise Refused(INVALID_PARAMS, f"params of {request.method}: {said}", request.id) from None


@cache
def strict(kind: type[msgspec.Struct], has_key: bool) -> type[msgspec.Struct]:
    """The same parameters, but an unknown one is an error: a limit that is misspelt must not be none.

    Args:
        kind: As the method declares them.
        has_key: Whether an `idempotency_key` may stand beside them.
    """
    if kind.__struct_config__.forbid_unknown_fields and not has_key:
        return kind
    keyed = has_key and "idempotency_key" not in kind.__struct_fields__
    return msgspec.defstruct(
        kind.__name__,
        [("idempotency_key", IdempotencyKey | None, None)] if keyed else [],
        bases=(kind,),
        module=kind.__module__,
        namespace={"__doc__": kind.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
