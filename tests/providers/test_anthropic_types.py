"""Every Messages request is one by Anthropic's own types, and keeps the rules beside them."""

from __future__ import annotations

import json

from hypothesis import given

from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.provider import ModelRequest
from support.providers.conversations import requests
from support.providers.request_rules import check_request

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
