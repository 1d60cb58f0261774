"""Import what only some daemons need, while turns go on."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import trio

Made = TypeVar("Made")


async def import_late(make: Callable[[], Made]) -> Made:
    """Return what `make` imports and makes, in a thread.

    A package of many modules leaves tens of thousands of objects, which stay. A search for garbage among them, by
    whichever thread, holds all turns up for 50 to 150 ms: there is none while they are made, and later ones pass over them.
    """
    return await trio.to_thread.run_sync(partial(_made, make))


def _made(make: Callable[[], Made]) -> Made:
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return make()
    finally:
        gc.freeze()
        if is_collecting:
            gc.enable()
