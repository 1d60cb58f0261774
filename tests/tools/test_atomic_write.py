"""Files are whole when they get their name, also after the machine has lost its power."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.tools.workspace.workspace import open_workspace


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_and_then_its_name_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    """A name that is on the disk before the bytes are is an empty file after a crash."""
    file = tmp_path / "a.txt"
    if replace:
        file.write_text("first")
    flushed: list[tuple[int, str]] = []
    flush = os.fsync

    def fsync(fd: int) -> None:
        flush(fd)
        inode = os.fstat(fd).st_ino
        is_named = file.exists() and file.read_bytes() == b"second"
        flushed.append((inode, "named" if is_named else "unnamed"))

    monkeypatch.setattr(os, "fsync", fsync)
    with open_workspace(tmp_path) as workspace:
        workspace.write("a.txt", b"second", replace=replace, create_dirs=False)
    assert file.read_bytes() == b"second"
    assert flushed[0] == (file.stat().st_ino, "unnamed")
    assert flushed[-1] == (tmp_path.stat().st_ino, "named")
