"""Every Messages request is one by Anthropic's own types, and keeps the rules beside them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from conversations import requests
from hypothesis import given
from pydantic import ValidationError
from sdk_types import RequestType

from callboard.providers.anthropic_messages import ANTHROPIC
from callboard.providers.provider import ModelRequest
from callboard.runtime.history import Input, Round

MODELS = [
    "claude-3-5-sonnet-20241022",
    "claude-sonnet-4-20250514",
    "claude-haiku-4-5",
    "claude-opus-4-6",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "kimi-k2",
]
SEARCH_RESULT = {
    "type": "web_search_result",
    "title": "t",
    "url": "https://e.example",
    "encrypted_content": "e",
}
CITATION = {
    "type": "web_search_result_location",
    "cited_text": "c",
    "encrypted_index": "e",
    "title": "t",
    "url": "https://e.example",
}
OPAQUE = {
    "redacted_thinking": {"type": "redacted_thinking", "data": "x"},
    "server_tool_use": {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "q"},
    },
    "web_search_tool_result": {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [SEARCH_RESULT],
    },
    "citations": {"chars": 3, "citations": [CITATION]},
    "compaction": {"type": "compaction", "content": "c"},
    "mcp_tool_use": {"type": "mcp_tool_use", "id": "m", "name": "n", "input": {}},
}
SAMPLING = {"temperature", "top_p"}

request_type = RequestType(MessageCreateParamsStreaming)


@given(requests(OPAQUE, MODELS))
def test_every_request_is_one_by_anthropics_types(request: ModelRequest) -> None:
    built = ANTHROPIC.build(request)
    assert ANTHROPIC.build(request) == built
    body = json.loads(built.body)
    # The types are those of the next version, which has no sampling.
    request_type.check({key: value for key, value in body.items() if key not in SAMPLING})
    check_messages(body["messages"])
    check_tools(body)
    check_thinking(body)
    assert built.body.count(b'"cache_control":{') <= 4
    for block in body.get("system", ()):
        assert block["text"].strip()
    assert all(text.strip() for text in body.get("stop_sequences", ["x"]))


def check_messages(messages: list[Any]) -> None:
    """What the API checks of a conversation beyond the types."""
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[n % 2] for n in range(len(roles))]
    assert roles[-1] == "user"
    waiting: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == waiting
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)])
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert blocks[-1]["type"] not in {"thinking", "redacted_thinking"}
        for block in blocks:
            check_block(block)
    assert not waiting


def check_block(block: Any) -> None:
    if block["type"] == "text":
        assert block["text"].strip()
    if block["type"] == "tool_use":
        check_name(block["name"])
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
    if block["type"] == "thinking":
        assert block["signature"]
        assert "cache_control" not in block


def check_tools(body: Any) -> None:
    names = [tool["name"] for tool in body.get("tools", ())]
    assert len(names) == len(set(names))
    for tool in body.get("tools", ()):
        check_name(tool["name"])
        assert tool["input_schema"]["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf"} & tool["input_schema"].keys()
    assert body.get("tools") != []
    if "tool_choice" in body:
        assert names
        assert body["tool_choice"].get("name", names[0]) in names
    has_calls = any(b["type"] == "tool_use" for m in body["messages"] for b in m["content"])
    assert names or not has_calls


def check_thinking(body: Any) -> None:
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
    if thinking["type"] in {"enabled", "adaptive"}:
        assert "temperature" not in body
        assert body.get("top_p", 1.0) >= 0.95
        assert body.get("tool_choice", {"type": "auto"})["type"] in {"auto", "none"}
    if body["model"].startswith("claude"):
        assert not body.keys() >= SAMPLING


def check_name(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda body: body.update(seed=1),
        lambda body: body.pop("max_tokens"),
        lambda body: body.update(thinking={"type": "enabled"}),
        lambda body: body["messages"][0].update(role="person"),
        lambda body: body["messages"][0]["content"].append({"type": "compaction"}),
        lambda body: body["messages"][0]["content"][0].update(extra=1),
    ],
)
def test_the_types_refuse_what_is_wrong(break_it: Any) -> None:
    request = ModelRequest(model="claude-opus-5", rounds=[Round([Input("a")])])
    body = json.loads(ANTHROPIC.build(request).body)
    request_type.check(body)
    break_it(body)
    with pytest.raises((ValidationError, AssertionError)):
        request_type.check(body)
