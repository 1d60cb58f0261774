"""An ASGI application behind a route of the door: the request is given to it whole, its answer goes out as it comes.

The door has looked at host, origin, token and method before, and bounds body and answer, so that an application
is called with nothing that the door would refuse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import trio

from .door.exchange import Exchange
from .door.http import JSON, BadHead, Headers, HttpAnswer
from .shared.json_values import has_more_values

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

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
    run = _Run(body)
    answer: HttpAnswer | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.serve, app, scope, name=f"application at {path}")
        async with exchange.until_left():
            answer = await run.begin()
        if answer is None and not exchange.has_left:
            await run.stream_to(exchange)
        run.is_over.set()
        if exchange.has_left:
            nursery.cancel_scope.cancel(reason="the client has left")
    return answer


class _Run:
    """One call of an application.

    Attributes:
        is_over: Set when it has answered, or its client has left.
    """

    def __init__(self, body: bytes) -> None:
        self.is_over = trio.Event()
        self._request: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._send, self._sent = trio.open_memory_channel[Message](0)
        self._status, self._type, self._first = 500, "", b""
        self._headers: Headers = ()

    async def serve(self, app: App, scope: Message) -> None:
        """Call the application."""
        with self._send:
            await app(scope, self._receive, self._take)

    async def _receive(self) -> Message:
        if (request := self._request) is not None:
            self._request = None
            await trio.lowlevel.checkpoint()
            return request
        await self.is_over.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message: Message) -> None:
        try:
            await self._send.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()  # nobody listens any more; it may say what it likes

    async def begin(self) -> HttpAnswer | None:
        """Return the answer if it is whole at once, and `None` for one that goes on."""
        start = await self._next()
        headers = [(n.decode("latin-1").lower(), v.decode("latin-1")) for n, v in start["headers"]]
        self._status = start["status"]
        self._type = dict(headers).get("content-type", "")
        self._headers = tuple(each for each in headers if each[0] not in _OWN_HEADERS)
        first = await self._next()
        self._first = first.get("body", b"")
        if first.get("more_body"):
            return None
        self._sent.close()
        return HttpAnswer(self._status, self._first, self._type or "text/plain", self._headers)

    async def stream_to(self, exchange: Exchange) -> None:
        """Send an answer as it comes."""
        async with exchange.stream(self._status, self._headers, self._type) as stream:
            await stream.send(self._first)
            while True:
                message = await self._next()
                await stream.send(message.get("body", b""))
                if not message.get("more_body"):
                    break
        self._sent.close()

    async def _next(self) -> Message:
        try:
            return await self._sent.receive()
        except trio.EndOfChannel:
            raise RuntimeError("the application ended in the middle of its answer") from None
