"""Requests in plain English become steps: a rule for each kind of request, in `_RULES`.

A rule that misses an operand says what it needs; none guesses. What was named or found last is
kept, so that `it`, `them` and `the result` have a meaning.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .clauses import (
    CHANGES,
    FOLDER,
    MAX_TEXT_CHARS,
    MAX_WORDS,
    NAME,
    PATH,
    QUOTE,
    URL,
    Action,
    Clause,
    MaskedText,
    split_clauses,
    takes_back,
)
from .places import find_places
from .plan import Content, Step, add_step

MAX_STEPS = 64
"""More requests than one message of a person holds; half of the parallel calls of a session."""


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


_IT = r"(?:it|that|this|them|these|those|both)\b"
_LEAD = (
    r"(?:(?:the|a|an|my|new|empty|existing|text|files?|document|note|called|named|contents?|of|name"
    r"|me|to|into|in|inside|as|some|all|word|then|and|two|three)\s+)*"
)
_TARGETS = rf"{NAME}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){PATH})*"
_MANY = _words("them|these|those|both|all|everything|files|results|answers|times")
_TIME = _words("times?|clock|dates?|day|weekday|hour|late")
_DATE = _words("dates?|day|weekday|human|readable")
_AROUND_TIME = _words(
    r"the|a|an|what|what's|is|it|its|current|currently|local|exact|right|now|today|today's|in|at|for|of|and|or"
    r"|also|me|us|please|with|to|here|there|be|you|tell|how|about|as|on|both|happen|have|if|my|so|by|that|up"
    r"|show|give|know|check|get|find|need|see|compare|wonder|i|do|out|iso|human|readable|format|zones?"
)
_AROUND_DELETED = re.compile(
    rf"{NAME}|{FOLDER}|\b(?:{_IT}|the|files?|called|named|new|and|also|then|now|again|in|from|recursively|everything in it)\b",
    re.IGNORECASE,
)
_LISTED = _words("files|folders?|directory|directories|workspace|entries|everything here|is here")
_FINDS = _words(r"contain\w*|mention\w*|appears?|occurs?|look for")
_VALUE = re.compile(
    rf"(?:(?:{_IT}|the|all|everything|of|current|times?|results?|answers?|output|response|page|listing|list"
    r"|match(?:es)?|values?|contents?|text|you|got|found|read|down|to)\b\s*)*",
    re.IGNORECASE,
)
_TEXT_LEAD = re.compile(
    r"(?:(?:the|a|an|another|one|more|new|following|just)\s)*(?:text|words?|lines?|string|phrase|sentence|note"
    r"|numbers?|message)(?: (?:saying|that says|which says|with))?\s*:?\s+",
    re.IGNORECASE,
)
_UNSAID = re.compile(
    r"(?:(?:the|a|an|some|more|new|another|two|three|one|few)\s+)*(?:text|lines?|words?|something|anything"
    r"|(?:poem|story|essay|summary|joke|letter|report|script|program|email)\b.*)",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"(?:(?:hi|hello|hey|thanks|thank|you|good|morning|day|bye|in|advance|very|much|all|so|a|lot)\W*)*"
    r"|help(?: me)?|what can you do|who are you",
    re.IGNORECASE,
)
_WEB = re.compile(
    r"(?:for )?(?:the )?(?:web|internet) (?:for |about )?(?P<about>.+)|(?:for )?(?P<thing>.+?) on the (?:web|internet)",
    re.IGNORECASE,
)


class Requests:
    """What a text asks for. Any text can be read.

    Args:
        text: What the person wrote.
        tools: The tools that are offered.
        files: What `it` and `them` may mean from earlier turns: files that were named.
        value: What `it` may mean from earlier turns: a text that was found.

    Attributes:
        steps: What to do; steps refer to each other by their place here.
        problems: Sentences for the person: what is missing or was left out, and why.
        unknown: What was not understood, as written.
    """

    def __init__(
        self, text: str, tools: frozenset[str], files: tuple[str, ...], value: str | None
    ) -> None:
        self.steps: list[Step] = []
        self.problems: list[str] = []
        self.unknown: list[str] = []
        no_page = "web_fetch" not in tools and "http_request" in tools
        self._fetch_tool = "http_request" if no_page else "web_fetch"
        self._files = files  # what `it` means
        self._named = list[str]()  # what `them` may mean
        self._value: Content = () if value is None else (value,)
        self._values = list[int]()  # what `both` and `all` may mean
        self._file_is_latest = bool(files)
        if len(text) > MAX_TEXT_CHARS or len(text.split()) > MAX_WORDS:
            self._problem(
                f"I read at most {MAX_TEXT_CHARS} characters and {MAX_WORDS} words. Send it in parts."
            )
            return
        self._text = MaskedText(text)
        if takes_back(self._text.text):
            self._problem("You took something back, so I did nothing. Say again what I should do.")
            return
        for clause in split_clauses(self._text.text):
            self._read(clause)

    def _problem(self, sentence: str, clause: Clause | None = None) -> None:
        said = f" You said: {self._text.raw(clause.text)}" if clause else ""
        if sentence + said not in self.problems:
            self.problems.append(sentence + said)

    def _read(self, clause: Clause) -> None:
        changes = clause.action in CHANGES
        if clause.left_out == "conditional":
            self._problem("I can not judge conditions, so I left this out.", clause)
        elif clause.left_out:
            if changes:
                self._problem("I did not do this.", clause)
            self._note_files(self._names(clause.body))
        elif changes and re.search(rf"{NAME}\s+or\s+{_LEAD}{NAME}", clause.body):
            self._problem("Which of them? I do not choose.", clause)
        elif (
            (clause.action in {"ask", "list", "unknown"} or clause.verb in {"find", "look up"})
            and not re.search(f"{NAME}|{FOLDER}|{URL}", clause.body)
            and self._asks_time(f"{clause.verb} {clause.body}")
        ):
            self._clock(clause.body)
        else:
            _RULES[clause.action](self, clause)

    # Steps, and what they leave for `it`

    def _add(self, tool: str, label: str = "", /, **options: Any) -> int:
        """Plan a call and return its number; arguments that are empty or false are left out."""
        if len(self.steps) >= MAX_STEPS:
            self._problem(
                f"I take at most {MAX_STEPS} steps from one message; send the rest later."
            )
            return MAX_STEPS - 1
        fields = {
            key: options.pop(key)
            for key in ("content", "own_line", "edited", "quiet")
            if key in options
        }
        arguments = {key.rstrip("_"): value for key, value in options.items() if value}
        return add_step(self.steps, Step(tool=tool, arguments=arguments, label=label, **fields))

    def _add_read(self, name: str) -> int:
        """Plan to read a file for another step."""
        return self._add("read_file", name, path=name, quiet=True)

    def _note_files(self, files: Iterable[str]) -> None:
        if fresh := tuple(dict.fromkeys(files)):
            self._files = fresh
            self._named += [name for name in fresh if name not in self._named]
            self._file_is_latest = True

    def _note_value(self, numbers: Iterable[int]) -> Content:
        found = tuple(numbers)
        self._value = found or self._value
        self._file_is_latest = self._file_is_latest and not found
        self._values += [number for number in found if number not in self._values]
        return found

    def _get(self, tool: str, key: str, names: Iterable[str], **options: Any) -> Content:
        """Plan a call for each name, and note the results as the latest value."""
        return self._note_value([self._add(tool, name, **{key: name}, **options) for name in names])

    def _meant_files(self, body: str) -> tuple[str, ...]:
        """Return the files that the pronouns of a body mean."""
        if not _MANY.search(body):
            return self._files[-1:]
        return self._files if len(self._files) > 1 else tuple(self._named) or self._files

    def _meant_value(self, body: str) -> Content:
        """Return the value that the pronouns of a body mean."""
        if not _MANY.search(body) or (len(self._value) > 1 and "all" not in body):
            return self._value
        return tuple(self._values[-2:] if "both" in body else self._values) or self._value

    def _of(self, kind: str, body: str) -> list[str]:
        return [self._text.of(char) for char in re.findall(kind, body)]

    def _names(self, body: str) -> list[str]:
        """Return the files that a body names, in the folder that it names for them."""
        body = re.split(r"\b(?:except|without|excluding)\b", body)[0]
        names = self._of(NAME, body)
        if re.search(rf"{NAME}\s+(?:in|inside|from|of)\s+(?:the\s+)?{FOLDER}", body):
            names = [_inside(self._of(FOLDER, body)[-1], name) for name in names]
        return names

    # Rules

    def _ask(self, clause: Clause) -> None:
        body = clause.body
        if re.search(URL, body):
            self._fetch(clause)
        elif re.search(QUOTE, body) and _FINDS.search(f"{clause.verb} {body}"):
            self._search(clause)
        elif "*" in "".join(self._names(body)) or (re.search(r"\b(?:all|every|each) files?$", body) and clause.verb == "read"):  # fmt: skip
            self._problem("I read files by their names, as in: Read a.txt and b.txt.", clause)
        elif names := self._names(body):
            self._get("read_file", "path", names)
            self._note_files(names)
        elif re.search(FOLDER, body) or (_LISTED.search(body) and not (clause.verb == "read" or "both" in body)):  # fmt: skip
            self._list(clause)
        elif _words(rf"{_IT}|back|again|files?|results?|contents?").search(body) or not body:
            files, reads = self._meant_files(body), clause.verb.startswith("read")
            if files and (self._file_is_latest or reads):
                self._get("read_file", "path", files)
                self._note_files(files)
            elif reads or "file" in body:
                self._problem("Which file?", clause)
            elif not self._value:
                self._unknown(clause)
        else:
            self._unknown(clause)

    def _asks_time(self, body: str) -> bool:
        """Return whether words ask for the time somewhere, and for hardly anything else."""
        places, rest = find_places(body)
        strange = re.findall(r"[\w'/]+", _TIME.sub("", _AROUND_TIME.sub("", rest)))
        return len(strange) <= 2 if _TIME.search(rest) else bool(places) and not strange

    def _clock(self, body: str) -> Content:
        places, rest = find_places(body)
        if strange := re.search(r"\b(?:in|at|for) ([A-Z]\w*(?: [A-Z]\w*)*)|(\w+/\w+)", rest):
            self._problem(
                f"I do not know where {strange[1] or strange[2]} is: name a larger city near it, or "
                "its time zone, such as Europe/Oslo."
            )
        human = "human_readable" if _DATE.search(rest) else ""
        return self._note_value(
            self._add("get_current_time", place, timezone=zone, format=human)
            for place, zone in (places or ({} if strange else {"": ""})).items()
        )

    def _list(self, clause: Clause) -> None:
        body = clause.body
        names = self._of(f"(?:{FOLDER}|{PATH})", body)
        if bare := re.search(
            r"\b(?:files in|of) (?!the|this|that|my|here)([\w.-]+)$|^([a-z]+)$", body
        ):
            names = names or [name for name in bare.groups() if name and not _LISTED.match(name)]
        options: dict[str, Any] = {
            "recursive": bool(_words(r"recursive(?:ly)?|subfolders|tree|nested").search(body)),
            "include_hidden": "hidden" in body,
        }
        self._get("list_directory", "path", names or ["."], **options)

    def _write(self, clause: Clause) -> None:
        body = clause.body
        if re.match(rf"(?:an? |the |new |empty )*(?:folder|directory|{FOLDER})", body) or clause.verb == "mkdir":  # fmt: skip
            self._problem(
                "I can not make an empty folder: a folder comes with the first file that is written "
                "into it, as in: Write 'hello' to docs/a.txt.", clause,
            )  # fmt: skip
            return
        end = re.compile(r"\b(?:to|at) the (?:very )?(?:end|bottom) of\b|>>")
        append = clause.action == "append" or end.search(body) is not None
        body = re.sub(r"->|>", "to", end.sub("to", body))
        pairs = re.findall(rf"(.+?)\s+(?:to|into|in)\s+({PATH})(?:\s*,\s*|\s+and\s+|$)", body)
        if len(pairs) > 1:  # "hello to a.txt and world to b.txt"
            for said, target in pairs:
                self._write(msgspec.structs.replace(clause, body=f"{said} to {target}"))
            return
        target, said = _target_and_content(body)
        names = self._of(NAME, target)
        if folder := re.search(rf"\s(?:in|inside|of) (?:the )?({FOLDER})", body):
            names = [_inside(self._text.of(folder[1]), name) for name in names]
        names = names or list(self._meant_files(target) if target else ())
        if not names:
            self._problem("Which file should I write?", clause)
        elif content := self._content(clause, said):
            is_line = append and re.search(r"\blines?\b", re.split(QUOTE, said)[0])
            for name in names:
                read = self._add_read(name) if is_line else None
                mode = "append" if append else ""
                self._add("write_file", name, path=name, mode=mode, content=content, own_line=read)
            if any(isinstance(piece, str) for piece in content):
                self._value = content
            self._note_files(names)

    def _content(self, clause: Clause, said: str) -> Content:
        """Return what to write; empty after saying what is missing."""
        said = re.sub(
            r"^(?:[,:\s]|(?:with|containing|contains|saying|says|that|which|and)\b(?=.))*", "", said
        )
        said = re.sub(r"(?:[,:\s]|\b(?:inside|in it|please))*$", "", said)
        if literals := self._of(QUOTE, said):
            return ("\n".join(literals),)
        if urls := self._of(URL, said):
            return self._get(self._fetch_tool, "url", urls)
        paths = self._of(PATH, said)
        if paths and re.fullmatch(rf"(?:{_LEAD}{PATH}(?:,|and|\s)*)*", said):
            return self._get("read_file", "path", paths, quiet=True)
        is_value = bool(said) and _VALUE.fullmatch(said) is not None
        content = self._meant_value(said) if is_value else ()
        if not content and not paths and _TIME.search(said) and self._asks_time(said):
            return self._clock(said)
        if re.search(r"\b(?:list|names)\b.*\b(?:files|folder|directory)\b", said):
            return self._get("list_directory", "path", ["."], quiet=True)
        if not said and clause.action == "create":
            return ("",)
        if is_value and not content:
            content = tuple(self._add_read(name) for name in self._meant_files(said))
        if said and not is_value and not _UNSAID.fullmatch(said):
            return (self._text.raw(_TEXT_LEAD.sub("", said, count=1)),)
        if not content:
            self._problem("What should I write? I do not compose text: put it in quotes.", clause)
        return content

    def _replace(self, clause: Clause) -> None:
        body, files = clause.body, self._files[-1:]
        if first := re.match(rf"(?:the file )?({PATH})[\s,:]*(?:and\s+)?", body):
            files, body = (self._text.of(first[1]),), body[first.end() :]
        elif last := re.search(
            rf"\s*\b(?:in|inside|of) {_LEAD}({NAME}|it|file)\s*$", body, re.IGNORECASE
        ):
            files, body = tuple(self._of(NAME, last[1])) or files, body[: last.start()]
        if not body.strip():
            self._note_files(files)
            return
        sides = re.fullmatch(r"(.+?)\s*(?:\b(?:with|by|to|for|into)\b|->|=>|→)\s*(.+)", body)
        if sides is None or not files:
            self._problem("Replace which text with which, and in which file?", clause)
            return
        if re.search(r"\bfirst\b", sides[1]):
            self._problem("I replace a text everywhere in a file, not once.", clause)
            return
        lead = r"^(?:(?:all|every|each|any|the|words?|text|typo|occurrences?|of)\s+)*"
        old, new = (
            (self._of(QUOTE, side) or ["" if side == "nothing" else self._text.raw(side)])[0]
            for side in (re.sub(lead, "", side.strip()) for side in sides.groups())
        )
        if clause.verb == "substitute" and re.search(r"\bfor\b", body):
            old, new = new, old
        if old:
            edits = [{"old_text": old, "new_text": new}]
            read = self._add_read(files[0])
            self._add("edit_file", files[0], path=files[0], edited=read, edits=edits)
            self._note_files(files)

    def _search(self, clause: Clause) -> None:
        body = clause.body
        if web := _WEB.fullmatch(body):
            said = web["about"] or web["thing"]
            query = (self._of(QUOTE, said) or [self._text.raw(said)])[0]
            self._get("web_search", "query", [query])
            return
        scopes = self._of(rf"(?:{PATH}|{FOLDER})", body)
        if re.search(rf"\b(?:in|inside) {_IT}|^{_IT}", body):
            scopes = list(self._files[-1:])
        wanted = re.sub(r"^.*?\bfor\b|\b(?:in|inside|within|through)\b.*$", "", body)
        wanted = re.sub(
            rf"\b(?:the|words?|text|does|appears?|occurs?|contains?|all|files?)\b|{PATH}|{FOLDER}",
            "",
            wanted,
        )
        if said := (self._of(QUOTE, body) or [self._text.raw(wanted)])[0]:
            pattern = re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", said)
            self._get("search_files", "path", scopes or [""], pattern=pattern)
            self._note_files(self._of(PATH, body))
        else:
            self._problem("Which text should I look for?", clause)

    def _move(self, clause: Clause) -> None:
        goal = re.fullmatch(
            rf"(?P<from>.*?)\s*(?:\b(?:to|into|in|as|called|named)\b|->)\s*{_LEAD}(?P<to>{NAME}|{FOLDER}).*",
            clause.body,
        ) or re.fullmatch(rf"(?P<from>.*{NAME})\s+(?P<to>{NAME}|{FOLDER})", clause.body)
        sources = self._sources(goal["from"]) if goal else []
        if goal is None or not sources or "*" in "".join(sources):
            self._problem("Which file, and to which name?", clause)
            return
        to = self._text.of(goal["to"])
        into = re.fullmatch(FOLDER, goal["to"]) or len(sources) > 1
        targets = [_inside(to.rstrip("/"), posixpath.basename(s)) if into else to for s in sources]
        for source, target in zip(sources, targets, strict=True):
            if clause.action == "copy":
                content = (self._add_read(source),)
                self._add("write_file", target, path=target, content=content)
                continue
            if "name" in clause.verb:
                target = _inside(posixpath.dirname(source), target)
            self._add("move_file", source, from_=source, to=target)
            self._named = [name for name in self._named if name != source]
        self._note_files(targets)

    def _sources(self, body: str) -> list[str]:
        means = re.search(rf"\b(?:{_IT}|file\b)", body)
        return self._names(body) or list(self._meant_files(body) if means else ())

    def _delete(self, clause: Clause) -> None:
        body = clause.body
        if re.search(rf"{QUOTE}\s+(?:from|in)\b", body):  # a text, not a file
            edit = re.sub(rf"({QUOTE})\s+(?:from|in)\b", r"\1 with nothing in", body)
            self._replace(msgspec.structs.replace(clause, body=edit))
            return
        names = self._sources(body) or self._of(FOLDER, body)
        # Any word beside names may mean that something else is to be deleted: "the word x from a.txt".
        strange = re.search(r"\w", _AROUND_DELETED.sub("", body))
        if not names or strange or "*" in "".join(names):
            self._problem("Which file should I delete?", clause)
            return
        recursive = "recursively" in body or "everything in it" in body
        for name in names:
            self._add("delete_file", name, path=name, recursive=recursive)
        self._note_files(names)

    def _fetch(self, clause: Clause) -> None:
        hosts = [name for name in self._of(NAME, clause.body)[:1] if "." in name]
        urls = self._of(URL, clause.body) or [f"https://{name}" for name in hosts]
        self._get(self._fetch_tool, "url", urls)
        if target := re.search(rf"\b(?:to|into|as|in)\s+{_LEAD}({PATH})", clause.body):
            name = self._text.of(target[1])
            self._add("write_file", name, path=name, content=self._value)
            self._note_files([name])
        elif not urls:
            self._unknown(clause)

    def _unknown(self, clause: Clause) -> None:
        body, names = clause.body, self._names(clause.body)
        if clause.action != "unknown":
            self.unknown.append(self._text.raw(clause.text))
        elif re.fullmatch(NAME, body):  # a message that is a name asks to see the file
            self._ask(msgspec.structs.replace(clause, verb="read"))
        elif names and re.fullmatch(rf"(?:{_LEAD}|(?:is|are|it)\s+)*{NAME}", body, re.IGNORECASE):
            self._note_files(names)
        elif re.search(r"\w", body) and not _POLITE.fullmatch(body):
            self.unknown.append(self._text.raw(clause.text))


_RULES: dict[Action, Callable[[Requests, Clause], None]] = {
    "ask": Requests._ask,
    "list": Requests._list,
    "write": Requests._write,
    "create": Requests._write,
    "append": Requests._write,
    "replace": Requests._replace,
    "search": Requests._search,
    "move": Requests._move,
    "copy": Requests._move,
    "delete": Requests._delete,
    "fetch": Requests._fetch,
    "unknown": Requests._unknown,
}


def _inside(folder: str, name: str) -> str:
    return name if "/" in name or not folder else posixpath.join(folder, name)


def _target_and_content(body: str) -> tuple[str, str]:
    """Find the target: first if it comes first, else the last name behind `to` or `in`."""
    first = re.match(
        rf"{_LEAD}({_TARGETS})(?:\s+in (?:the )?{FOLDER})?(?P<rest>.*)$", body, re.DOTALL
    )
    if first is not None and not re.match(r"\s*(?:to|into|as)\b", first["rest"]):
        led = re.search(r"\b(?:to|into|in|called|named|file)\s+$", body[: first.start(1)])
        if not re.match(QUOTE, first[1]) or led or re.match(r"\s*(?:with|containing|that)\b", first["rest"]):  # fmt: skip
            return first[1], first["rest"]
    last = re.match(
        rf"(?P<said>.*?)\s(?:to|into|in|inside|as|onto|called|named)\s+{_LEAD}(?P<to>{_TARGETS}|{_IT}|file\b)(?P<rest>.*)$",
        f" {body}", re.IGNORECASE | re.DOTALL,
    )  # fmt: skip
    if last is None:
        return "", body
    behind = re.search(rf"{QUOTE}|^\s*(?:with|containing|:)", last["rest"])
    return last["to"], last["rest"] if behind else last["said"]
