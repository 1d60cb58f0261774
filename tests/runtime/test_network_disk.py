"""A store is not written on another machine's disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.runtime.errors import StorageError
from callboard.runtime.store import sqlite_store
from callboard.runtime.store.file import MOUNTS, check_local
from callboard.runtime.store.sqlite_store import open_disk_store


def mounts(folder: Path, kind: str) -> Path:
    """A list in which the disk of a folder has this type, behind another disk and some fields."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    file = folder / "mountinfo"
    file.write_text(
        "21 1 4095:7 / /else rw - nfs4 server:/else rw\n"
        f"22 1 {number} /sub {folder}\\040x rw,relatime shared:1 master:2 - {kind} server:/x rw\n"
    )
    return file


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(StorageError, match=rf"network file system \({kind}\).*--data"):
        check_local(tmp_path, mounts(tmp_path, kind))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.gocryptfs"])
def test_a_local_one_is_not(tmp_path: Path, kind: str) -> None:
    check_local(tmp_path, mounts(tmp_path, kind))


def test_what_nobody_tells_refuses_nothing(tmp_path: Path) -> None:
    check_local(tmp_path, tmp_path / "missing")
    (tmp_path / "odd").write_bytes(b"\xff\n\nx - \n")
    check_local(tmp_path, tmp_path / "odd")


@pytest.mark.skipif(not MOUNTS.exists(), reason="only Linux has a list of what is mounted")
def test_the_systems_own_list_is_read(tmp_path: Path) -> None:
    check_local(tmp_path)


async def test_the_store_asks_before_it_makes_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    listed = mounts(tmp_path, "nfs4")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "check_local", lambda folder: check_local(folder, listed))
        with pytest.raises(StorageError, match="nfs4"):
            await open_disk_store(data)
    assert list(data.iterdir()) == []
    await (await open_disk_store(data)).aclose()
