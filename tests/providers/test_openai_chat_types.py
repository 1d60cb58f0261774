"""Every Chat Completions request is one by OpenAI's own types, and keeps the rules beside them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conversations import requests
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import ValidationError
from sdk_types import RequestType

from callboard.providers.openai_chat import openai_chat_at
from callboard.providers.provider import ModelRequest
from callboard.runtime.history import Input, Round

OPENAI = "https://api.openai.com/v1"
OTHERS = (
    "http://127.0.0.1:11434/v1",
    "https://openrouter.ai/api/v1",
    "https://api.deepseek.com/v1",
    "https://api.groq.com/openai/v1",
    "https://api.mistral.ai/v1",
    "https://generativelanguage.googleapis.com/v1beta/openai",
)
MODELS = ["gpt-4.1", "gpt-5-mini", "gpt-5.2", "o3", "gpt-oss-20b", "anthropic/claude"]
OPAQUE = {
    "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
    "annotations": [{"type": "url_citation"}],
    "call_extras": [{"call": 0, "extra_content": {"google": {"thought_signature": "s"}}}],
}

# What a server takes beyond OpenAI's own format.
BESIDE_REQUEST = {"reasoning", "thinking", "cache_control", "random_seed"}
BESIDE_MESSAGE = {"reasoning", "reasoning_content", "reasoning_details"}

request_type = RequestType(CompletionCreateParamsStreaming)


@given(requests(OPAQUE, MODELS))
def test_every_request_to_openai_is_one_by_its_types(request: ModelRequest) -> None:
    body = json.loads(openai_chat_at(OPENAI).build(request).body)
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call.pop("extra_content", None)  # Gemini's, under the name of another server's
    request_type.check(body)
    check_rules(body)


@given(requests(OPAQUE, MODELS), st.sampled_from(OTHERS))
def test_every_request_to_another_server_is_one_but_for_what_that_takes(
    request: ModelRequest, base_url: str
) -> None:
    body = json.loads(openai_chat_at(base_url).build(request).body)
    for key in BESIDE_REQUEST:
        body.pop(key, None)
    for message in body["messages"]:
        for key in BESIDE_MESSAGE:
            message.pop(key, None)
        for call in message.get("tool_calls", ()):
            call.pop("extra_content", None)
    request_type.check(body)
    check_rules(body)


def check_rules(body: Any) -> None:
    """What the API checks beyond the types."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        for call in message.get("tool_calls", ()):
            waiting.append(call["id"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            check_name(call["function"]["name"])
        if message["role"] == "assistant":
            assert message["content"] is not None or message["tool_calls"]
            assert message.get("tool_calls") != []
    assert not waiting
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    assert len(names) == len(set(names))
    for name in names:
        check_name(name)
    assert body.get("tools") != []
    if "tool_choice" in body:
        assert names
        if isinstance(body["tool_choice"], dict):
            assert body["tool_choice"]["function"]["name"] in names
    assert 1 <= len(body.get("stop", ["x"])) <= 4


def check_name(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda body: body.update(unknown=1),
        lambda body: body.update(tool_choice="sometimes"),
        lambda body: body["messages"][0].update(reasoning_content="hm"),
        lambda body: body["messages"][0].update(content=[{"type": "image_url"}]),
        lambda body: body["messages"][0].update(role="person"),
    ],
)
def test_the_types_refuse_what_is_wrong(break_it: Any) -> None:
    request = ModelRequest(model="m", rounds=[Round([Input("a")])])
    body = json.loads(openai_chat_at(OPENAI).build(request).body)
    request_type.check(body)
    break_it(body)
    with pytest.raises((ValidationError, AssertionError)):
        request_type.check(body)
