"""Clauses that name files to move, rename or delete."""

from __future__ import annotations

from .rehearsal_clauses import Clause
from .rehearsal_content import read_write
from .rehearsal_draft import Draft
from .rehearsal_edits import edit_file, read_replace
from .rehearsal_operands import (
    Spot,
    bare_name,
    bare_name_after,
    folder_of,
    is_name,
    is_pronoun,
    joined,
    operand_after,
    skip_nouns,
)
from .rehearsal_steps import DeleteFile, MoveFile
from .rehearsal_tokens import Kind, Token
from .rehearsal_words import NOUNS, Action, words


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
