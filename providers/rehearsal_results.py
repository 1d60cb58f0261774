"""Results of tools as the rehearsal model reads them: JSON where it is JSON, and never trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..runtime.history import Answer, Input, Item, Result
from .rehearsal_steps import Memory

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
