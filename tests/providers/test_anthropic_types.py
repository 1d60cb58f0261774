"""Every Messages request is one by Anthropic's own types, and keeps the rules beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.provider import ModelRequest
from callboard.runtime.history import Input, Round
from support.providers.conversations import requests
from support.providers.request_rules import check_anthropic_types, check_request

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


@given(requests(OPAQUE, MODELS))
def test_every_request_is_one_by_anthropics_types(request: ModelRequest) -> None:
    built = ANTHROPIC.build(request)
    assert ANTHROPIC.build(request) == built
    body = json.loads(built.body)
    check_request("anthropic", body)


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
    check_anthropic_types(body)
    break_it(body)
    with pytest.raises((ValidationError, AssertionError)):
        check_anthropic_types(body)
