"""Clauses that name files to move, rename or delete."""

from __future__ import annotations

import re

from .clauses import Clause
from .content import read_write
from .draft import Draft
from .language import NOUNS, Action, Kind, Token, words
from .operands import (
    Spot,
    bare_name,
    bare_name_after,
    folder_of,
    is_name,
    is_pronoun,
    joined,
    operand_after,
    operand_at,
    raw_text,
    skip_nouns,
)
from .steps import DeleteFile, EditFile, MoveFile, ReadFile, ResultOf, WriteFile


def read_copy(draft: Draft, clause: Clause) -> None:
    """Plans `copy FILE to FILE`: a read, and a write of what was read."""
    body = clause.body
    target = operand_after(body, words("to into as -> called named")) or bare_name_after(
        body, words("to into as")
    )
    source = operand_at(body, skip_nouns(body, 0))
    while source is None and body and body[0].word in {"contents", "content", "of", "the", "from"}:
        body = body[1:]
        source = operand_at(body, skip_nouns(body, 0))
    if source is not None and target is None:
        target = operand_at(body, source.index + 1)
    if source is None or target is None or is_pronoun(target.token):
        draft.problem(f"Which file should I copy, and to which name? You said: {clause.text}")
        return
    pronoun = is_pronoun(source.token)
    names = draft.files(source.token.word) if pronoun else (source.token.text,)
    for name in names:
        path = target.token.text
        folder = folder_of(clause.body)
        if path.endswith("/") or (folder is not None and folder.token is target.token):
            path = joined(path.rstrip("/"), name.rpartition("/")[2])
        read = draft.add(ReadFile(name), quiet=True)
        draft.add(WriteFile(path, (ResultOf(read, name),)))
        draft.named([path])
    if not names:
        draft.problem(f"Which file should I copy? You said: {clause.text}")


_SEPARATORS = words("with by to for into as")
_OLD_LEADS = words(
    "all every each any the word words text string phrase occurrence occurrences instance "
    "instances of first line sentence in value"
)


def read_replace(draft: Draft, clause: Clause) -> None:
    """Plans `replace OLD with NEW in FILE`; `substitute NEW for OLD` turns them round."""
    body, files = _edit_target(draft, clause.body)
    place = next(
        (
            i
            for i, t in enumerate(body)
            if i > 0 and (t.word in _SEPARATORS or t.kind is Kind.ARROW)
        ),
        None,
    )
    if place is None or place + 1 >= len(body):
        draft.problem(f"Replace which text with which? You said: {clause.text.strip()}")
        return
    old, new = _side(draft, body[:place]), _side(draft, body[place + 1 :])
    if clause.verb == "substitute" and body[place].word == "for":
        old, new = new, old
    if not files:
        draft.problem(f"In which file? You said: {clause.text.strip()}")
        return
    if not old:
        draft.problem(f"Replace which text? You said: {clause.text.strip()}")
        return
    first_only = any(token.word == "first" for token in body[:place])
    for path in files:
        edit_file(draft, path, old, new, first_only=first_only)


def edit_file(draft: Draft, path: str, old: str, new: str, *, first_only: bool = False) -> None:
    """Plans an edit, with the read that it needs to know how often the text is there."""
    read = draft.add(ReadFile(path), quiet=True)
    draft.add(EditFile(path, old, new, read, first_only), needs=[read])
    draft.named([path])


def _edit_target(
    draft: Draft, body: tuple[Token, ...]
) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """Takes `in FILE` out of a body; without one, the file that was named last."""
    for index in range(len(body) - 1, -1, -1):
        if body[index].word not in {"in", "inside", "within", "of", "from"}:
            continue
        spot = operand_at(body, index + 1)
        if spot is None:
            continue
        rest = body[:index] + body[spot.index + 1 :]
        if is_pronoun(spot.token) or spot.token.word in {"file", "document"}:
            return rest, draft.files(spot.token.word)
        if spot.token.kind is Kind.PATH or is_name(spot.token):
            return rest, (spot.token.text,)
    if body and body[0].kind is Kind.PATH:
        return body[1:], (body[0].text,)
    return body, draft.files("it")


def _side(draft: Draft, tokens: tuple[Token, ...]) -> str:
    literals = [token.text for token in tokens if token.literal]
    if literals:
        return literals[0]
    while len(tokens) > 1 and tokens[0].word in _OLD_LEADS:
        tokens = tokens[1:]
    text = raw_text(draft.text, tokens).strip()
    return "" if re.fullmatch(r"nothing|(?:an )?empty(?: string)?", text) else text


def read_move(draft: Draft, clause: Clause) -> None:
    """Plans `move FILE to FILE`, into a folder, or under another name."""
    body = clause.body
    leads = words("to into as under inside in")
    target = operand_after(body, leads) or bare_name_after(body, leads)
    if target is None:
        names = [i for i, token in enumerate(body) if token.kind is Kind.PATH or token.literal]
        target = Spot(names[-1], body[names[-1]]) if len(names) > 1 else None
    if target is None or is_pronoun(target.token):
        draft.problem(f"Which file, and to which name? You said: {clause.text.strip(' ,')}")
        return
    before = Clause(
        action=clause.action, verb=clause.verb, body=body[: target.index], text=clause.text
    )
    sources = names_of(before) or [
        f for t in before.body[:3] if is_pronoun(t) or t.word == "file" for f in draft.files(t.word)
    ]
    if not sources or any("*" in name for name in sources):
        draft.problem(f"Which file should I move? You said: {clause.text.strip(' ,')}")
        return
    moves = [(s, _move_target(clause, target, s, many=len(sources) > 1)) for s in sources]
    for source, goal in dict(moves).items():
        draft.add(MoveFile(source, goal))
    draft.renamed(moves)


def read_change(draft: Draft, clause: Clause) -> None:
    """`Change a.txt's name to b.txt` renames; everything else replaces text."""
    renames = any(t.word == "name" for t in clause.body) and not any(t.literal for t in clause.body)
    if renames and clause.verb == "change":
        body = tuple(token for token in clause.body if token.word != "name")
        renamed = Clause(action=Action.RENAME, verb="rename", body=body, text=clause.text)
        read_move(draft, renamed)
    else:
        read_replace(draft, clause)


def read_put(draft: Draft, clause: Clause) -> None:
    """`Put a.txt in the docs folder` moves; `put "hello" in a.txt` writes."""
    body = clause.body
    folder = folder_of(body)
    bare = list(body[skip_nouns(body, 0) :])
    moves = clause.verb in {"put", "place"} and folder is not None and len(bare) > 1
    if moves and bare[0].kind is Kind.PATH and bare[1].word in {"in", "into", "to", "inside"}:
        moved = Clause(action=Action.MOVE, verb=clause.verb, body=body, text=clause.text)
        read_move(draft, moved)
    else:
        read_write(draft, clause)


def _move_target(clause: Clause, target: Spot, source: str, *, many: bool) -> str:
    name = target.token.text
    folder = folder_of(clause.body[skip_nouns(clause.body, 0) :])
    inside = folder is not None and folder.token is target.token
    bare = target.token.kind is Kind.WORD and clause.action is Action.MOVE and "." in source
    if name.endswith("/") or inside or many or bare:
        return joined(name.rstrip("/"), source.rpartition("/")[2])
    if clause.action is Action.RENAME and "/" in source and "/" not in name:
        return joined(source.rpartition("/")[0], name)
    return name


def read_delete(draft: Draft, clause: Clause) -> None:
    """Plans the deletion of files, or of a text `from FILE`."""
    body = clause.body
    quotes = [token for token in body if token.literal]
    origin = operand_after(body, words("from in of inside"))
    if quotes and origin is not None and origin.token not in quotes:
        files = [origin.token.text] if origin.token.kind is Kind.PATH else draft.files("it")
        if files and not files[0].endswith("/") and not is_name(quotes[0]):
            edit_file(draft, files[0], quotes[0].text, "")
            return
    spoken = {token.word for token in body}
    names = names_of(clause)
    folder = folder_of(body)
    if not names and folder is not None:
        names = [folder.token.text]
    if not names and (spoken & {"it", "that", "this", "them", "both", "these", "those"}):
        names = list(draft.files(next(t.word for t in body if is_pronoun(t))))
    elif not names and spoken and spoken <= {"the", "that", "same", "file", "again", "new"}:
        names = list(draft.files("it"))
    if not names or any("*" in name for name in names):
        draft.problem(f"Which file should I delete? You said: {clause.text.strip(' ,')}")
        return
    recursive = bool(spoken & words("recursively recursive everything contents -r -rf"))
    for name in names:
        draft.add(DeleteFile(name, recursive))
    draft.named(names)


def names_of(clause: Clause) -> list[str]:
    """The files that a clause names, each inside the folder that it names, if it does."""
    body = clause.body
    strong = clause.action in {Action.READ, Action.DELETE, Action.MOVE, Action.RENAME}
    named = [
        token
        for token in body
        if token.kind is Kind.PATH or (token.literal and (strong or is_name(token)))
    ]
    if not named and strong:
        bare = bare_name(body)
        named = [] if bare is None else [bare.token]
    folder = folder_of(body)
    inside = None
    if folder is not None and _holds(body, folder.index):
        inside = folder.token.text
        named = [token for token in named if token is not folder.token] or named
    return list(dict.fromkeys(joined(inside, token.text) for token in named))


def _holds(body: tuple[Token, ...], index: int) -> bool:
    """Whether the folder here is where the name before it lies: `a.txt in docs/`."""
    place = index - 1
    while place > 0 and body[place].word in NOUNS:
        place -= 1
    joint = body[place].word if place > 0 else ""
    before = body[place - 1] if place > 0 else None
    return (
        joint in {"in", "inside", "from", "within", "of", "under", "at"}
        and before is not None
        and (before.kind is Kind.PATH or before.literal or "." not in before.text)
        and before.word not in {"everything", "all", "files", "contents"}
    )
