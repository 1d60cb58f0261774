"""An ASGI application behind a route of the door: the request is given to it whole, its answer goes out as it comes.

The door has looked at host, origin, token and method before, and bounds body and answer, so that an application
is called with nothing that the door would refuse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import trio

from .door.exchange import ClientLeft, Exchange, ResponseStream
from .door.http import JSON, BadHead, HttpAnswer
from .shared.json_values import has_more_values

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

GRACE_SECONDS = 0.25
"""For an application to end its stream by itself when the client has left: some clients close as soon as they have the
event that they waited for, and a session of MCP that was being opened in that moment would be lost."""
_OWN_HEADERS = frozenset(
    {
        "content-type",
        "content-length",
        "connection",
        "transfer-encoding",
        "cache-control",
        "x-accel-buffering",
    }
)
"""Headers of an answer that the door sets itself."""


async def answer_by(
    app: App, exchange: Exchange, max_bytes: int, max_values: int, **beside: object
) -> HttpAnswer | None:
    """Have an application answer; it is cancelled when the client leaves.

    Args:
        app: The application.
        exchange: The request, and where its answer goes.
        max_bytes: Of the body; a larger one is refused.
        max_values: Of the JSON in it; one with more is refused.
        **beside: What else stands in the application's scope.
    """
    head = exchange.head
    body = await exchange.body(max_bytes, JSON if head.method == "POST" else None)
    # Most have fewer bytes than that; of others the strings are looked at, which takes longer.
    if len(body) > max_values and await trio.to_thread.run_sync(has_more_values, body, max_values):
        raise BadHead(400, f"the body has more than {max_values} values")
    path, _, query = head.target.partition("?")
    scope: Message = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": head.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers
        ],
        "client": (exchange.peer, 0),
        "server": None,
        **beside,
    }
    async with exchange.until_left() as nursery:
        run = _Run(exchange, nursery, body)
        await app(scope, run.receive, run.send)
        run.check()
        return run.answer  # `None` if it was streamed
    return None


class _Run:
    """One call of an application, in the block of `until_left`: what it is told, and what it says.

    Attributes:
        answer: Its whole answer; a stream has gone out already.
    """

    def __init__(self, exchange: Exchange, nursery: trio.Nursery, body: bytes) -> None:
        self._exchange = exchange
        self._nursery = nursery
        self._request: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._start: Message = {}
        self._stream: ResponseStream | None = None
        self._is_over = trio.Event()
        self.answer: HttpAnswer | None = None

    async def receive(self) -> Message:
        """Return the request, and then that its answer is complete; whose client leaves before is cancelled."""
        if (request := self._request) is not None:
            self._request = None
            await trio.lowlevel.checkpoint()
            return request
        await self._is_over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the beginning of the answer, or a piece of it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if message["type"] == "http.response.start":
            self._start = message
        elif not self._is_over.is_set():
            try:
                await self._piece(message.get("body", b""), is_last=not message.get("more_body"))
            except ClientLeft:
                self._exchange.has_left = True
                self._nursery.cancel_scope.cancel(reason="the client does not take its answer")
                await trio.lowlevel.checkpoint()

    async def _piece(self, data: bytes, *, is_last: bool) -> None:
        self._exchange.is_answered = is_last  # from there on, the application ends by itself
        if self._stream is None:
            status: int = self._start["status"]
            headers = [
                (n.decode("latin-1").lower(), v.decode("latin-1"))
                for n, v in self._start["headers"]
            ]
            kind = dict(headers).get("content-type", "")
            others = tuple(each for each in headers if each[0] not in _OWN_HEADERS)
            if is_last:
                self.answer = HttpAnswer(status, data, kind or "text/plain", others)
                self._is_over.set()
                return
            self._exchange.grace_seconds = GRACE_SECONDS
            self._stream = await self._exchange.begin_stream(self._nursery, status, others, kind)
        await self._stream.send(data)
        if is_last:
            await self._exchange.end_stream(self._stream)
            self._is_over.set()  # now: an application may cancel this as soon as it hears of it

    def check(self) -> None:
        """Raise `RuntimeError` if the application has not said all of its answer."""
        if not self._is_over.is_set():
            raise RuntimeError("the application ended in the middle of its answer")
