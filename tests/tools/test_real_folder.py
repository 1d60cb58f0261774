"""A workspace whose path is real already: a link that takes the place of one of its names is refused, whenever it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.runtime.errors import ValidationError
from callboard.tools.workspace import workspace as module
from callboard.tools.workspace.resolver import open_real
from callboard.tools.workspace.workspace import open_workspace

both = pytest.mark.parametrize("use_openat2", [True, False])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "tea" / "pot").mkdir(parents=True)
    (tmp_path / "outside" / "pot").mkdir(parents=True)
    (tmp_path / "outside" / "pot" / "secret").touch()
    return tmp_path.resolve() / "root"


def swap(root: Path) -> None:
    """Put a link to the outside where the folder above the workspace was."""
    (root / "tea").rename(root / "tea2")
    (root / "tea").symlink_to(root.parent / "outside")


@both
def test_a_real_folder_is_opened_and_one_behind_a_link_is_not(
    root: Path, use_openat2: bool
) -> None:
    folder = root / "tea" / "pot"
    open_workspace(folder, is_real=True, use_openat2=use_openat2).close()
    swap(root)
    with pytest.raises(ValidationError, match=r"a link in it leads to .*outside"):
        open_workspace(folder, is_real=True, use_openat2=use_openat2)
    open_workspace(folder, use_openat2=use_openat2).close()  # its owner may have named a link


@both
@pytest.mark.parametrize("is_real", [True, False])
def test_a_link_that_comes_between_the_look_and_the_opening_is_refused(
    root: Path, use_openat2: bool, is_real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "tea" / "pot"

    def looked_at(path: str, real: str) -> None:
        swap(root)

    monkeypatch.setattr(module, "_check_root", looked_at)
    with pytest.raises(ValidationError, match="can't be opened"):
        open_workspace(folder, is_real=is_real, use_openat2=use_openat2)
    monkeypatch.undo()
    (root / "tea").unlink()
    (root / "tea2").rename(root / "tea")
    with open_workspace(folder, is_real=is_real, use_openat2=use_openat2) as opened:
        assert opened.place == os.fspath(folder)


@both
def test_a_link_at_the_last_name_is_refused_too(
    root: Path, use_openat2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:

    def swapped(path: str, flags: int, *, use_openat2: bool) -> int:
        swap(root)
        return int(open_real(path, flags, use_openat2=use_openat2))

    monkeypatch.setattr(f"{module.__name__}.open_real", swapped)
    with pytest.raises(ValidationError, match="can't be opened"):
        open_workspace(root / "tea", is_real=True, use_openat2=use_openat2)
