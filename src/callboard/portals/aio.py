"""The runtime for asyncio programs: the same methods as in a Trio program, as coroutines.

Cancelling a task that waits here cancels the call it waits for. The cancellation is raised when the
call is gone.

Example:
    import asyncio

    async def main() -> None:
        async with callboard.aio.open_runtime(model="rehearsal") as runtime:
            session = await runtime.create_session()
            async with session.prompt("What time is it in Tokyo?") as turn:
                print([event async for event in turn])

    asyncio.run(main())
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from types import TracebackType
from typing import Any, Literal, Unpack

from ..embedding.options import checked_tools
from ..runtime.channel import ApprovalSaid
from ..runtime.errors import ShortTracebacks
from ..runtime.messages import ApprovalRequest
from .aio_handles import Following as Following
from .aio_handles import Records as Records
from .aio_handles import Runtime as Runtime
from .aio_handles import Session as Session
from .aio_handles import Turn as Turn
from .channels import adapted_channel
from .event_loop import EventLoop, close_portal
from .portal import Portal, RuntimeOptions

LoopApprover = Callable[[ApprovalRequest], Awaitable[ApprovalSaid] | ApprovalSaid]
"""A function on the event loop that asks a person, or decides for them: it returns `"allow"`,
`"deny"`, a bool, or an `ApprovalAnswer`."""


def open_runtime(
    *,
    on_approval: LoopApprover | Literal["allow", "deny", "wait"] | None = None,
    **options: Unpack[RuntimeOptions],
) -> Opening:
    """Run callboard beside the running event loop: `async with open_runtime(…) as runtime:`.

    Where no block can span its life, as in a notebook, await it instead:
    `runtime = await open_runtime(…)`, and at the end `await runtime.aclose()`.

    Args:
        on_approval: Asks a person: a coroutine function, or a plain function that does not block,
            called on this event loop; or `"allow"`, `"deny"` or `"wait"` for all calls. Without it,
            calls that need approval are denied.
        **options: The other arguments of `callboard.open_runtime`. Tools that are `async def` run
            on this event loop, and so do the methods of a channel.

    Raises:
        CallboardError: When it is entered or awaited, as `callboard.open_runtime`.
    """
    return Opening(on_approval, options)


class Opening:
    """A runtime that opens when this is entered or awaited, made by `open_runtime`."""

    def __init__(
        self,
        on_approval: LoopApprover | Literal["allow", "deny", "wait"] | None,
        options: RuntimeOptions,
    ) -> None:
        self._on_approval = on_approval
        self._options = options
        self._runtime: Runtime | None = None

    def __await__(self) -> Generator[Any, None, Runtime]:
        return self._open().__await__()

    async def __aenter__(self) -> Runtime:
        self._runtime = await self._open()
        return self._runtime

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._runtime is not None
        await self._runtime.__aexit__(kind, error, traceback)

    async def _open(self) -> Runtime:
        loop = EventLoop()
        tools = [loop.adapted(tool) for tool in checked_tools(self._options.get("tools", ()))]
        choice = self._on_approval
        approver = partial(loop.call, choice) if callable(choice) else choice
        channel = adapted_channel(
            self._options.get("channel"), lambda method: partial(loop.call, method)
        )
        portal = Portal(
            {**self._options, "tools": tools, "on_approval": approver, "channel": channel}
        )
        try:
            with ShortTracebacks():
                return Runtime(portal, await asyncio.wrap_future(portal.started))
        except BaseException:
            await close_portal(portal)
            raise
