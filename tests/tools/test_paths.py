"""What a path argument may be, before any disk access."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.tools.workspace.paths import is_protected, root_names, shown, split_path

ROOTS = (root_names("/w/proj"),)

names = st.sampled_from(["..", ".", "", "a", "proj", "w", "..a", "...", "…"])
paths = st.builds(
    lambda absolute, parts: ("/" if absolute else "") + "/".join(parts),
    st.booleans(),
    st.lists(names, max_size=8),
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("notes.txt", ("notes.txt",)),
        ("a/./b//c/", ("a", "b", "c")),
        ("a/../b", ("b",)),
        (".", ()),
        ("", ()),
        ("..a/...", ("..a", "...")),
        ("~/x", ("~", "x")),
        ("/w/proj", ()),
        ("/w/proj/a", ("a",)),
        ("/w/./other/../proj/a", ("a",)),
        ("//w/proj/a", ("a",)),
        ("file\nname", ("file\nname",)),
    ],
)
def test_paths_inside_are_split(path: str, expected: tuple[str, ...]) -> None:
    assert split_path(path, ROOTS) == expected


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "a/../../x",
        "../proj/x",
        "/",
        "/etc/passwd",
        "/w/proj-secret/k",
        "/w/proj/../proj-secret/k",
        "/w/proj/../../etc/passwd",
    ],
)
def test_paths_outside_are_refused(path: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        split_path(path, ROOTS)
    assert caught.value.error_type == ErrorType.PATH_NOT_ALLOWED
    assert str(caught.value).startswith(f"{path}: not allowed.")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a\0b", "NUL"),
        ("a\ud800", "surrogate"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        ("a/" * 2049, "4096 bytes"),
    ],
)
def test_what_can_be_no_path_is_refused(path: str, why: str) -> None:
    with pytest.raises(ToolFailure, match=why) as caught:
        split_path(path)
    assert caught.value.error_type == ErrorType.VALIDATION_ERROR
    assert caught.value.details["field"] == "path"
    str(caught.value).encode()


@pytest.mark.parametrize("path", ["x" * 255, "é" * 127, "a/" * 2048])
def test_the_longest_paths_are_taken(path: str) -> None:
    assert "/".join(split_path(path)) == path.rstrip("/")


@given(paths)
def test_a_split_path_never_holds_a_way_up(path: str) -> None:
    with contextlib.suppress(ToolFailure):
        assert not {"..", ".", ""}.intersection(split_path(path, ROOTS))


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        (".git", True),
        (".git/hooks", True),
        (".git/hooks/pre-commit", True),
        (".git/config", True),
        (".git/modules/m/config", True),
        (".git/config.worktree", True),
        (".git/commondir", True),
        ("sub/.git/hooks/x", True),
        (".GIT/Hooks/x", True),
        (".git./hooks /x", True),
        (".callboard", True),
        (".callboard/anything", True),
        ("sub/Callboard.TOML", True),
        (".bashrc", True),
        ("sub/.bashrc", True),
        (".ENVRC", True),
        ("sub/.gitconfig", True),
        (".zshenv/x", True),
        ("bashrc", False),
        (".bashrc.md", False),
        (".git/index", False),
        ("git/config", False),
        ("hooks/x", False),
        (".gitignore", False),
        (".github/config", False),
        ("callboard.toml.md", False),
        (".callboard-notes", False),
        ("a", False),
    ],
)
def test_protected_names(path: str, protected: bool) -> None:
    assert is_protected(tuple(path.split("/"))) is protected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain näme …", "plain näme …"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202etxt", "\\u202etxt"),
        ("a\u200bb", "a\\u200bb"),
        ("\udcff", "\\udcff"),
        ("\x9b", "\\x9b"),
    ],
)
def test_names_are_shown_without_characters_that_deceive(name: str, expected: str) -> None:
    assert shown(name) == expected
