"""What was said, as attributes: messages to and from models, instructions, arguments and results.

Only with `content = "full"`. Secrets are masked as in logs, and each attribute is bounded: of the messages that a model
reads, the latest that fit.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import msgspec

from ..definitions import Agent
from ..events import CallFinished, DurableEvent, InputAccepted, MessageCompleted
from ..history import Call, Part, Refusal, Text, Thinking
from ..redaction import redact
from . import names
from .span import Attributes

MAX_BYTES = 32 * 1024
"""Of one attribute, in UTF-8; many collectors refuse much longer ones."""
MAX_MESSAGE = 1024
"""Of what a span says about its failure."""
CUT = " [cut]"


MAX_HEARD = 16 * 1024 * 1024
"""Bytes of the messages that all sessions keep for their next call; then those of the one with the oldest are forgotten."""


class Heard:
    """What a model of a session is going to read: the latest messages, as JSON, and their size."""

    def __init__(self) -> None:
        self.messages: deque[str] = deque()
        self.size = 0

    def add(self, role: str, parts: list[dict[str, Any]]) -> int:
        """Add a message; the oldest go where there are too many. Return by how much its size changes."""
        before = self.size
        text = _message({"role": role}, parts)
        self.messages.append(text)
        self.size += len(text.encode()) + 1
        while self.size + 1 > MAX_BYTES and len(self.messages) > 1:
            self.size -= len(self.messages.popleft().encode()) + 1
        return self.size - before


class Said:
    """Makes attributes with content; see `span.ContentMaker`."""

    def __init__(self) -> None:
        self._all: OrderedDict[str, Heard] = OrderedDict()
        self._size = 0

    def fold(self, session_id: str, event: DurableEvent) -> None:
        """Keep what a model is going to read."""
        match event:
            case InputAccepted():
                self._add(session_id, "user", [_text(event.text)])
            case MessageCompleted():
                self._add(session_id, "assistant", _parts(event.parts))
            case CallFinished():
                said = {"type": "tool_call_response", "id": event.call_id}
                self._add(session_id, "tool", [{**said, "response": _shortened(event.result)}])
            case _:
                pass

    def _add(self, session_id: str, role: str, parts: list[dict[str, Any]]) -> None:
        heard = self._all.setdefault(session_id, Heard())
        self._all.move_to_end(session_id)
        self._size += heard.add(role, parts)
        while self._size > MAX_HEARD:
            _, oldest = self._all.popitem(last=False)
            self._size -= oldest.size

    def of_answer(
        self, session_id: str, event: MessageCompleted, agent: Agent | None
    ) -> Attributes:
        """Return the attributes of a model call."""
        heard = self._all.get(session_id)
        finish = names.FINISHED.get(event.stop_reason, names.OTHER)
        answer = _message({"role": "assistant", "finish_reason": finish}, _parts(event.parts))
        found: Attributes = {names.OUTPUT_MESSAGES: f"[{answer}]"}
        if heard is not None and heard.messages:
            found[names.INPUT_MESSAGES] = f"[{','.join(heard.messages)}]"
        if agent is not None and agent.prompt:
            found[names.INSTRUCTIONS] = f"[{_json(_text(agent.prompt))}]"
        return found

    def of_call(self, arguments: str, event: CallFinished) -> Attributes:
        """Return the attributes of a call: the arguments with which it ran, else those that the model wrote."""
        said = arguments if event.arguments is None else event.arguments
        return {
            names.ARGUMENTS: bounded(redact(said)),
            names.RESULT: bounded(redact(event.result)),
        }

    def of_message(self, message: str) -> str:
        """Return what went wrong, in words."""
        return bounded(redact(message), MAX_MESSAGE)


def bounded(text: str, most: int = MAX_BYTES) -> str:
    """Return a text that is at most so many bytes long; one that is cut says so."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - len(CUT)].decode(errors="ignore") + CUT


def _message(head: dict[str, str], parts: list[dict[str, Any]]) -> str:
    """Return a message as JSON that fits into an attribute: of more parts than fit, the first."""
    kept: list[str] = []
    size = len(_json(head)) + 16
    for part in parts:
        text = _json(part)
        size += len(text.encode()) + 1
        if size > MAX_BYTES - 2:
            break
        kept.append(text)
    return f'{_json(head)[:-1]},"parts":[{",".join(kept)}]}}'


def _parts(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        match part:
            case Text() | Refusal():
                found.append(_text(part.text))
            case Thinking():
                found.append({"type": "reasoning", "content": _shortened(part.text)})
            case Call():
                call = {"type": "tool_call", "id": part.call_id, "name": redact(part.name)}
                found.append({**call, "arguments": _shortened(part.arguments)})
            case _:
                pass  # only its own wire format understands it
    return found


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": _shortened(text)}


def _shortened(text: str) -> str:
    """Return a text without secrets that leaves room for others, as JSON too.

    It is masked first: half a secret, at the end of what was cut, would not be known as one.
    """
    text = redact(text)
    found = bounded(text, MAX_BYTES // 2)
    return found if len(_json(found)) < MAX_BYTES * 3 // 4 else bounded(text, MAX_BYTES // 8)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
