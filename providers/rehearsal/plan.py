"""The steps of one turn: what each needs of others, which calls are due, what came of them.

Nothing is kept between calls of the model. The id of a call ends with the number of its step, so the
history shows which steps were asked for and what came of them; a call of another model counts for the
step that it resembles. The steps whose needs are met are due next. A step is asked for at most once,
so the turn ends.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from ...runtime.history import Answer, Call, Item, Result

Content = tuple[str | int, ...]
"""What to write: texts, and the numbers of earlier steps whose results are written."""

_CALL_ID = re.compile(r"call_[0-9a-f]{32}_([0-9]{1,9})")
_CHANGES_FILES = frozenset({"write_file", "edit_file", "move_file", "delete_file"})
_USES_NO_FILE = frozenset({"get_current_time", "web_search", "web_fetch", "http_request"})


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool.

    Attributes:
        tool: The tool.
        arguments: Its arguments, without what other steps decide.
        content: The content of a `write_file`.
        own_line: The step that read the file, if the content goes on a line of its own.
        edited: The step that read the file of an `edit_file`, to count what is replaced.
        label: The place, file or address, as the person wrote it.
        needs: Steps that must have succeeded before.
        after: Steps that must have ended before, well or not.
        quiet: It only serves another step, and is reported only when it fails.
    """

    tool: str
    arguments: dict[str, Any]
    content: Content = ()
    own_line: int | None = None
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
    needs = {piece for piece in (*step.content, step.edited) if isinstance(piece, int)}
    after = set() if step.own_line is None else {step.own_line}  # the file may be new
    for number, earlier in enumerate(steps):
        if _CHANGES_FILES.isdisjoint({step.tool, earlier.tool}):
            continue
        for mine in _paths(step):
            for theirs in _paths(earlier):
                if mine == theirs != "" and number not in after:
                    needs.add(number)
                elif f"{mine}/".startswith(f"{theirs}/") or f"{theirs}/".startswith(f"{mine}/"):
                    after.add(number)
    steps.append(
        msgspec.structs.replace(step, needs=frozenset(needs), after=frozenset(after - needs))
    )
    return len(steps) - 1


def _paths(step: Step) -> list[str]:
    """Return what a step uses, from the workspace's root, which is the empty text."""
    if step.tool in _USES_NO_FILE:
        return []
    names = [step.arguments[key] for key in ("path", "from", "to") if key in step.arguments]
    return [posixpath.normpath(f"/{name}").rstrip("/") for name in names or ["."]]


def call_id(number: int) -> str:
    """Return a fresh id for the call of this step."""
    return f"call_{uuid.uuid4().hex}_{number}"


def replay(
    steps: Sequence[Step], tools: frozenset[str], items: Sequence[Item]
) -> tuple[dict[int, Outcome], dict[int, dict[str, Any]]]:
    """Return what is known of each step, and the arguments of those that are due now.

    Args:
        steps: The steps of the turn; each needs earlier ones only.
        tools: The tools that are offered.
        items: What followed the input: answers and results.
    """
    results = {item.call_id: item for item in items if type(item) is Result}
    calls = [call for item in items if type(item) is Answer for call in item.calls]
    ids = [match for call in calls if (match := _CALL_ID.fullmatch(call.call_id))]
    made = {int(match[1]): match[0] for match in ids}
    others = [call for call in calls if _CALL_ID.fullmatch(call.call_id) is None]
    outcomes: dict[int, Outcome] = {}
    due: dict[int, dict[str, Any]] = {}
    for number, step in enumerate(steps):
        alike = next((call for call in others if _is_like(call, step)), None)
        if number not in made and alike is not None:
            others.remove(alike)
            made[number] = alike.call_id
        if number in made:
            outcomes[number] = read_result(results.get(made[number]))
        elif failed := [outcomes[n] for n in step.needs if n in outcomes and not outcomes[n].ok]:
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
    return outcomes, due


def _is_like(call: Call, step: Step) -> bool:
    """Return whether a call of another model, such as one that failed over to this, does a step."""
    arguments = read_json(encodable(call.arguments))
    if call.name != step.tool or not isinstance(arguments, dict):
        return False
    return all(
        arguments.get(key) == step.arguments[key] for key in step.arguments.keys() - {"edits"}
    )


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
    several = sum(isinstance(piece, int) for piece in step.content) > 1
    texts: list[str] = []
    for piece in step.content:
        text = piece if isinstance(piece, str) else text_of(outcomes[piece].value) or ""
        label = steps[piece].label if several and isinstance(piece, int) else ""
        texts.append(f"{label}: {text}" if label and "\n" not in text else text)
    content = ("\n" if several else "").join(texts)
    if step.own_line is not None:
        before = text_of(outcomes[step.own_line].value) or "\n"
        content = ("" if before.endswith("\n") else "\n") + content + "\n"
    return step.arguments | {"content": content}


def read_result(result: Result | None) -> Outcome:
    """Return what a result says; text that is not the JSON of our tools is its own value."""
    if result is None:
        return Outcome(ok=False, message="no result came back")
    text = encodable(result.content)
    content = read_json(text)
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


def read_json(text: str) -> Any:
    """Return the value of a JSON text, `None` for any other text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


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
