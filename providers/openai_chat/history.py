"""The messages of a conversation in OpenAI's Chat Completions format.

Left out on purpose: reasoning of another provider or format, reasoning that its server does not
take back (`servers`), and opaque parts but the two kinds that their server demands:
OpenRouter's `reasoning_details`, and `extra_content` of calls, in which Gemini signs them. An
answer that neither says nor calls anything is left out whole, since Mistral and Moonshot refuse an
empty message; what a person said before and after it becomes one message, though rounds apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ...runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Item,
    Opaque,
    Result,
    Round,
    Thinking,
)
from .. import attachments
from ..lenient_json import attempt
from ..tool_names import sent_name
from .decoder import NAME
from .extras import CALL_EXTRAS, REASONING_DETAILS, decode_call_extras
from .servers import ChatServer, ReasoningReturn

Message = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class ChatHistory:
    """Encodes rounds for one provider at one kind of server."""

    def __init__(self, server: ChatServer, provider: str, *, sees: bool = True) -> None:
        self._server = server
        self._provider = provider
        self._sees = sees and server.takes_images
        # Both: who answered decides what goes back, the server decides its form.
        self._key = f"{NAME} {server.name} {provider} {self._sees:d}"

    def encode(self, rounds: Sequence[Round]) -> list[bytes]:
        """Return the messages of each round, joined by commas.

        Each is encoded once, but for those whose answer is left out: they join the next.
        """
        key = self._key
        encoded: list[bytes] = []
        group: list[Round] = []
        for item in rounds:
            if not group and (known := item.encoded.get(key)) is not None:
                encoded.append(known)
                continue
            group.append(item)
            if not _end_with_input(group):
                made = self._encoded(group)
                if len(group) == 1:
                    item.encoded[key] = made
                encoded.append(made)
                group = []
        if group:
            encoded.append(self._encoded(group))
        return [messages for messages in encoded if messages]

    def _encoded(self, group: Sequence[Round]) -> bytes:
        items = [each for item in group for each in item.items]
        return b",".join(map(_encode, self._messages(items)))

    def _messages(self, items: Sequence[Item]) -> Iterator[Message]:
        inputs: list[Input] = []
        for each in items:
            if isinstance(each, Answer) and _is_empty(each):
                continue
            if isinstance(each, Input):
                inputs.append(each)
                continue
            if isinstance(each, Result):
                call_id = self._server.sent_id(each.call_id)
                content = each.content
                if each.attachments:
                    if shown := self._beside(each):
                        inputs.append(shown)
                    content = "\n\n".join([content, *self._in_words(each)])
                yield {"role": "tool", "tool_call_id": call_id, "content": content}
                continue
            if inputs:
                yield self._user(inputs)
                inputs = []
            yield self._assistant(each)
        if inputs:
            yield self._user(inputs)

    def _beside(self, result: Result) -> Input | None:
        """Return a person's message with what a tool's can't hold, which follows the results."""
        shown = tuple(each for each in result.attachments if self._is_seen(each))
        return Input(f"(From the result of {result.name}:)", shown) if shown else None

    def _in_words(self, result: Result) -> Iterator[str]:
        for each in result.attachments:
            if not self._is_seen(each):
                is_text = attachments.is_text(each)
                yield attachments.as_text(each) if is_text else attachments.as_note(each)

    def _is_seen(self, attachment: Attachment) -> bool:
        return self._sees and self._shown(attachment) is not None

    def _user(self, inputs: list[Input]) -> Message:
        # One message: chat templates of local servers refuse two messages of a role in a row. Text
        # alone is a string, since some servers know no list.
        shown: list[Message] = []
        texts: list[str] = []
        for each in inputs:
            texts += [each.text] if each.text else []
            for attachment in each.attachments:
                part = self._shown(attachment)
                if part is not None:
                    shown.append(part)
                elif attachments.is_text(attachment):
                    texts.append(attachments.as_text(attachment))
                else:
                    texts.append(attachments.as_note(attachment))
        text = "\n\n".join(texts)
        if not shown:
            return {"role": "user", "content": text}
        if text:
            shown.insert(0, {"type": "text", "text": text})
        return {"role": "user", "content": shown}

    def _shown(self, attachment: Attachment) -> Message | None:
        """Return the part that shows an attachment, `None` if this server takes no such part."""
        kind = attachments.media_type(attachment)
        if kind in attachments.IMAGES and self._server.takes_images:
            url = attachments.as_data_url(attachment)
            return {"type": "image_url", "image_url": {"url": url}}
        if kind == attachments.PDF and self._server.takes_files:
            file = {
                "filename": attachments.file_name(attachment) or "file.pdf",
                "file_data": attachments.as_data_url(attachment),
            }
            return {"type": "file", "file": file}
        return None

    def _assistant(self, answer: Answer) -> Message:
        message: Message = {"role": "assistant", "content": answer.text}
        calls = answer.calls
        is_own = answer.dialect == NAME and answer.provider == self._provider
        if is_own or self._server.returns is ReasoningReturn.DEMANDED:
            self._add_reasoning(message, answer, is_own=is_own)
        if calls:
            # OpenAI: content is required "unless tool_calls is specified"; some refuse "" beside
            # them.
            message["content"] = answer.text or None
            message["tool_calls"] = [self._call(call) for call in calls]
            if is_own:
                _add_call_extras(message["tool_calls"], answer)
        return message

    def _call(self, call: Call) -> Message:
        function = {"name": sent_name(call.name), "arguments": _arguments(call.arguments)}
        call_id = self._server.sent_id(call.call_id)
        return {"id": call_id, "type": "function", "function": function}

    def _add_reasoning(self, message: Message, answer: Answer, *, is_own: bool) -> None:
        server = self._server
        if server.returns is ReasoningReturn.NEVER:
            return
        if server.returns is ReasoningReturn.WITH_CALLS and not answer.calls:
            return
        if is_own and server.takes_details:
            details = _opaque(answer, REASONING_DETAILS)
            if details is not None:
                message[REASONING_DETAILS] = details
                return
        text = "".join(p.text for p in answer.parts if isinstance(p, Thinking)) if is_own else ""
        is_demanded = server.returns is ReasoningReturn.DEMANDED and bool(answer.calls)
        if text or is_demanded:
            message[server.reasoning_field] = text


def _is_empty(answer: Answer) -> bool:
    return not answer.has_calls and not answer.text.strip()


def _end_with_input(group: list[Round]) -> bool:
    """Return whether the last message of the rounds is a person's, empty answers left out."""
    for item in reversed(group):
        for each in reversed(item.items):
            if not (isinstance(each, Answer) and _is_empty(each)):
                # Files of results may follow them in a message of a person's.
                return isinstance(each, Input) or (isinstance(each, Result) and _has_files(item))
    return False


def _has_files(item: Round) -> bool:
    # A list, which is made at once: each result of each answer comes through here.
    return bool([each for each in item.items if isinstance(each, Result) and each.attachments])


def _arguments(text: str) -> str:
    """Return the model's own text if it is a JSON object, else `{}`.

    Servers whose chat template decodes the arguments answer 500 to anything else, for ever, since
    it is in the history. The call's error result, which follows, says what was wrong with it.
    """
    return "{}" if attempt(_decode_object, text) is None else text


def _opaque(answer: Answer, kind: str) -> msgspec.Raw | None:
    for part in answer.parts:
        if isinstance(part, Opaque) and part.dialect == NAME and part.kind == kind:
            return part.data
    return None


def _add_call_extras(calls: list[Message], answer: Answer) -> None:
    data = _opaque(answer, CALL_EXTRAS)
    for extra in decode_call_extras(data) if data is not None else ():
        if 0 <= extra.call < len(calls):
            calls[extra.call]["extra_content"] = extra.extra_content
