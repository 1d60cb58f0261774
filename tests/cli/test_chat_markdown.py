"""Markdown on a terminal: the same rows however the text comes, and none wider than it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.terminal.escaping import safe_text
from callboard.cli.terminal.folding import RUNS_ON, char_columns
from callboard.cli.terminal.markdown_live import MARGIN, MarkdownRows
from callboard.cli.terminal.style import Style

TEXTS = st.text(st.sampled_from("ab* `#-\n>~1.漢\t"), max_size=120)


def shown(pieces: list[str], columns: int = 40, *, colours: bool = False) -> str:
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: columns, Style(colours=colours))
    for piece in pieces:
        rows.feed(piece)
    rows.write("\n")
    return "".join(written)


def width(row: str) -> int:
    used = 0
    for char in row:
        used += char_columns(char, used)
    return used


@given(TEXTS, st.lists(st.integers(0, 120), max_size=8))
def test_how_a_text_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(marks)]
    assert shown(pieces, 24, colours=True) == shown([text], 24, colours=True)
    assert shown(list(text), 24, colours=True) == shown([text], 24, colours=True)


@given(TEXTS, st.integers(20, 60))
def test_no_row_is_wider_than_the_terminal(text: str, columns: int) -> None:
    for row in shown([text], columns).split("\n"):
        assert width(row) < columns
        assert not row or row.startswith(MARGIN)


def test_words_are_kept_whole_and_lists_hang() -> None:
    text = "- one item that is long enough to go on\nplain words that are long enough to go on"
    assert shown([text], 25) == (
        "  • one item that is\n    long enough to go on\n"
        "  plain words that are\n  long enough to go on\n"
    )


def test_marks_are_colours_and_other_stars_are_stars() -> None:
    text = "# Head\n**bold** 2 ** 3 a**b `x **y**`\n```py\n**code**\n```\n> said"
    assert shown([text], colours=True) == (
        "  \x1b[1m# Head\x1b[0m\n"
        "  \x1b[1mbold\x1b[0m 2 ** 3 a**b \x1b[36m`x **y**`\x1b[0m\n"
        "  \x1b[2m```py\x1b[0m\n  \x1b[36m**code**\x1b[0m\n  \x1b[2m```\x1b[0m\n"
        "  \x1b[2m> said\x1b[0m\n"
    )


def test_the_row_that_is_not_whole_is_told_apart() -> None:
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: 80, Style())
    rows.feed(safe_text("one\ntw"))
    assert (written, rows.open_row) == (["  one", "\n"], "  tw")
    rows.write("note\n")
    assert ("".join(written), rows.open_row) == ("  one\n  tw\nnote\n", "")


def test_what_is_no_text_of_the_model_is_broken_between_words_too() -> None:
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: 25, Style(colours=False))
    rows.write("the daemon stops: turns have 20 s\n")
    assert "".join(written) == f"the daemon stops: turns \n{RUNS_ON}have 20 s\n"
    written.clear()
    MarkdownRows(written.append, lambda: 0, Style(colours=False)).write("a" * 90)
    assert written == ["a" * 90]
