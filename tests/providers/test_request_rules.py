"""The checker of requests refuses what a provider would: it is no rubber stamp."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from callboard.providers.dialects import dialect_named
from callboard.providers.provider import ModelRequest
from callboard.runtime.definitions import ToolDefinition
from callboard.runtime.history import Answer, Call, Input, Result, Round, Text
from support.providers.request_rules import CHECKS, check_request

TOOL = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})
ROUND = Round(
    [
        Input("Go."),
        Answer((Text("I ask."), Call("a", "look", "{}"), Call("b", "look", "{}"))),
        Result("a", "look", '{"n":1}'),
        Result("b", "look", '{"n":2}'),
    ]
)


def body_of(dialect: str) -> Any:
    request = ModelRequest(model="m", provider="p", rounds=[ROUND], tools=(TOOL,))
    return json.loads(dialect_named(dialect).build(request).body)


def _messages(body: Any) -> list[Any]:
    found: list[Any] = body["messages"]
    return found


def _items(body: Any) -> list[Any]:
    found: list[Any] = body["input"]
    return found


def _contents(body: Any) -> list[Any]:
    found: list[Any] = body["contents"]
    return found


Break = Callable[[Any], Any]

BREAKS: dict[str, dict[str, Break]] = {
    "openai_chat": {
        "unknown field": lambda body: body.update(unknown=1),
        "result lacks": lambda body: _messages(body).pop(),
        "result twice": lambda body: _messages(body).append(_messages(body)[-1]),
        "results swapped": lambda body: _messages(body).append(_messages(body).pop(-2)),
        "result of no call": lambda body: _messages(body)[-1].update(tool_call_id="c"),
        "calls with one id": lambda body: _messages(body)[1]["tool_calls"][1].update(id="a"),
        "long id": lambda body: [
            _messages(body)[1]["tool_calls"][0].update(id="x" * 41),
            _messages(body)[2].update(tool_call_id="x" * 41),
        ],
        "empty answer": lambda body: _messages(body).append({"role": "assistant", "content": ""}),
        "two of a person": lambda body: _messages(body).insert(0, _messages(body)[0]),
        "tool with a dot": lambda body: body["tools"][0]["function"].update(name="a.b"),
        "tool twice": lambda body: body["tools"].append(body["tools"][0]),
    },
    "openai_responses": {
        "unknown field": lambda body: body.update(unknown=1),
        "stored": lambda body: body.update(store=True),
        "result lacks": lambda body: _items(body).pop(),
        "results swapped": lambda body: _items(body).append(_items(body).pop(-2)),
        "calls with one id": lambda body: _items(body)[3].update(call_id="a"),
        "reasoning of nothing": lambda body: _items(body).insert(
            4, {"type": "reasoning", "summary": [], "encrypted_content": "e"}
        ),
        "reasoning without proof": lambda body: _items(body).insert(
            1, {"type": "reasoning", "summary": []}
        ),
        "tool with a dot": lambda body: body["tools"][0].update(name="a.b"),
    },
    "anthropic": {
        "unknown field": lambda body: body.update(unknown=1),
        "no limit": lambda body: body.pop("max_tokens"),
        "name of an argument": lambda body: body["tools"][0]["input_schema"].update(
            properties={"$filter": {}}
        ),
        "result lacks": lambda body: _messages(body)[-1]["content"].pop(),
        "result behind text": lambda body: _messages(body)[-1]["content"].insert(
            0, {"type": "text", "text": "a"}
        ),
        "one role twice": lambda body: _messages(body).append(_messages(body)[0]),
        "empty text": lambda body: _messages(body)[0]["content"][0].update(text=" "),
        "calls with one id": lambda body: _messages(body)[1]["content"][1].update(id="b"),
        "thinking at the end": lambda body: _messages(body)[1]["content"].append(
            {"type": "thinking", "thinking": "a", "signature": "s"}
        ),
        "forced while it thinks": lambda body: body.update(
            thinking={"type": "enabled", "budget_tokens": 1024}, tool_choice={"type": "any"}
        ),
        "calls without tools": lambda body: body.pop("tools"),
    },
    "gemini": {
        "unknown field": lambda body: body.update(unknown=1),
        "unknown field of a part": lambda body: _contents(body)[0]["parts"][0].update(x=1),
        "result lacks": lambda body: _contents(body)[-1]["parts"].pop(),
        "result of another name": lambda body: _contents(body)[-1]["parts"][0][
            "functionResponse"
        ].update(name="other"),
        "ends with the model": lambda body: _contents(body).pop(),
        "nothing said": lambda body: _contents(body)[0].update(parts=[]),
        "tool with a dot": lambda body: body["tools"][0]["function_declarations"][0].update(
            name="a.b"
        ),
    },
}


@pytest.mark.parametrize(
    ("dialect", "how"), [(dialect, how) for dialect in CHECKS for how in BREAKS[dialect]]
)
def test_a_request_that_its_provider_would_refuse_is_refused(dialect: str, how: str) -> None:
    body = body_of(dialect)
    check_request(dialect, body)
    broken = copy.deepcopy(body)
    BREAKS[dialect][how](broken)
    with pytest.raises((AssertionError, ValidationError, IndexError, KeyError)):
        check_request(dialect, broken)


@pytest.mark.parametrize(
    ("dialect", "items"),
    [("openai_chat", "messages"), ("openai_responses", "input"), ("anthropic", "messages"),
     ("gemini", "contents")],
)  # fmt: skip
def test_what_was_sound_before_hides_nothing_that_is_wrong(dialect: str, items: str) -> None:
    """Items that were checked are not looked at again; each other one is, and whenever it comes."""
    check_types, _ = CHECKS[dialect]
    body = body_of(dialect)
    check_types(body)
    wrong = copy.deepcopy(body)
    wrong[items][0]["role"] = 5
    for _ in range(2):
        with pytest.raises((ValidationError, AssertionError)):
            check_types(wrong)
    check_types(body)
