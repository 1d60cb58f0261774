"""What a call that waited for a person has come to: the runtime tells it as an input."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ..runtime.history import Input, Item, Result
from .rehearsal_changes import intent_of
from .rehearsal_report import result_of
from .rehearsal_results import encodable, read_arguments, read_result

MAX_BRIEF_CHARS = 200
"""Of a result of a tool that nothing more is known about."""

_HAS_RUN = "was allowed, and has run"
_CAME = re.compile(
    r"The call of (?P<tool>\S+) that was pending as \S+?(?: with (?P<arguments>\{.*\}))? "
    rf"(?P<end>{_HAS_RUN}|was not allowed, and did not run|was cancelled|was interrupted"
    r"|was allowed, and failed)\. This is its result, and no request of a person:\n(?P<result>.*)",
    re.DOTALL,
)
_ASKED_AGAIN = re.compile(
    r"The call of (\S+) that was pending as \S+ did not run: .* is pending as (\S+?)\.?",
    re.DOTALL,
)


def late_report(items: Sequence[Item]) -> str | None:
    """A sentence about each call that the last inputs are about; `None` when a person spoke."""
    told: list[str] = []
    for item in reversed(items):
        said = _sentence(encodable(item.text)) if type(item) is Input else None
        if said is None:
            break
        told.append(said)
    return "\n".join(reversed(told)) or None


def _sentence(text: str) -> str | None:
    if (again := _ASKED_AGAIN.fullmatch(text)) is not None:
        return f"{again[1]} waits for your answer once more: callboard approve {again[2]}."
    came = _CAME.fullmatch(text)
    if came is None:
        return None
    tool, end = came["tool"], came["end"]
    outcome = read_result(Result("", tool, came["result"]))
    arguments = outcome.arguments or read_arguments(came["arguments"] or "{}")
    intent = intent_of(tool, arguments)
    if end == _HAS_RUN and outcome.ok:
        if intent is not None:
            return f"The call that waited has run: {result_of(intent, outcome)}"
        return f"The call of {tool} that waited has run: {_brief(outcome.value)}."
    why = outcome.message.removeprefix("Not run: ")
    return f"The call of {tool} that waited {end}: {why}."


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_BRIEF_CHARS else f"{text[:MAX_BRIEF_CHARS]}..."
