"""Every Chat Completions request is one by OpenAI's own types, and keeps the rules beside them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.openai_chat.dialect import openai_chat_at
from callboard.providers.provider import ModelRequest
from support.providers.conversations import requests
from support.providers.request_rules import check_chat_rules, check_chat_types

OPENAI = "https://api.openai.com/v1"
OTHERS = (
    "http://127.0.0.1:11434/v1",
    "https://openrouter.ai/api/v1",
    "https://api.deepseek.com/v1",
    "https://api.groq.com/openai/v1",
    "https://api.mistral.ai/v1",
    "https://generativelanguage.googleapis.com/v1beta/openai",
)
CALL_IDS = {
    "https://openrouter.ai/api/v1": ".+",
    "https://api.mistral.ai/v1": "[a-zA-Z0-9]{9}",
}
MODELS = ["gpt-4.1", "gpt-5-mini", "gpt-5.2", "o3", "gpt-oss-20b", "anthropic/claude"]
OPAQUE = {
    "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
    "annotations": [{"type": "url_citation"}],
    "call_extras": [{"call": 0, "extra_content": {"google": {"thought_signature": "s"}}}],
}


@given(requests(OPAQUE, MODELS))
def test_every_request_to_openai_is_one_by_its_types(request: ModelRequest) -> None:
    body = json.loads(openai_chat_at(OPENAI).build(request).body)
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call.pop("extra_content", None)  # Gemini's, under the name of another server's
    check_chat_types(body, is_openai=True)
    check_chat_rules(body)


@given(requests(OPAQUE, MODELS), st.sampled_from(OTHERS))
def test_every_request_to_another_server_is_one_but_for_what_that_takes(
    request: ModelRequest, base_url: str
) -> None:
    body = json.loads(openai_chat_at(base_url).build(request).body)
    check_chat_types(body)
    check_chat_rules(body, call_id=CALL_IDS.get(base_url, ".{1,40}"))
