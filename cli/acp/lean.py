"""Keeps a part of Python out of the process that an editor keeps for hours: 1.6 MB, which nothing there uses."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

METADATA = "importlib.metadata"


@contextmanager
def without_metadata() -> Generator[None]:
    """Have what is imported meanwhile ask Trio itself for its version; for use before there are threads.

    trio-websocket asks for that once, when it is imported, and reading the metadata of packages takes a parser of mails
    and one of archives. Whoever wants anything else of that module gets it.
    """
    if METADATA in sys.modules:
        yield
        return
    sys.modules[METADATA] = _VersionOfTrio(METADATA)
    try:
        yield
    finally:
        _remove()


class _VersionOfTrio(ModuleType):
    """Stands in for `importlib.metadata`, until more is wanted of it than the version of Trio."""

    @staticmethod
    def version(name: str) -> str:
        import trio  # here: this module is imported before anything else

        return trio.__version__ if name == "trio" else str(_own("version")(name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python looks whether it is a package
            raise AttributeError(name)
        return _own(name)


def _own(name: str) -> Any:
    """Return what the real module has."""
    _remove()
    return getattr(import_module(METADATA), name)


def _remove() -> None:
    if isinstance(sys.modules.get(METADATA), _VersionOfTrio):
        del sys.modules[METADATA]
