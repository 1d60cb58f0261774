"""What was said, as attributes: messages to and from models, instructions, arguments and results.

Only with `content = "full"`. Secrets are masked as in logs, and each attribute is bounded: of the messages that a model
reads, the latest that fit.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import msgspec

from ..definitions import Agent
from ..events import CallFinished, DurableEvent, InputAccepted, MessageCompleted
from ..history import Call, Part, Refusal, Text, Thinking
from ..redaction import redact
from . import names
from .span import Attributes

MAX_BYTES = 32 * 1024
"""Of one attribute, in UTF-8; many collectors refuse much longer ones."""
CUT = " [cut]"


class Heard:
    """What a model of a session is going to read: the latest messages, as JSON, and their size."""

    def __init__(self) -> None:
        self.messages: deque[str] = deque()
        self.size = 0

    def add(self, role: str, parts: list[dict[str, Any]]) -> None:
        """Add a message; the oldest go where there are too many."""
        text = _json({"role": role, "parts": parts})
        self.messages.append(text)
        self.size += len(text.encode()) + 1
        while self.size + 1 > MAX_BYTES and len(self.messages) > 1:
            self.size -= len(self.messages.popleft().encode()) + 1


class Said:
    """Makes attributes with content; see `span.ContentMaker`."""

    def fold(self, session: Any, event: DurableEvent) -> None:
        """Keep what a model is going to read."""
        if session.said is None:
            session.said = Heard()
        heard = cast("Heard", session.said)
        match event:
            case InputAccepted():
                heard.add("user", [_text(event.text)])
            case MessageCompleted():
                heard.add("assistant", _parts(event.parts))
            case CallFinished():
                said = {"type": "tool_call_response", "id": event.call_id}
                heard.add("tool", [{**said, "response": bounded(event.result, MAX_BYTES // 2)}])
            case _:
                pass

    def of_answer(self, session: Any, event: MessageCompleted, agent: Agent | None) -> Attributes:
        """Return the attributes of a model call."""
        heard = cast("Heard | None", session.said)
        finish = names.FINISHED.get(event.stop_reason, names.OTHER)
        answer = {"role": "assistant", "parts": _parts(event.parts), "finish_reason": finish}
        found: Attributes = {names.OUTPUT_MESSAGES: bounded(_json([answer]))}
        if heard is not None and heard.messages:
            found[names.INPUT_MESSAGES] = bounded(f"[{','.join(heard.messages)}]")
        if agent is not None and agent.prompt:
            found[names.INSTRUCTIONS] = bounded(_json([_text(agent.prompt)]))
        return found

    def of_call(self, arguments: str, event: CallFinished) -> Attributes:
        """Return the attributes of a call: the arguments with which it ran, else those that the model wrote."""
        said = arguments if event.arguments is None else event.arguments
        return {
            names.ARGUMENTS: bounded(redact(said)),
            names.RESULT: bounded(redact(event.result)),
        }


def bounded(text: str, most: int = MAX_BYTES) -> str:
    """Return a text that is at most so many bytes long; one that is cut says so."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - len(CUT)].decode(errors="ignore") + CUT


def _parts(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        match part:
            case Text() | Refusal():
                found.append(_text(part.text))
            case Thinking():
                found.append({"type": "reasoning", "content": bounded(part.text, MAX_BYTES // 2)})
            case Call():
                arguments = bounded(part.arguments, MAX_BYTES // 4)
                call = {"type": "tool_call", "id": part.call_id, "name": part.name}
                found.append({**call, "arguments": arguments})
            case _:
                pass  # only its own wire format understands it
    return found


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": bounded(text, MAX_BYTES // 2)}


def _json(value: Any) -> str:
    return redact(msgspec.json.encode(value).decode())
