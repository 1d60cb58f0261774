"""Import what only some runtimes need, while turns go on."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TypeVar

import trio

Made = TypeVar("Made")


async def import_late(make: Callable[[], Made]) -> Made:
    """Return what `make` imports and makes, in a thread.

    A package of many modules leaves tens of thousands of objects, which stay. A search for garbage among them, by
    whichever thread, holds all turns up for 50 to 150 ms: there is none while they are made, and later ones pass over them.
    """
    return await trio.to_thread.run_sync(partial(_made, make))


async def import_module_late(name: str) -> None:
    """Import a module in a thread, as `import_late` does, unless it is there.

    What is garbage of the program at its first import stays, too; later ones pass over nothing.
    """
    if name in sys.modules:  # perhaps half of it: another thread is at it
        await trio.to_thread.run_sync(import_module, name)
    else:
        await import_late(partial(import_module, name))


def _made(make: Callable[[], Made]) -> Made:
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return make()
    finally:
        gc.freeze()
        if is_collecting:
            gc.enable()
