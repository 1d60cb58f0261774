"""The runtime for plain programs: the same methods as in a Trio program, but they block.

Any thread may call them. Ctrl-C, or whatever else interrupts one of them, cancels the call it waits
for, and is raised when the call is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Unpack

from ..actors.permissions.asking import Approver
from ..runtime.channel import ApprovalSaid
from ..runtime.errors import ShortTracebacks
from ..runtime.messages import ApprovalRequest
from .channels import adapted_channel
from .plain_handles import Following as Following
from .plain_handles import Records as Records
from .plain_handles import Runtime as Runtime
from .plain_handles import Session as Session
from .plain_handles import Turn as Turn
from .portal import Portal, RuntimeOptions
from .threads import close_portal, in_thread

BlockingApprover = Callable[[ApprovalRequest], ApprovalSaid]
"""A function that asks a person, or decides for them, in a thread of its own: it returns `"allow"`,
`"deny"`, a bool, or an `ApprovalAnswer`."""


def start_in_thread(
    *,
    on_approval: BlockingApprover | Approver | Literal["allow", "deny", "wait"] | None = None,
    **options: Unpack[RuntimeOptions],
) -> Runtime:
    """Run callboard in a thread of its own until the `with` block is left or `close` is called.

    Args:
        on_approval: Asks a person: a function, called in a worker thread, or an `async def` for
            Trio; or `"allow"`, `"deny"` or `"wait"` for all calls. Without it, calls that need
            approval are denied.
        **options: The other arguments of `open_runtime`. Tools that are `async def` run on Trio, and
            so do such methods of a channel; its other methods run in worker threads.

    Raises:
        CallboardError: As `open_runtime`; the thread is gone then.

    Example:
        with callboard.start_in_thread(model="rehearsal") as runtime:
            session = runtime.create_session()
            with session.prompt("What time is it in Tokyo?") as turn:
                for event in turn:
                    print(event)
    """
    approver = in_thread(on_approval) if callable(on_approval) else on_approval
    channel = adapted_channel(options.get("channel"), in_thread)
    portal = Portal({**options, "on_approval": approver, "channel": channel})
    try:
        with ShortTracebacks():
            return Runtime(portal, portal.started.result())
    except BaseException:
        close_portal(portal)
        raise
