"""What a text in plain English asks for, as steps; pure, and total: any text gives an answer.

Each clause is read by its action. What can not be done is said, never guessed: a missing name is
asked for, and a clause under a negation or a condition does nothing.
"""

from __future__ import annotations

from .clauses import Clause, split_clauses
from .clock import asks_for_time, names_only_places, read_clock
from .content import read_write
from .draft import Draft
from .language import (
    ANNOUNCING,
    CHANGES,
    CONTENT_ACTIONS,
    HELP,
    RETRACTION,
    Action,
    Kind,
    tokenize,
    words,
)
from .lookups import (
    is_sum,
    read_fetch,
    read_list,
    read_names,
    read_run,
    read_search,
    urls_of,
)
from .moves import names_of, read_change, read_copy, read_delete, read_move, read_put, read_replace
from .operands import (
    FOLDER_NOUNS,
    bare_name,
    folder_of,
    is_name,
    is_pronoun,
    raw_text,
    without_exclusions,
)
from .steps import (
    ListFolder,
    Memory,
    ReadFile,
    ResultOf,
    Said,
    SearchFiles,
    Understanding,
)

MAX_TEXT_CHARS = 32_768
"""A page of quoted text fits ten times; more belongs into a file."""

MAX_TOKENS = 2_000
"""The longest list of requests has some hundreds; reading this many takes a tenth of a second."""

_PLEASANTRIES = words(
    "hi hello hey thanks thank you please ok okay cheers great good morning afternoon evening "
    "day dear there bye goodbye nice cool and then so yes well very much a lot now everyone "
    "yo callboard assistant in advance sure perfect that's all is it for"
)
_LISTED = words(
    "files file folders folder directories directory contents entries documents workspace "
    "everything here ls subfolders"
)
_FINDS = words(
    "contain contains containing mention mentions mentioning appear appears occur occurs include "
    "includes used matches match matching"
)

_REFERRING = words("file files contents result results outcome file's")
_NAMING = words("the file is called named my it's it files are a document and here there in to") | {
    ""
}


def understand(text: str, memory: Memory | None = None) -> Understanding:
    """Reads a text; `memory` is what `it` may mean from earlier turns."""
    draft = Draft(text, memory or Memory())
    if len(text) > MAX_TEXT_CHARS:
        draft.problem(
            f"Your message has {len(text)} characters; I read at most {MAX_TEXT_CHARS}. "
            "Send it in parts."
        )
        return draft.finished()
    if (count := len(tokenize(text))) > MAX_TOKENS:
        draft.problem(
            f"Your message has {count} words; I read at most {MAX_TOKENS} outside of quotes. "
            "Send it in parts, or put what I should write in quotes."
        )
        return draft.finished()
    clauses = split_clauses(text)
    if len(clauses) == 1 and not clauses[0].negated and not clauses[0].condition:
        clauses = [_bare_request(clauses[0])]
    if any(_takes_back(clause) for clause in clauses):
        draft.problem("You took something back, so I did nothing. Tell me again what I should do.")
        return draft.finished()
    for clause in clauses:
        _read_clause(draft, clause)
    return draft.finished()


def _takes_back(clause: Clause) -> bool:
    spoken = tuple(token.word for token in clause.body if token.kind is not Kind.COMMA)
    return clause.action is Action.NONE and spoken in RETRACTION


def _bare_request(clause: Clause) -> Clause:
    # A message that is nothing but a file's name asks to see it.
    if clause.action is Action.NONE and len(clause.body) == 1 and is_name(clause.body[0]):
        return Clause(action=Action.READ, verb="read", body=clause.body, text=clause.text)
    return clause


def _read_clause(draft: Draft, clause: Clause) -> None:
    said = clause.text.strip(" ,")
    if tuple(token.word for token in tokenize(said) if token.word) in HELP:
        return
    if clause.condition and (clause.action in CHANGES or clause.action is Action.NONE):
        # "If a.txt is empty" alone asks for nothing; with a comma it holds what depends on it.
        whole = any(token.kind is Kind.COMMA for token in clause.body)
        if clause.action is not Action.NONE or whole:
            draft.problem(
                "I do one thing after the other and can not judge conditions, so I left this out: "
                f"{said}"
            )
        return
    if clause.negated:
        if clause.action in CHANGES:
            draft.problem(f"As you wished, I did not do this: {said}")
        draft.named([token.text for token in clause.body if token.kind is Kind.PATH])
        return
    if clause.action in CHANGES and _leaves_choice(clause):
        draft.problem(f"Which of them? I do not choose. You said: {said}")
        return
    if clause.action not in CONTENT_ACTIONS and clause.action not in {
        Action.REPLACE, Action.SEARCH, Action.RUN,
    }:  # fmt: skip
        kept = without_exclusions(clause.body)
        clause = Clause(action=clause.action, verb=clause.verb, body=kept, text=clause.text)
    _ACTIONS[clause.action](draft, clause)


def _leaves_choice(clause: Clause) -> bool:
    named = [token.kind is Kind.PATH or token.literal for token in clause.body]
    return any(
        token.word == "or" and any(named[:place]) and any(named[place + 1 :])
        for place, token in enumerate(clause.body)
    )


# Questions


def _read_question(draft: Draft, clause: Clause) -> None:
    body = clause.body
    plain = all(token.kind in {Kind.WORD, Kind.COMMA, Kind.COLON} for token in body)
    spoken = {token.word for token in body}
    if urls := urls_of(clause):
        read_fetch(draft, clause, urls)
    elif plain and (asks_for_time(clause.verb, body) or names_only_places(body)):
        read_clock(draft, body)
    elif is_sum(raw_text(draft.text, body)) and len(raw_text(draft.text, body)) > 1:
        read_run(draft, Clause(action=Action.RUN, verb="calculate", body=body, text=clause.text))
    elif _asks_whether_there(clause):
        read_names(draft, [token.text for token in body if is_name(token)])
    elif (
        (spoken & _FINDS and clause.action is Action.ASK)
        or (clause.verb == "look up" and any(t.literal and not is_name(t) for t in body))
        or (clause.verb in {"look in", "look into", "look inside", "check"} and "for" in spoken)
    ):
        read_search(draft, clause)
    elif _reads_unnamed(draft, clause):
        draft.problem(
            "I read files by their names: say which, as in: Read a.txt and b.txt. List the files "
            f"here shows what there is. You said: {clause.text.strip(' ,')}"
        )
    elif _means_known_files(draft, clause):
        _read_again(draft, clause)
    elif (spoken & _LISTED or clause.verb in {"what's", "what is"}) and _lists(clause):
        read_list(draft, clause)
    else:
        _read_names(draft, clause)


def _asks_whether_there(clause: Clause) -> bool:
    if any(token.word in {"anything", "something", "inside"} for token in clause.body):
        return False
    asked = clause.verb in {"is there", "are there", "do you have", "where", "where's", "does"}
    exists = any(token.word in {"exist", "exists"} for token in clause.body)
    finds = any(
        token.word in _FINDS or (token.literal and not is_name(token)) for token in clause.body
    )
    named = any(is_name(token) for token in clause.body)
    return named and not finds and (exists or (asked and clause.verb != "does"))


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
    names = names_of(clause)
    if names:
        for name in names:
            draft.found((ResultOf(draft.add(_glance(name)), name),))
        draft.named(names)
        return
    spoken = {token.word for token in clause.body}
    refers = any(is_pronoun(t) for t in clause.body) or spoken & _REFERRING
    if refers or (clause.action is Action.READ and spoken <= {"back", "again", "now", "out"}):
        if draft.latest_is_file or clause.verb.startswith("read"):
            _read_again(draft, clause)
        elif not draft.value("it"):
            _missing(draft, clause)
        return
    _missing(draft, clause)


def _reads_unnamed(draft: Draft, clause: Clause) -> bool:
    """`Read all files`, `cat *.txt`: files that only a listing could name."""
    if clause.verb.split()[0] not in {"read", "cat"} or len(draft.files("files")) > 1:
        return False
    named = [token.text for token in clause.body if token.kind is Kind.PATH]
    if any("*" in name for name in named):
        return True
    spoken = {token.word for token in clause.body}
    many = spoken & {"all", "every", "each", "everything"}
    return bool(many and (spoken & {"file", "files", "everything"}) and not named)


def _means_known_files(draft: Draft, clause: Clause) -> bool:
    spoken = {token.word for token in clause.body}
    many = "both" in spoken or (clause.verb.startswith("read") and spoken & {"files", "them"})
    return bool(many and draft.files("files")) and not any(
        token.kind is Kind.PATH or token.word in FOLDER_NOUNS for token in clause.body
    )


def _read_again(draft: Draft, clause: Clause) -> None:
    """Plans to read what `it`, `them` or `both files` means."""
    spoken = [token.word for token in clause.body]
    many = next((word for word in spoken if word in {"both", "files"}), "it")
    files = draft.files(next((t.word for t in clause.body if is_pronoun(t)), many))
    for name in files:
        draft.found((ResultOf(draft.add(ReadFile(name)), name),))
    draft.named(files)
    if not files:
        draft.problem(f"Which file? You said: {clause.text.strip(' ,')}")


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


def _read_edit(draft: Draft, clause: Clause) -> None:
    """`Edit a.txt and …` names a file for what follows; with words of its own it replaces."""
    if any(t.word in {"with", "to"} or t.kind is Kind.ARROW for t in clause.body):
        read_replace(draft, clause)
        return
    names = names_of(clause)
    draft.named(names)
    if not names:
        draft.not_understood(clause.text.strip(" ,"))


def _read_rest(draft: Draft, clause: Clause) -> None:
    """A clause without a known verb: a short question about the time, a polite word, or unknown."""
    body = clause.body
    spoken = [token.word for token in body]
    if set(spoken) & ANNOUNCING and "" not in spoken:
        return
    if len(body) == 1 and body[0].kind is Kind.CODE:
        draft.code = (body[0].language, body[0].text)
        draft.found((Said(body[0].text),))
        return
    if all(word in _PLEASANTRIES or word.strip("0123456789-.)") == "" for word in spoken) and all(
        spoken
    ):
        return
    plain = all(token.word or token.kind is Kind.COMMA for token in body)
    names = [token.text for token in body if token.kind is Kind.PATH]
    if plain and (asks_for_time("", body) or names_only_places(body)):
        read_clock(draft, body)
    elif {"contents", "content"} & set(spoken) and names_of(clause):
        _read_names(draft, clause)
    elif names and set(spoken) <= _NAMING:
        draft.named(names)
    else:
        draft.named(names)
        draft.not_understood(clause.text.strip(" ,"))


_ACTIONS = {
    Action.ASK: _read_question,
    Action.READ: _read_question,
    Action.LIST: read_list,
    Action.WRITE: read_put,
    Action.CREATE: read_write,
    Action.APPEND: read_write,
    Action.REPLACE: read_change,
    Action.SEARCH: read_search,
    Action.MOVE: read_move,
    Action.RENAME: read_move,
    Action.COPY: read_copy,
    Action.DELETE: read_delete,
    Action.FETCH: _read_question,
    Action.RUN: read_run,
    Action.EDIT: _read_edit,
    Action.NONE: _read_rest,
}
