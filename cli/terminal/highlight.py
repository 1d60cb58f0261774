"""Colours for code in a model's answer, line by line, by Pygments.

A line is coloured when it is whole, and not again. What stands before it counts back to the last empty
line that is no part of a text or a comment, so that a long block costs no more than many short ones.
"""

from __future__ import annotations

from typing import Any

from .markdown_inline import CODE
from .styled_rows import Piece

MAX_CONTEXT_CHARS = 2_000
"""What is read again for a line at most; behind that, a text that goes on may be taken for code."""
MAX_LINE_CHARS = 500
"""A longer line has one colour: it is data, or meant to take a pattern long."""

# None is lost on a black, a white or a tinted background: some show the plain blue or the grey as nothing.
_KEYWORD, _NAME, _STRING, _NUMBER, _COMMENT = "35", "94", "36", "94", "3"
_DELETED, _INSERTED = "31", "32"  # as in the preview of a change
_OPEN, _CLOSE = "/*", "*/"


class CodeLines:
    """One block of code, a line at a time.

    Args:
        language: As the block names it; one that is not known has one colour.
    """

    def __init__(self, language: str) -> None:
        self._lexer = _lexer_of(language)
        self._context = ""

    def line(self, text: str) -> list[Piece]:
        """Return the pieces of the next line."""
        if self._lexer is None or len(text) > MAX_LINE_CHARS:
            return [(text, CODE)]
        whole = f"{self._context}{text}\n"
        pieces: list[Piece] = []
        start, at, last = len(self._context), 0, None
        for kind, value in self._lexer.get_tokens(whole):
            at += len(value)
            if at > start and (part := value[max(start - at, -len(value)) :].replace("\n", "")):
                pieces.append((part, _codes(kind)))
            last = kind
        is_between = not text.strip() and not _is_text(last)
        is_between = is_between and whole.count(_OPEN) == whole.count(_CLOSE)
        self._context = "" if is_between or len(whole) > MAX_CONTEXT_CHARS else whole
        return pieces


def _lexer_of(language: str) -> Any:
    # Here: most answers hold no code, and the table of languages takes time to import.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _codes(kind: Any) -> str:
    from pygments.token import Token  # type: ignore[import-untyped]

    for family, codes in (
        (Token.Comment, _COMMENT),
        (Token.Keyword, _KEYWORD),
        (Token.Operator.Word, _KEYWORD),
        (Token.Literal.String, _STRING),
        (Token.Literal.Number, _NUMBER),
        (Token.Name.Function, _NAME),
        (Token.Name.Class, _NAME),
        (Token.Name.Tag, _NAME),
        (Token.Name.Decorator, _NAME),
        (Token.Generic.Deleted, _DELETED),
        (Token.Generic.Inserted, _INSERTED),
    ):
        if kind in family:
            return codes
    return ""


def _is_text(kind: Any) -> bool:
    from pygments.token import Token

    return kind in Token.Literal.String or kind in Token.Comment
