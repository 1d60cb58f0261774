"""Every Responses request is one by OpenAI's own types, and keeps the rules beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from callboard.providers.openai_responses.dialect import OPENAI_RESPONSES
from callboard.providers.provider import ModelRequest
from callboard.runtime.history import Input, Round
from support.providers.conversations import requests
from support.providers.request_rules import check_request, check_responses_types

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


@pytest.mark.parametrize(
    "break_it",
    [
        lambda body: body.update(unknown=1),
        lambda body: body.update(tool_choice="sometimes"),
        lambda body: body["input"][0].update(role="person"),
        lambda body: body["input"][0].update(content=[{"type": "input_image"}]),
        lambda body: body["input"].append({"type": "function_call", "name": "a"}),
    ],
)
def test_the_types_refuse_what_is_wrong(break_it: Any) -> None:
    request = ModelRequest(model="m", rounds=[Round([Input("a")])])
    body = json.loads(OPENAI_RESPONSES.build(request).body)
    check_responses_types(body)
    break_it(body)
    with pytest.raises((ValidationError, AssertionError)):
        check_responses_types(body)
