"""A value of the current Trio run, made at its first use.

What bounds or lists the work of one run must not inherit what a finished run never gave back, such as
the tokens of abandoned threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

Value = TypeVar("Value")


class RunLocal(Generic[Value]):
    """Call it to get the value of the current Trio run."""

    def __init__(self, name: str, make: Callable[[], Value]) -> None:
        self._variable: trio.lowlevel.RunVar[Value] = trio.lowlevel.RunVar(name)
        self._make = make

    def __call__(self) -> Value:
        """Return the value, after making it if need be."""
        try:
            return self._variable.get()
        except LookupError:
            value = self._make()
            self._variable.set(value)
            return value
