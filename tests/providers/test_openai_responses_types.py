"""Every Responses request is one by OpenAI's own types, and keeps the rules beside them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conversations import requests
from hypothesis import given
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import ValidationError
from sdk_types import RequestType

from callboard.providers.openai_responses import OPENAI_RESPONSES
from callboard.providers.provider import ModelRequest
from callboard.runtime.history import Input, Round

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

request_type = RequestType(ResponseCreateParamsStreaming)


def typed(body: Any) -> Any:
    """The body with what the types demand and the API refuses: reasoning that it never stored has
    no id for it."""
    items = [
        {"id": "rs_1", **item} if item["type"] == "reasoning" else item for item in body["input"]
    ]
    return {**body, "input": items}


@given(requests(OPAQUE, MODELS))
def test_every_request_is_one_by_openai_s_types(request: ModelRequest) -> None:
    body = json.loads(OPENAI_RESPONSES.build(request).body)
    request_type.check(typed(body))
    check_rules(body)


def check_rules(body: Any) -> None:
    """What the API checks beyond the types."""
    assert (body["stream"], body["store"]) == (True, False)
    check_items(body["input"])
    names = [tool["name"] for tool in body.get("tools", ())]
    assert len(names) == len(set(names))
    for name in names:
        check_name(name)
    assert body.get("tools") != []
    if "tool_choice" in body:
        assert names
        if isinstance(body["tool_choice"], dict):
            assert body["tool_choice"]["name"] in names
    assert body.get("max_output_tokens", 16) >= 16
    assert ("include" in body) <= ("gpt-4" not in body["model"])


def check_items(items: list[Any]) -> None:
    waiting: list[str] = []
    for at, item in enumerate(items):
        if item["type"] == "function_call":
            waiting.append(item["call_id"])
            assert isinstance(json.loads(item["arguments"]), dict)
            check_name(item["name"])
        elif item["type"] == "function_call_output":
            assert item["call_id"] == waiting.pop(0)
        elif item["type"] == "reasoning":
            assert item["encrypted_content"]
            assert items[at + 1]["type"] != "function_call_output"
            assert items[at + 1].get("role") != "user"
        elif item.get("role") == "user":
            assert not waiting
        elif item["type"] == "message":
            assert item["content"]
        assert item["type"] in {"function_call_output", "message", *KEEP_IDS} or "id" not in item
    assert not waiting


KEEP_IDS = {"web_search_call", "code_interpreter_call", "compaction"}


def check_name(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)


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
    request_type.check(body)
    break_it(body)
    with pytest.raises((ValidationError, AssertionError)):
        request_type.check(body)
