"""Clauses that look something up: folders, text in files, addresses on the web, code to run."""

from __future__ import annotations

import re

from .clauses import Clause
from .clock import asks_for_time, read_clock
from .draft import Draft
from .language import Action, Kind, Token, words
from .operands import (
    Spot,
    bare_folder,
    folder_of,
    is_name,
    is_pronoun,
    operand_after,
    raw_text,
)
from .steps import (
    FetchUrl,
    ListFolder,
    ResultOf,
    RunCode,
    SearchFiles,
    SearchWeb,
    WriteFile,
)

_SCOPE = words("in inside within across through from under")
_SEARCH_FILL = words(
    "for the a an any all every each word words text string phrase occurrence occurrences of "
    "instance instances mention mentions lines line that with containing contain contains "
    "mentioning file files which where does do is are me us up appear appears occur occurs "
    "out use uses used matching match to named called regex regexp regular expression"
)
_EVERYWHERE = words(
    "all every any files file workspace project folder directory here this my the everywhere "
    "documents current whole entire it's texts these code"
)
_WEB = words("web internet online google")
_COMMAND_LEADS = words(
    "the a this that following piece of code script snippet command program some bit in with "
    "using it please : shell terminal line one-liner"
)
_LANGUAGES = {
    "python": "python", "python3": "python", "py": "python", "bash": "bash", "shell": "bash",
    "sh": "bash", "command": "bash", "terminal": "bash",
}  # fmt: skip

_FILE_KINDS = {
    "python": "py", "text": "txt", "markdown": "md", "json": "json", "csv": "csv", "yaml": "yaml",
    "toml": "toml", "html": "html", "javascript": "js", "shell": "sh", "log": "log", "txt": "txt",
    "pdf": "pdf", "xml": "xml", "rust": "rs", "css": "css", "image": "png",
}  # fmt: skip
_HOST = re.compile(r"(?:https?://|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?::\d+)?(?:/|$))\S*")


def read_list(draft: Draft, clause: Clause) -> None:
    """Plans the listing of folders; the entries are its value."""
    body = clause.body
    plain = all(token.word or token.kind is Kind.COMMA for token in body)
    if plain and asks_for_time(clause.verb, body):
        read_clock(draft, body)
        return
    spoken = {token.word for token in body}
    globs = _globs(body)
    folders = [
        token.text
        for token in body
        if (token.kind is Kind.PATH and "*" not in token.text and f"*{token.text}" not in globs)
        or token.kind is Kind.QUOTE
    ]
    if not folders:
        spot = folder_of(body) or bare_folder(body) or _only_word(body)
        folders = [] if spot is None or spot.token.text in globs else [spot.token.text]
    recursive = bool(
        spoken & words("recursively recursive subfolders subdirectories tree everything nested -r")
    )
    hidden = bool(spoken & words("hidden -a -la -al dotfiles"))
    if globs:
        scope = folders[0] if folders else None
        draft.found(tuple(ResultOf(draft.add(SearchFiles("", scope, g)), g) for g in globs))
        return
    pieces = tuple(
        ResultOf(draft.add(ListFolder(path, recursive, hidden)), path) for path in folders or ["."]
    )
    draft.found(pieces)


def read_search(draft: Draft, clause: Clause) -> None:
    """Plans a search for text in files, or for files by their name."""
    body = clause.body
    if _seeks_time(clause):
        read_clock(draft, body)
        return
    if query := _web_query(draft, body, leads=not clause.verb.endswith("for")):
        draft.found((ResultOf(draft.add(SearchWeb(query)), query),))
        return
    named = [t for t in body if t.kind is Kind.PATH]
    quotes = [token for token in body if token.literal]
    by_name = {t.word for t in body} & {"named", "called", "file", "files"}
    if (
        (named or (_globs(body) and not _pattern(draft, body)))
        and not quotes
        and (len(body) == len(named) or by_name)
        and not _pattern(draft, body)
    ):
        scope = next((t.text for t in named if t.text.endswith("/")), None)
        names = _globs(body) or [t.text.rpartition("/")[2] for t in named]
        read_names(draft, [name for name in names if name], scope)
        return
    pattern = quotes[0].text if quotes else _pattern(draft, body)
    if not pattern:
        draft.problem(f"Which text should I look for? You said: {clause.text.strip(' ,')}")
        return
    glob = next(iter(_globs(body)), None)
    paths = [t.text for t in named if "*" not in t.text and f"*{t.text}" != glob] or _search_scope(
        draft, body
    )
    is_regex = bool({token.word for token in body} & words("regex regexp regular"))
    for scope in paths or (None,):
        number = draft.add(SearchFiles(pattern, scope, glob, is_regex))
        draft.found((ResultOf(number, pattern),))
    draft.named([t.text for t in named if t.text in paths and not t.text.endswith("/")])


def _web_query(draft: Draft, body: tuple[Token, ...], *, leads: bool) -> str:
    """What is looked for in `the web for trio` and `trio on the internet`; else nothing."""
    spoken = [token.word for token in body]
    start = 1 if spoken[:1] == ["the"] else 0
    if leads and spoken[start : start + 1] and spoken[start] in _WEB:
        wanted = body[start + 1 :]
    elif spoken[-1:] and spoken[-1] in _WEB:
        wanted = body[:-1]
        for lead in ({"the"}, {"on", "in"}):
            wanted = wanted[:-1] if wanted and wanted[-1].word in lead else wanted
        if len(wanted) + 1 == len(body) and spoken[-1] != "online":
            return ""  # no "on" leads to it: the word itself is looked for
    else:
        return ""
    literal = next((token.text for token in wanted if token.literal), None)
    while wanted and wanted[0].word in {"for", "about", "me"}:
        wanted = wanted[1:]
    return literal or raw_text(draft.text, list(wanted)).strip()


def _globs(body: tuple[Token, ...]) -> list[str]:
    """Patterns of file names: `*.py`, `.py files`, `python files`."""
    globs: list[str] = []
    for index, token in enumerate(body):
        behind = body[index + 1].word if index + 1 < len(body) else ""
        if token.kind is Kind.PATH and "*" in token.text:
            globs.append(token.text)
        elif behind in {"file", "files"} and re.fullmatch(r"\.\w{1,5}", token.text):
            globs.append(f"*{token.text}")
        elif behind in {"file", "files"} and token.word in _FILE_KINDS:
            globs.append(f"*.{_FILE_KINDS[token.word]}")
    return globs


def _only_word(body: tuple[Token, ...]) -> Spot | None:
    if len(body) == 1 and body[0].word and body[0].word not in _EVERYWHERE | {"folders", "-la"}:
        return None if body[0].word.startswith("-") else Spot(0, body[0])
    return None


def _seeks_time(clause: Clause) -> bool:
    plain = all(token.word or token.kind is Kind.COMMA for token in clause.body)
    return plain and clause.verb in {"find", "locate"} and asks_for_time("", clause.body)


def _search_scope(draft: Draft, body: tuple[Token, ...]) -> list[str]:
    spot = operand_after(body, _SCOPE)
    if spot is None and body and is_pronoun(body[0]):
        spot = Spot(0, body[0])
    if len(body) > 1 and body[1].word == "for" and body[0].word and not is_pronoun(body[0]):
        return [] if body[0].word in _EVERYWHERE else [body[0].text]
    if spot is not None and not spot.token.literal and spot.token.kind is not Kind.PATH:
        return list(draft.files(spot.token.word))
    folder = folder_of(body)
    if folder is None and (bare := bare_folder(body)) is not None:
        folder = bare if bare.token.word not in _EVERYWHERE else None
    return [] if folder is None or folder.token.literal else [folder.token.text]


def _pattern(draft: Draft, body: tuple[Token, ...]) -> str:
    """The text to look for when nothing is quoted: behind `for`, before `in`."""
    start = next((i + 1 for i, t in enumerate(body) if t.word == "for"), 0)
    end = next((i for i in range(start, len(body)) if body[i].word in _SCOPE), len(body))
    tokens = [t for t in body[start:end] if t.kind is not Kind.COMMA]
    while tokens and tokens[0].word in _SEARCH_FILL:
        tokens = tokens[1:]
    while tokens and tokens[-1].word in _SEARCH_FILL:
        tokens = tokens[:-1]
    if start == 0:
        tokens = [t for t in tokens if t.kind is not Kind.PATH]
    return raw_text(draft.text, tokens).strip()


def urls_of(clause: Clause) -> list[str]:
    """The addresses of a clause; behind a verb for fetching, `example.com` is one."""
    urls = [token.text for token in clause.body if token.kind is Kind.URL]
    if not urls and clause.action is Action.FETCH:
        named = [t.text for t in clause.body if t.literal or t.kind is Kind.PATH]
        urls = [text for text in named if _HOST.fullmatch(text)]
    return urls


def read_fetch(draft: Draft, clause: Clause, urls: list[str]) -> None:
    """Plans the fetching of addresses; the bodies are its value, or go `to FILE`."""
    pieces: list[ResultOf] = []
    for url in urls:
        whole = url if re.match(r"https?://", url) else f"https://{url}"
        pieces.append(ResultOf(draft.add(FetchUrl(whole)), whole))
    draft.found(tuple(pieces))
    target = operand_after(clause.body, words("to into as in"))
    if target is not None and is_name(target.token) and target.token.text not in urls:
        draft.add(WriteFile(target.token.text, tuple(pieces)))
        draft.named([target.token.text])


def read_names(draft: Draft, names: list[str], scope: str | None = None) -> None:
    """Plans a search for files by their names; what was found is its value."""
    for name in names:
        draft.found((ResultOf(draft.add(SearchFiles("", scope, name)), name),))


def read_run(draft: Draft, clause: Clause) -> None:
    """Plans a piece of code; its output is its value."""
    language = ""
    code = next((t for t in clause.body if t.literal), None)
    text = clause.literal or ("" if code is None else code.text)
    rest = list(clause.body)
    while rest and (rest[0].word in _COMMAND_LEADS or rest[0].word in _LANGUAGES):
        language = language or _LANGUAGES.get(rest[0].word, "")
        rest.pop(0)
    spoken = next((_LANGUAGES[t.word] for t in clause.body if t.word in _LANGUAGES), "")
    if code is not None and code.language:
        spoken = _LANGUAGES.get(code.language, spoken)
    if not text and rest and _is_code(raw_text(draft.text, rest), language):
        text = raw_text(draft.text, rest)
    maths = clause.verb.endswith(("compute", "calculate", "evaluate", "eval", "work out"))
    language = spoken or language or ("python" if maths or "python" in clause.verb else "")
    if not text and draft.code is not None:
        spoken, text = draft.code
        language = language or _LANGUAGES.get(spoken, "")
    if not text:
        draft.problem(f"Which code should I run? Put it in backticks. You said: {clause.text}")
        return
    language = language or ("python" if re.search(r"\w\(|=|\bimport\b", text) else "bash")
    if language == "python" and maths and "print" not in text and "\n" not in text:
        text = f"print({text})"
    draft.found((ResultOf(draft.add(RunCode(language, text)), "the output"),))


def _is_code(text: str, language: str) -> bool:
    if language == "bash":
        return not re.match(r"that|which|script|code|to\b", text)
    return is_sum(text) or (language == "python" and re.search(r"[(=]", text) is not None)


def is_sum(text: str) -> bool:
    """Whether a text is nothing but arithmetic."""
    return re.fullmatch(r"[\d\s.+*/%()-]*\d[\d\s.+*/%()-]*", text) is not None
