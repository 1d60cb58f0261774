"""Conversations and requests of any shape, for properties that each wire format must keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from callboard.providers.provider import ModelRequest, ToolChoice
from callboard.runtime.definitions import ThinkingEffort, ToolDefinition
from callboard.runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Item,
    Opaque,
    Part,
    Refusal,
    Result,
    Round,
    Text,
    Thinking,
    repair_history,
)

PROVIDERS = ("mine", "other")
DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")

texts = st.text(max_size=12)
names = st.sampled_from(["look", "mcp.read file", "a" * 90, "", "näme"])
arguments = st.sampled_from(["{}", '{"a":1}', "", "[]", '{"a":', "null", '{"é":"☃"}'])
call_ids = st.sampled_from([*(f"call_{n}" for n in range(4)), "a1B2c3D4e", "toolu_" + "x" * 42])
attachments = st.builds(
    Attachment,
    st.sampled_from(["image/png", "image/tiff", "application/pdf", "text/plain", "audio/wav", ""]),
    st.binary(max_size=8),
    st.sampled_from(["", "a.png", "b\n.txt"]),
)


def parts(opaque: dict[str, Any]) -> st.SearchStrategy[Part]:
    """Parts of an answer; `opaque` has an example of each kind that the format's decoder makes."""
    own = st.sampled_from(sorted(opaque)).map(
        lambda kind: (kind, msgspec.Raw(json.dumps(opaque[kind]).encode()))
    )
    return st.one_of(
        st.builds(Text, texts),
        st.builds(Refusal, texts),
        st.builds(Thinking, texts, st.none() | st.just("signature")),
        st.builds(lambda dialect, it: Opaque(dialect, *it), st.sampled_from(DIALECTS), own),
        st.builds(Call, call_ids, names, arguments),
    )


def items(opaque: dict[str, Any]) -> st.SearchStrategy[Item]:
    """Inputs, answers and results in no order."""
    return st.one_of(
        st.builds(Input, texts, st.lists(attachments, max_size=2).map(tuple)),
        st.builds(
            Answer,
            st.lists(parts(opaque), max_size=4).map(tuple),
            dialect=st.sampled_from(DIALECTS),
            provider=st.sampled_from(PROVIDERS),
            model=st.just("m"),
            incomplete=st.booleans(),
        ),
        st.builds(Result, call_ids, names, st.just('{"status":"success"}'), st.booleans()),
    )


def split_rounds(items: Sequence[Item]) -> list[list[Item]]:
    """Split a repaired history into rounds; the last one is open if it has no answer."""
    rounds: list[list[Item]] = []
    current: list[Item] = []
    answered = False
    for item in items:
        if answered and type(item) is not Result:
            rounds.append(current)
            current, answered = [], False
        current.append(item)
        answered = answered or type(item) is Answer
    if current:
        rounds.append(current)
    return rounds


def conversations(opaque: dict[str, Any]) -> st.SearchStrategy[list[Round]]:
    """Rounds as the runtime makes them: repaired, and open at the end."""
    return st.lists(items(opaque), max_size=8).map(
        lambda given: [
            Round(each) for each in split_rounds(repair_history([*given, Input("Go on.")]))
        ]
    )


SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}},
    {"type": "object", "properties": {"$größe": {"type": "string"}}, "required": ["$größe"]},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"A": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    },
)
tools = st.lists(
    st.builds(
        lambda name, schema: ToolDefinition(name=name, description="Does.", parameters=schema),
        names.filter(bool),
        st.sampled_from(SCHEMAS),
    ),
    max_size=3,
    unique_by=lambda definition: definition.name,
).map(tuple)


def requests(opaque: dict[str, Any], models: list[str]) -> st.SearchStrategy[ModelRequest]:
    """Requests with every field in use, in any combination."""
    return st.builds(
        ModelRequest,
        model=st.sampled_from(models),
        provider=st.sampled_from(PROVIDERS),
        rounds=conversations(opaque),
        system=st.sampled_from(["", "Be brief."]),
        tools=tools,
        max_output_tokens=st.none() | st.just(100),
        temperature=st.none() | st.just(0.5),
        top_p=st.none() | st.just(0.9),
        seed=st.none() | st.just(7),
        stop_sequences=st.sampled_from([(), ("END",), ("", "a", "b", "c", "d", "e")]),
        thinking=st.none() | st.sampled_from(ThinkingEffort),
        tool_choice=st.sampled_from(ToolChoice),
        forced_tool=st.none() | st.sampled_from(["look", "gone"]),
        answer_schema=st.none() | st.sampled_from(SCHEMAS),
    )
