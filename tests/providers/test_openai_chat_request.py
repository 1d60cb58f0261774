"""What is sent: the Chat Completions request, and that history is encoded once."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from callboard.providers.openai_chat.dialect import OPENAI_CHAT, OPENAI_OWN_CHAT
from callboard.providers.provider import Dialect, ModelRequest
from callboard.providers.tool_names import sent_name
from callboard.runtime.definitions import ToolDefinition
from callboard.runtime.history import (
    Answer,
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
)

TOOL = ToolDefinition(
    name="read_file",
    description="Reads a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)


def body_of(*rounds: Round | list[Item], dialect: Dialect = OPENAI_CHAT, **fields: Any) -> Any:
    made = [each if isinstance(each, Round) else Round(each) for each in rounds]
    request = ModelRequest(model="m", rounds=made, **fields)
    return json.loads(dialect.build(request).body)


def messages_of(*items: Item) -> list[Any]:
    messages: list[Any] = body_of(list(items))["messages"]
    return messages


def answer(*parts: Part) -> Answer:
    return Answer(parts, dialect="openai_chat", model="m")


def test_the_whole_request() -> None:
    request = ModelRequest(
        model="gpt-x",
        system="Be brief.",
        rounds=[Round([Input("hé")])],
        tools=(TOOL,),
        max_output_tokens=100,
        temperature=0.5,
    )
    built = OPENAI_CHAT.build(request)
    assert built.path == "/chat/completions"
    assert built.headers == {"content-type": "application/json", "accept": "text/event-stream"}
    assert json.loads(built.body) == {
        "model": "gpt-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read_file",
                    "description": "Reads a file.",
                    "parameters": TOOL.parameters,
                },
            }
        ],
        "max_tokens": 100,
        "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hé"},
        ],
    }


def test_what_is_not_set_is_not_sent() -> None:
    body = body_of([Input("a")])
    assert set(body) == {"model", "stream", "stream_options", "messages"}
    assert body["messages"] == [{"role": "user", "content": "a"}]


def test_openai_itself_gets_its_own_name_for_the_limit() -> None:
    assert body_of([Input("a")], dialect=OPENAI_OWN_CHAT, max_output_tokens=7) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 7,
        "messages": [{"role": "user", "content": "a"}],
    }


def test_a_turn_with_calls() -> None:
    calls = [Call("i", "read_file", '{"path": "a"}'), Call("j", "read_file", '{"path":"b"}')]
    rounds: list[list[Item]] = [
        [
            Input("read both"),
            answer(Text("Reading."), *calls),
            Result("i", "read_file", '{"status":"success"}'),
            Result("j", "read_file", '{"status":"error"}', is_error=True),
        ],
        [answer(Text("Done."))],
        [Input("thanks")],
    ]
    first = {"name": "read_file", "arguments": '{"path": "a"}'}
    second = {"name": "read_file", "arguments": '{"path":"b"}'}
    sent = [
        {"id": "i", "type": "function", "function": first},
        {"id": "j", "type": "function", "function": second},
    ]
    assert body_of(*rounds)["messages"] == [
        {"role": "user", "content": "read both"},
        {"role": "assistant", "content": "Reading.", "tool_calls": sent},
        {"role": "tool", "tool_call_id": "i", "content": '{"status":"success"}'},
        {"role": "tool", "tool_call_id": "j", "content": '{"status":"error"}'},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "thanks"},
    ]


def test_calls_without_text_have_null_content() -> None:
    [message] = messages_of(answer(Call("i", "t", "{}")))
    assert message["content"] is None


def test_an_answer_of_thinking_alone_is_left_out() -> None:
    assert messages_of(answer(Thinking("hm"))) == []


def test_an_incomplete_answer_is_sent_as_its_text() -> None:
    cut = Answer((Thinking("hm"), Text("so f")), incomplete=True)
    assert messages_of(cut) == [{"role": "assistant", "content": "so f"}]


def test_reasoning_and_opaque_parts_stay_here_and_a_refusal_is_text() -> None:
    parts = (
        Thinking("hm", "signature"),
        Opaque("anthropic", "redacted_thinking", msgspec.Raw(b'{"secret":1}')),
        Opaque("openai_chat", "annotations", msgspec.Raw(b"[]")),
        Text("a"),
        Refusal("b"),
    )
    assert messages_of(answer(*parts)) == [{"role": "assistant", "content": "ab"}]


def test_inputs_in_a_row_are_one_message() -> None:
    assert messages_of(Input("a"), Input("b")) == [{"role": "user", "content": "a\n\nb"}]


@pytest.mark.parametrize("arguments", ["{}", ' {"a": [1, {"b": "é"}]} ', '{"a":1,"a":2}'])
def test_arguments_that_are_an_object_are_sent_as_they_are(arguments: str) -> None:
    [message] = messages_of(answer(Call("i", "t", arguments)))
    assert message["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("read_file", "read_file"),
        ("read file!", sent_name("read file!")),
        ("", sent_name("")),
        ("é" * 99, sent_name("é" * 99)),
    ],
)
def test_names_that_a_model_made_up_are_sent_in_a_form_that_is_accepted(
    name: str, sent: str
) -> None:
    [message] = messages_of(answer(Call("i", name, "{}")))
    assert message["tool_calls"][0]["function"]["name"] == sent
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)


def test_an_empty_round_is_left_out() -> None:
    assert body_of([Input("a")], [], [Input("b")])["messages"] == [
        {"role": "user", "content": "a\n\nb"},
    ]
    assert body_of()["messages"] == []


def test_a_round_is_encoded_once() -> None:
    round_ = Round([Input("a"), Answer((Text("b"),))])
    assert [each["content"] for each in body_of(round_)["messages"]] == ["a", "b"]
    [key] = round_.encoded
    round_.encoded[key] = b'{"role":"user","content":"kept"}'
    assert body_of(round_)["messages"] == [{"role": "user", "content": "kept"}]
