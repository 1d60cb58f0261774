"""Answer requests with 503 while the runtime opens and recovers what a crash left open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from ...config.sections import ServerSettings
from .http import BadHead, HttpAnswer, HttpServerConnection, linger
from .rate_limits import RateLimits
from .rules import DoorRules, door_rules

MAX_WAITING = 100
"""Connections answered at the same time; then the one that has waited longest is closed."""
PAUSE_SECONDS = 0.1
"""Before the next accept, when the process has no descriptor left."""


@asynccontextmanager
async def answer_not_ready(
    listeners: list[trio.SocketListener], settings: ServerSettings
) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Answer on the listeners until the function that is yielded is called; close them at the end."""
    port = listeners[0].socket.getsockname()[1]
    rules = door_rules(settings.host, port, settings.allowed_hosts, settings.allowed_origins)
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        ended = trio.Event()
        accepting = trio.CancelScope()

        async def accept() -> None:
            with accepting:
                limits = RateLimits(MAX_WAITING, MAX_WAITING)
                async with trio.open_nursery() as room:
                    for listener in listeners:
                        room.start_soon(_accept, listener, room, limits, rules, settings)
            ended.set()

        async def let_in() -> None:
            accepting.cancel(reason="the runtime is ready")
            await ended.wait()

        nursery.start_soon(accept, name="waiting room")
        try:
            yield let_in
        except BaseException as error:  # noqa: ASYNC103  raised again below
            raised = error
        finally:
            nursery.cancel_scope.cancel(reason="the start is over")
            with trio.CancelScope(shield=True):
                for listener in listeners:
                    await listener.aclose()
    if raised is not None:
        raise raised


async def _accept(
    listener: trio.SocketListener,
    room: trio.Nursery,
    limits: RateLimits,
    rules: DoorRules,
    settings: ServerSettings,
) -> None:
    while True:
        try:
            stream = await listener.accept()
        except OSError:  # no descriptor is free
            await trio.sleep(PAUSE_SECONDS)
            continue
        room.start_soon(_answer, stream, limits, rules, settings, name="waiting client")


async def _answer(
    stream: trio.SocketStream, limits: RateLimits, rules: DoorRules, settings: ServerSettings
) -> None:
    try:
        with limits.connected(""), trio.move_on_after(settings.head_seconds):
            connection = HttpServerConnection(stream)
            answer = await _answer_to(connection, rules)
            if answer is not None:
                await stream.send_all(connection.answer_bytes(answer, keeps=False))
                await linger(stream)
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        pass  # the client has left
    finally:
        await trio.aclose_forcefully(stream)


async def _answer_to(connection: HttpServerConnection, rules: DoorRules) -> HttpAnswer | None:
    try:
        head = await connection.read_head()
        if head is None:
            return None
        rules.check(head)
    except BadHead as error:
        return HttpAnswer(error.status, str(error))
    if head.target == "/healthz":
        return HttpAnswer(200, "ok")
    return HttpAnswer(503, "starting: what the last run left open is being recovered")
