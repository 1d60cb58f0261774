"""What each provider checks of a request: its own SDK's types, and the rules that no type says.

The types are imported when the first request of their format is checked.
"""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec

from support.providers.sdk_types import Known, RequestType, bare_packages

checked: Counter[str] = Counter()
"""How many requests were checked, by wire format."""

OPENAI = (
    *("openai", "openai.types", "openai.types.chat", "openai.types.responses"),
    *("openai.types.shared", "openai.types.shared_params"),
)

SAMPLING = {"temperature", "top_p"}

# What servers of Chat Completions take beyond OpenAI's own format.
BESIDE_REQUEST = {"reasoning", "thinking", "cache_control", "random_seed"}
BESIDE_MESSAGE = {"reasoning", "reasoning_content", "reasoning_details"}
BESIDE_CALL = {"extra_content"}

KEEP_IDS = {"web_search_call", "code_interpreter_call", "compaction"}
"""Items of Responses that go back with the id that the provider gave them."""


def check_request(dialect: str, body: Any) -> None:
    """Fails where the provider would refuse the body."""
    types, rules = CHECKS[dialect]
    types(body)
    rules(body)
    checked[dialect] += 1


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────────


@cache
def _chat_type() -> RequestType:
    with bare_packages(*OPENAI):
        from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

        return RequestType(CompletionCreateParamsStreaming, "messages", "tools")


def check_chat_types(body: Any, *, is_openai: bool = False) -> None:
    """By OpenAI's types, but for what other servers take beside them."""
    if not is_openai:
        body = _without(body, BESIDE_REQUEST)
        messages = [_without(message, BESIDE_MESSAGE) for message in body["messages"]]
        body = {**body, "messages": [_with_plain_calls(message) for message in messages]}
    _chat_type().check(body)


def _with_plain_calls(message: Any) -> Any:
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": [_without(c, BESIDE_CALL) for c in message["tool_calls"]]}


def check_chat_rules(body: Any, *, call_id: str = ".{1,40}") -> None:
    """`call_id` is the pattern of ids that the server takes: OpenAI's, when nothing is said."""
    waiting: list[str] = []
    seen: set[str] = set()
    roles = [message["role"] for message in body["messages"]]
    assert ("user", "user") not in pairwise(roles)
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        for call in message.get("tool_calls", ()):
            check_new(call["id"], seen)
            assert re.fullmatch(call_id, call["id"])
            waiting.append(call["id"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            check_name(call["function"]["name"])
        if message["role"] == "assistant":
            assert message["content"] or message["tool_calls"]
            assert message.get("tool_calls") != []
    assert not waiting
    names = check_tool_names(body, (tool["function"]["name"] for tool in body.get("tools", ())))
    if isinstance(body.get("tool_choice"), dict):
        assert body["tool_choice"]["function"]["name"] in names
    assert 1 <= len(body.get("stop", ["x"])) <= 4


# ── Responses ────────────────────────────────────────────────────────────────────────────────────


@cache
def _responses_type() -> RequestType:
    with bare_packages(*OPENAI):
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

        return RequestType(ResponseCreateParamsStreaming, "input", "tools")


def check_responses_types(body: Any) -> None:
    """By OpenAI's types, which demand an id that the API refuses: that of unstored reasoning."""
    items = [
        {"id": "rs_1", **item} if item.get("type") == "reasoning" else item
        for item in body["input"]
    ]
    _responses_type().check({**body, "input": items})


def check_responses_rules(body: Any) -> None:
    assert (body["stream"], body["store"]) == (True, False)
    _check_items(body["input"])
    names = check_tool_names(body, (tool["name"] for tool in body.get("tools", ())))
    if isinstance(body.get("tool_choice"), dict):
        assert body["tool_choice"]["name"] in names
    assert body.get("max_output_tokens", 16) >= 16
    assert ("include" in body) <= ("gpt-4" not in body["model"])


def _check_items(items: list[Any]) -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for at, item in enumerate(items):
        if item["type"] == "function_call":
            check_new(item["call_id"], seen)
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


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


@cache
def _anthropic_type() -> RequestType:
    with bare_packages("anthropic", "anthropic.types"):
        from anthropic.types.message_create_params import MessageCreateParamsStreaming

        return RequestType(MessageCreateParamsStreaming, "messages", "tools", "system")


def check_anthropic_types(body: Any) -> None:
    """By Anthropic's types, which are those of the next version of the API: it has no sampling."""
    _anthropic_type().check(_without(body, SAMPLING))


def check_anthropic_rules(body: Any) -> None:
    _check_messages(body["messages"])
    _check_anthropic_tools(body)
    _check_thinking(body)
    assert json.dumps(body).count('"cache_control": {') <= 4
    for block in body.get("system", ()):
        assert block["text"].strip()
    assert all(text.strip() for text in body.get("stop_sequences", ["x"]))


def _check_messages(messages: list[Any]) -> None:
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[n % 2] for n in range(len(roles))]
    assert roles[-1] == "user"
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        blocks = message["content"]
        assert blocks
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == waiting
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)])
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert blocks[-1]["type"] not in {"thinking", "redacted_thinking"}
        for block in blocks:
            _check_block(block, seen)
    assert not waiting


def _check_block(block: Any, seen: set[str]) -> None:
    if block["type"] == "text":
        assert block["text"].strip()
    if block["type"] == "tool_use":
        check_name(block["name"])
        check_new(block["id"], seen)
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
    if block["type"] == "thinking":
        assert block["signature"]
        assert "cache_control" not in block


def _check_anthropic_tools(body: Any) -> None:
    names = check_tool_names(body, (tool["name"] for tool in body.get("tools", ())))
    for tool in body.get("tools", ()):
        assert tool["input_schema"]["type"] == "object"
        for name in tool["input_schema"].get("properties", ()):
            assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)
        assert not {"anyOf", "oneOf", "allOf"} & tool["input_schema"].keys()
    if "tool_choice" in body:
        assert body["tool_choice"].get("name", names[0]) in names
    has_calls = any(b["type"] == "tool_use" for m in body["messages"] for b in m["content"])
    assert names or not has_calls


def _check_thinking(body: Any) -> None:
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]
    if thinking["type"] in {"enabled", "adaptive"}:
        assert "temperature" not in body
        assert body.get("top_p", 1.0) >= 0.95
        assert body.get("tool_choice", {"type": "auto"})["type"] in {"auto", "none"}
    if body["model"].startswith("claude"):
        assert not body.keys() >= SAMPLING


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────


@cache
def _gemini_types() -> dict[str, Any]:
    with bare_packages("google.genai"):
        from google.genai import _common

        # What checks a type is made when it is first used: there are hundreds, and five are.
        _common.BaseModel.model_config["defer_build"] = True
        types = importlib.import_module("google.genai.types")
        used = {
            "contents": types.Content,
            "systemInstruction": types.Content,
            "tools": types.Tool,
            "toolConfig": types.ToolConfig,
            "generationConfig": types.GenerationConfig,
        }
        for each in used.values():
            each.model_rebuild()
        return used


_gemini_seen = Known()


def check_gemini_types(body: Any) -> None:
    """By Google's types, which forbid unknown fields and wrong values."""
    known = _gemini_types()
    assert body.keys() <= known.keys()
    for key, value in body.items():
        for each in value if isinstance(value, list) else [value]:
            text = msgspec.json.encode(each)
            if _gemini_seen.lacks(key, text):
                known[key].model_validate_json(text)
                _gemini_seen.note(key, text)


def check_gemini_rules(body: Any) -> None:
    declared = [each for tool in body.get("tools", ()) for each in tool["function_declarations"]]
    check_tool_names(body, (each["name"] for each in declared))
    contents = body["contents"]
    assert [c["role"] for c in contents] == ["user", "model"] * (len(contents) // 2) + ["user"]
    for before, after in zip([{"parts": []}, *contents], [*contents, {"parts": []}], strict=True):
        calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
        answers = [
            part["functionResponse"] for part in after["parts"] if "functionResponse" in part
        ]
        assert [(c["name"], c.get("id")) for c in calls] == [
            (a["name"], a.get("id")) for a in answers
        ]
    for content in contents:
        assert content["parts"]
        for part in content["parts"]:
            assert part.get("text") != "" or "thoughtSignature" in part


# ── all ──────────────────────────────────────────────────────────────────────────────────────────


def check_tool_names(body: Any, offered: Iterable[str]) -> list[str]:
    """Each once and as every provider takes it; a choice only where there are tools."""
    names = list(offered)
    assert len(names) == len(set(names))
    for name in names:
        check_name(name)
    assert body.get("tools") != []
    assert names or "tool_choice" not in body
    return names


def check_name(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)


def check_new(call_id: str, seen: set[str]) -> None:
    assert call_id
    assert call_id not in seen
    seen.add(call_id)


def _without(value: Any, names: set[str]) -> Any:
    return {key: item for key, item in value.items() if key not in names}


Check = Callable[[Any], None]

CHECKS: dict[str, tuple[Check, Check]] = {
    "openai_chat": (check_chat_types, check_chat_rules),
    "openai_responses": (check_responses_types, check_responses_rules),
    "anthropic": (check_anthropic_types, check_anthropic_rules),
    "gemini": (check_gemini_types, check_gemini_rules),
}
"""The types and the rules of each wire format."""
