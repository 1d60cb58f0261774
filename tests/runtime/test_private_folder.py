"""Who may look into the data folder, and who may write to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard.config.private_file import make_private_folder
from callboard.providers.recording import open_recorder
from callboard.runtime.disk.private_folder import make_folders
from callboard.runtime.errors import StorageError
from callboard.runtime.store.file import make_folder


@pytest.fixture
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.usefixtures("_no_umask")
def test_all_that_is_made_is_the_owners_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    make_folders(tmp_path / "a" / "b" / "c")
    assert [mode_of(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3


@pytest.mark.usefixtures("_no_umask")
async def test_a_data_folder_that_recordings_make_first_is_the_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "home" / "data"
    await open_recorder(data / "recordings")
    assert [mode_of(each) for each in (data.parent, data, data / "recordings")] == [0o700] * 3


@pytest.mark.parametrize(("mode", "who"), [(0o770, "its group"), (0o777, "everybody")])
@pytest.mark.parametrize("make", [make_folder, make_private_folder])
def test_a_folder_that_others_can_write_to_is_refused(
    tmp_path: Path, make: Callable[[Path], None], mode: int, who: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(StorageError, match=f"{who} can write to it .* `chmod go-w {folder}`"):
        make(folder)
    folder.chmod(mode & ~0o022)
    make(folder)


def test_a_data_folder_that_others_can_read_is_closed_unless_it_holds_more(tmp_path: Path) -> None:
    data, shared = tmp_path / "data", tmp_path / "shared"
    for folder, name in ((data, "callboard.db"), (shared, "somebody's.txt")):
        folder.mkdir()
        folder.chmod(0o755)
        (folder / name).touch()
        make_folder(folder)
    assert (mode_of(data), mode_of(shared)) == (0o700, 0o755)


def test_a_configuration_folder_may_be_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path)
    assert mode_of(tmp_path) == 0o755
