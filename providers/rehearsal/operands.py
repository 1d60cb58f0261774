"""Operands picked out of a clause: names of files and folders, quoted and bare text, places."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import msgspec

from .language import NOUNS, PREPOSITIONS, PRONOUNS, WITH, Kind, Token, words
from .places import Place, find_places, looks_like_zone

FOLDER_NOUNS = words("folder directory dir folders directories subfolder subdirectory")
FILE_NOUNS = words("file document filename")
_FOLDER_LEADS = words("in inside into within under of from to at through across")
_HERE = words(
    "here this current workspace project root top working everything all it them the file files "
    "folder directory there disk each every any my computer machine general detail full order"
)
_EXCLUSIONS = words("without except excluding not besides")
_BARE_STOPS = words("back again please now me us you for file files it all everything aloud too")
_NO_NAMES = (
    NOUNS
    | PRONOUNS
    | _HERE
    | words(
        "first second third last next other another latest newest oldest whole entire right wrong big "
        "small one what which that's in of and or called named is result output"
    )
)
_FILE_NAME = re.compile(r"(?!\s)[^\n]{0,200}[^\s/]\.[A-Za-z][A-Za-z0-9]{0,4}")


class Spot(msgspec.Struct, frozen=True):
    """A token and its place in a body."""

    index: int
    token: Token


def without_exclusions(body: Sequence[Token]) -> tuple[Token, ...]:
    """A body up to `except`, `without`, `not` and the like: what follows is not to be touched."""
    for index, token in enumerate(body):
        if token.word in _EXCLUSIONS:
            return tuple(body[:index])
    return tuple(body)


def is_name(token: Token) -> bool:
    """Whether a token can only be a name: a path, or a quotation that looks like a file name."""
    return token.kind is Kind.PATH or (
        token.literal and _FILE_NAME.fullmatch(token.text) is not None
    )


def is_pronoun(token: Token) -> bool:
    """Whether a token stands for something named before."""
    return token.word in PRONOUNS


def skip_nouns(body: Sequence[Token], index: int) -> int:
    """The place of the next token that is not an article, a noun for files, or `called`."""
    while index < len(body):
        word = body[index].word
        known = word in NOUNS or word in {"called", "named", "titled", "as"}
        if not known and body[index].kind is not Kind.COLON:
            break
        index += 1
    return index


def operand_after(body: Sequence[Token], leads: frozenset[str]) -> Spot | None:
    """The first name, quotation or pronoun that one of these words leads to."""
    for index, token in enumerate(body):
        if token.word in leads or (token.kind is Kind.ARROW and "to" in leads):
            spot = operand_at(body, index + 1)
            if spot is not None:
                return spot
    return None


def operand_at(body: Sequence[Token], index: int) -> Spot | None:
    """The name, quotation or pronoun at a place, behind articles and nouns."""
    start = index
    index = skip_nouns(body, index)
    if index < len(body):
        token = body[index]
        if token.kind is Kind.PATH or token.literal or is_pronoun(token):
            return Spot(index, token)
    # "that file", "the same file": the noun ends the operand instead of leading to it.
    for noun in range(start + 1, min(index, len(body))):
        if body[noun].word in {"file", "document"}:
            return Spot(noun, body[noun])
    return None


def bare_name_after(body: Sequence[Token], leads: frozenset[str]) -> Spot | None:
    """A name without an extension: the single word behind `to`, `as`, `called`."""
    for index, token in enumerate(body):
        if token.word not in leads:
            continue
        place = skip_nouns(body, index + 1)
        if place >= len(body):
            continue
        word = body[place].word
        ends = place + 1 == len(body) or body[place + 1].word in (
            PREPOSITIONS | WITH | {"file", "folder", "directory"}
        )
        if (
            word
            and ends
            and word not in _HERE
            and word not in _BARE_STOPS
            and not is_pronoun(body[place])
        ):
            return Spot(place, body[place])
    return None


def bare_name(body: Sequence[Token]) -> Spot | None:
    """A name without an extension that must be one: `the file notes`, `the notes file`, `TODO_1`."""
    for index, token in enumerate(body):
        behind = body[index + 1] if index + 1 < len(body) else None
        word = behind.word if behind is not None else ""
        plain = word and word not in NOUNS | PREPOSITIONS | _BARE_STOPS | WITH | PRONOUNS
        if token.word in FILE_NOUNS and plain and word not in {"is", "and", "says", "exist"}:
            return Spot(index + 1, body[index + 1])
        if word == "file" and token.word and token.word not in _NO_NAMES:
            return Spot(index, token)
    content = [i for i, t in enumerate(body) if t.word not in NOUNS | _BARE_STOPS]
    if len(content) == 1:
        text = body[content[0]].text
        if body[content[0]].word and any(c.isupper() or c.isdigit() or c in "_-" for c in text):
            return Spot(content[0], body[content[0]])
    return None


def folder_of(body: Sequence[Token]) -> Spot | None:
    """The folder that a clause speaks of: `in docs/`, `in the docs folder`, `the folder docs`."""
    for index, token in enumerate(body):
        behind = body[index + 1] if index + 1 < len(body) else None
        if token.word in FOLDER_NOUNS and behind is not None:
            place = index + 1 + (behind.word in {"called", "named"})
            if place < len(body) and _names_folder(body[place]):
                return Spot(place, body[place])
        if behind is not None and behind.word in FOLDER_NOUNS and _names_folder(token):
            return Spot(index, token)
        if token.kind is Kind.PATH and token.text.endswith("/"):
            return Spot(index, token)
    return None


def bare_folder(body: Sequence[Token]) -> Spot | None:
    """A folder named by one bare word: `the files in docs`."""
    for index, token in enumerate(body):
        if token.word in _FOLDER_LEADS:
            place = skip_nouns(body, index + 1)
            if place < len(body) and _names_folder(body[place]):
                return Spot(place, body[place])
    return None


def _names_folder(token: Token) -> bool:
    if token.kind is Kind.PATH or token.kind is Kind.QUOTE or token.kind is Kind.CODE:
        return True
    word = token.word
    return bool(word) and word not in NOUNS | PREPOSITIONS | _HERE | WITH | PRONOUNS | {
        "and", "or", "is", "are", "recursively", "please", "that", "which", "now", "contents",
        "content", "tree", "structure", "listing", "called", "named", "with", "new", "whole", "entire", "main",
    }  # fmt: skip


def joined(folder: str | None, name: str) -> str:
    """A name inside a folder, unless it says itself where it is."""
    if folder is None or "/" in name or folder == name:
        return name
    return posixpath.join(folder, name)


def raw_text(text: str, tokens: Sequence[Token]) -> str:
    """The source text that these neighbouring tokens cover."""
    return text[tokens[0].start : tokens[-1].end] if tokens else ""


def places_in(body: Sequence[Token]) -> tuple[list[Place], set[int]]:
    """The places that a clause names, and which of its tokens they cover."""
    found: list[Place] = []
    covered: set[int] = set()
    names = [token.text if token.kind is Kind.WORD else "\0" for token in body]
    ends: dict[int, int] = {}
    for start, end, place in find_places(names):
        if place.name in {"nice", "cork"} or (place.name.islower() and len(place.name) < 3):
            continue
        covered.update(range(start, end))
        joint = ends.get(start - 1)
        comma = start > 0 and body[start - 1].kind is Kind.COMMA
        if comma and joint is not None and found[joint].zone == place.zone:
            found[joint] = Place(f"{found[joint].name}, {place.name}", place.zone)
        else:
            found.append(place)
            ends[end] = len(found) - 1
    return found, covered


def unknown_place(body: Sequence[Token], covered: set[int], known: frozenset[str]) -> str | None:
    """A word that stands where a place would, and is none that is known."""
    for index, token in enumerate(body):
        word = token.word.removesuffix("'s")
        if not word or index in covered or word in known:
            continue
        led = index > 0 and body[index - 1].word in {"in", "at", "for"}
        if led or looks_like_zone(token.text) or (index > 0 and token.text[0].isupper()):
            behind = index + 1
            while behind < len(body) and body[behind].text[:1].isupper() and behind not in covered:
                behind += 1
            return " ".join(t.text for t in body[index:behind])
    return None
