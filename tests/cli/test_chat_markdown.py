"""Markdown on a terminal: the same rows however the text comes, and none wider than it."""

from __future__ import annotations

import os
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.terminal.escaping import safe_text
from callboard.cli.terminal.folding import RUNS_ON, char_columns
from callboard.cli.terminal.markdown_live import MARGIN, MarkdownRows
from callboard.cli.terminal.rows_below import BEGIN_UPDATE, END_UPDATE, RowsBelow
from callboard.cli.terminal.style import Style
from support.cli.command import standing

TEXTS = st.lists(
    st.sampled_from(
        [*"ab* `#-\n>~1.漢\t_|[]()\\", "**", "```", "| a | b |\n", "|-|-:|\n", "[a](b)", "\n- [x] "]
    ),
    max_size=60,
).map("".join)
OWN = re.compile(r"[▸✓✗⋯]|callboard")


def shown(pieces: list[str], columns: int = 40, *, colours: bool = False) -> str:
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: columns, Style(colours=colours))
    for piece in pieces:
        rows.feed(piece)
    rows.write("\n")
    return "".join(written)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


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


@given(TEXTS)
def test_rows_that_are_drawn_again_and_again_stand_there_once(text: str) -> None:
    written: list[str] = []
    gathered: list[str] = []
    rows = MarkdownRows(gathered.append, lambda: 24, Style())
    below = RowsBelow(lambda: rows.open_rows, lambda: os.terminal_size((24, 20)))
    for piece in [*text, None]:
        rows.write("\n") if piece is None else rows.feed(piece)
        written.append(below.drawn("".join(gathered)))
        gathered.clear()
    assert standing("".join(written)) == shown([text], 24)


def test_rows_that_a_narrower_terminal_has_folded_are_erased_whole() -> None:
    size = os.terminal_size((80, 24))
    rows = ["漢" * 20, "\x1b[1mx\x1b[0m" * 79, ""]
    below = RowsBelow(lambda: rows, lambda: size)
    assert below.drawn("") == f"{BEGIN_UPDATE}{chr(10).join(rows)}{END_UPDATE}"
    assert below.drawn("") == ""
    size = os.terminal_size((39, 24))
    rows = []
    assert below.drawn("a\n") == f"{BEGIN_UPDATE}\r\x1b[5A\x1b[Ja\n{END_UPDATE}"
    assert below.drawn("b\n") == "b\n"


@given(TEXTS, st.integers(20, 60), st.booleans())
def test_no_row_is_wider_than_the_terminal(text: str, columns: int, colours: bool) -> None:
    for row in plain(shown([text], columns, colours=colours)).split("\n"):
        assert width(row) < columns
        assert not row or row.startswith(MARGIN) or colours


@given(TEXTS)
def test_no_word_is_lost(text: str) -> None:
    def letters(text: str) -> str:
        return re.sub(r"[^ab漢]", "", text)

    assert letters(plain(shown([*text], 24, colours=True))) == letters(text)


def test_words_are_kept_whole_and_lists_hang() -> None:
    text = "- one item that is long enough to go on\nplain words 汉字汉字汉。汉字"
    assert shown([text], 25) == (
        "  • one item that is\n    long enough to go on\n  plain words 汉字汉字\n  汉。汉字\n"
    )


def test_marks_are_colours_and_other_stars_are_stars() -> None:
    text = (
        "# Head\n**bold** *em* ~~no~~ 2 ** 3 a**b f_o_o `x **y**` **open [a](http://b)\n```py\n"
        "**code**\n```\n> said\n\\*as is\\* - [x]\n- [x] done"
    )
    assert shown([text], 80, colours=True) == (
        "\x1b[1;4mHead\x1b[0m\n"
        "\x1b[1mbold\x1b[0m \x1b[3mem\x1b[0m \x1b[9mno\x1b[0m 2 ** 3 a**b f_o_o \x1b[36mx **y**\x1b[0m"
        " **open \x1b[4ma\x1b[0m (http://b)\n"
        "\x1b[2m╭─ py\x1b[0m\n**code**\n\x1b[2m╰─\x1b[0m\n"
        "\x1b[2m│ \x1b[0m\x1b[3msaid\x1b[0m\n*as is* - [x]\n☑ done\n"
    )


def test_a_table_has_columns_that_fit() -> None:
    lines = ["Before", "| Name | 数 | What |", "|:-|-:|:-:|", "| `a\\|b` | 1 | **x** |"]
    lines += ["| c | 汉字 | a text that is long enough to take two rows |", "", "After"]
    for pieces in (["\n".join(lines)], [*"\n".join(lines)]):
        assert shown(pieces, 42) == (
            "  Before\n"
            "  Name  │   数 │           What\n"
            f"  ──────┼──────┼{'─' * 25}\n"
            "  `a|b` │    1 │            x\n"
            "  c     │ 汉字 │   a text that is long\n"
            "        │      │ enough to take two rows\n"
            "\n  After\n"
        )


def test_bars_that_are_no_table_are_text() -> None:
    assert shown(["| a\n| b\nc"]) == "  | a\n  | b\n  c\n"


def test_code_is_coloured_line_by_line() -> None:
    text = '```python\ndef f():\n    """One\n\n    two."""\n    return 1\n```\n'
    assert shown([text], colours=True) == (
        "\x1b[2m╭─ python\x1b[0m\n"
        "\x1b[35mdef\x1b[0m \x1b[94mf\x1b[0m():\n"
        '    \x1b[36m"""One\x1b[0m\n\n\x1b[36m    two."""\x1b[0m\n'
        "    \x1b[35mreturn\x1b[0m \x1b[94m1\x1b[0m\n"
        "\x1b[2m╰─\x1b[0m\n\n"
    )


def test_text_can_be_copied_and_never_stands_where_callboard_speaks() -> None:
    """Without a margin, but for what begins as callboard's own rows do, also where a row is broken."""
    said = "plain\n✓ write_file 1 ms\n  ▸ yes\n**callboard asks**: may x run?\n" + "a " * 10 + "✗ x"
    rows = shown([said], 24, colours=True).split("\n")
    assert rows[0] == "plain"
    assert not [row for row in map(plain, rows) if OWN.match(row)]


def test_rows_that_are_not_whole_are_told_apart() -> None:
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: 80, Style())
    rows.feed(safe_text("one\ntw"))
    assert (written, rows.open_rows) == (["  one\n"], ["  tw"])
    rows.write("note\n")
    assert ("".join(written), rows.open_rows) == ("  one\n  tw\nnote\n", [])
    rows.feed("| a | b |\n|-|-|\n| 1 |")
    assert rows.open_rows[0] == "  a │ b"
    rows.write("note\n")
    assert "".join(written).endswith("  1 │\nnote\n")


class CountingStyle(Style, frozen=True, kw_only=True):
    """Counts the characters that are painted."""

    painted: list[int]

    def coded(self, text: str, codes: str) -> str:
        self.painted.append(len(text))
        return super().coded(text, codes)


def test_what_is_laid_out_is_not_laid_out_again() -> None:
    """A long line that comes in 1,000 pieces is painted once, and not once for each of them."""
    style = CountingStyle(colours=True, painted=[])
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: 100, style)
    text = ("words with **marks** and `code`, " * 130)[:4000]
    for start in range(0, len(text), 4):
        rows.feed(text[start : start + 4])
    assert sum(style.painted) <= len(text)


def test_what_is_said_meanwhile_breaks_no_line_table_or_code() -> None:
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: 30, Style())
    for piece in ("a **bo", "ld** b\n| a | b |\n|-|-|\n| 1 ", "| 2 |\n```\nco", "de\n```\nend\n"):
        rows.feed(piece)
        rows.aside("note\n")
    assert "".join(written).replace("note\n", "") == (
        "  a bold b\n  a │ b\n  ──┼──\n  1 │ 2\n  ```\n  code\n  ```\n  end\n"
    )


def test_what_is_no_text_of_the_model_is_broken_between_words_too() -> None:
    written: list[str] = []
    rows = MarkdownRows(written.append, lambda: 25, Style(colours=False))
    rows.write("the daemon stops: turns have 20 s\n")
    assert "".join(written) == f"the daemon stops: turns \n{RUNS_ON}have 20 s\n"
    written.clear()
    MarkdownRows(written.append, lambda: 0, Style(colours=False)).write("a" * 90)
    assert written == ["a" * 90]


def test_code_can_be_read_on_every_background() -> None:
    """The grey of a comment is the background itself in some themes, and the plain blue hard to see on black."""
    text = shown(["```python\ndef f(): return 1  # why\n```\n"], colours=True)
    code = next(row for row in text.splitlines() if "why" in row)
    codes = {*re.findall(r"\x1b\[(\d+)m", code)}
    assert len(codes) > 2
    quoted = shown(["> so they said\n\n```\nx\n```\n"], colours=True)
    codes |= {*re.findall(r"\x1b\[(\d+)m", quoted)}
    assert not codes & {"30", "34", "37", "90", "97"}


def test_a_change_in_an_answer_has_the_colours_of_a_change() -> None:
    text = shown(["```diff\n-old\n+new\n same\n```\n"], colours=True)
    assert "\x1b[31m-old\x1b[0m\n\x1b[32m+new\x1b[0m\n same\n" in text
