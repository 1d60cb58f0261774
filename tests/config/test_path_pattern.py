"""Patterns of paths, beside a slow matcher that follows the words of the documentation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.config.policy.path_pattern import MAX_WILDCARDS, PathPattern, folded, judged_path

NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in {".", ".."})
PATHS = st.lists(NAMES, max_size=5).map("/".join)
WILD_NAMES = st.text("ab.*?", min_size=1, max_size=4).filter(
    lambda name: name not in {".", ".."} and "**" not in name
)
PATTERNS = st.lists(WILD_NAMES | st.just("**"), min_size=1, max_size=5).map("/".join)


def slow_name(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(slow_name(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] in {"?", name[0]} and slow_name(pattern[1:], name[1:])


def slow(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        least = 1 if len(pattern) == 1 else 0
        return any(slow(pattern[1:], path[at:]) for at in range(least, len(path) + 1))
    return bool(path) and slow_name(pattern[0], path[0]) and slow(pattern[1:], path[1:])


def split(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def collapsed(pattern: str) -> tuple[str, ...]:
    names: list[str] = []
    for name in split(pattern):
        if name != "**" or names[-1:] != ["**"]:
            names.append(name)
    return tuple(names)


@given(PATTERNS, PATHS)
def test_a_pattern_matches_what_its_description_says(pattern: str, path: str) -> None:
    names = collapsed(pattern)
    expected = names == ("**",) or slow(names, split(path))
    assert PathPattern(pattern).matches(path) is expected


@given(PATTERNS, PATHS, PATHS)
def test_a_folder_above_a_match_is_known_up_to_the_first_double_star(
    pattern: str, above: str, below: str
) -> None:
    made = PathPattern(pattern)
    path = "/".join(filter(None, (above, below)))
    names = collapsed(pattern)
    depth = names.index("**") if "**" in names else len(names)
    if below and made.matches(path) and len(split(above)) <= depth:
        assert made.reaches_into(above)


@given(PATTERNS, PATHS)
def test_the_expression_of_many_patterns_says_what_each_says(pattern: str, path: str) -> None:
    made = PathPattern(pattern)
    both = re.compile(made.expression(reaching=True), re.DOTALL)
    assert bool(both.match(path)) is (made.matches(path) or made.reaches_into(path))
    alone = re.compile(made.expression(reaching=False), re.DOTALL)
    assert bool(alone.match(path)) is made.matches(path)


@given(PATTERNS, PATHS)
def test_what_does_not_begin_with_the_head_does_not_match(pattern: str, path: str) -> None:
    made = PathPattern(pattern)
    if made.head is not None and path and split(path)[0] != made.head:
        assert not made.matches(path)
        assert not made.reaches_into(path)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("notes/**", "notes/a/b.md", True),
        ("notes/**", "notes", False),
        ("notes/**", "notes-secret/a", False),
        ("**/.env", ".env", True),
        ("**/.env", "a/b/.env", True),
        ("**/.env", "a/.environment", False),
        ("a/**/z", "a/z", True),
        ("*.md", "a.md", True),
        ("*.md", "a/b.md", False),
        ("?.md", "\u00e4.md", True),
        ("*", ".hidden", True),
        (".", "", True),
        ("**", "", True),
        ("./a//b/", "a/b", True),
        ("a*b", "a\nb", True),
    ],
)
def test_patterns_by_example(pattern: str, path: str, matches: bool) -> None:
    assert PathPattern(pattern).matches(path) is matches


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("/etc", "is absolute"),
        ("a/../b", "holds '..'"),
        ("..", "holds '..'"),
        ("", "1 to 4096 characters"),
        ("a/**b", "does not stand alone"),
        ("[ab]", "? stands for any one character"),
        ("a\\b", "? stands for any one character"),
        ("a\0", "holds"),
        ("?" * (MAX_WILDCARDS + 1), "more than 32 wildcards"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        PathPattern(pattern)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", "a/b"),
        ("./a//b/", "a/b"),
        (".", ""),
        ("", ""),
        (".env", ".env"),
        ("a/.env", "a/.env"),
        ("a/..b", "a/..b"),
        ("/a", None),
        ("a/../b", None),
        ("..", None),
        ("a/..", None),
        ("a\0b", None),
        ("a\ud800", None),
        ("a" * 4097, None),
    ],
)
def test_paths_that_the_text_alone_can_tell(text: str, path: str | None) -> None:
    assert judged_path(text) == path


def test_folding_sees_through_case_and_composition() -> None:
    assert folded("Caf\u00e9/README") == folded("cafe\u0301/readme")


def test_a_hostile_path_costs_little() -> None:
    # Backtracking would take longer than the universe has: that this ends is the test.
    pattern = PathPattern("**/" + "/".join(["*a*a*a*b", "**"] * 4) + "/x")
    assert not pattern.matches("/".join(["a" * 60] * 60))
