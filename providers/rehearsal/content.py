"""Clauses that put text into files: what to write, and where."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .clauses import Clause
from .clock import asks_for_time, read_clock
from .draft import Draft
from .language import NOUNS, WITH, Action, Kind, Token, words
from .operands import (
    FOLDER_NOUNS,
    Spot,
    bare_folder,
    bare_name_after,
    folder_of,
    is_name,
    is_pronoun,
    joined,
    operand_at,
    raw_text,
)
from .steps import (
    Clock,
    Content,
    FetchUrl,
    Intent,
    LineBreak,
    ListFolder,
    ReadFile,
    ResultOf,
    RunCode,
    Said,
    SearchFiles,
    WriteFile,
)

_INTO = words("to into in inside as onto of called named titled under")
_NEW_NAMES = words("to into in as called named titled")
_EMPTY = words("empty blank")
_COUNTS = words(
    "one two three four five six some several few couple more another extra further additional"
)
_BEFORE_TARGET = (
    NOUNS | _COUNTS | words("to into in called named me us at end of bottom following these")
)
_AT_END = words("end bottom append appended")
_NO_NOUNS = _COUNTS | words("the a an just only new that it and")
_UNSAID = words(
    "text line lines row rows sentence sentences paragraph paragraphs something anything stuff"
)
"""What stands for a text without saying it: "append another line" leaves open which."""
_LEAD_INS = (
    words(
        "the text word words line lines content contents following string phrase sentence a an new "
        "just only message and which that whose is are it says saying inside value note : exactly "
        "reads says, data number numbers name names item items sentence: "
    )
    | _COUNTS
)
_VALUE_NOUNS = words(
    "result results answer answers output response page listing list matches match everything "
    "value values contents content its body text file the of all that this it them these those "
    "both for and me from there found what you got said read wrote search names entries fetched "
    "page's webpage html same to a my i"
)
_COMPOSITIONS = words(
    "poem haiku story essay summary joke letter limerick song report function script program "
    "class paragraph article email recipe speech review analysis translation plan code"
)
_LIST_WORDS = words("list listing names files entries")


def read_write(draft: Draft, clause: Clause) -> None:
    """Plans `write CONTENT to FILE`, `create FILE with CONTENT` and their like."""
    body = clause.body
    if _makes_folder(clause):
        draft.problem(
            "I can not make an empty folder: a folder comes with the first file that is written "
            f"into it, as in: Write 'hello' to docs/a.txt. You said: {clause.text.strip()}"
        )
        return
    append = clause.action is Action.APPEND or _at_end(body)
    split = _split(body)
    targets = _targets(draft, body, split)
    if not targets:
        told = any(token.literal or is_pronoun(token) for token in body)
        vague = clause.action is Action.APPEND or clause.verb not in {"write", "save", "store"}
        if vague and not told and not any(token.word == "file" for token in body):
            draft.not_understood(clause.text.strip(" ,"))
        else:
            draft.problem(f"Which file should I write? You said: {clause.text.strip()}")
        return
    if clause.literal is not None:
        content: Content | None = (Said(clause.literal),)
    else:
        content = _content(draft, clause, split.content)
    if content is None:
        return
    line = append and any(t.word == "line" for t in split.content)
    for path in targets:
        _write(draft, path, content, append=append, line=line)
    draft.found(content)
    draft.named(targets)


def _makes_folder(clause: Clause) -> bool:
    """`Make a folder named docs`: its first noun is a folder, and no file is named."""
    if clause.action is not Action.CREATE or clause.literal is not None:
        return False
    body = clause.body
    if any(token.word in {"file", "listing", "list"} for token in body):
        return False
    lead = NOUNS - FOLDER_NOUNS | _COUNTS | _EMPTY | {"me", "us"}
    first = next((token.word for token in body if token.word not in lead), "")
    return clause.verb == "mkdir" or first in FOLDER_NOUNS


def _write(draft: Draft, path: str, content: Content, *, append: bool, line: bool) -> None:
    if line:
        read = draft.add(ReadFile(path), quiet=True)
        content = (LineBreak(read), *content, Said("\n"))
    # What was made empty just now is filled, not overwritten, which would ask a person.
    draft.add(WriteFile(path, content, append or path in draft.empty))
    draft.empty.discard(path)
    if content == (Said(""),):
        draft.empty.add(path)


class _Parts(msgspec.Struct, frozen=True):
    """A body cut in two: where its target stands, and the tokens that say its content."""

    target: Spot | None
    content: tuple[Token, ...]


def _at_end(body: Sequence[Token]) -> bool:
    if any(token.word == "from" for token in body):
        return False
    return any(t.word in _AT_END or (t.kind is Kind.ARROW and t.text == ">>") for t in body)


def _split(body: tuple[Token, ...]) -> _Parts:
    """Finds the target: first when it comes first, else the last name behind `to` or `in`."""
    first = _first_target(body)
    if first is not None:
        end = _targets_end(body, first.index)
        return _Parts(first, body[end:])
    led = _led_target(body)
    if led is not None:
        index, spot = led
        begin = _lead_begin(body, index)
        behind = body[_targets_end(body, spot.index) :]
        told = any(t.literal for t in behind) or (behind and behind[0].word in WITH)
        return _Parts(spot, body[:begin] + (behind if told else ()))
    bare = bare_name_after(body, _NEW_NAMES)
    if bare is not None:
        begin = next(i for i in range(bare.index, -1, -1) if body[i].word in _NEW_NAMES)
        behind = body[_targets_end(body, bare.index) :]
        return _Parts(bare, body[:begin] + behind)
    return _Parts(None, body)


def _led_target(body: tuple[Token, ...]) -> tuple[int, Spot] | None:
    """The last name behind `to` or `in`; a quotation that looks like no name only if none does."""
    found: list[tuple[int, Spot]] = []
    for index in range(len(body) - 1, 0, -1):
        if body[index].word in _INTO or body[index].kind is Kind.ARROW:
            spot = operand_at(body, index + 1)
            if spot is not None and not spot.token.text.endswith("/"):
                found.append((index, spot))
    named = [pair for pair in found if is_name(pair[1].token) or not pair[1].token.literal]
    return next(iter(named or found), None)


def _lead_begin(body: Sequence[Token], index: int) -> int:
    # "to a file called x", "at the end of x": all of it leads to the name.
    if body[index].word not in {"called", "named", "titled", "of"}:
        return index
    leads = {"to", "into", "in", "as", "at", "inside"}
    for begin in range(index - 1, max(index - 7, -1), -1):
        if body[begin].word in leads:
            return begin
        if not body[begin].word:
            return index
    # "Create a note called x.md": nothing before the name is content.
    return 0 if body[index].word in {"called", "named", "titled"} else index


def _first_target(body: tuple[Token, ...]) -> Spot | None:
    index = 0
    while index < len(body) and (
        body[index].word in _BEFORE_TARGET or body[index].kind is Kind.COLON
    ):
        index += 1
    if index >= len(body):
        return None
    token = body[index]
    led = index > 0 and body[index - 1].word in {"to", "into", "in", "called", "named", "file"}
    behind = body[index + 1].word if index + 1 < len(body) else ""
    followed = behind in WITH | {"that", "which"}
    if token.kind is Kind.PATH:
        copied = behind in {"to", "into", "as"} and not led
        return None if copied else Spot(index, token)
    if token.literal and (led or followed):
        return Spot(index, token)
    if is_pronoun(token) and body[index - 1 : index] and body[index - 1].word in {"to", "into"}:
        return Spot(index, token)
    if token.word and led and body[index - 1].word in {"called", "named"}:
        return Spot(index, token)
    return None


def _targets_end(body: Sequence[Token], index: int) -> int:
    """Behind the last of several targets: `a.txt, b.txt and c.txt`."""
    end = index + 1
    while end + 1 < len(body):
        step = end
        while step < len(body) and (body[step].kind is Kind.COMMA or body[step].word == "and"):
            step += 1
        if step == end or step >= len(body) or body[step].kind is not Kind.PATH:
            break
        end = step + 1
    return end


def _targets(draft: Draft, body: tuple[Token, ...], parts: _Parts) -> list[str]:
    spot = parts.target
    if spot is None:
        return []
    if is_pronoun(spot.token) or spot.token.word in {"file", "document"}:
        return list(draft.files(spot.token.word))
    tokens = body[spot.index : _targets_end(body, spot.index)]
    names = [t.text for t in tokens if t.kind is Kind.PATH or t is spot.token]
    folder = folder_of(body)
    inside = folder.token.text if folder is not None and folder.index != spot.index else None
    if inside in names:
        inside = None
    return [joined(inside, name) for name in names]


def _content(draft: Draft, clause: Clause, tokens: tuple[Token, ...]) -> Content | None:
    """What to write, or `None` after saying what is missing."""
    tokens = _trimmed(tokens)
    literals = [token.text for token in tokens if token.literal]
    if literals:
        return (Said("\n".join(literals)),)
    spoken = {token.word for token in tokens}
    if asks_for_time("", tokens):
        return _time_content(draft, tokens)
    paths = [token.text for token in tokens if token.kind is Kind.PATH]
    urls = [token.text for token in tokens if token.kind is Kind.URL]
    if urls and len(tokens) <= len(urls) + 6:
        return tuple(ResultOf(draft.add(FetchUrl(url)), url) for url in urls)
    if paths and (spoken & {"contents", "content", "copy", "text"} or len(paths) == len(tokens)):
        return tuple(ResultOf(draft.add(ReadFile(p), quiet=True), p) for p in paths)
    if spoken & _LIST_WORDS and spoken & {"files", "entries", "folder", "directory"}:
        return _list_content(draft, tokens)
    if all(token.word in _VALUE_NOUNS or token.kind is Kind.COMMA for token in tokens):
        return _referred(draft, clause, tokens)
    if spoken & _COMPOSITIONS and tokens[0].word in {"a", "an", "some", "me", "the"}:
        draft.problem(
            f"I can not compose text: I follow rules. Put the words themselves in quotes. You "
            f"said: {clause.text.strip()}"
        )
        return None
    if spoken & _UNSAID and spoken <= _UNSAID | _NO_NOUNS:
        draft.problem(f"What should I write? Put it in quotes. You said: {clause.text.strip()}")
        return None
    return (Said(raw_text(draft.text, _without_lead_in(tokens))),)


def _trimmed(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    start, end = 0, len(tokens)
    joints = WITH | {"and", "that", "which", "please", "it"}
    while start < end and (
        tokens[start].kind in {Kind.COLON, Kind.COMMA, Kind.ARROW}
        or (tokens[start].word in joints and not (end - start == 1 and is_pronoun(tokens[start])))
    ):
        pronoun = tokens[start].word in {"that", "it"} and start + 1 < end
        if pronoun and tokens[start + 1].word not in WITH:
            break
        start += 1
    marks = {Kind.COMMA, Kind.COLON}
    while end > start and (tokens[end - 1].kind in marks or tokens[end - 1].word == "please"):
        end -= 1
    return tokens[start:end]


def _without_lead_in(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    # "the text hello", "a line saying hello": the words before the text, if they name it as text.
    for index, token in enumerate(tokens[:-1]):
        if token.word not in _LEAD_INS | WITH:
            break
        noun = token.word not in _NO_NOUNS
        if noun and tokens[index + 1].word not in _LEAD_INS | WITH:
            behind = index + 1 + (tokens[index + 1].kind is Kind.COLON)
            return tokens[behind:]
    return tokens


def _time_content(draft: Draft, tokens: tuple[Token, ...]) -> Content | None:
    known = draft.value_of(Clock)
    spoken = {token.word for token in tokens}
    if known and not any(token.word[:1] and token.text[0].isupper() for token in tokens):
        many = bool(spoken & {"times", "dates", "both", "all"})
        return known if many else draft.value("it") if _is_time(draft, known) else known[-1:]
    return read_clock(draft, tokens) or None


def _is_time(draft: Draft, known: Content) -> bool:
    return all(piece in known for piece in draft.value("it"))


def _list_content(draft: Draft, tokens: tuple[Token, ...]) -> Content:
    folder = folder_of(tokens) or bare_folder(tokens)
    known = draft.value_of(ListFolder)
    if folder is None and known:
        return known[-1:]
    path = "." if folder is None else folder.token.text
    return (ResultOf(draft.add(ListFolder(path), quiet=True), path),)


def _referred(draft: Draft, clause: Clause, tokens: tuple[Token, ...]) -> Content | None:
    """What `it`, `the result` or nothing at all means."""
    spoken = {token.word for token in clause.body}
    if not tokens and (clause.action is Action.CREATE or spoken & _EMPTY):
        return (Said(""),)
    pronoun = next(
        (
            t.word
            for t in tokens
            if t.word
            in {"them", "these", "those", "both", "all", "everything", "results", "answers"}
        ),
        "it",
    )
    by_kind: dict[str, type[Intent]] = {
        "listing": ListFolder, "matches": SearchFiles, "page": FetchUrl, "output": RunCode,
    }  # fmt: skip
    content: Content = ()
    for word, kind in by_kind.items():
        if any(token.word == word for token in tokens):
            content = draft.value_of(kind)[-1:]
    content = content or draft.value(pronoun)
    if not content and draft.files("it") and tokens:
        content = tuple(
            ResultOf(draft.add(ReadFile(f), quiet=True), f) for f in draft.files(pronoun)
        )
    if not content:
        draft.problem(f"What should I write? You said: {clause.text.strip()}")
        return None
    return content
