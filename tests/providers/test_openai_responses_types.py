"""Every Responses request is one by OpenAI's own types, and keeps the rules beside them."""

from __future__ import annotations

import json

from hypothesis import given

from callboard.providers.openai_responses.dialect import OPENAI_RESPONSES
from callboard.providers.provider import ModelRequest
from support.providers.conversations import requests
from support.providers.request_rules import check_request

MODELS = ["gpt-4.1", "gpt-5-mini", "gpt-5.2", "o3", "openai/gpt-5-pro", "grok-4", "qwen3", "m"]
OPAQUE = {
    "phase": "commentary",
    "annotations": [{"type": "url_citation"}],
    "web_search_call": {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    },
    "code_interpreter_call": {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "1",
        "container_id": "c",
        "outputs": None,
        "status": "completed",
        "created_by": "x",
    },
    "compaction": {"type": "compaction", "id": "cmp_1", "encrypted_content": "e"},
    "mcp_list_tools": {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []},
    "shell_call": {"type": "shell_call", "id": "sh_1", "status": "completed", "call_id": "c"},
}


@given(requests(OPAQUE, MODELS))
def test_every_request_is_one_by_openai_s_types(request: ModelRequest) -> None:
    body = json.loads(OPENAI_RESPONSES.build(request).body)
    check_request("openai_responses", body)
