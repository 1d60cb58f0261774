"""What a server would ask the model (sampling): read as an enemy's, and as something that a person can look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....runtime.errors import ValidationError
from ....runtime.handles import ModelMessage, ModelQuestion
from ....runtime.text import hidden_in

MAX_SHOWN_CHARS = 16_000
"""All that one request says: a person reads it whole before it is sent."""
MAX_MESSAGES = 100
MAX_STOPS = 16
"""Texts at which the answer ends."""
MAX_STOP_CHARS = 200


def read_model_question(said: Mapping[str, Any]) -> ModelQuestion:
    """Return what a request in the form of the protocol asks the model.

    Raises `ValidationError` for what no person could look at, and for what the model is not lent for: tools, and
    pictures or sounds, which a question can't show.
    """
    if said.get("tools") or said.get("toolChoice"):
        raise ValidationError("the model gets no tools here: ask without them")
    messages = tuple(_messages(said.get("messages") or ()))
    if not messages or messages[-1].role != "user":
        raise ValidationError("the last message must be the user's")
    system = str(said.get("systemPrompt") or "")
    stops = tuple(map(str, said.get("stopSequences") or ()))
    if len(stops) > MAX_STOPS or any(not 0 < len(each) <= MAX_STOP_CHARS for each in stops):
        raise ValidationError(
            f"stopSequences: there are at most {MAX_STOPS}, of 1 to {MAX_STOP_CHARS} characters"
        )
    texts = (system, *(each.text for each in messages), *stops)
    if sum(map(len, texts)) > MAX_SHOWN_CHARS:
        raise ValidationError(
            f"all messages have more than {MAX_SHOWN_CHARS} characters: more than a person is shown"
        )
    if (hidden := next(filter(None, map(hidden_in, texts)), None)) is not None:
        raise ValidationError(f"a message hides a character that people don't see: {hidden}")
    most = said.get("maxTokens")
    if not isinstance(most, int) or most < 1:
        raise ValidationError("maxTokens: it is 1 or more")
    temperature = said.get("temperature")
    if temperature is not None and not 0 <= temperature <= 2:
        raise ValidationError("temperature: it is between 0 and 2")
    return ModelQuestion(
        system=system,
        messages=messages,
        max_tokens=most,
        temperature=temperature,
        stop_sequences=stops,
    )


def _messages(said: Any) -> Iterator[ModelMessage]:
    if len(said) > MAX_MESSAGES:
        raise ValidationError(f"there are more than {MAX_MESSAGES} messages")
    for each in said:
        content = each.get("content")
        parts = content if isinstance(content, list) else [content]
        if any(part.get("type") != "text" for part in parts):
            raise ValidationError(
                "a message has a part that is no text, which nobody is shown here"
            )
        text = "\n".join(str(part.get("text", "")) for part in parts)
        yield ModelMessage(role=each["role"], text=text)


def shown_model_question(server: str, model: str, question: ModelQuestion) -> str:
    """Return the question to people: what would be sent, whole."""
    most = f"{question.max_tokens:,} tokens at most"
    lines = [
        f"The server {server} wants an answer of the model {model} ({most}), which the turn pays for. It gets the "
        "answer. This is sent, and nothing of the session:",
    ]
    if question.system:
        lines.append(f"[system] {question.system}")
    lines += [f"[{each.role}] {each.text}" for each in question.messages]
    if question.stop_sequences:
        lines.append(f"[ends at] {' '.join(map(repr, question.stop_sequences))}")
    return "\n\n".join(lines)
