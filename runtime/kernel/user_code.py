"""What the application's own code raises: a crash of what was called, or the end of its task.

callboard calls functions of the program that embeds it (tools, `on_approval`, models in the
process). Whatever they raise is their own crash, and must end neither the runtime nor other
sessions; `sys.exit` and a cancelled asyncio task are no `Exception`. What Trio or the program's
user raises through them is no crash, and must go on.
"""

from __future__ import annotations

import threading

import trio


def raise_stop(error: BaseException) -> None:
    """Raises what of an exception ends the task; returns when it is a crash, and no more."""
    if (stop := stop_in(error)) is not None:
        raise stop from None


def stop_in(error: BaseException) -> BaseException | None:
    """What of an exception ends the task that it came to.

    `None`: it is the crash of the code that raised it. Of a group, the stops alone: a crash beside
    a cancel must not outlive it, since the cancelled scope catches the cancel alone.
    """
    if isinstance(error, BaseExceptionGroup):
        stops, _ = error.split(_is_stop)
        return stops
    return error if _is_stop(error) else None


def _is_stop(error: BaseException) -> bool:
    match error:
        case trio.Cancelled():
            return True
        case KeyboardInterrupt():
            # Python raises it in the main thread alone; elsewhere somebody wrote `raise`.
            return threading.current_thread() is threading.main_thread()
        case GeneratorExit():
            # Python closes a coroutine that nobody runs any more, as after a crash of Trio.
            return not trio.lowlevel.in_trio_task()
        case _:
            return False
