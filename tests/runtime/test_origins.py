"""Where files came from: repositories, downloads, archives, and what the operator says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from callboard.runtime.taint.origins import Origins


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A repository that was made here."""
    folder = tmp_path / "own"
    folder.mkdir()
    git(folder, "init", "-q")
    git(
        folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one", "--allow-empty"
    )
    put(folder / "src" / "a.py")
    return folder


def is_foreign(path: Path, origins: Origins | None = None) -> bool:
    return (origins or Origins()).is_foreign(os.path.realpath(path), {})


def test_a_repository_that_fetched_from_another_is_foreign(own: Path, tmp_path: Path) -> None:
    assert not is_foreign(own / "src" / "a.py")  # the control
    git(tmp_path, "clone", "-q", str(own), "cloned")
    assert is_foreign(put(tmp_path / "cloned" / "deep" / "README.md"))
    git(tmp_path / "cloned", "remote", "remove", "origin")
    assert not is_foreign(tmp_path / "cloned" / "deep" / "README.md")
    git(tmp_path / "cloned", "fetch", "-q", str(own), "HEAD")
    assert is_foreign(tmp_path / "cloned" / "deep" / "README.md")
    assert Origins().is_foreign_folder(str(tmp_path / "cloned" / "deep"))
    assert not Origins().is_foreign_folder(str(own))


def test_settings_are_read_again_when_they_change(own: Path) -> None:
    origins, path = Origins(), own / "src" / "a.py"
    assert not is_foreign(path, origins)
    git(own, "remote", "add", "origin", "https://example.org/x.git")
    assert is_foreign(path, origins)
    git(own, "remote", "remove", "origin")
    assert not is_foreign(path, origins)
    with (own / ".git" / "config").open("a") as file:
        file.write("[include]\n\tpath = other\n")  # which may name one
    assert is_foreign(path, origins)


def test_a_worktree_is_as_its_repository(own: Path, tmp_path: Path) -> None:
    git(own, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert not is_foreign(tmp_path / "tree" / "a")
    git(own, "remote", "add", "origin", "https://example.org/x.git")
    assert is_foreign(tmp_path / "tree" / "a")
    put(tmp_path / "lost" / ".git", "gitdir: /nowhere/at/all\n")
    assert is_foreign(tmp_path / "lost" / "a")  # in doubt


def test_downloads_and_archives(tmp_path: Path) -> None:
    for name in ("a.zip", "b.tar.gz", "c.WHL", "d.tgz"):
        assert is_foreign(put(tmp_path / name)), name
    for name in ("a.txt", "zip", "gz.md"):
        assert not is_foreign(put(tmp_path / name)), name
    got = put(tmp_path / "page.html")
    try:
        os.setxattr(got, "user.xdg.origin.url", b"https://example.org/")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    assert is_foreign(got)


def test_of_what_the_operator_says_the_innermost_counts(own: Path, tmp_path: Path) -> None:
    git(own, "remote", "add", "origin", "https://example.org/x.git")
    path = own / "src" / "a.py"
    assert is_foreign(path, Origins())
    assert not is_foreign(path, Origins([str(own)]))
    assert is_foreign(path, Origins([str(own)], [str(own / "src")]))
    assert not is_foreign(path, Origins([str(path)], [str(own / "src")]))
    assert is_foreign(path, Origins([str(own)], [str(own)]))  # in doubt
    assert is_foreign(path, Origins([f"{own}x"]))
    (tmp_path / "link").symlink_to(own)
    assert not is_foreign(path, Origins([str(tmp_path / "link")]))
    assert Origins(["attachments", "/x"]).words == {"attachments"}


def test_a_path_that_is_too_deep_to_tell_is_foreign() -> None:
    assert Origins().is_foreign("/a" * 100, {})
