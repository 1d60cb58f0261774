"""What the requests of all four wire formats have in common: the key's header, tools encoded once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.gemini.dialect import GEMINI
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.openai_responses.dialect import OPENAI_RESPONSES
from callboard.providers.provider import ModelRequest
from callboard.providers.tool_sets import MAX_KEPT_TOOL_SETS
from callboard.runtime.definitions import ToolDefinition
from callboard.runtime.history import Input, Round

TOOLS = [
    ToolDefinition(name=f"t{number}", description="d", parameters={"type": "object"})
    for number in range(2 * MAX_KEPT_TOOL_SETS)
]

each_dialect = pytest.mark.parametrize(
    "dialect", [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI], ids=lambda each: each.name
)


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
