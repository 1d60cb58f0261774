"""Lists in columns: read on a terminal, taken apart in a pipe."""

from __future__ import annotations

from callboard.cli.terminal.listing import listed
from callboard.cli.terminal.style import Style

HEADS = ("model", "note", ">calls", "title")
ROWS = [("a/b", "", "7", "short"), ("a/long-name", "", "12,000", "天气 and a rather long title 🙂")]


def lines(columns: int | None) -> list[str]:
    return listed(HEADS, ROWS, columns, Style())


def test_a_terminal_gets_heads_and_rows_that_do_not_wrap() -> None:
    assert lines(44) == [
        "model         calls  title",
        "a/b               7  short",
        "a/long-name  12,000  天气 and a rather lon…",
    ]


def test_without_room_the_last_column_stands_below() -> None:
    assert lines(32) == [
        "model         calls",
        "a/b               7",
        "    short",
        "a/long-name  12,000",
        "    天气 and a rather long tit…",
    ]


def test_without_room_for_several_columns_they_stand_below_with_their_names() -> None:
    assert lines(18) == [
        "model",
        "a/b",
        "    calls: 7  ti…",
        "a/long-name",
        "    calls: 12,00…",
    ]
    assert lines(30) == [
        "model         calls",
        "a/b               7",
        "    short",
        "a/long-name  12,000",
        "    天气 and a rather long t…",
    ]


def test_a_pipe_gets_the_rows_alone_and_whole() -> None:
    assert lines(None) == [
        "a/b               7  short",
        "a/long-name  12,000  天气 and a rather long title 🙂",
    ]


def test_nothing_has_no_heads() -> None:
    assert listed(HEADS, [], 80, Style(colours=True)) == []
