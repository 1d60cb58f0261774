"""What a program puts out is shown line by line, and a flood of lines many at a time."""

from __future__ import annotations

import pytest

from callboard.tools.sandbox.running.capture import MAX_LINE_CHARACTERS, MAX_LINES_AT_ONCE, Capture

PIPE_BYTES = 64 * 1024


def shown_of(*chunks: bytes) -> list[str]:
    shown: list[str] = []
    capture = Capture(1024, shown.append)
    for chunk in chunks:
        capture.add(chunk)
    capture.end()
    return shown


def test_lines_are_shown_one_by_one() -> None:
    assert shown_of(b"one\r\ntw", b"o\n\nth", b"ree") == ["one", "two", "", "three"]
    few = b"".join(b"%d\n" % number for number in range(MAX_LINES_AT_ONCE))
    assert shown_of(few) == [str(number) for number in range(MAX_LINES_AT_ONCE)]


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"a\n", b"word\n", b"w" * 500 + b"\n"])
def test_a_flood_of_lines_is_shown_in_blocks(line: bytes) -> None:
    """One at a time, 64 KiB of empty lines were as many steps of the runtime's own thread."""
    flood = line * (PIPE_BYTES // len(line)) + b"rest"
    shown = shown_of(flood)
    assert "\n".join(shown) == flood.decode().replace("\r\n", "\n")
    assert max(map(len, shown)) <= MAX_LINE_CHARACTERS
    assert len(shown) <= PIPE_BYTES // MAX_LINE_CHARACTERS * 2


def test_a_long_line_in_a_flood_is_shown_in_pieces() -> None:
    long = "w" * (2 * MAX_LINE_CHARACTERS + 10)
    flood = "\n" * 100 + long + "\n" * 100
    shown = shown_of(flood.encode())
    assert max(map(len, shown)) <= MAX_LINE_CHARACTERS
    assert "".join(shown).count("w") == len(long)
    assert len(shown) < 10
