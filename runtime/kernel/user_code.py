"""Tell a crash of the application's code from the end of its task, and Trio from what else may run it.

callboard calls functions of the program that embeds it: tools, `on_approval`, models in the process.
An exception of theirs must end neither the runtime nor other sessions. `except Exception` is not
enough for that: `sys.exit` and a cancelled asyncio task raise other classes. `except BaseException` is
too much: a cancellation by Trio and the user's Ctrl-C pass through these functions too, and must
propagate.
"""

from __future__ import annotations

import threading

import trio


def check_trio(what: str, instead: str) -> None:
    """Raise `RuntimeError` when it is not Trio that runs the caller."""
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(f"{what} runs under Trio, with trio.run(…). {instead}")


def raise_stop(error: BaseException) -> None:
    """Raise the part of an exception that ends the task; return if it is only a crash."""
    if (stop := stop_in(error)) is not None:
        raise stop from None


def stop_in(error: BaseException) -> BaseException | None:
    """Return the part of an exception that ends the task, or `None` if it is only a crash.

    The stops of a group are returned without its crashes: the cancelled scope catches cancellations
    alone, and a crash beside one would propagate beyond it.
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
            # Python raises it in the main thread alone; elsewhere code raised it itself.
            return threading.current_thread() is threading.main_thread()
        case GeneratorExit():
            # Python closes a coroutine that no loop runs any more, as after a crash of Trio.
            return not trio.lowlevel.in_trio_task()
        case _:
            return False
