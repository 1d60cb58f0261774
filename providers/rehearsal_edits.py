"""Clauses that change or double what is in a file: replace, copy."""

from __future__ import annotations

import re

from .rehearsal_clauses import Clause
from .rehearsal_draft import Draft
from .rehearsal_operands import (
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
from .rehearsal_steps import EditFile, ReadFile, ResultOf, WriteFile
from .rehearsal_tokens import Kind, Token
from .rehearsal_words import words


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
