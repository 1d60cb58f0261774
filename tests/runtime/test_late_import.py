"""Modules that are imported while a program is at work: no search for garbage looks at them again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from callboard.runtime.kernel.late_import import import_module_late

NAME = "imported_late_by_a_test"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{NAME}.py").write_text(
        "import gc\nMADE = [[] for _ in range(1000)]\nON = gc.isenabled()"
    )
    yield NAME
    sys.modules.pop(NAME, None)
    gc.unfreeze()


async def test_what_a_late_import_leaves_is_passed_over(module: str) -> None:
    before = gc.get_freeze_count()
    await import_module_late(module)
    made = sys.modules[module].MADE
    assert gc.get_freeze_count() - before >= 1000
    assert not any(each is made for each in gc.get_objects())
    assert not sys.modules[module].ON
    assert gc.isenabled()


async def test_a_module_that_is_there_changes_nothing(module: str) -> None:
    await import_module_late(module)
    before = gc.get_freeze_count()
    await import_module_late(module)
    assert gc.get_freeze_count() <= before


async def test_what_is_missing_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="no_such_module"):
        await import_module_late("no_such_module")
    gc.unfreeze()
    assert gc.isenabled()
