"""Texts and numbers that fit: excerpts, texts without lone surrogates, hosts, integers with bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated

import msgspec

MIN_LIKENESS = 0.7
"""How similar a suggested name must be: two letters may be wrong, but not half of them."""

_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters and marks that look like nothing; Unicode's categories don't tell them from others."""
_SIGNS = "[\u0590-\u1cff\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]"
_JOINED = re.compile(f"(?<={_SIGNS})[\u200c\u200d](?={_SIGNS})")
"""Joiners where scripts and emoji need them: one by one, between their signs."""

_TWO_SPACES = re.compile(r" (?= )")
_NO_SPACE = re.compile(r"[^\S ]")

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that move a cursor, end a line or change the direction of a text."""


def excerpt(text: str, limit: int) -> str:
    """Return the first words of a text, on one line of at most `limit` characters; `…` marks a cut."""
    # Only the beginning is split: the text may have megabytes.
    start = text[: limit * 8]
    line = " ".join(_CONTROLS.sub(" ", start).split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    space = cut.rfind(" ")
    # Cut within a word if there is hardly a space: one long word, or Chinese.
    return (cut[:space] if space > limit // 2 else cut).rstrip() + "…"


def shell_word(text: str) -> str:
    """Return a text as one word of a shell's command line.

    No two white spaces stand side by side in it, and there is none but spaces: it is the same after a message has been put on one line.
    """
    import shlex  # here: few messages name a path in a command

    word = _TWO_SPACES.sub(" ''", shlex.quote(text))
    return _NO_SPACE.sub(lambda found: f"'$'\\u{ord(found[0]):04x}''", word)


def hidden_in(text: str) -> str | None:
    """Return a character of a text that models read and people don't see, by its name; `None` if there is none.

    Layout is none, nor is what scripts and emoji need: a joiner between two of their signs, the selector of emoji.
    """
    if text.isascii() and text.isprintable():
        return None
    suspects = {sign for sign in set(text) if _is_hidden(sign)}
    visible = _JOINED.sub("", text) if suspects else text
    hidden = next((sign for sign in visible if sign in suspects), None)
    if hidden is None:
        return None
    import unicodedata  # here: few texts get so far

    return f"U+{ord(hidden):04X} {unicodedata.name(hidden, 'a control character')}"


def _is_hidden(sign: str) -> bool:
    import unicodedata

    if sign in "\n\t\r":
        return False
    is_selector = "\ufe00" <= sign <= "\ufe0e" or "\U000e0100" <= sign <= "\U000e01ef"
    is_odd = unicodedata.category(sign) in {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
    return is_odd or is_selector or sign in _FILLERS


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean "…"?` about the known name that is most like this one, or nothing."""
    from difflib import get_close_matches  # few errors are about a name

    known = list(known)
    found = get_close_matches(name, known, 1, MIN_LIKENESS) or same_letters(name, known)
    return f' Did you mean "{found[0]}"?' if found else ""


def same_letters(name: str, known: Iterable[str]) -> list[str]:
    """Return the names of which this one has the letters in another order: of a short one they are not alike."""
    return [each for each in known if sorted(each) == sorted(name)]


def json_size(value: object) -> int:
    """Return how many bytes a value's JSON has."""
    return len(msgspec.json.encode(value))


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate; pairs become their character."""
    # UTF-16 joins the two halves of a pair.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_JSON_KINDS = {
    **{kind: kind for kind in ("array", "object", "null")},
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "bytes": "string of base64",
    "datetime": "string of a date and time",
    "date": "string of a date",
    "time": "string of a time",
    "duration": "string of a duration",
    "uuid": "string of a UUID",
    "decimal": "string of a number",
}
_TYPES = re.compile(r"\b([Ee]xpected |got )`(\w+(?: \| \w+)*)`")


def in_json_words(message: str) -> str:
    """Return what msgspec complains about with the types in JSON's words: string, not `str`."""

    def words(found: re.Match[str]) -> str:
        kinds = [_JSON_KINDS.get(kind) for kind in found[2].split(" | ")]
        if None in kinds:
            return found[0]
        return found[1] + " or ".join(dict.fromkeys(map(str, kinds)))

    return _TYPES.sub(words, message)


UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What decoding JSON from foreign bytes raises: msgspec leaves what is not UTF-8 to Python's own error."""

StoredInteger = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number in an event, which may go into a column of SQLite: 64 bits."""

MAX_HOSTS = 10_000
"""In a list; those that programs write fit."""
MAX_EXACT = 2**53
"""Up to here every reader of JSON has exact integers."""

WireInteger = Annotated[int, msgspec.Meta(ge=-MAX_EXACT, le=MAX_EXACT)]
"""A number that a client sends."""

_PORT = re.compile(r"[0-9]{1,5}")
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_ENDS_LIKE_AN_ADDRESS = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")


def normalize_host(host: str) -> str:
    """Return a host in lower case, without a dot at the end; IPv6 short and without brackets.

    One address has one form, which is the one that rules name: resolvers read `127.1`, `0x7f000001` and
    `::ffff:127.0.0.1` as 127.0.0.1, too.
    """
    import ipaddress  # here, as below: a start needs it not

    host = host.strip("[]").lower()
    try:
        parsed = ipaddress.IPv6Address(host)
    except ValueError:
        host = host.removesuffix(".")
    else:
        mapped = parsed.ipv4_mapped if parsed.scope_id is None else None
        return str(parsed if mapped is None else mapped)
    if _ENDS_LIKE_AN_ADDRESS.fullmatch(host):
        import socket

        with suppress(OSError):  # no address: a name that nobody can have
            return socket.inet_ntoa(socket.inet_aton(host))
    return host


def parse_host(text: str) -> tuple[str, int | None]:
    """Parse a host of a list, like `docs.python.org`, `.example.org` (every name below) or `[::1]:8080`.

    Upper case, a dot at the end and letters beyond ASCII are read as in URLs.

    Raises:
        ValueError: It is none, or not with a port.
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return _listed_host(text), None
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise ValueError(port)
    return _listed_host(host), int(port)


def check_hosts(entries: tuple[str, ...], setting: str) -> None:
    """Raise `ValueError` when one of these is neither a host nor HOST:PORT, or they are too many."""
    if isinstance(entries, str):
        raise ValueError(f"{setting}: {entries!r} is one text; write a list")
    if len(entries) > MAX_HOSTS:
        raise ValueError(f"{setting}: {len(entries)} are too many; at most {MAX_HOSTS}")
    for entry in entries:
        try:
            parse_host(entry)
        except ValueError:
            raise ValueError(
                f"{setting}: {entry!r} is not a host, like docs.python.org, nor .NAME, like "
                ".example.org for every name below it; a port may follow it (HOST:PORT), a path or a "
                "wildcard has no place here"
            ) from None


def _listed_host(text: str) -> str:
    if text.startswith("[") and text.endswith("]") and "%" not in text:
        import ipaddress

        return normalize_host(str(ipaddress.IPv6Address(text[1:-1])))
    dot, name = (".", text[1:]) if text.startswith(".") else ("", text)
    if not name.isascii():
        import idna  # httpx encodes the hosts of URLs with it

        name = idna.encode(name.lower()).decode("ascii")
    name = name.lower().removesuffix(".")
    # 127.0.0.1 is not a name below 0.0.1.
    if not _NAME.fullmatch(name) or (dot and _ENDS_LIKE_AN_ADDRESS.fullmatch(name)):
        raise ValueError(text)
    return dot + normalize_host(name)
