"""The messages of a conversation in Anthropic's Messages format.

Roles alternate, the first message is a person's. Results of tools come first in the message after
the calls, all of one answer together, and what the person says next follows them in the same
message. A round is encoded alone, once; where two rounds meet in the same role, their messages
become one.

Left out: reasoning without a signature, signatures and opaque parts of another provider or format,
and opaque parts that the API takes back only with the beta header that asked for them (`fallback`,
`compaction`, `mcp_…`, `advisor_…`), which is never sent. Blank texts, which the API refuses, are
left out too; an input that has nothing else is sent as a word that says so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

import msgspec

from ...runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Item,
    Opaque,
    Part,
    Refusal,
    Result,
    Round,
    Text,
    Thinking,
)
from .. import attachments
from ..lenient_json import attempt
from ..tool_names import sent_name
from .blocks import CITATIONS, NAME

Block = dict[str, Any]

MAX_IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4
"""Anthropic: "image exceeds 5 MB maximum", counted in base64; a request with a larger one fails."""

MAX_PDF_BYTES = 22 * 1024 * 1024
"""PDF whose base64 has 30 MB, beside other text: a request of more than 32 MB fails."""

MAX_TITLE_CHARS = 200
"""Characters of a document's title: a file name, and less than the API's limit of 500."""

NOTHING_SAID = "(An empty message.)"
NOTHING_RETURNED = "(No output.)"
OMITTED = "(The beginning of this conversation was left out.)"
GO_ON = "Go on."
"""Sent after an answer that would end the request: newer models refuse to continue one."""

CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = (b'{"role":"user","content":[', b'{"role":"assistant","content":[')
_SERVER_TOOLS = frozenset(
    {
        "web_search",
        "web_fetch",
        "code_execution",
        "bash_code_execution",
        "text_editor_code_execution",
        "tool_search_tool_regex",
        "tool_search_tool_bm25",
    }
)
_OPAQUE = frozenset(
    {
        "redacted_thinking",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "container_upload",
    }
)
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Kind(msgspec.Struct):
    type: str = ""
    name: str = ""


class _Citations(msgspec.Struct):
    chars: int = 0
    citations: list[msgspec.Raw] = []


_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_citations = msgspec.json.Decoder(_Citations).decode


class HistoryEncoder:
    """Encodes rounds for one provider.

    Args:
        provider: Whose signatures and opaque parts go back.
        sees: Whether the model takes the images of results.
    """

    def __init__(self, provider: str, *, sees: bool = True) -> None:
        self._provider = provider
        self._sees = sees
        # The encoded form depends on who answered, since that decides what goes back.
        parts = ("inputs", "answer", "results" if sees else "results in words")
        self._keys = [f"{NAME} {provider} {part}" for part in parts]

    def encode(self, rounds: Sequence[Round], *, is_marked: bool) -> bytes:
        """Return the JSON of all messages, without the brackets of their list.

        Args:
            rounds: The conversation.
            is_marked: Whether to mark, for the provider's cache, the end of this request, and the
                end of the one before it, which is what the cache holds already.
        """
        contents: list[list[bytes]] = []
        # Even places are a person's. An answer at the start or the end gets an input beside it.
        for item in rounds:
            for role, blocks in enumerate(self._blocks(item)):
                if not blocks:
                    continue
                is_answer = role == 1
                if is_answer == (len(contents) % 2 == 1):
                    contents.append([])
                elif not contents:
                    contents += [[_encode(_text(OMITTED))], []]
                contents[-1].append(blocks)
        if len(contents) % 2 == 0:
            contents.append([_encode(_text(GO_ON))])
        if is_marked:
            for content in contents[-3::2]:
                content[-1] = content[-1][:-1] + CACHE_MARK + b"}"
        return b",".join(
            b"%b%b]}" % (_ROLES[place % 2], b",".join(content))
            for place, content in enumerate(contents)
        )

    def starts_with_thinking(self, answer: Answer) -> bool:
        """Return whether the answer, as it is sent, opens with reasoning."""
        block = next(self._answer_blocks(answer), None)
        return block is not None and _is_thinking(block)

    def _blocks(self, item: Round) -> list[bytes]:
        """Return the encoded blocks of the inputs, the answer and the results, joined by commas."""
        known = item.encoded
        if self._keys[2] in known:
            return [known[key] for key in self._keys]
        blocks: list[list[Block | msgspec.Raw]] = [[], [], []]
        for each in item.items:
            self._add(each, blocks)
        encoded = [b",".join(map(_encode, part)) for part in blocks]
        known.update(zip(self._keys, encoded, strict=True))
        return encoded

    def _add(self, item: Item, blocks: list[list[Block | msgspec.Raw]]) -> None:
        inputs, answer, results = blocks
        match item:
            case Input():
                inputs += _input_blocks(item)
            case Answer():
                answer += self._answer_blocks(item)
            case Result():
                results.append(_result_block(item, sees=self._sees))
            case _:
                assert_never(item)

    def _answer_blocks(self, answer: Answer) -> Iterator[Block | msgspec.Raw]:
        is_own = answer.dialect == NAME and answer.provider == self._provider
        blocks: list[Block | msgspec.Raw] = []
        for part in answer.parts:
            _add_part(part, blocks, is_own=is_own)
        # Anthropic: "The final block in an assistant message cannot be `thinking`".
        while blocks and _is_thinking(blocks[-1]):
            blocks.pop()
        return iter(blocks)


def _add_part(part: Part, blocks: list[Block | msgspec.Raw], *, is_own: bool) -> None:
    match part:
        case Text(text) | Refusal(text):
            if text.strip():
                blocks.append(_text(text))
        case Thinking(text, signature):
            if is_own and signature:
                blocks.append({"type": "thinking", "thinking": text, "signature": signature})
        case Call():
            blocks.append(_call_block(part))
        case Opaque():
            if not is_own or part.dialect != NAME:
                return
            if part.kind == CITATIONS:
                _cite(blocks, part.data)
            elif _goes_back(part):
                blocks.append(part.data)
        case _:
            assert_never(part)


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _is_thinking(block: Block | msgspec.Raw) -> bool:
    # Of the parts that are sent as they came, redacted thinking alone has this word in its type.
    if isinstance(block, dict):
        return block.get("type") == "thinking"
    return (attempt(_decode_kind, block) or _Kind()).type == "redacted_thinking"


def _goes_back(part: Opaque) -> bool:
    if part.kind == "server_tool_use":
        return (attempt(_decode_kind, part.data) or _Kind()).name in _SERVER_TOOLS
    return part.kind in _OPAQUE


def _cite(blocks: list[Block | msgspec.Raw], data: msgspec.Raw) -> None:
    """Attach citations to the text that they belong to."""
    text = blocks[-1] if blocks else None
    if not isinstance(text, dict) or text["type"] != "text" or "citations" in text:
        return
    cited = attempt(_decode_citations, data) or _Citations()
    whole: str = text["text"]
    head, tail = whole[: -cited.chars or None], whole[-cited.chars :]
    if not cited.citations or not tail.strip():
        return
    if 0 < cited.chars < len(whole) and head.strip():
        blocks[-1] = _text(head)
        blocks.append({**_text(tail), "citations": cited.citations})
    else:
        text["citations"] = cited.citations


def _call_block(call: Call) -> Block:
    """Return the block of a call, with an empty object if its text is not one.

    The API wants an object. The call's error result, which follows, says what was wrong with it.
    """
    is_object = attempt(_decode_object, call.arguments) is not None
    return {
        "type": "tool_use",
        "id": _sent_id(call.call_id),
        "name": sent_name(call.name),
        "input": msgspec.Raw(call.arguments.encode() if is_object else b"{}"),
    }


def _result_block(result: Result, *, sees: bool) -> Block:
    text = result.content if result.content.strip() else NOTHING_RETURNED
    files = [_attachment_block(each, sees=sees) for each in result.attachments]
    block = {
        "type": "tool_result",
        "tool_use_id": _sent_id(result.call_id),
        "content": [_text(text), *files] if files else text,
    }
    return {**block, "is_error": True} if result.is_error else block


def _sent_id(call_id: str) -> str:
    """Return an id as the API takes it; the same for a call and its result."""
    if _ID.fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:32]


def _input_blocks(item: Input) -> Iterator[Block]:
    # Files first: Anthropic's guides say that models read them better so.
    yield from map(_attachment_block, item.attachments)
    if item.text.strip():
        yield _text(item.text)
    elif not item.attachments:
        yield _text(NOTHING_SAID)


def _attachment_block(attachment: Attachment, *, sees: bool = True) -> Block:
    kind, size = attachments.media_type(attachment), len(attachment.data)
    if kind in attachments.IMAGES and 0 < size <= MAX_IMAGE_BYTES and sees:
        return {"type": "image", "source": _base64(attachment, kind)}
    if kind == attachments.PDF and 0 < size <= MAX_PDF_BYTES and sees:
        return _document(attachment, _base64(attachment, kind))
    if attachments.is_text(attachment):
        text = attachment.data.decode("utf-8", "replace")
        if text.strip():
            return _document(attachment, {"type": "text", "media_type": "text/plain", "data": text})
    return _text(attachments.as_note(attachment))


def _base64(attachment: Attachment, kind: str) -> Block:
    return {"type": "base64", "media_type": kind, "data": attachments.as_base64(attachment)}


def _document(attachment: Attachment, source: Block) -> Block:
    title = attachments.file_name(attachment)[:MAX_TITLE_CHARS]
    block = {"type": "document", "source": source}
    return {**block, "title": title} if title else block
