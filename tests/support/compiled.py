"""Modules are compiled once, before the tests are shared among processes that would all do it.

In a fresh checkout that is two thirds of the time until the first test: pytest rewrites the assertions of
each module of tests, in each of its workers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import py_compile
import sys
from pathlib import Path
from typing import Any

import callboard

TESTS = Path(__file__).parents[1]


def compile_all() -> None:
    """Compile everything, on all processors, where there are modules of tests that were never compiled."""
    written = {path.name.partition(".")[0] for path in TESTS.rglob("__pycache__/*-pytest-*.pyc")}
    tests = [path for path in TESTS.rglob("test_*.py") if path.stem not in written]
    if not tests:
        return
    package = Path(callboard.__path__[0])
    linked = [each for each in package.iterdir() if each.is_symlink()]
    others = [path for at in (package, *linked, TESTS / "support") for path in at.rglob("*.py")]
    # Pytest's loader, which is found as pytest itself finds it.
    hook = next(each for each in sys.meta_path if hasattr(each, "mark_rewrite"))
    parts = len(os.sched_getaffinity(0))
    children = []
    for part in range(1, parts):
        if (number := os.fork()) == 0:
            try:
                _compile(tests[part::parts], others[part::parts], hook)
            finally:
                os._exit(0)
        children.append(number)
    _compile(tests[::parts], others[::parts], hook)
    for number in children:
        os.waitpid(number, 0)


def _compile(tests: list[Path], others: list[Path], hook: Any) -> None:
    for path in others:
        py_compile.compile(str(path))
    for path in tests:
        with contextlib.suppress(_WrittenError):
            hook.exec_module(_Unrun(path))


class _WrittenError(Exception):
    """The module is on disk, and would be run next."""


class _Unrun:
    """Stands for a module whose code is not to run."""

    def __init__(self, path: Path) -> None:
        self.__name__ = path.stem
        self.__spec__ = importlib.util.spec_from_file_location(path.stem, path)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        raise _WrittenError
