"""JSON-RPC with the editor, a message a line: its requests become tasks, ours wait for its answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec
import trio

from ...runtime.errors import AuthError, CallboardError, NotFoundError, ValidationError
from ...runtime.redaction import redact, redacting_logger
from ...runtime.wire.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from ..terminal.output import Output
from . import wire

AUTH_REQUIRED = -32000
"""The protocol's own code: no model can be asked before somebody gives a key."""
REQUEST_CANCELLED = -32800
"""The protocol's own code, as of the Language Server Protocol."""

MAX_LINE_BYTES = 32 * 1024 * 1024
"""A prompt with the attachments that an input may have, in base64, and room for its text."""
MAX_REQUESTS = 64
"""Requests of the editor at work at once: prompts of as many sessions as anybody has open."""
CHUNK_BYTES = 64 * 1024
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading of JSON raises: texts are looked at when what they stand in is decoded, and not before."""

logger = redacting_logger(__name__)

Id = int | str | None
Result = TypeVar("Result")


class Incoming(msgspec.Struct, frozen=True):
    """Any message of the editor: a request has `method` and `id`, a notification no `id`, an answer no `method`."""

    jsonrpc: Literal["2.0"]
    id: Id | msgspec.UnsetType = msgspec.UNSET
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Numbered(msgspec.Struct, frozen=True):
    id: Id = None


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error of an answer."""

    code: int
    message: str
    data: dict[str, str] | None = None


class EditorRefused(msgspec.Struct, frozen=True):
    """The editor answered a request with an error, or not as the protocol has it."""

    message: str


class RequestFailed(Exception):
    """A request of the editor can't be done; the answer says this."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(code, message)


class AnsweredRequest(msgspec.Struct, frozen=True):
    """The result of a request, and what comes right behind its answer."""

    result: wire.AcpMessage = wire.Supported()
    then: Callable[[], None] | None = None


class EditorRequest:
    """A request of the editor that is at work.

    Attributes:
        method: What is asked for.
        params: What it takes.
        cancel: Ends it, when the editor cancels it; a prompt that was sent ends its turn instead.
        when_cancelled: The result of one that was ended so; without, it is an error.
        is_taken: Set when later requests need not wait for this one: it is answered, or a prompt is on record.
    """

    def __init__(self, method: str, params: msgspec.Raw) -> None:
        self.method = method
        self.params = params
        self.is_taken = trio.Event()
        self.when_cancelled: wire.AcpMessage | None = None
        self.scope = trio.CancelScope()
        self.cancel: Callable[[], None] = self.scope.cancel


Method = Callable[[EditorRequest], Awaitable[AnsweredRequest]]
Notice = Callable[[msgspec.Raw], None]


class _Asked(Generic[Result]):
    """A request of ours that the editor has not answered."""

    def __init__(self, decoder: msgspec.json.Decoder[Result]) -> None:
        self.decoder = decoder
        self.answer: Result | EditorRefused | None = None
        self.is_answered = trio.Event()


class EditorConnection:
    """The editor at the other end of stdin and stdout.

    Args:
        output: Where lines go; whoever writes much waits for room in it.
        nursery: Where requests are at work.
    """

    def __init__(self, output: Output, nursery: trio.Nursery) -> None:
        self.output = output
        self.methods: Mapping[str, Method] = {}
        self.notices: Mapping[str, Notice] = {}
        self._nursery = nursery
        self._requests: dict[Id, EditorRequest] = {}
        self._asked: dict[str, _Asked[Any]] = {}
        self._count = 0

    async def run(self, stream: trio.abc.ReceiveStream) -> None:
        """Take what the editor says, up to its end."""
        lines = _Lines()
        while data := await stream.receive_some(CHUNK_BYTES):
            for line in lines.take(bytes(data)):
                self._hear(line)
            await self.output.wait_room()  # who reads no answers is not read either

    async def ask(
        self, method: str, params: wire.AcpMessage, decoder: msgspec.json.Decoder[Result]
    ) -> Result | EditorRefused:
        """Ask the editor; when this is cancelled, it is told that the answer is no longer needed."""
        self._count += 1
        name = f"callboard-{self._count}"
        asked = self._asked[name] = _Asked(decoder)
        self._write({"id": name, "method": method, "params": params})
        try:
            await asked.is_answered.wait()
        finally:
            if self._asked.pop(name, None) is not None:
                self.notify("$/cancel_request", wire.CancelRequestNotification(request_id=name))
        assert asked.answer is not None
        return asked.answer

    def notify(self, method: str, params: wire.AcpMessage) -> None:
        """Say something that has no answer; never waits."""
        self._write({"method": method, "params": params})

    def requests_of(self, method: str) -> list[EditorRequest]:
        """Return the requests of a method that are at work, also those that have just come."""
        return [request for request in self._requests.values() if request.method == method]

    def requests_before(self, request: EditorRequest) -> list[EditorRequest]:
        """Return the requests at work that came before this one, in their order."""
        earlier = [*self._requests.values()]
        return earlier[: earlier.index(request)]

    def cancel_request(self, params: msgspec.Raw) -> None:
        """Cancel a request of the editor, whose answer comes all the same."""
        wanted = read_params(params, wire.CancelRequestNotification).request_id
        if (request := self._requests.get(wanted)) is not None:
            request.cancel()

    def _write(self, message: dict[str, object]) -> None:
        line = msgspec.json.encode({"jsonrpc": "2.0", **message})
        self.output.write(line.decode() + "\n")

    def _fail(self, number: Id, fault: Fault) -> None:
        self._write({"id": number, "error": fault})

    # ── what comes in ────────────────────────────────────────────────────────────────────────────

    def _hear(self, line: bytes | None) -> None:
        if line is None:
            longer = f"a line is longer than {MAX_LINE_BYTES} bytes"
            self._fail(None, Fault(PARSE_ERROR, longer))
            return
        try:
            message = msgspec.json.decode(line, type=Incoming)
        except msgspec.ValidationError as error:
            said = f"no message of JSON-RPC 2.0: {error}"
            self._fail(_id_of(line), Fault(INVALID_REQUEST, said))
        except UNREADABLE as error:
            self._fail(None, Fault(PARSE_ERROR, f"not JSON: {error}"))
        else:
            self._take(message)

    def _take(self, message: Incoming) -> None:
        if message.method is None:
            self._answered(message)
        elif isinstance(message.id, msgspec.UnsetType):
            self._noticed(message.method, message.params)
        elif message.id in self._requests:
            said = "a request with this id is at work"
            self._fail(message.id, Fault(INVALID_REQUEST, said))
        elif len(self._requests) >= MAX_REQUESTS:
            said = f"{MAX_REQUESTS} requests are at work: wait for one of them"
            self._fail(message.id, Fault(INTERNAL_ERROR, said))
        else:
            request = self._requests[message.id] = EditorRequest(message.method, message.params)
            name = f"request {message.method:.40}"
            self._nursery.start_soon(self._work, message.id, request, name=name)

    def _noticed(self, method: str, params: msgspec.Raw) -> None:
        notice = self.notices.get(method)
        if notice is None:
            return  # of an extension, or of a later version
        try:
            notice(params)
        except RequestFailed as error:
            logger.warning("the editor's %s can't be read: %s", method, error)

    def _answered(self, message: Incoming) -> None:
        asked = self._asked.pop(message.id, None) if isinstance(message.id, str) else None
        if asked is None:
            return  # of a question that is over
        if isinstance(message.result, msgspec.UnsetType):
            said = b"" if isinstance(message.error, msgspec.UnsetType) else bytes(message.error)
            asked.answer = EditorRefused(
                f"the editor answered with an error: {said[:500].decode(errors='replace')}"
            )
        else:
            try:
                asked.answer = asked.decoder.decode(message.result)
            except UNREADABLE as error:
                asked.answer = EditorRefused(f"the editor's answer can't be read: {error}")
        asked.is_answered.set()

    async def _work(self, number: Id, request: EditorRequest) -> None:
        done = AnsweredRequest()
        fault: Fault | None = Fault(REQUEST_CANCELLED, "cancelled")
        try:
            with request.scope:
                done, fault = await self._answer(request)
            await self.output.wait_room()
        finally:
            self._requests.pop(number, None)
        if request.scope.cancelled_caught and request.when_cancelled is not None:
            done, fault = AnsweredRequest(request.when_cancelled), None
        if fault is not None:
            self._fail(number, fault)
        else:
            self._write({"id": number, "result": done.result})
            if done.then is not None:
                done.then()
        request.is_taken.set()

    async def _answer(self, request: EditorRequest) -> tuple[AnsweredRequest, Fault | None]:
        method = request.method
        known = self.methods.get(method)
        if known is None:
            return AnsweredRequest(), Fault(METHOD_NOT_FOUND, f"there is no method {method!r:.80}")
        try:
            return await known(request), None
        except RequestFailed as error:
            return AnsweredRequest(), error.fault
        except CallboardError as error:
            return AnsweredRequest(), fault_of(error)
        except Exception:
            logger.exception("%.80s crashed", method)
            return AnsweredRequest(), Fault(
                INTERNAL_ERROR, "a bug of callboard; `callboard logs` has it"
            )


class _Lines:
    """Cuts what comes in into lines; gives `None` in the place of one that is too long."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_skipping = False

    def take(self, data: bytes) -> list[bytes | None]:
        """Return the lines that are complete now, without empty ones."""
        *ended, rest = data.split(b"\n")
        found: list[bytes | None] = []
        for piece in ended:
            self._add(piece, found)
            if not self._is_skipping and self._rest.strip():
                found.append(bytes(self._rest))
            self._rest.clear()
            self._is_skipping = False
        self._add(rest, found)
        return found

    def _add(self, piece: bytes, found: list[bytes | None]) -> None:
        if self._is_skipping:
            return
        self._rest += piece
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest.clear()
            self._is_skipping = True
            found.append(None)


def _id_of(line: bytes) -> Id:
    """Return the id of what is no request, so that who waits for its answer gets one."""
    try:
        return msgspec.json.decode(line, type=_Numbered).id
    except UNREADABLE:
        return None


def read_params(params: msgspec.Raw, kind: type[Result]) -> Result:
    """Return the parameters of a message; raise `RequestFailed` for others."""
    try:
        return msgspec.json.decode(params, type=kind)
    except UNREADABLE as error:
        raise RequestFailed(INVALID_PARAMS, str(error)) from error


def fault_of(error: CallboardError) -> Fault:
    """Return what an editor is told of an error: who is at fault, and the words."""
    code = INTERNAL_ERROR
    if isinstance(error, AuthError):
        code = AUTH_REQUIRED
    elif isinstance(error, NotFoundError | ValidationError):
        code = INVALID_PARAMS
    return Fault(code, redact(str(error)), {"type": error.type})
