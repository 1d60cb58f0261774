"""One request to a route and its answer: the body within its bounds, a short answer or a stream.

A route is called with an `Exchange`. It returns an `HttpAnswer`, or has streamed one and returns `None`.
What it refuses it raises: `BadHead` with a status, or a `CallboardError`, whose type has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Literal, Self

import msgspec
import trio

from ...config.keys.tokens import Credential
from ...runtime.errors import CallboardError
from ..connection.frame_budget import send_in_time
from ..quotas import Holding, Quota
from .comments import Comments
from .http import JSON, BadHead, Headers, HttpAnswer, HttpServerConnection, RequestHead

BODY_SECONDS = 30.0
"""For a body, beside what it takes at `BODY_RATE`."""
BODY_RATE = 64 * 1024
"""Bytes a second that a body comes with at least: a slow line does it."""
HOLD_SECONDS = 0.008
"""From one piece of a stream to the next, for who `holds`: as for frames of the websocket, which nobody sees."""
COMMENT = b":\n\n"
EVENT_STREAM = "text/event-stream"

STATUSES = {
    "validation": 400,
    "auth": 403,
    "permission": 403,
    "not_found": 404,
    "conflict": 409,
    "budget": 429,
    "overloaded": 503,
    "storage": 503,
}
"""The statuses of errors by type; others are faults of the server."""


class ClientLeft(trio.BrokenResourceError):
    """The client has left, or does not take its answer."""


class Exchange:
    """A request and its answer.

    Attributes:
        head: The request without its body.
        rest: The path behind the route's, for a route that ends with a slash; not decoded.
        credential: Who asks; `None` where the route needs no token and none was sent.
        peer: The name of the client's address.
        has_left: Whether the client left, or did not take its answer, in `until_left` or a stream.
        is_answered: Whether its answer is whole: who leaves then ends nothing. Whoever uses `until_left` may set it.
        grace_seconds: For the answer to become whole when the client has left, before the block is cancelled.
    """

    def __init__(
        self,
        connection: HttpServerConnection,
        head: RequestHead,
        rest: str,
        credential: Credential | None,
        quota: Quota,
        peer: str,
        send_seconds: float,
        keeps: Callable[[], bool],
        comments: Comments,
    ) -> None:
        self.head = head
        self.rest = rest
        self.credential = credential
        self.peer = peer
        self._connection = connection
        self.has_left = self.is_answered = False
        self.grace_seconds = 0.0
        self._held = Holding(quota, self._body_gives_way)
        self._unsent = Holding(quota, self._answer_gives_way)
        self._reading: trio.CancelScope | None = None
        self._writing: trio.CancelScope | None = None
        self._gives_way = False
        self._send_seconds = send_seconds
        self._keeps = keeps
        self._comments = comments
        self._open: ResponseStream | None = None

    @property
    def query(self) -> str:
        """What stands behind the question mark of the target."""
        return self.head.target.partition("?")[2]

    # ── the body ─────────────────────────────────────────────────────────────────────────────────

    async def body(self, max_bytes: int, media_type: str | None = JSON) -> bytes:
        """Read the whole body, once. It counts in the token's quota until the answer has begun.

        Args:
            max_bytes: Larger ones are refused.
            media_type: The only one that is taken, with no parameter but `charset=utf-8`, so that a form
                of a foreign page never gets in; `None` takes any, for routes whose requests are signed.

        Raises:
            BadHead: It is too large, too slow, encoded, of another type, or there is no room for it.
        """
        self._check_body(max_bytes, media_type)
        await self._connection.allow_body()
        pieces: list[bytes] = []
        size, begun_at = 0, trio.current_time()
        self._held.begin()
        try:
            with trio.CancelScope() as self._reading:  # noqa: ASYNC912  reading has checkpoints
                while True:
                    self._reading.deadline = begun_at + BODY_SECONDS + size / BODY_RATE
                    piece = await self._connection.read_piece()
                    if piece is None:
                        return b"".join(pieces)
                    pieces.append(piece)
                    size += len(piece)
                    if size > max_bytes:
                        raise _too_large(max_bytes)
                    self._held.set(size)
                    while self._held.is_over and self._held.make_room():
                        pass
        except trio.BrokenResourceError as error:
            raise ClientLeft("the client left in the middle of its body") from error
        finally:
            self._held.finish()
            self._reading = None
        if self._gives_way:
            raise BadHead(
                503, "no room for so large a body; try again soon", (("retry-after", "1"),)
            )
        raise BadHead(408, "the body of the request took too long")

    def _check_body(self, max_bytes: int, media_type: str | None) -> None:
        head = self.head
        if (head.one("content-encoding") or "identity").lower() != "identity":
            raise BadHead(415, "send the body as it is, without a Content-Encoding")
        kind = (head.one("content-type") or "").lower()
        essence, _, parameter = kind.partition(";")
        if media_type is not None and (
            essence.strip() != media_type
            or parameter.strip() not in ("", "charset=utf-8", 'charset="utf-8"')
        ):
            raise BadHead(415, f"send the body as {media_type}, in UTF-8")
        if (head.one("expect") or "100-continue").lower() != "100-continue":
            raise BadHead(417, "nothing but 100-continue is expected of this server")
        if int(head.one("content-length") or 0) > max_bytes:
            raise _too_large(max_bytes)

    def _body_gives_way(self) -> None:
        self._gives_way = True
        if self._reading is not None:
            self._reading.cancel(reason="its body gives way to others")

    def _answer_gives_way(self) -> None:
        if self._writing is not None:
            self._writing.cancel(reason="its answer gives way to others")

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    async def send(self, answer: HttpAnswer) -> None:
        """Send a whole answer; raise `ClientLeft` if the client does not take it."""
        await self._send(self._connection.answer_bytes(answer, keeps=self._keeps()))

    def until_left(self) -> UntilLeft:
        """Cancel the block when the client leaves, which ends it without an exception: see `has_left`.

        For what takes long before it answers. The body must have been read.
        """
        return UntilLeft(self)

    def stream(
        self, status: int = 200, headers: Headers = (), content_type: str = EVENT_STREAM
    ) -> Streaming:
        """Answer with a stream, which is whole when the block ends without an exception.

        The block ends early, and without an exception, when the client leaves: see `has_left`. A stream of
        events gets comments while the block sends nothing. What the head of the request said is forgotten:
        thousands of streams may be open.
        """
        return Streaming(self, status, headers, content_type)

    async def begin_stream(
        self, nursery: trio.Nursery, status: int, headers: Headers, content_type: str
    ) -> ResponseStream:
        """Begin what `stream` gives, in the block of `until_left`, whose nursery this is; `end_stream` ends it whole."""
        self._held.close()
        own = (("content-type", content_type), ("x-accel-buffering", "no"), *headers)
        await self._send(self._connection.begin_stream(status, own))
        self.head.forget()
        stream = ResponseStream(self._send, self._connection.chunk)
        if content_type == EVENT_STREAM:
            self._open = stream
            self._comments.add(stream, nursery)
        return stream

    async def end_stream(self, stream: ResponseStream) -> None:
        """Say that a stream is whole."""
        await stream.end(self._connection.end_stream())

    def forget_stream(self) -> None:
        """Send no more comments: the block in whose nursery they are sent ends. Idempotent."""
        if self._open is not None:
            self._comments.forget(self._open)
            self._open = None

    async def watch(self, block: trio.CancelScope) -> None:
        """Cancel a block when the client leaves."""
        await self._connection.wait_left()
        if self.grace_seconds and not self.is_answered:
            await trio.sleep(self.grace_seconds)
        if self.is_answered:
            return
        self.has_left = True
        block.cancel(reason="the client has left")

    async def _send(self, data: bytes) -> None:
        with trio.CancelScope() as self._writing:
            try:
                self._unsent.set(len(data))
                self._unsent.begin()
                while self._unsent.is_over and self._unsent.make_room():
                    pass
                await send_in_time(self._connection.stream, data, self._send_seconds)
                return
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ClientLeft("the client does not take its answer") from error
            finally:
                self._writing = None
                self._unsent.finish()
                self._unsent.set(0)
        raise ClientLeft("the answer gave way to others")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Hold nothing any more."""
        self._held.close()
        self._unsent.close()


class UntilLeft:
    """The block of `Exchange.until_left`. A class of its own, as each open stream holds one for as long as it lasts."""

    __slots__ = ("_exchange", "_manager", "_nursery")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> trio.Nursery:
        self._nursery = await self._manager.__aenter__()
        scope = self._nursery.cancel_scope
        self._nursery.start_soon(self._exchange.watch, scope, name="client of an exchange")
        return self._nursery

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._exchange.forget_stream()
        if isinstance(error, trio.Cancelled):
            return await self._manager.__aexit__(kind, error, traceback)  # noqa: ASYNC102  the nursery's own end
        has_left = isinstance(error, ClientLeft)
        self._exchange.has_left |= has_left
        self._nursery.cancel_scope.cancel(reason="the answer is complete")
        await self._manager.__aexit__(None, None, None)  # noqa: ASYNC102  the nursery's own end
        return has_left  # what else the block raised is its own, without a group around it


class Streaming:
    """The block of `Exchange.stream`."""

    __slots__ = ("_begin", "_block", "_exchange", "_stream")

    def __init__(
        self, exchange: Exchange, status: int, headers: Headers, content_type: str
    ) -> None:
        self._exchange = exchange
        self._begin: tuple[int, Headers, str] | None = (status, headers, content_type)
        self._block = UntilLeft(exchange)
        self._stream: ResponseStream

    async def __aenter__(self) -> ResponseStream:
        assert self._begin is not None
        begin, self._begin = self._begin, None
        nursery = await self._block.__aenter__()
        try:
            self._stream = await self._exchange.begin_stream(nursery, *begin)
        except BaseException as error:
            exit_block = self._block.__aexit__
            if not await exit_block(type(error), error, error.__traceback__):  # noqa: ASYNC102  the nursery's own end
                raise
            # The nursery took its own cancellation, for the client had left.
            raise ClientLeft("the client left before its answer began") from None  # noqa: ASYNC104
        return self._stream

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if error is None:  # a failed stream is not ended whole
            try:
                await self._exchange.end_stream(self._stream)  # noqa: ASYNC102  within the block, which is cancelled as a whole
            except BaseException as late:
                exit_block = self._block.__aexit__
                if await exit_block(type(late), late, late.__traceback__):  # noqa: ASYNC102  the nursery's own end
                    return True  # noqa: ASYNC104  the nursery took its own cancellation, for the client had left
                raise
        return await self._block.__aexit__(kind, error, traceback)  # noqa: ASYNC102  the nursery's own end


class ResponseStream:
    """An answer that is sent as it comes.

    Attributes:
        comment: What is sent when nothing else was for `COMMENT_SECONDS`; may be replaced.
        sent_at: When something was sent last.
    """

    __slots__ = (
        "_chunk",
        "_is_cut",
        "_is_sending",
        "_send_bytes",
        "_sent",
        "comment",
        "sent_at",
    )

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], chunk: Callable[[bytes], bytes]
    ) -> None:
        self.comment = COMMENT
        self._send_bytes = send
        self._chunk = chunk
        self.sent_at = trio.current_time()
        self._sent: trio.Event | None = None  # made by who waits: nearly nobody has to
        self._is_cut = self._is_sending = False

    async def send(self, data: bytes, *, holds: bool = False) -> None:
        """Send whole events, which blocks until the system has taken them.

        Each call is one write: collect what comes in between, and send it together. One that `holds` gives
        time for that: it returns when what it sent is `HOLD_SECONDS` old.

        Raises:
            ClientLeft: The client does not take them. Let it pass: it ends the block of the stream.
        """
        if data:  # an empty chunk is the end
            await self._put(self._chunk(data))
            if holds:
                await trio.sleep_until(self.sent_at + HOLD_SECONDS)

    async def end(self, data: bytes) -> None:
        """Send these last bytes, and nothing afterwards."""
        await self._put(data)
        self._is_cut = True

    async def _put(self, data: bytes) -> None:
        while self._is_sending:
            if self._sent is None:
                self._sent = trio.Event()
            await self._sent.wait()
        if self._is_cut:
            raise ClientLeft("a part of the answer was not sent whole")
        self._is_cut = self._is_sending = True
        try:
            await self._send_bytes(data)
            self._is_cut = False
            self.sent_at = trio.current_time()
        finally:
            self._is_sending = False
            if self._sent is not None:
                self._sent.set()
                self._sent = None


def refuse_in_words(error: BadHead) -> HttpAnswer:
    """Return a refusal as a text."""
    return HttpAnswer(error.status, str(error), headers=error.headers)


TokenUse = Literal["required", "optional", "none"]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered at a path, or below it if that ends with a slash.

    Attributes:
        answer: Returns the answer, or `None` if it has streamed one.
        methods: Those that it answers; others get 405.
        token: Whether the door asks for a token first. `none`: the route itself finds out who asks.
        is_linked: Whether pages of other sites may send a browser here.
        refuse: Makes the answer of a refusal, for clients that expect a form of their own.
    """

    answer: Callable[[Exchange], Awaitable[HttpAnswer | None] | HttpAnswer | None]
    methods: tuple[str, ...] = ("GET", "HEAD")
    token: TokenUse = "required"
    is_linked: bool = False
    refuse: Callable[[BadHead], HttpAnswer] = refuse_in_words


class Routes:
    """Routes by path: exactly that, or the longest one above it that ends with a slash."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes

    def find(self, path: str) -> tuple[Route, str] | None:
        """Return the route of a path, and what of the path is below it."""
        if (route := self._routes.get(path)) is not None:
            return route, ""
        above = path
        while above := above[:-1].rpartition("/")[0]:
            if (route := self._routes.get(f"{above}/")) is not None:
                return route, path[len(above) + 1 :]
        return None


def refusal_of(error: CallboardError) -> BadHead:
    """Return an error as the door refuses it: with a status, and a time after which to try again."""
    again = (("retry-after", "1"),) if error.retryable else ()
    return BadHead(STATUSES.get(error.type, 500), str(error), again)


def _too_large(max_bytes: int) -> BadHead:
    return BadHead(413, f"a body has at most {max_bytes} bytes here")
