"""The steps of one turn: what each needs of others, which calls are due, what came of them.

Nothing is kept between calls of the model. The rounds of calls are worked out again from the
history each time: the steps whose needs are met make a round, the results that came back decide
the next. A step is in one round at most, so the turn ends.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

import msgspec

from ...runtime.history import Answer, Item, Result


class ResultOf(msgspec.Struct, frozen=True):
    """A piece of content: the text that an earlier step brings."""

    step: int


class LineBreak(msgspec.Struct, frozen=True):
    """A piece of content: a line break, if the file that this step read does not end with one."""

    step: int


Content = tuple[str | ResultOf | LineBreak, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool.

    Attributes:
        tool: The tool.
        arguments: Its arguments, without what other steps decide.
        content: The content of a `write_file`.
        edited: The step that read the file of an `edit_file`, to count what is replaced.
        label: The place, file or address, as the person wrote it.
        needs: Steps that must have succeeded before.
        after: Steps that must have ended before, well or not.
        quiet: It only serves another step, and is reported only when it fails.
    """

    tool: str
    arguments: dict[str, Any]
    content: Content = ()
    edited: int | None = None
    label: str = ""
    needs: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    quiet: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step.

    Attributes:
        ok: It succeeded.
        value: What the tool returned.
        message: Why it failed.
        skipped: It was not tried, because a step that it needs did not succeed.
        unavailable: It was not tried, because the tool is not offered.
        pending: The approval that it, or what it needs, waits for.
        arguments: What ran, when a person changed the call.
    """

    ok: bool
    value: Any = None
    message: str = ""
    skipped: bool = False
    unavailable: bool = False
    pending: str = ""
    arguments: dict[str, Any] | None = None


def add_step(steps: list[Step], step: Step) -> int:
    """Append a step with what it has to wait for, and return its number.

    Two steps on one file wait for each other if one changes it; a step on a folder waits only for
    the end of those on its files.
    """
    needs, after = set(step.needs), set[int]()
    if step.edited is not None:
        needs.add(step.edited)
    for piece in step.content:
        if isinstance(piece, ResultOf):
            needs.add(piece.step)
        elif isinstance(piece, LineBreak):
            after.add(piece.step)  # the file may be new
    for number, earlier in enumerate(steps):
        if not (_changes_files(step) or _changes_files(earlier)):
            continue
        for mine in _paths(step):
            for theirs in _paths(earlier):
                if mine == theirs != "/" and number not in after:
                    needs.add(number)
                elif _holds(mine, theirs) or _holds(theirs, mine):
                    after.add(number)
    steps.append(
        msgspec.structs.replace(step, needs=frozenset(needs), after=frozenset(after - needs))
    )
    return len(steps) - 1


def _changes_files(step: Step) -> bool:
    return step.tool in {"write_file", "edit_file", "move_file", "delete_file", "run_code", "shell"}


def _paths(step: Step) -> list[str]:
    if step.tool in {"get_current_time", "web_search", "web_fetch", "http_request"}:
        return []
    names = [step.arguments[key] for key in ("path", "from", "to") if key in step.arguments]
    return [posixpath.normpath("/" + name) for name in names or ["."]]


def _holds(folder: str, path: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/") or folder == "/"


def replay(
    steps: Sequence[Step], tools: frozenset[str], items: Sequence[Item]
) -> tuple[dict[int, Outcome], dict[int, dict[str, Any]]]:
    """Return what is known of each step, and the arguments of those that are due now.

    Args:
        steps: The steps of the turn.
        tools: The tools that are offered.
        items: What followed the input: answers and results.
    """
    outcomes: dict[int, Outcome] = {}
    due = _due(steps, tools, outcomes)
    results = {item.call_id: item for item in items if type(item) is Result}
    for item in items:
        if type(item) is Answer and item.calls:
            calls = list(item.calls)
            for number in due:
                made = next((call for call in calls if call.name == steps[number].tool), None)
                if made is not None:
                    calls.remove(made)
                outcomes[number] = read_result(results.get(made.call_id) if made else None)
            due = _due(steps, tools, outcomes)
    return outcomes, due


def _due(
    steps: Sequence[Step], tools: frozenset[str], outcomes: dict[int, Outcome]
) -> dict[int, dict[str, Any]]:
    """Return the calls whose needs are met; settle in `outcomes` the steps that can not run.

    Steps need earlier ones only, so one pass in order sees everything.
    """
    due: dict[int, dict[str, Any]] = {}
    for number, step in enumerate(steps):
        if number in outcomes:
            continue
        failed = [outcomes[n] for n in step.needs if n in outcomes and not outcomes[n].ok]
        if failed:
            pending = next((outcome.pending for outcome in failed if outcome.pending), "")
            outcomes[number] = Outcome(ok=False, skipped=True, pending=pending)
        elif step.needs | step.after <= outcomes.keys():
            arguments = _arguments(step, steps, outcomes)
            if isinstance(arguments, str):
                outcomes[number] = Outcome(ok=False, message=arguments)
            elif step.tool not in tools:
                message = f"the tool {step.tool} is not available here"
                outcomes[number] = Outcome(ok=False, message=message, unavailable=True)
            else:
                due[number] = arguments
    return due


def _arguments(
    step: Step, steps: Sequence[Step], outcomes: dict[int, Outcome]
) -> dict[str, Any] | str:
    """Return the whole arguments of a step, or why it can not run."""
    if step.edited is not None:
        (edit,) = step.arguments["edits"]
        # edit_file wants to know how often the text is in the file.
        count = (text_of(outcomes[step.edited].value) or "").count(edit["old_text"])
        if count == 0:
            return f'it does not contain "{edit["old_text"]}"'
        return step.arguments | {"edits": [edit | ({"count": count} if count > 1 else {})]}
    if step.tool != "write_file":
        return step.arguments
    several = sum(isinstance(piece, ResultOf) for piece in step.content) > 1
    texts: list[str] = []
    for piece in step.content:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        text = text_of(outcomes[piece.step].value) or ""
        if isinstance(piece, LineBreak):
            texts.append("\n" if text and not text.endswith("\n") else "")
        else:
            label = steps[piece.step].label
            texts.append(f"{label}: {text}" if several and label and "\n" not in text else text)
    return step.arguments | {"content": ("\n" if several else "").join(texts)}


def read_result(result: Result | None) -> Outcome:
    """Return what a result says; text that is not the JSON of our tools is its own value."""
    if result is None:
        return Outcome(ok=False, message="no result came back")
    text = encodable(result.content)
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        content = None
    if not isinstance(content, dict) or "status" not in content:
        if result.is_error:
            return Outcome(ok=False, message=text or "it failed without a message")
        return Outcome(ok=True, value=text if content is None else content)
    if content["status"] == "pending_approval":
        return Outcome(ok=False, pending=str(content.get("approval_id", "")) or "ID")
    arguments = content.get("arguments") if "note" in content else None
    changed = arguments if isinstance(arguments, dict) else None
    if content["status"] == "success" and not result.is_error:
        return Outcome(ok=True, value=content.get("result"), arguments=changed)
    kind = content.get("error_type") or content["status"]
    message = str(content.get("message") or "").rstrip(".")
    message = f"{message} ({kind})" if message else str(kind)
    return Outcome(ok=False, message=message, arguments=changed)


def encodable(text: str) -> str:
    """Return a text without lone surrogates, which JSON can not hold."""
    return text.encode("utf-8", "replace").decode()


def text_of(value: Any) -> str | None:
    """Return the text that a result stands for when it is saved or shown, `None` without one."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    for field in ("content", "stdout", "text", "body"):
        if isinstance(value.get(field), str):
            return str(value[field])
    for field in ("entries", "matches", "results"):
        if isinstance(rows := value.get(field), list):
            return "\n".join(_line(field, row) for row in rows)
    return None


def _line(field: str, row: Any) -> str:
    if not isinstance(row, dict):
        return str(row)
    if field == "entries":
        return f"{row.get('name', '')}{'/' if row.get('type') == 'directory' else ''}"
    if field == "results":
        return f"{row.get('title', '')} {row.get('url', '')} {row.get('snippet', '')}".strip()
    file = row.get("file", row.get("path", ""))
    return f"{file}:{row['line']}: {row.get('text', '')}" if "line" in row else str(file)
