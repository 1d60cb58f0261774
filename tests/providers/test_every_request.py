"""What the requests of all four wire formats have in common: the key's header, tools encoded
once, calls and names that would be refused; and that the types they are checked against refuse."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.gemini.dialect import GEMINI
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.openai_responses.dialect import OPENAI_RESPONSES
from callboard.providers.provider import ModelRequest
from callboard.providers.tool_names import sent_name
from callboard.providers.tool_sets import MAX_KEPT_TOOL_SETS
from callboard.runtime.definitions import ToolDefinition
from callboard.runtime.history import Answer, Call, Input, Result, Round
from support.providers.request_rules import (
    check_anthropic_types,
    check_chat_types,
    check_responses_types,
)

TOOLS = [
    ToolDefinition(name=f"t{number}", description="d", parameters={"type": "object"})
    for number in range(2 * MAX_KEPT_TOOL_SETS)
]

each_dialect = pytest.mark.parametrize(
    "dialect", [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI], ids=lambda each: each.name
)


def turn(call: Call) -> Round:
    return Round([Input("a"), Answer((call,)), Result(call.call_id, call.name, "r")])


@each_dialect
def test_the_key_is_in_its_header_alone(dialect: Any) -> None:
    name = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}.get(dialect.name, "authorization")
    key = "Bearer k" if name == "authorization" else "k"
    assert dialect.auth_headers("k") == {name: key}
    built = dialect.build(ModelRequest(model="m", rounds=[Round([Input("a")])]))
    assert name not in built.headers


@each_dialect
def test_tools_are_encoded_once_whoever_holds_them(dialect: Any) -> None:
    for tool in TOOLS * 2:
        request = ModelRequest(model="m", rounds=[Round([Input("a")])], tools=(tool,))
        [sent] = json.loads(dialect.build(request).body)["tools"]
        assert f'"{tool.name}"' in json.dumps(sent)
    assert len(dialect._tools) <= MAX_KEPT_TOOL_SETS
    first, second = (dialect._tools.encoded((TOOLS[0],)) for _ in range(2))
    assert first[0] is second[0]


@each_dialect
@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{",
        "[1]",
        "7",
        "null",
        '"a"',
        '{"a":1} x',
        '{"a": NaN}',
        '{"a":"\\ud800"}',
        "[" * 100_000,
    ],
)
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(
    dialect: Any, arguments: str
) -> None:
    bodies = [
        dialect.build(ModelRequest(model="m", rounds=[turn(Call("i", "t", each))])).body
        for each in (arguments, "{}")
    ]
    assert bodies[0] == bodies[1]


@each_dialect
def test_a_name_that_is_refused_is_sent_as_another_everywhere(dialect: Any) -> None:
    odd = msgspec.structs.replace(TOOLS[0], name="files.read now")
    sent = sent_name(odd.name)
    request = ModelRequest(
        model="m",
        rounds=[turn(Call("i", odd.name, "{}"))],
        tools=(odd, TOOLS[1]),
        forced_tool=odd.name,
    )
    for _ in range(2):  # the second time from what was kept
        built = dialect.build(request)
        assert built.tool_names == {sent: odd.name}
        assert odd.name not in built.body.decode()
        # The tool, its call, the choice; Gemini names results too.
        assert built.body.decode().count(f'"{sent}"') == (4 if dialect is GEMINI else 3)


@pytest.mark.parametrize(
    ("dialect", "break_it"),
    [
        (OPENAI_CHAT, lambda body: body.update(unknown=1)),
        (OPENAI_CHAT, lambda body: body.update(tool_choice="sometimes")),
        (OPENAI_CHAT, lambda body: body["messages"][0].update(reasoning_content="hm")),
        (OPENAI_CHAT, lambda body: body["messages"][0].update(content=[{"type": "image_url"}])),
        (OPENAI_CHAT, lambda body: body["messages"][0].update(role="person")),
        (OPENAI_RESPONSES, lambda body: body.update(unknown=1)),
        (OPENAI_RESPONSES, lambda body: body.update(tool_choice="sometimes")),
        (OPENAI_RESPONSES, lambda body: body["input"][0].update(role="person")),
        (OPENAI_RESPONSES, lambda body: body["input"][0].update(content=[{"type": "input_image"}])),
        (
            OPENAI_RESPONSES,
            lambda body: body["input"].append({"type": "function_call", "name": "a"}),
        ),
        (ANTHROPIC, lambda body: body.update(seed=1)),
        (ANTHROPIC, lambda body: body.pop("max_tokens")),
        (ANTHROPIC, lambda body: body.update(thinking={"type": "enabled"})),
        (ANTHROPIC, lambda body: body["messages"][0].update(role="person")),
        (ANTHROPIC, lambda body: body["messages"][0]["content"].append({"type": "compaction"})),
        (ANTHROPIC, lambda body: body["messages"][0]["content"][0].update(extra=1)),
    ],
)
def test_the_types_of_the_providers_refuse_what_is_wrong(dialect: Any, break_it: Any) -> None:
    check: Any = {
        "openai_chat": partial(check_chat_types, is_openai=True),
        "openai_responses": check_responses_types,
        "anthropic": check_anthropic_types,
    }[dialect.name]
    body = json.loads(
        dialect.build(ModelRequest(model="claude-opus-5", rounds=[Round([Input("a")])])).body
    )
    check(body)
    break_it(body)
    with pytest.raises((ValidationError, AssertionError)):
        check(body)
