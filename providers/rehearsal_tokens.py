"""Plain English cut into tokens, with everything that must be taken literally kept whole.

Quotations, code, addresses and file names become one token each, so that no later step can
mistake a word inside them for a request: in `write 'delete a.txt' to b.txt` nothing is deleted.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

import msgspec

from .places import looks_like_zone


class Kind(enum.Enum):
    """What a token is."""

    WORD = "word"
    QUOTE = "quote"
    CODE = "code"
    PATH = "path"
    URL = "url"
    END = "end"
    COMMA = "comma"
    COLON = "colon"
    ARROW = "arrow"


class Token(msgspec.Struct, frozen=True):
    """One token.

    Attributes:
        kind: What it is.
        text: A word as written, a quotation without its marks, code without its fence.
        start, end: Where it stands in the text, its marks included.
        language: The word behind a code fence, in small letters; may be empty.
    """

    kind: Kind
    text: str
    start: int
    end: int
    language: str = ""

    @property
    def word(self) -> str:
        """The word in small letters with plain apostrophes; empty for every other kind."""
        return self.text.casefold().replace("\u2019", "'") if self.kind is Kind.WORD else ""

    @property
    def literal(self) -> bool:
        """Whether the text is to be taken as it stands."""
        return self.kind is Kind.QUOTE or self.kind is Kind.CODE


# No quotation holds its own opening mark: else a text of nothing but marks takes quadratic time.
_SCANNER = re.compile(
    r"""
      ```(?P<language>[\w+-]*)[^\S\n]*\n?(?P<fence>.*?)\n?```
    | `(?P<tick>[^`\n]+)`
    | "(?P<double>[^"]*)" | “(?P<curly>[^”“]*)” | «(?P<guillemet>[^»«]*)»
    | (?<!\w)'(?P<single>(?:[^']|(?<=\w)'(?=\w))*)'(?!\w)
    | (?<!\w)\u2018(?P<typographic>(?:[^\u2019\u2018]|(?<=\w)\u2019(?=\w))*)\u2019(?!\w)
    | (?P<block>:[^\S\n]*\n(?!\s*```)(?:[^\n]*\S[^\n]*(?:\n|\Z))+)
    | (?P<url>(?:https?://|www\.)[^\s<>"'`“”]+)
    | (?P<arrow>->|=>|→|(?<=\s)>>?(?=\s))
    | (?P<marks>(?<=\s)(?=\.{3}|\.{0,2}[!?…;])[.!?…;]++(?=\ +(?:to|into|onto|in|with|by)\s)
        | (?<=\w)[!?…;]++(?=\ +(?:to|into|onto)\ +[\w/-]{1,200}\.\w))
    | (?P<end>[.!?…;\n]+(?=\s|$|["'”\u2019)\]]) | [!?…;\n]+)
    | (?P<comma>,)
    | (?P<colon>:(?:[^\S\n]*\n\s*(?=```))?)
    | (?P<chunk>[^\s,;!?…:"“”«»`]+)
    """,
    re.VERBOSE | re.DOTALL,
)

_NO_PATHS = frozenset(
    {
        "e.g", "i.e", "a.m", "p.m", "u.s", "u.k", "d.c", "u.s.a", "u.a.e", "n.y", "l.a", "p.s",
        "a.k.a", "w/o", "n/a", "and/or", "either/or", "he/she", "s/he", "yes/no",
    }
)  # fmt: skip
_KNOWN_FILES = frozenset({"makefile", "dockerfile", "readme", "license", "changelog"})
_PATH = re.compile(r"\.?[^\s.][^\s]*\.[A-Za-z0-9_~]{1,12}|\.[A-Za-z_][\w.-]*|.*[/\\*].*")
_RULER = re.compile(r"/{2,}|\\{2,}|\*{3,}")
_NUMBER = re.compile(r"[-+]?\d[\d.,/]*[a-zA-Z%]?")
_OPENERS = "([{<"
_CLOSERS = ".)]}>'\u2019"


def tokenize(text: str) -> list[Token]:
    """Cuts a text into tokens, in order; what is neither word nor mark is left out."""
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while match := _SCANNER.search(text, position):
        token = _token(match)
        # Progress is certain: a match is never empty, and a token ends behind where it starts.
        position = match.end() if token is None else token.end
        if token is not None:
            yield token


def _token(match: re.Match[str]) -> Token | None:
    kind = match.lastgroup
    start, end = match.span()
    assert kind is not None
    text = match[kind]
    match kind:
        case "fence":
            return Token(Kind.CODE, text, start, end, match["language"].lower())
        case "tick":
            return Token(Kind.CODE, text, start, end)
        case "block":
            return Token(Kind.QUOTE, text[1:].strip("\n").strip(" \t"), start, end)
        case "url":
            url = text.rstrip(".,;:!?)]}'\u2019")
            return Token(Kind.URL, url, start, start + max(len(url), 1))
        case "arrow" | "end" | "comma" | "colon":
            return Token(Kind[kind.upper()], text, start, end)
        case "marks":
            # "Append !! to a.txt": what goes on in small letters was no end of a sentence.
            return Token(Kind.WORD, text, start, end)
        case "chunk":
            return _chunk(text, start)
        case _:
            return Token(Kind.QUOTE, text, start, end)


def _chunk(text: str, start: int) -> Token | None:
    opened = len(text) - len(text.lstrip(_OPENERS))
    bare = text[opened:].rstrip(_CLOSERS)
    # `./` and `..` are paths, `it.` is a word and the end of a sentence.
    if not bare:
        kind = Kind.PATH if re.fullmatch(r"\.{1,2}", text) else Kind.END
        return Token(kind, text, start, start + len(text)) if "." in text else None
    begin = start + opened
    owner = re.sub(r"['\u2019]s$", "", bare)
    if owner != bare and _is_path(owner):
        return Token(Kind.PATH, owner, begin, begin + len(bare))
    kind = Kind.PATH if _is_path(bare) else Kind.WORD
    return Token(kind, bare, begin, begin + len(bare))


def _is_path(text: str) -> bool:
    lower = text.lower()
    if _RULER.fullmatch(text):
        return False
    if lower in _NO_PATHS or _NUMBER.fullmatch(text) or looks_like_zone(text):
        return False
    if lower in _KNOWN_FILES and text[0].isupper():
        return True
    return len(text) > 1 and _PATH.fullmatch(text) is not None
