"""Patterns of .gitignore: they mean what pathspec says, and cost no more than a name is long."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

from callboard.tools.sandbox.changes.git_files import GitFiles, open_reader
from callboard.tools.search import ignore_rules
from callboard.tools.search.ignore_rules import pattern_of, spec_of

LONG_NAME = "a" * 250


def test_they_mean_the_same_as_before() -> None:
    rolled = random.Random(11)

    def word(letters: str, most: int) -> str:
        return "".join(rolled.choice(letters) for _ in range(rolled.randint(1, most)))

    fitting = 0
    for _ in range(4000):
        pattern = word("ab**?/!.", 8)
        try:
            usual = GitIgnoreSpec.from_lines([pattern])
        except ValueError:
            continue
        path = "/".join(word("ab.", 6) for _ in range(rolled.randint(1, 3)))
        fits = usual.match_file(path)
        assert spec_of([pattern_of(pattern)]).match_file(path) is fits, (pattern, path)
        fitting += fits
    assert fitting > 300  # the control: it is not all refused


def files_of(folder: Path, *lines: str) -> GitFiles:
    (folder / ".gitignore").write_text("\n".join(lines))
    return GitFiles(open_reader(str(folder)), frozenset())


def test_many_stars_on_a_long_name_cost_no_more_than_others(tmp_path: Path) -> None:
    """Each of these lines took a quarter of a second, and held the interpreter for so long."""
    files = files_of(tmp_path, *(f"*a*a*a*a{number}b" for number in range(1000)), "*a*a*aaa")
    assert files.ignores(LONG_NAME)
    assert not files.ignores(f"{LONG_NAME}0")


@pytest.mark.parametrize("pattern", ["**/a/**/b/**/c/**", "*a" * 6, "a" * 501])
def test_what_no_person_writes_is_no_pattern(tmp_path: Path, pattern: str) -> None:
    files = files_of(tmp_path, pattern, "**/x/**/*y*")
    assert files.ignores("b/x/c/zyz")
    assert not any(files.ignores(path) for path in ("a/b/c/d", "a" * 30, "a" * 501))


def test_so_many_patterns_are_read_and_so_deep_a_path_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignore_rules, "MAX_PATTERNS", 3)
    files = files_of(tmp_path, "# first", "", "one", "two", "*.x", "four")
    assert [files.ignores(path) for path in ("one", "f.x", "four")] == [True, True, False]
    assert files.ignores("d/" * 100 + "f.x")
    assert not files.ignores("d/" * 600 + "f.x")
