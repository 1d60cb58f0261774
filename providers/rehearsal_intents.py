"""What a text in plain English asks for, as steps; pure, and total: any text gives an answer.

Each clause is read by its action. What can not be done is said, never guessed: a missing name is
asked for, and a clause under a negation or a condition does nothing.
"""

from __future__ import annotations

from .rehearsal_clauses import Clause, split_clauses
from .rehearsal_clock import asks_for_time, names_only_places, read_clock
from .rehearsal_content import read_write
from .rehearsal_draft import Draft
from .rehearsal_edits import edit_file, read_copy, read_replace
from .rehearsal_lookups import read_fetch, read_list, read_run, read_search, urls_of
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
    without_exclusions,
)
from .rehearsal_steps import (
    DeleteFile,
    ListFolder,
    Memory,
    MoveFile,
    ReadFile,
    ResultOf,
    SearchFiles,
    Understanding,
)
from .rehearsal_tokens import Kind
from .rehearsal_words import CHANGES, CONTENT_ACTIONS, Action, words

MAX_TEXT_CHARS = 32_768
"""Reading a text takes time in proportion to it; this much takes a few tenths of a second."""

_PLEASANTRIES = words(
    "hi hello hey thanks thank you please ok okay cheers great good morning afternoon evening "
    "day dear there bye goodbye nice cool and then so yes well very much a lot now everyone "
    "callboard assistant in advance sure perfect that's all is it for"
)
_LISTED = words(
    "files file folders folder directories directory contents entries documents workspace "
    "everything here ls subfolders"
)
_FINDS = words(
    "contain contains containing mention mentions mentioning appear appears occur occurs include "
    "includes used matches match matching"
)


def understand(text: str, memory: Memory | None = None) -> Understanding:
    """Reads a text; `memory` is what `it` may mean from earlier turns."""
    draft = Draft(text, memory or Memory())
    if len(text) > MAX_TEXT_CHARS:
        draft.problem(
            f"Your message has {len(text)} characters; I read at most {MAX_TEXT_CHARS}. "
            "Send it in parts."
        )
        return draft.finished()
    clauses = split_clauses(text)
    if len(clauses) == 1 and not clauses[0].negated and not clauses[0].condition:
        clauses = [_bare_request(clauses[0])]
    for clause in clauses:
        _read_clause(draft, clause)
    return draft.finished()


def _bare_request(clause: Clause) -> Clause:
    # A message that is nothing but a file's name asks to see it.
    if clause.action is Action.NONE and len(clause.body) == 1 and is_name(clause.body[0]):
        return Clause(action=Action.READ, verb="read", body=clause.body, text=clause.text)
    return clause


def _read_clause(draft: Draft, clause: Clause) -> None:
    said = clause.text.strip(" ,")
    if clause.condition and (clause.action in CHANGES or clause.action is Action.NONE):
        if clause.action is not Action.NONE:
            draft.problem(f"I can not judge conditions, so I left this out: {said}")
        return
    if clause.negated:
        if clause.action in CHANGES:
            draft.problem(f"As you wished, I did not do this: {said}")
        draft.named([token.text for token in clause.body if token.kind is Kind.PATH])
        return
    if clause.action not in CONTENT_ACTIONS and clause.action not in {
        Action.REPLACE, Action.SEARCH, Action.RUN,
    }:  # fmt: skip
        kept = without_exclusions(clause.body)
        clause = Clause(action=clause.action, verb=clause.verb, body=kept, text=clause.text)
    _ACTIONS[clause.action](draft, clause)


# Questions


def _read_question(draft: Draft, clause: Clause) -> None:
    body = clause.body
    plain = all(token.kind in {Kind.WORD, Kind.COMMA, Kind.COLON} for token in body)
    spoken = {token.word for token in body}
    if urls := urls_of(clause):
        read_fetch(draft, urls)
    elif plain and (asks_for_time(clause.verb, body) or names_only_places(body)):
        read_clock(draft, body)
    elif spoken & _FINDS and clause.action is Action.ASK:
        read_search(draft, clause)
    elif (spoken & _LISTED or clause.verb in {"what's", "what is"}) and _lists(clause):
        read_list(draft, clause)
    else:
        _read_names(draft, clause)


def _lists(clause: Clause) -> bool:
    """Whether a question is about a folder, not about a file in it."""
    spoken = {token.word for token in clause.body}
    if any(token.kind is Kind.PATH and not token.text.endswith("/") for token in clause.body):
        folder = folder_of(clause.body)
        files = {t.text for t in clause.body if t.kind is Kind.PATH and is_name(t)}
        return folder is not None and files <= {folder.token.text}
    if folder_of(clause.body) is not None:
        return True
    if bare_name(clause.body) is not None and "files" not in spoken:
        return False
    return bool(spoken & (_LISTED - {"file", "contents"}))


def _read_names(draft: Draft, clause: Clause) -> None:
    names = _names(draft, clause)
    if names:
        for name in names:
            draft.found((ResultOf(draft.add(_glance(name)), name),))
        draft.named(names)
        return
    spoken = {token.word for token in clause.body}
    refers = any(is_pronoun(t) for t in clause.body) or spoken & {"file", "files", "contents"}
    if refers or (clause.action is Action.READ and spoken <= {"back", "again", "now", "out"}):
        if draft.latest_is_file or clause.verb.startswith("read"):
            files = draft.files(next((t.word for t in clause.body if is_pronoun(t)), "it"))
            for name in files:
                draft.found((ResultOf(draft.add(ReadFile(name)), name),))
            draft.named(files)
            if not files:
                draft.problem(f"Which file? You said: {clause.text.strip(' ,')}")
        elif not draft.value("it"):
            _missing(draft, clause)
        return
    _missing(draft, clause)


def _missing(draft: Draft, clause: Clause) -> None:
    spoken = {token.word for token in clause.body}
    if clause.action is Action.READ and (not clause.body or spoken & {"file", "files", "it"}):
        draft.problem(f"Which file? You said: {clause.text.strip(' ,')}")
    else:
        draft.not_understood(clause.text.strip(" ,"))


def _glance(name: str) -> ReadFile | ListFolder | SearchFiles:
    if "*" in name:
        return SearchFiles("", None, name)
    return ListFolder(name) if name.endswith("/") or name in {".", ".."} else ReadFile(name)


def _names(draft: Draft, clause: Clause) -> list[str]:
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
    if folder is not None and len(named) > 1 and folder.token in named:
        named.remove(folder.token)
        inside = folder.token.text
    elif folder is not None and named and folder.token not in named:
        inside = folder.token.text
    return list(dict.fromkeys(joined(inside, token.text) for token in named))


# Files moved and deleted


def _read_move(draft: Draft, clause: Clause) -> None:
    body = clause.body
    leads = words("to into as under inside")
    target = operand_after(body, leads) or bare_name_after(body, leads)
    if target is None or is_pronoun(target.token):
        draft.problem(f"Which file, and to which name? You said: {clause.text.strip(' ,')}")
        return
    before = Clause(
        action=clause.action, verb=clause.verb, body=body[: target.index], text=clause.text
    )
    sources = _names(draft, before) or [
        f for t in before.body[:3] if is_pronoun(t) or t.word == "file" for f in draft.files(t.word)
    ]
    if not sources or any("*" in name for name in sources):
        draft.problem(f"Which file should I move? You said: {clause.text.strip(' ,')}")
        return
    moves = [(s, _move_target(clause, target, s, many=len(sources) > 1)) for s in sources]
    for source, goal in dict(moves).items():
        draft.add(MoveFile(source, goal))
    draft.renamed(moves)


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


def _read_delete(draft: Draft, clause: Clause) -> None:
    body = clause.body
    quotes = [token for token in body if token.literal]
    origin = operand_after(body, words("from in of inside"))
    if quotes and origin is not None and origin.token not in quotes:
        files = [origin.token.text] if origin.token.kind is Kind.PATH else draft.files("it")
        if files and not files[0].endswith("/") and not is_name(quotes[0]):
            edit_file(draft, files[0], quotes[0].text, "")
            return
    spoken = {token.word for token in body}
    names = _names(draft, clause)
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


def _read_edit(draft: Draft, clause: Clause) -> None:
    """`Edit a.txt and …` names a file for what follows; with words of its own it replaces."""
    if any(t.word in {"with", "to"} or t.kind is Kind.ARROW for t in clause.body):
        read_replace(draft, clause)
        return
    names = _names(draft, clause)
    draft.named(names)
    if not names:
        draft.not_understood(clause.text.strip(" ,"))


def _read_rest(draft: Draft, clause: Clause) -> None:
    """A clause without a known verb: a short question about the time, a polite word, or unknown."""
    body = clause.body
    spoken = [token.word for token in body]
    if all(word in _PLEASANTRIES or word.strip("0123456789-.)") == "" for word in spoken) and all(
        spoken
    ):
        return
    plain = all(token.word or token.kind is Kind.COMMA for token in body)
    if plain and (asks_for_time("", body) or names_only_places(body)):
        read_clock(draft, body)
    elif {"contents", "content"} & set(spoken) and _names(draft, clause):
        _read_names(draft, clause)
    else:
        draft.not_understood(clause.text.strip(" ,"))


_ACTIONS = {
    Action.ASK: _read_question,
    Action.READ: _read_question,
    Action.LIST: read_list,
    Action.WRITE: read_write,
    Action.CREATE: read_write,
    Action.APPEND: read_write,
    Action.REPLACE: read_replace,
    Action.SEARCH: read_search,
    Action.MOVE: _read_move,
    Action.RENAME: _read_move,
    Action.COPY: read_copy,
    Action.DELETE: _read_delete,
    Action.FETCH: _read_question,
    Action.RUN: read_run,
    Action.EDIT: _read_edit,
    Action.NONE: _read_rest,
}
