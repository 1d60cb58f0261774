"""The input items of a conversation in OpenAI's Responses format.

Nothing is stored at the provider (`store: false`), so every item goes back whole, and without the
id that it had there: the API looks ids up and fails the request ("Items are not persisted when
`store` is set to false"). Only items of server-side tools keep theirs, which the format demands.

What goes back of an answer, to the provider that gave it alone, and in the order in which it came:
- Reasoning with its encrypted content, where the model takes it. Behind it must stand what it led
  to ("provided without its required following item"), so reasoning at the end stays here.
- Items of server-side tools that are complete in themselves (`_RETURNED`), with the fields that the
  API takes. Others wait for a client's output or belong to a tool that isn't offered here.
- The phase of a message (`commentary`, `final_answer`): "dropping it can degrade performance".

To everyone go texts, refusals as texts, and calls. Citations and reasoning that nothing signed stay
here, and of an answer that was broken off all but its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Opaque,
    Refusal,
    Result,
    Round,
    Text,
    Thinking,
)
from .. import attachments
from ..lenient_json import attempt
from ..tool_names import sent_name
from .items import PHASE
from .wire import NAME

InputItem = dict[str, Any]

_RETURNED = {
    "web_search_call": ("action", "status"),
    "file_search_call": ("queries", "results", "status"),
    "code_interpreter_call": ("code", "container_id", "outputs", "status"),
    "image_generation_call": ("result", "status"),
    "mcp_list_tools": ("server_label", "tools", "error"),
    "mcp_call": ("server_label", "name", "arguments", "output", "error", "approval_request_id"),
    "compaction": ("encrypted_content",),
}
"""Fields beside `type` and `id` of the items that go back, by item type."""

_UNFINISHED = frozenset({"in_progress", "searching", "interpreting", "generating", "incomplete"})
_PHASES = frozenset({"commentary", "final_answer"})
_WITHOUT_REASONING = re.compile(r"gpt-[34]|chatgpt-|gpt-[\d.]+-chat")
"""OpenAI: "Reasoning input items can only be provided to a reasoning or computer use model"."""

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_opaque = msgspec.json.Decoder(str | dict[str, Any]).decode


class ResponsesHistory:
    """Encodes rounds for one provider and one kind of its models."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._vendor, _, name = model.rpartition("/")
        self._takes_reasoning = _WITHOUT_REASONING.match(name) is None
        # Who answered, whose model it is and what that takes decide what goes back.
        takes = "reasoning" if self._takes_reasoning else "text"
        self._sees = attachments.sees(model)
        self._key = f"{NAME} {takes} {self._vendor} {provider} {self._sees:d}"

    def encode(self, rounds: Sequence[Round]) -> list[bytes]:
        """Return the items of each round, joined by commas; each round is encoded once."""
        key = self._key
        encoded = [item.encoded.get(key) or self._encode_round(item) for item in rounds]
        return [items for items in encoded if items]

    def _encode_round(self, item: Round) -> bytes:
        encoded = b",".join(map(_encode, self._items(item)))
        item.encoded[self._key] = encoded
        return encoded

    def _items(self, item: Round) -> Iterator[InputItem]:
        inputs: list[Input] = []
        for each in item.items:
            if isinstance(each, Input):
                inputs.append(each)
                continue
            if inputs:
                yield _user(inputs)
                inputs = []
            if isinstance(each, Answer):
                yield from self._answer(each)
            elif isinstance(each, Result):
                yield {
                    "type": "function_call_output",
                    "call_id": each.call_id,
                    "output": self._output(each),
                }
        if inputs:
            yield _user(inputs)

    def _output(self, result: Result) -> str | list[InputItem]:
        if not result.attachments:
            return result.content
        shown = [_attachment(each, sees=self._sees) for each in result.attachments]
        return [{"type": "input_text", "text": result.content}, *shown]

    def _answer(self, answer: Answer) -> list[InputItem]:
        knows = self._knows(answer)
        items: list[InputItem] = []
        texts: list[str] = []
        for part in answer.parts:
            item: InputItem | None = None
            match part:
                case Text() | Refusal():
                    texts.append(part.text)
                case Call():
                    item = _call(part)
                case Thinking() if knows and self._takes_reasoning and part.signature:
                    item = _reasoning(part.text, part.signature)
                case Opaque() if knows and part.kind == PHASE:
                    _add_message(texts, items, _phase(part))
                case Opaque() if knows and part.dialect == NAME:
                    item = _server_item(part)
                case _:
                    pass
            if item is not None:
                _add_message(texts, items)
                items.append(item)
        _add_message(texts, items)
        while items and items[-1]["type"] == "reasoning":
            items.pop()
        return items

    def _knows(self, answer: Answer) -> bool:
        """Return whether parts that only their maker understands go back.

        A gateway's models are of many vendors (`VENDOR/MODEL`), who don't read each other's.
        """
        vendor = answer.model.rpartition("/")[0]
        is_own = (answer.dialect, answer.provider, vendor) == (NAME, self._provider, self._vendor)
        return is_own and not answer.incomplete


def _user(inputs: list[Input]) -> InputItem:
    # One message: chat templates of local servers refuse two messages of a role in a row.
    parts = [part for each in inputs for part in _input_parts(each)]
    content: str | list[InputItem] = parts
    if all(part["type"] == "input_text" for part in parts):
        content = "\n\n".join(part["text"] for part in parts)
    return {"type": "message", "role": "user", "content": content}


def _input_parts(each: Input) -> Iterator[InputItem]:
    if each.text:
        yield {"type": "input_text", "text": each.text}
    for attachment in each.attachments:
        yield _attachment(attachment)


def _attachment(attachment: Attachment, *, sees: bool = True) -> InputItem:
    kind = attachments.media_type(attachment)
    if kind in attachments.IMAGES and sees:
        url = attachments.as_data_url(attachment)
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if kind == attachments.PDF and sees:
        # The name is required beside the data, although the types don't say so.
        name = attachments.file_name(attachment) or "file.pdf"
        url = attachments.as_data_url(attachment)
        return {"type": "input_file", "filename": name, "file_data": url}
    is_text = attachments.is_text(attachment)
    text = attachments.as_text(attachment) if is_text else attachments.as_note(attachment)
    return {"type": "input_text", "text": text}


def _add_message(texts: list[str], items: list[InputItem], phase: str | None = None) -> None:
    """Add one message of the texts so far; the API refuses empty ones."""
    text = "".join(texts)
    texts.clear()
    if text:
        message = {"type": "message", "role": "assistant", "content": text}
        items.append(message if phase is None else {**message, "phase": phase})


def _call(call: Call) -> InputItem:
    return {
        "type": "function_call",
        "call_id": call.call_id,
        "name": sent_name(call.name),
        "arguments": _arguments(call.arguments),
    }


def _arguments(text: str) -> str:
    """Return the model's own text if it is a JSON object, else `{}`: servers decode it.

    The call's error result, which follows, says what was wrong with it.
    """
    return "{}" if attempt(_decode_object, text) is None else text


def _reasoning(text: str, encrypted: str) -> InputItem:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}


def _phase(part: Opaque) -> str | None:
    phase = attempt(_decode_opaque, part.data)
    return phase if isinstance(phase, str) and phase in _PHASES else None


def _server_item(part: Opaque) -> InputItem | None:
    """Return the item of a server-side tool, if it goes back."""
    fields = _RETURNED.get(part.kind)
    value = attempt(_decode_opaque, part.data)
    if fields is None or not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return None
    if value.get("status") in _UNFINISHED or value.get("tools") == []:
        return None  # its end never came
    kept = {name: value[name] for name in fields if name in value}
    return {"type": part.kind, "id": value["id"], **kept}
