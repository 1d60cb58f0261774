"""What git would keep is found without git: the names in its index, and the rules of .gitignore files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from callboard.tools.sandbox.changes.git_files import (
    GitFiles,
    is_repository,
    names_in_index,
    open_reader,
    tracked_files,
)
from support.tools.shell_edits import git

NAMES = ["a", "a.txt", "dir/with space", "dir/x/ümläut", "dir/x/y", "z" * 200, "'quoted'\t"]


def fill(folder: Path) -> None:
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


@pytest.mark.parametrize("digest", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_the_names_of_every_index_are_read(tmp_path: Path, version: str, digest: str) -> None:
    fill(tmp_path)
    (tmp_path / "untracked").touch()
    git(tmp_path, "init", "-q", f"--object-format={digest}")
    git(tmp_path, "add", "--", *NAMES)
    git(tmp_path, "update-index", "--index-version", version)
    if version == "3":  # git writes it only where an entry has a flag of that version
        git(tmp_path, "update-index", "--skip-worktree", "a.txt")
    data = (tmp_path / ".git" / "index").read_bytes()
    assert data[7] == int(version)
    assert names_in_index(data) == frozenset(NAMES)
    assert tracked_files(open_reader(str(tmp_path))) == frozenset(NAMES)


def test_a_broken_index_is_none_and_ends(tmp_path: Path) -> None:
    fill(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "--", *NAMES)
    for version in ("2", "4"):
        git(tmp_path, "update-index", "--index-version", version)
        whole = (tmp_path / ".git" / "index").read_bytes()
        assert names_in_index(b"") == names_in_index(b"DIRC") == frozenset()
        assert names_in_index(whole[:100]) == frozenset()
        assert names_in_index(whole[:8] + b"\xff\xff\xff\xff" + whole[12:]) == frozenset()
        chance = random.Random(version)
        for _ in range(300):
            broken = bytearray(whole)
            broken[chance.randrange(len(broken))] = chance.randrange(256)
            names_in_index(bytes(broken[: chance.randrange(len(broken))]))


def test_ignored_is_what_rules_pass_over_and_git_does_not_track(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n!kept.log\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_text("only-here\n")
    files = GitFiles(open_reader(str(tmp_path)), frozenset({"build/tracked"}))
    ignored = ["x.log", "sub/x.log", "build/x", "build/deep/x", "sub/only-here"]
    kept = ["x", "kept.log", "build/tracked", "only-here", ".gitignore"]
    assert [files.ignores(path) for path in ignored] == [True] * len(ignored)
    assert [files.ignores(path) for path in kept] == [False] * len(kept)


def test_a_repository_is_known_by_what_git_needs_of_it(tmp_path: Path) -> None:
    reader = open_reader(str(tmp_path))
    assert not is_repository(reader)
    (tmp_path / "elsewhere").mkdir()
    git(tmp_path / "elsewhere", "init", "-q")
    (tmp_path / ".git").symlink_to("elsewhere/.git")
    assert not is_repository(reader)
    (tmp_path / ".git").unlink()
    git(tmp_path, "init", "-q")
    assert is_repository(reader)
