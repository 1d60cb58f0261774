"""What a request says, in the same words for every wire format.

`conversation(request)` is the list of its parts, in order: `(kind, value)`, or `("call", name,
arguments)` and `("result", value)`. What proves reasoning is `("proof", text)`, behind the reasoning
where that goes back, and ahead of the call that it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from callboard.providers.gemini.history import UNSIGNED
from callboard.providers.testing.scripted_server import ScriptedRequest

Part = tuple[Any, ...]


def conversation(request: ScriptedRequest) -> list[Part]:
    """The parts of a request."""
    return list(_READERS[request.dialect](request.body))


def offered_names(request: ScriptedRequest) -> list[str]:
    """The tools that the model may ask for, as they were sent."""
    names: list[str] = []
    for tool in request.body.get("tools", ()):
        declared = tool.get("function_declarations", [tool.get("function", tool)])
        names += [each["name"] for each in declared]
    return names


def _chat(body: Any) -> Iterator[Part]:
    for message in body["messages"]:
        if message["role"] == "user":
            yield from _content("input", message["content"])
        elif message["role"] == "assistant":
            if message.get("reasoning_content"):
                yield "thinking", message["reasoning_content"]
            if message["content"]:
                yield "text", message["content"]
            for call in message.get("tool_calls", ()):
                its = call["function"]
                yield "call", its["name"], json.loads(its["arguments"])
        elif message["role"] == "tool":
            yield "result", json.loads(message["content"])


def _responses(body: Any) -> Iterator[Part]:
    for item in body["input"]:
        kind = item["type"]
        if kind == "message" and item["role"] == "user":
            yield from _content("input", item["content"])
        elif kind == "message":
            yield "text", item["content"]
        elif kind == "reasoning":
            yield from (("thinking", part["text"]) for part in item["summary"])
            yield "proof", item["encrypted_content"]
        elif kind == "function_call":
            yield "call", item["name"], json.loads(item["arguments"])
        elif kind == "function_call_output":
            yield "result", json.loads(item["output"])


def _anthropic(body: Any) -> Iterator[Part]:
    for message in body["messages"]:
        for block in message["content"]:
            kind = block["type"]
            if kind == "text":
                yield ("input" if message["role"] == "user" else "text"), block["text"]
            elif kind == "thinking":
                if block["thinking"]:
                    yield "thinking", block["thinking"]
                yield "proof", block["signature"]
            elif kind == "tool_use":
                yield "call", block["name"], block["input"]
            elif kind == "tool_result":
                yield "result", json.loads(block["content"])
            else:
                yield "file", json.dumps(block)


def _gemini(body: Any) -> Iterator[Part]:
    for content in body["contents"]:
        for part in content["parts"]:
            if "thoughtSignature" in part:
                yield "proof", part["thoughtSignature"]
            if part.get("text"):
                kind = "input" if content["role"] == "user" else "text"
                yield ("thinking" if part.get("thought") else kind), part["text"]
            elif "functionCall" in part:
                yield "call", part["functionCall"]["name"], part["functionCall"]["args"]
            elif "functionResponse" in part:
                yield "result", part["functionResponse"]["response"]
            elif "inlineData" in part:
                yield "file", json.dumps(part)


def _content(kind: str, content: Any) -> Iterator[Part]:
    """Text, or a list of texts and files."""
    for part in [{"text": content}] if isinstance(content, str) else content:
        yield (kind, part["text"]) if "text" in part else ("file", json.dumps(part))


def answer_parts(
    dialect: str,
    thinking: str,
    proof: str,
    text: str,
    calls: Sequence[tuple[str, Any]] = (),
    *,
    is_own: bool = True,
) -> list[Part]:
    """How an answer goes back: with what proves its reasoning to who gave it, and to nobody else."""
    asked: list[Part] = [("call", *call) for call in calls]
    said: list[Part] = [("text", text)]
    if dialect == "gemini":
        # The proof stands on the first call, else behind the text; thoughts never go back.
        if not is_own:
            proof = UNSIGNED if calls else ""
        return [*said, *([("proof", proof)] if proof else []), *asked]
    if not is_own or (dialect == "openai_chat" and not calls):
        return [*said, *asked]
    thought: list[Part] = [("thinking", thinking)]
    if dialect != "openai_chat":
        thought.append(("proof", proof))
    return [*thought, *said, *asked]


_READERS = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
