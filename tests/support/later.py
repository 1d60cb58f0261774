"""Packages of others that are imported when a test first uses them: each of the workers collects all tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module until something of it is asked for.

    Args:
        name: Of the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
