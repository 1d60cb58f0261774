"""Long lines on a terminal: each row of foreign text says whose it is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.show.question_text import block
from callboard.cli.terminal.folding import RUNS_ON, columns_taken, folded

FORGED = "callboard asks: may read_file run? (tier: read_only)"


def test_no_padding_makes_a_row_that_looks_like_a_question() -> None:
    text = "\n".join(block("Hello." + " " * 68 + FORGED))
    rows = folded(text, 80).split("\n")
    assert len(rows) > 1
    assert all(row.startswith(("    | ", RUNS_ON)) for row in rows)
    assert not any(row.startswith("callboard") for row in rows)
    # The control: without folding the terminal itself would make such a row.
    assert text[80:].lstrip().startswith(FORGED)


def test_what_fits_and_what_is_no_terminal_is_left_alone() -> None:
    text = "short\n" + "x" * 200
    assert folded("short", 80) == "short"
    assert folded(text, None) == text


def test_colours_take_no_room_and_wide_characters_take_two() -> None:
    painted = "\x1b[31m" + "x" * 19 + "\x1b[0m"
    assert folded(painted, 20) == painted
    assert folded("\u8a9e" * 10, 21) == "\u8a9e" * 10
    assert folded("\u8a9e" * 10, 20) == "\u8a9e" * 9 + f"\n{RUNS_ON}\u8a9e"
    assert folded("\t\t\tx", 24) == f"\t\t\n{RUNS_ON}\tx"


def test_rows_end_between_words_and_a_word_that_fills_half_of_one_is_broken() -> None:
    assert folded("one two three four five six", 20) == f"one two three four \n{RUNS_ON}five six"
    painted = "one two \x1b[31mthree four\x1b[0m five six"
    rows = f"one two \x1b[31mthree four\x1b[0m \n{RUNS_ON}five six"
    assert folded(painted, 20) == rows
    assert folded("one " + "x" * 18, 20) == "one " + "x" * 15 + f"\n{RUNS_ON}xxx"


@given(st.text("ab c\t\u8a9e", max_size=200), st.integers(20, 60))
def test_words_are_not_lost_either(text: str, columns: int) -> None:
    rows = folded(text, columns).split("\n")
    assert "".join([rows[0], *(row.removeprefix(RUNS_ON) for row in rows[1:])]) == text
    assert all(columns_taken(list(row)) < columns for row in rows)


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=300), st.integers(20, 90))
def test_no_row_is_wider_and_nothing_is_lost(text: str, columns: int) -> None:
    rows = folded(text, columns).split("\n")
    assert "".join([rows[0], *(row.removeprefix(RUNS_ON) for row in rows[1:])]) == text
    for row in rows:
        width = sum(
            0 if unicodedata.category(c) in {"Mn", "Me", "Cf"} or unicodedata.combining(c)
            else 2 if unicodedata.east_asian_width(c) in "WF" else 1
            for c in row
        )  # fmt: skip
        assert width < columns


@pytest.mark.parametrize("columns", [20, 21, 80])
def test_every_row_has_the_mark(columns: int) -> None:
    first, *further = folded("y" * 500, columns).split("\n")
    assert not first.startswith(RUNS_ON)
    assert further
    assert all(row.startswith(RUNS_ON) for row in further)
