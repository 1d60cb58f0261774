"""The sentences of the rehearsal model: what it is about to do, what came of it, what it can do."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .plan import Outcome, Step, text_of
from .requests import Requests

INTRODUCTION = (
    "I am callboard's rehearsal model: rules, not a language model. To use a real one, set "
    "OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, store a key with `callboard keys set "
    "PROVIDER`, or start a local Ollama server; --model PROVIDER/MODEL chooses among them."
)
"""The first line of every turn's first answer."""

MAX_SHOWN_CHARS = 8_000
"""About two hundred lines of a terminal; the tool call's own record holds the whole."""

# What each tool can do, does, has done, and has done when its result holds no text.
WORDS: Mapping[str, tuple[str, str, str, str]] = {
    "get_current_time": (
        "tell the time in a place", "looking up the time{place}", "The time{place} is {text}.", ""
    ),
    "list_directory": (
        "list a folder", "listing {folder}", "In {folder}{shown}", "There is nothing in {folder}."
    ),
    "read_file": ("read a file", "reading {path}", "{path} says{shown}", "{path} is empty."),
    "write_file": (
        "write or append to a file", "writing {path}", "Wrote {path} ({bytes_written} bytes).", ""
    ),
    "edit_file": ("replace text in a file", "editing {path}", 'Replaced "{wanted}" in {path}.', ""),
    "search_files": (
        "search files for a text", 'searching for "{wanted}"', 'Found "{wanted}"{shown}',
        'Found "{wanted}" nowhere.',
    ),
    "move_file": ("move or rename a file", "moving {from} to {to}", "Moved {from} to {to}.", ""),
    "delete_file": ("delete a file", "deleting {path}", "Deleted {path}.", ""),
    "web_search": (
        "search the web", 'searching the web for "{wanted}"', 'Found on the web for "{wanted}"{shown}',
        'Found nothing on the web for "{wanted}".',
    ),
    "web_fetch": ("fetch a web page", "fetching {url}", "{url} says{shown}", "{url} sent no text."),
    "http_request": (
        "fetch a web address", "fetching {url}", "{url} says{shown}", "{url} sent no text."
    ),
}  # fmt: skip


def _abilities(tools: frozenset[str]) -> str:
    able = [words[0] for tool, words in WORDS.items() if tool in tools]
    if not able:
        return "I was given no tool that I know, so there is nothing I can do here."
    return (
        f"I can {_listed(able)}; several requests in one message are fine. Put names and texts in "
        'quotes when they hold spaces. For example: "What time is it in Tokyo? Save it to now.txt '
        'and read it back."'
    )


def lead(steps: Sequence[Step]) -> str:
    """Return one sentence about the calls that are about to be made."""
    doing = list(dict.fromkeys(_doing(step) for step in steps))
    more = [f"{len(doing) - 3} more"] if len(doing) > 3 else []
    return f"{_capital(_listed(doing[:3] + more))}."


def report(requests: Requests, outcomes: Mapping[int, Outcome], tools: frozenset[str]) -> str:
    """Return what came of every step, what is missing, and what was not requests."""
    steps = requests.steps
    lines = [
        _step_report(step, outcomes[number])
        for number, step in enumerate(steps)
        # A file that is appended to may be new: a failure to read it says nothing.
        if not step.quiet
        or not (outcomes[number].ok or any(number in later.after for later in steps))
    ]
    lines += requests.problems
    lines += [f'I did not understand: "{_shortened(text)}".' for text in requests.unknown]
    nothing_ran = all(outcome.unavailable for outcome in outcomes.values())
    if nothing_ran and (outcomes or not requests.problems):
        lines.append(_abilities(tools))
    return "\n".join(lines)


def _step_report(step: Step, outcome: Outcome) -> str:
    if outcome.skipped:
        why = "waits for your answer" if outcome.pending else "did not succeed"
        return f"Not done: {_doing(step)}, because what it needs {why}."
    if outcome.pending:
        return (
            f"{_capital(_doing(step))} waits for your answer: callboard approve {outcome.pending}."
        )
    if outcome.arguments is not None:
        return f"A person changed the call. {call_report(step.tool, outcome.arguments, outcome)}"
    return call_report(step.tool, step.arguments, outcome, step.label)


def call_report(tool: str, arguments: Mapping[str, Any], outcome: Outcome, label: str = "") -> str:
    """Return what came of a call that ran."""
    _, doing, done, without_text = WORDS[tool]
    value = outcome.value if isinstance(outcome.value, dict) else {}
    fields = _fields(arguments, label) | {"bytes_written": value.get("bytes_written", "?")}
    if not outcome.ok:
        return f"Failed: {doing.format_map(fields)}: {outcome.message}."
    text = text_of(outcome.value)
    text = msgspec.json.encode(outcome.value).decode() if text is None else text
    if len(text) > MAX_SHOWN_CHARS:
        text = f"{text[:MAX_SHOWN_CHARS]}\n(cut here: {len(text)} characters in all)"
    joint = ":\n" if "\n" in text.strip("\n") else ": "
    fields |= {"text": text, "shown": joint + text}
    if not text and without_text:
        return without_text.format_map(fields)
    more = "\nThere is more." if value.get("truncated") else ""
    return done.format_map(fields) + more


def _doing(step: Step) -> str:
    return WORDS[step.tool][1].format_map(_fields(step.arguments, step.label))


def _fields(arguments: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return what the words of a call may name; arguments are JSON of whoever wrote them."""
    edits = arguments.get("edits")
    edit = edits[0] if isinstance(edits, list) and edits and isinstance(edits[0], dict) else {}
    wanted = next((a[k] for a in (edit, arguments) for k in ("old_text", "pattern", "query", "glob") if a.get(k)), "")  # fmt: skip
    path = str(arguments.get("path", ""))
    place = label or arguments.get("timezone", "")
    return defaultdict(str, arguments) | {
        "wanted": _shortened(str(wanted)),
        "folder": "the workspace" if posixpath.normpath(path) == "." else path,
        "place": f" in {place}" if place else "",
    }


def _listed(texts: Sequence[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:77]}..."
