"""The plan of one turn against what has come back: which calls are next, and what is known.

Stateless: the waves of calls are replayed from the history on every call of the model. Each step is
in exactly one wave, so it is asked for at most once, and the turn ends after as many rounds as
there are steps at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

import msgspec

from ...runtime.history import Answer, Item, Result
from .results import Outcome, read_result, text_of
from .steps import (
    Clock,
    Content,
    DeleteFile,
    EditFile,
    FetchUrl,
    Intent,
    LineBreak,
    ListFolder,
    MoveFile,
    ReadFile,
    ResultOf,
    RunCode,
    Said,
    SearchFiles,
    SearchWeb,
    Step,
    WriteFile,
)

Outcomes = Mapping[int, Outcome]

_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")


class PlannedCall(msgspec.Struct, frozen=True):
    """A call that is due: of which step, which tool, with what."""

    step: int
    tool: str
    arguments: dict[str, Any]


def replay(
    steps: Sequence[Step], tools: frozenset[str], items: Sequence[Item]
) -> tuple[dict[int, Outcome], list[PlannedCall]]:
    """What is known of each step after these items, and the calls that are due now.

    Args:
        steps: The plan.
        tools: The names of the tools that may be asked for.
        items: What came behind the input that was planned: answers and results.
    """
    outcomes: dict[int, Outcome] = {}
    wave = _next_wave(steps, tools, outcomes)
    results = {item.call_id: item for item in items if type(item) is Result}
    for item in items:
        if type(item) is Answer and item.calls:
            calls = list(item.calls)
            for planned in wave:
                made = next((call for call in calls if call.name == planned.tool), None)
                result = None
                if made is not None:
                    calls.remove(made)
                    result = results.get(made.call_id)
                outcomes[planned.step] = read_result(result)
            wave = _next_wave(steps, tools, outcomes)
    return outcomes, wave


def _next_wave(
    steps: Sequence[Step], tools: frozenset[str], outcomes: dict[int, Outcome]
) -> list[PlannedCall]:
    """The calls whose needs are met; settles, in `outcomes`, the steps that no call can serve.

    Steps depend on earlier ones only, so that one pass in order sees everything.
    """
    wave: list[PlannedCall] = []
    for number, step in enumerate(steps):
        if number in outcomes:
            continue
        known = [outcomes.get(n) for n in step.needs]
        if any(outcome is not None and not outcome.ok for outcome in known):
            pending = next((outcome.pending for outcome in known if outcome), "")
            outcomes[number] = Outcome(ok=False, skipped=True, pending=pending)
        elif None not in known and all(n in outcomes for n in step.after):
            call = _call(number, step.intent, tools, outcomes)
            if isinstance(call, PlannedCall):
                wave.append(call)
            else:
                outcomes[number] = call
    return wave


def _call(
    number: int,
    intent: Intent,
    tools: frozenset[str],
    outcomes: Outcomes,
) -> PlannedCall | Outcome:
    name, arguments = _tool_call(intent, tools, outcomes)
    if isinstance(arguments, str):
        return Outcome(ok=False, message=arguments)
    if name not in tools:
        message = f"the tool {name} is not available here"
        return Outcome(ok=False, message=message, unavailable=True)
    return PlannedCall(number, name, arguments)


def _tool_call(
    intent: Intent, tools: frozenset[str], outcomes: Outcomes
) -> tuple[str, dict[str, Any] | str]:
    """The tool and the arguments of a step, or a sentence that says why there are none."""
    match intent:
        case Clock():
            zone = {} if intent.zone is None else {"timezone": intent.zone}
            human = {"format": "human_readable"} if intent.human else {}
            return "get_current_time", zone | human
        case ListFolder():
            flags = {"recursive": intent.recursive, "include_hidden": intent.hidden}
            return "list_directory", {"path": intent.path} | {k: v for k, v in flags.items() if v}
        case ReadFile():
            return "read_file", {"path": intent.path}
        case WriteFile():
            content = written(intent.content, outcomes)
            mode = {"mode": "append"} if intent.append else {}
            return "write_file", {"path": intent.path, "content": content} | mode
        case EditFile():
            return "edit_file", _edit_arguments(intent, outcomes)
        case MoveFile():
            return "move_file", {"from": intent.source, "to": intent.target}
        case DeleteFile():
            recursive = {"recursive": True} if intent.recursive else {}
            return "delete_file", {"path": intent.path} | recursive
        case SearchFiles():
            scope = {"path": intent.path, "glob": intent.glob}
            pattern = (
                intent.pattern if intent.is_regex else _SPECIAL.sub(r"\\\g<0>", intent.pattern)
            )
            found = {"pattern": pattern} | {k: v for k, v in scope.items() if v}
            return "search_files", found
        case SearchWeb():
            return "web_search", {"query": intent.query}
        case FetchUrl():
            return _first_of(("web_fetch", "http_request"), tools), {"url": intent.url}
        case RunCode():
            return _run_call(intent, tools)
        case _:
            assert_never(intent)


def _first_of(names: Sequence[str], tools: frozenset[str]) -> str:
    return next((name for name in names if name in tools), names[0])


def _run_call(intent: RunCode, tools: frozenset[str]) -> tuple[str, dict[str, Any]]:
    if intent.language == "bash" and _first_of(("run_code", "shell"), tools) == "shell":
        return "shell", {"command": intent.code}
    return "run_code", {"language": intent.language, "code": intent.code}


def _edit_arguments(intent: EditFile, outcomes: Outcomes) -> dict[str, Any] | str:
    # edit_file wants to know how often the text is there; the file was read to count it.
    text = text_of(outcomes[intent.read].value) or ""
    count = text.count(intent.old)
    if count == 0:
        return f'it does not contain "{intent.old}"'
    edit: dict[str, Any] = {"old_text": intent.old, "new_text": intent.new}
    if intent.first_only and count > 1:
        edit = _first_edit(text, intent)
    elif count > 1:
        edit["count"] = count
    return {"path": intent.path, "edits": [edit]}


def _first_edit(text: str, intent: EditFile) -> dict[str, Any]:
    # The first occurrence is told from the others by what stands around it.
    start = text.index(intent.old)
    end = start + len(intent.old)
    while text.count(text[:end]) > 1:
        end *= 2
    behind = text[start + len(intent.old) : end]
    return {"old_text": text[:end], "new_text": text[:start] + intent.new + behind}


def written(content: Content, outcomes: Outcomes) -> str:
    """The text that a content makes, once the steps that it needs have succeeded."""
    several = sum(isinstance(piece, ResultOf) for piece in content) > 1
    texts: list[str] = []
    for piece in content:
        match piece:
            case Said():
                texts.append(piece.text)
            case LineBreak():
                outcome = outcomes[piece.step]
                text = (text_of(outcome.value) or "") if outcome.ok else ""
                texts.append("\n" if text and not text.endswith("\n") else "")
            case ResultOf():
                text = text_of(outcomes[piece.step].value) or ""
                texts.append(_labelled(piece.label, text) if several else text)
            case _:
                assert_never(piece)
    return ("\n" if several else "").join(texts)


def _labelled(label: str, text: str) -> str:
    return f"{label}: {text}" if label and "\n" not in text else text


def due_steps(wave: Iterable[PlannedCall], steps: Sequence[Step]) -> list[Intent]:
    """What the calls of a wave are for, in their order."""
    return [steps[call.step].intent for call in wave]
