"""Results of tools as the rehearsal model reads them: JSON where it is JSON, and never trusted."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from ...runtime.history import Answer, Input, Item, Result
from .changes import as_run
from .steps import (
    Clock,
    DeleteFile,
    EditFile,
    FetchUrl,
    Intent,
    ListFolder,
    Memory,
    MoveFile,
    ReadFile,
    RunCode,
    SearchFiles,
    SearchWeb,
    Step,
    Understanding,
    WriteFile,
)

MAX_MEMORY_ITEMS = 200
"""How far `it` reaches back over earlier turns: some tens of them."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step.

    Attributes:
        ok: It succeeded.
        value: What the tool gave back, as JSON values.
        message: Why it failed, for a person.
        skipped: It was not tried, because a step that it needs did not succeed.
        unavailable: It was not tried, because there is no tool for it.
        pending: The question that it waits for, or that what it needs waits for.
        changed: Whether a person changed its call.
        arguments: What ran then; `None` when that is not told.
    """

    ok: bool
    value: Any = None
    message: str = ""
    skipped: bool = False
    unavailable: bool = False
    pending: str = ""
    changed: bool = False
    arguments: dict[str, Any] | None = None


def read_result(result: Result | None) -> Outcome:
    """Reads a result of any form; text that is not the agreed JSON stands for itself."""
    if result is None:
        return Outcome(ok=False, message="no result came back")
    text = encodable(result.content)
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        content = None
    if not isinstance(content, dict) or "status" not in content:
        if result.is_error:
            return Outcome(ok=False, message=text or "it failed without a word")
        return Outcome(ok=True, value=text if content is None else content)
    if content["status"] == "pending_approval":
        return Outcome(ok=False, pending=str(content.get("approval_id", "")) or "ID")
    arguments = content.get("arguments")
    changed = "arguments" in content and "note" in content
    arguments = arguments if isinstance(arguments, dict) else None
    if content["status"] == "success" and not result.is_error:
        value = content.get("result")
        return Outcome(ok=True, value=value, changed=changed, arguments=arguments)
    kind = content.get("error_type") or content["status"]
    message = content.get("message")
    told = str(message).rstrip(".") if message else ""
    message = f"{told} ({kind})" if told else str(kind)
    return Outcome(ok=False, message=message, changed=changed, arguments=arguments)


def encodable(text: str) -> str:
    """A text without lone surrogates, which no JSON may hold."""
    return text.encode("utf-8", "replace").decode()


def text_of(value: Any) -> str | None:
    """The text that a result stands for when it is saved or shown; `None` when it holds none."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    for field in ("content", "stdout", "text", "body"):
        if isinstance(value.get(field), str):
            return str(value[field])
    for field, line in (("entries", _entry_line), ("matches", _match_line), ("results", _hit_line)):
        rows = value.get(field)
        if isinstance(rows, list):
            return "\n".join(line(row) for row in rows)
    return None


def _entry_line(row: Any) -> str:
    if not isinstance(row, dict):
        return str(row)
    return f"{row.get('name', '')}{'/' if row.get('type') == 'directory' else ''}"


def _match_line(row: Any) -> str:
    if not isinstance(row, dict):
        return str(row)
    where = row.get("file", row.get("path", ""))
    return f"{where}:{row['line']}: {row.get('text', '')}" if "line" in row else str(where)


def _hit_line(row: Any) -> str:
    if not isinstance(row, dict):
        return str(row)
    return f"{row.get('title', '')} {row.get('url', '')} {row.get('snippet', '')}".strip()


def remembered(items: Sequence[Item]) -> Memory:
    """What `it` may mean after these items: the last files that were named, the last value."""
    files: tuple[str, ...] = ()
    value: str | None = None
    given: dict[str, str] = {}
    changed: dict[str, dict[str, Any]] = {}
    for item in reversed(items[-MAX_MEMORY_ITEMS:]):
        if type(item) is Result:
            outcome = read_result(item)
            if value is None and outcome.ok:
                value = text_of(outcome.value)
            if outcome.changed and outcome.arguments is not None:
                changed[item.call_id] = outcome.arguments
        elif type(item) is Answer and not files:
            arguments = [changed.get(c.call_id) or read_arguments(c.arguments) for c in item.calls]
            names = [a.get("to") or a.get("path") for a in arguments]
            files = tuple(dict.fromkeys(n for n in names if isinstance(n, str)))
            given.update(
                (name, a["content"])
                for name, a in zip(names, arguments, strict=True)
                if isinstance(name, str) and isinstance(a.get("content"), str)
            )
    if value is None and files and files[-1] in given:
        value = given[files[-1]]
    return Memory(files, value)


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as JSON values; none where they are no object."""
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def since_last_input(items: Sequence[Item]) -> tuple[Sequence[Item], str, Sequence[Item]]:
    """Cuts a history at its last input: what was before, its text, what came behind."""
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if type(item) is Input:
            return items[:place], encodable(item.text), items[place + 1 :]
    return items, "", ()


INTRODUCTION = (
    "I am callboard's rehearsal model: rules, not a language model. To use a real one, set "
    "OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, store a key with `callboard keys set "
    "PROVIDER`, or start a local Ollama server; --model PROVIDER/MODEL chooses among them."
)
"""The first line of every turn's first answer."""

MAX_SHOWN_CHARS = 8_000
"""About two hundred lines of a terminal; the tool call's own record holds the whole."""

_ABILITIES = (
    ("get_current_time", "tell the time in a place"),
    ("list_directory", "list a folder"),
    ("read_file", "read a file"),
    ("write_file", "write or append to a file"),
    ("edit_file", "replace text in a file"),
    ("search_files", "search files for a text"),
    ("move_file", "move or rename a file"),
    ("delete_file", "delete a file"),
    ("web_search", "search the web for something"),
    ("web_fetch", "fetch a web page"),
    ("http_request", "fetch a web address"),
    ("run_code", "run a piece of Python or bash"),
    ("shell", "run a shell command"),
)


def abilities(tools: frozenset[str]) -> str:
    """What it can do with these tools, with an example."""
    able = [text for tool, text in _ABILITIES if tool in tools]
    if not able:
        return "I was given no tool that I know, so there is nothing I can do here."
    *most, last = able
    listed = f"{', '.join(most)} and {last}" if most else last
    return (
        f"I can {listed}; several requests in one message are fine. Put names and texts in quotes "
        'when they hold spaces. For example: "What time is it in Tokyo? Save it to now.txt and '
        'read it back."'
    )


def lead(intents: Sequence[Intent]) -> str:
    """One sentence about the calls that are about to be made."""
    doing = list(dict.fromkeys(_doing(intent) for intent in intents))
    shown = doing[:3] + ([f"{len(doing) - 3} more"] if len(doing) > 3 else [])
    *most, last = shown
    sentence = f"{', '.join(most)} and {last}" if most else last
    return f"{_capital(sentence)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def report(
    understanding: Understanding, outcomes: Mapping[int, Outcome], tools: frozenset[str]
) -> str:
    """What came of every step, what is missing, and what was not understood."""
    steps = understanding.steps
    paragraphs = [
        _result(step, outcomes[number])
        for number, step in enumerate(steps)
        if not (step.quiet and (outcomes[number].ok or _is_expected(number, steps)))
    ]
    paragraphs += understanding.problems
    paragraphs += [f'I did not understand: "{_shortened(text)}".' for text in understanding.unknown]
    nothing = not steps and not understanding.problems
    came = outcomes.values()
    if nothing or (any(o.unavailable for o in came) and not any(o.ok for o in came)):
        paragraphs.append(abilities(tools))
    return "\n".join(paragraphs)


def _is_expected(number: int, steps: Sequence[Step]) -> bool:
    # A file that is appended to may be new: that it could not be read before is no news.
    return any(number in step.after and isinstance(step.intent, WriteFile) for step in steps)


def _doing(intent: Intent) -> str:
    match intent:
        case Clock():
            return f"looking up the time in {intent.place}" if intent.place else "asking the clock"
        case ListFolder():
            return f"listing {_folder(intent.path)}"
        case ReadFile():
            return f"reading {intent.path}"
        case WriteFile():
            return f"{'adding to' if intent.append else 'writing'} {intent.path}"
        case EditFile():
            return f"editing {intent.path}"
        case MoveFile():
            return f"moving {intent.source} to {intent.target}"
        case DeleteFile():
            return f"deleting {intent.path}"
        case SearchFiles():
            return f'searching for "{_shortened(intent.pattern or intent.glob or "")}"'
        case FetchUrl():
            return f"fetching {intent.url}"
        case SearchWeb():
            return f'searching the web for "{_shortened(intent.query)}"'
        case RunCode():
            return f"running {intent.language}"
        case _:
            assert_never(intent)


def _result(step: Step, outcome: Outcome) -> str:
    doing = _doing(step.intent)
    if outcome.skipped:
        why = "waits for your answer" if outcome.pending else "did not succeed"
        return f"Not done: {doing}, because what it needs {why}."
    if outcome.pending:
        return f"{_capital(doing)} waits for your answer: callboard approve {outcome.pending}."
    if outcome.unavailable and isinstance(step.intent, RunCode):
        return "I can not compute or run code: the tool run_code is not available here."
    if not outcome.changed:
        return result_of(step.intent, outcome)
    if outcome.arguments is None:
        end = "succeeded" if outcome.ok else f"failed: {outcome.message}"
        return f"A person changed the call for {doing}; it {end}."
    told = result_of(as_run(step.intent, outcome.arguments), outcome)
    return f"A person changed the call. {told}"


def result_of(intent: Intent, outcome: Outcome) -> str:
    """What came of what was done."""
    if not outcome.ok:
        return f"Failed: {_doing(intent)}: {outcome.message}."
    return _success(intent, outcome)


def _success(intent: Intent, outcome: Outcome) -> str:
    value = outcome.value
    match intent:
        case Clock():
            return f"The time{f' in {intent.place}' if intent.place else ''} is {_shown(value)}."
        case ListFolder():
            return _listing(intent, outcome)
        case ReadFile():
            return _told(f"{intent.path} says", f"{intent.path} is empty.", _shown(value))
        case WriteFile():
            done = "Added to" if intent.append else "Wrote"
            return f"{done} {intent.path}{_size(value, 'bytes_written')}."
        case EditFile():
            times = _size(value, "replacements")
            return f'Replaced "{_shortened(intent.old)}" in {intent.path}{times}.'
        case MoveFile():
            return f"Moved {intent.source} to {intent.target}."
        case DeleteFile():
            return f"Deleted {intent.path}."
        case SearchFiles():
            return _found(intent, outcome)
        case FetchUrl():
            told = _told(f"{intent.url} says", f"{intent.url} sent no text.", _shown(value))
            return told + _more(value)
        case SearchWeb():
            found = f'on the web for "{_shortened(intent.query)}"'
            return _told(f"Found {found}", f"Found nothing {found}.", _shown(value))
        case RunCode():
            return _run_report(intent, outcome)
        case _:
            assert_never(intent)


def _listing(intent: ListFolder, outcome: Outcome) -> str:
    folder = _folder(intent.path)
    told = _told(f"In {folder}", f"There is nothing in {folder}.", _shown(outcome.value))
    return told + _more(outcome.value)


def _found(intent: SearchFiles, outcome: Outcome) -> str:
    wanted = f'"{_shortened(intent.pattern or intent.glob or "")}"'
    told = _told(f"Found {wanted}", f"Found {wanted} nowhere.", _shown(outcome.value))
    return told + _more(outcome.value)


def _more(value: object) -> str:
    return "\nThere is more." if isinstance(value, dict) and value.get("truncated") else ""


def _run_report(intent: RunCode, outcome: Outcome) -> str:
    value = outcome.value
    told = _told("The output is", "It ran without any output.", _shown(value))
    if isinstance(value, dict):
        if value.get("exit_code"):
            told += f"\nIt ended with exit code {value['exit_code']}."
        if value.get("stderr"):
            told += f"\nIt complained: {_cut(str(value['stderr']).strip())}"
    return told


def _told(start: str, nothing: str, text: str) -> str:
    if not text:
        return nothing
    return f"{start}:\n{text}" if "\n" in text.strip("\n") else f"{start}: {text}"


def _shown(value: object) -> str:
    text = text_of(value)
    if text is None:
        text = msgspec.json.encode(value).decode()
    return _cut(text)


def _cut(text: str) -> str:
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]}\n(cut here: {len(text)} characters in all)"


def _size(value: object, field: str) -> str:
    number = value.get(field) if isinstance(value, dict) else None
    if not isinstance(number, int):
        return ""
    noun = "byte" if field == "bytes_written" else "place"
    return f" ({number} {noun}{'' if number == 1 else 's'})"


def _folder(path: str) -> str:
    return "the workspace" if posixpath.normpath(path) == "." else path


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:77]}..."
