"""The marks inside a line of Markdown: emphasis, code, links. A mark that opens nothing is text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .styled_rows import Piece

BOLD, ITALIC, LINK, STRUCK, CODE = "1", "3", "4", "9", "36"
"""Codes of colours; callboard's own lines have others: dim, red, green and yellow."""

MAX_HELD_CHARS = 400
"""A mark that is not closed within so many characters is text: nobody waits longer to see them."""

_MARKS = {"**": BOLD, "__": BOLD, "*": ITALIC, "_": ITALIC, "~~": STRUCK}
_TOKEN = re.compile(
    r"\\[!-/:-@\[-`{-~]|(?P<ticks>`+)|\*\*|__|\*|_|~~|!?\[(?P<text>[^\]\[]{0,180})\]\((?P<url>[^()\s]{0,200})\)"
)
_OPEN_LINK = re.compile(r"!?\[[^\]\[]{0,180}(\](\([^()\s]{0,200})?)?$")
_HALF_MARK = re.compile(r"([*_`~]+|\\|!)$")


def inline(text: str, start: int = 0, *, has_colours: bool) -> list[Piece]:
    """Return the pieces of a line behind `start`; without colours, marks that nothing else shows stay."""
    return [piece for piece in _pieces(text, start, has_colours) if piece[0]]


def stable_end(text: str, start: int) -> int:
    """Return up to where a line is drawn the same, whatever comes behind it; it is up to `start`."""
    end = len(text)
    if (half := _HALF_MARK.search(text)) is not None:
        end = half.start()
    if (link := _OPEN_LINK.search(text, start)) is not None:
        end = min(end, link.start())
    for begin, mark, close in reversed(_openings(text, start)):
        is_due = len(text) - begin <= MAX_HELD_CHARS + 2 * len(mark) + 1
        is_held = close > end or (close < 0 and is_due)
        end = begin if begin < end and is_held else end
    while text[end - 1 : end] == "\\":  # it may be about what follows
        end -= 1
    return max(end, start)


def closed(text: str, start: int) -> str:
    """Return a line that has not ended, with the marks closed that are open in it behind `start`."""
    if (half := _HALF_MARK.search(text)) is not None:
        text = text[: max(half.start(), start)]
    return text + "".join(mark for _, mark, close in reversed(_openings(text, start)) if close < 0)


def _openings(text: str, start: int) -> list[tuple[int, str, int]]:
    """Return where marks open, which, and where they are closed; -1 for those that are not."""
    found: list[tuple[int, str, int]] = []
    at = start
    ends: set[int] = set()
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        if token.start() in ends or (end := _end_of(text, token)) is None:
            continue
        found.append((token.start(), token[0], end))
        if token["ticks"] and end > 0:
            at = end
        elif end > 0:
            ends.add(end - len(token[0]))
    return found


def _end_of(text: str, token: re.Match[str]) -> int | None:
    """Return where the mark of a token is closed, -1 when it is not, `None` when it can open nothing."""
    mark = token[0]
    if token["ticks"]:
        limit = token.end() + MAX_HELD_CHARS
        close = re.compile(rf"(?<!`){mark}(?!`)").search(text, token.end(), limit)
        return -1 if close is None else close.end()
    if mark not in _MARKS or not _can_open(text, token):
        return None
    close_at = _close_of(text, mark, token.end())
    return close_at if close_at < 0 else close_at + len(mark)


def _can_open(text: str, token: re.Match[str]) -> bool:
    before, after = text[token.start() - 1 : token.start()], text[token.end() : token.end() + 1]
    return bool(after) and not after.isspace() and not (before.isalnum() and before.isascii())


def _close_of(text: str, mark: str, start: int) -> int:
    """Return where a mark that opened before `start` is closed, or -1."""
    at = start
    while (found := text.find(mark, at, start + MAX_HELD_CHARS)) >= 0:
        before, after = text[found - 1], text[found + len(mark) : found + len(mark) + 1]
        is_longer = len(mark) == 1 and (after == mark or before == mark)
        is_word = mark[0] == "_" and after.isalnum()
        if found > start and not before.isspace() and not is_longer and not is_word:
            return found
        at = found + (2 if is_longer else 1)
    return -1


def _pieces(text: str, at: int, has_colours: bool) -> Iterator[Piece]:
    open_marks: dict[str, int] = {}  # where each is closed

    def codes(*more: str) -> str:
        return ";".join(dict.fromkeys([*(_MARKS[mark] for mark in open_marks), *more]))

    for token in _TOKEN.finditer(text, at):
        start, mark = token.start(), token[0]
        if start < at:
            continue
        if token["ticks"]:
            end = _end_of(text, token)
            if end is None or end < 0:
                continue
            yield text[at:start], codes()
            inner = text[token.end() : end - len(mark)]
            yield (inner.strip() or inner if has_colours else text[start:end]), codes(CODE)
            at = end
        elif token["url"] is not None:
            yield text[at:start], codes()
            yield from _link(token, codes(), codes(LINK))
            at = token.end()
        elif mark[0] == "\\":
            yield text[at:start], codes()
            yield mark[1], codes()
            at = token.end()
        elif open_marks.get(mark) == start:
            yield text[at:start], codes()
            del open_marks[mark]
            at = token.end()
        elif mark not in open_marks and _can_open(text, token):
            close = _close_of(text, mark, token.end())
            if close < 0 or (mark == "~~" and not has_colours):
                continue
            yield text[at:start], codes()
            open_marks[mark] = close
            at = token.end()
    yield text[at:], codes()


def _link(token: re.Match[str], plain: str, link: str) -> Iterator[Piece]:
    """Yield a link with its whole address: what hides it hides where it leads."""
    text, url = token["text"], token["url"]
    if not text or text == url:
        yield url, link
        return
    yield text, link
    if url:
        yield f" ({url})", plain
