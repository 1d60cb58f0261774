"""Open Responses: what its acceptance tests ask, and every field that it wants, from an agent without calls of its own."""

from __future__ import annotations

import types
from typing import Any

import msgspec
import pytest

import callboard
from callboard.config.sections import OpenAiSettings
from callboard.config.settings import Settings
from callboard.gateway.openai.responses import fold as response_fold
from callboard.providers.testing.script import reply
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_scene import request
from support.gateway.open_responses import (
    Completed,
    FunctionCall,
    ItemDone,
    Message,
    Response,
    events_of,
)
from support.gateway.raw_door import Answer, answer_to

RESPONSES = "/v1/responses"
PLAIN = Settings(openai=OpenAiSettings(items="plain"))
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
}
CALL = reply(calls=[("get_weather", {"place": "Oslo"})])


def user(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


ACCEPTANCE: dict[str, tuple[dict[str, Any], Any, type]] = {
    "basic": ({"input": [user("Say hello.")]}, reply("Hello."), Message),
    "system prompt": (
        {"input": [{"type": "message", "role": "system", "content": "Rhyme."}, user("Hi.")]},
        reply("My, oh my."),
        Message,
    ),
    "tools": ({"input": [user("Is Oslo wet?")], "tools": [WEATHER]}, CALL, FunctionCall),
    "image": (
        {
            "input": [
                user(
                    [
                        {"type": "input_text", "text": "What is it?"},
                        {"type": "input_image", "image_url": PIXEL},
                    ]
                )
            ]
        },
        reply("A dot."),
        Message,
    ),
    "several turns": (
        {
            "input": [
                user("I am Ada."),
                {"type": "message", "role": "assistant", "content": "Hello, Ada."},
                user("Who am I?"),
            ]
        },
        reply("Ada."),
        Message,
    ),
}


async def ask(daemon: Daemon, **fields: Any) -> Answer:
    body = msgspec.json.encode({"model": "general", "input": "Hello."} | fields)
    return await answer_to(daemon, request(daemon, RESPONSES, body, connection="close"))


async def read(daemon: Daemon, name: str) -> Response:
    answer = await answer_to(daemon, request(daemon, f"{RESPONSES}/{name}", method="GET"))
    return response_of(answer)


def response_of(answer: Answer) -> Response:
    assert answer.status == 200, answer.body
    return msgspec.json.decode(answer.body, type=Response)


@pytest.mark.parametrize("streams", [False, True])
async def test_every_acceptance_test_gets_what_it_wants(streams: bool) -> None:
    model = callboard.ScriptedModel([step for _, step, _ in ACCEPTANCE.values()])
    async with open_daemon(model, configured=PLAIN) as daemon:
        for name, (fields, _, kind) in ACCEPTANCE.items():
            answer = await ask(daemon, stream=streams, **fields)
            if streams:
                *_, last = events = events_of(answer.body)
                assert isinstance(last, Completed), name
                response = last.response
                done = [each.item for each in events if isinstance(each, ItemDone)]
                assert done == response.output, name
            else:
                response = response_of(answer)
            assert response.status == "completed", name
            assert response.completed_at is not None, name
            assert [type(each) for each in response.output] == [kind], name
            kept = await read(daemon, response.id)
            assert kept.completed_at is not None, name
            times = {"created_at": kept.created_at, "completed_at": kept.completed_at}
            assert kept == msgspec.structs.replace(response, **times), name


async def test_a_response_says_what_was_asked_for_now_and_from_the_record() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    asked = {
        "temperature": 0.5,
        "max_output_tokens": 64,
        "max_tool_calls": 3,
        "reasoning": {"effort": "minimal"},
        "text": {"format": {"type": "json_schema", "name": "place", "schema": schema}},
    }
    model = callboard.ScriptedModel([reply('{"city": "Oslo"}'), reply("Hi."), reply("{}")])
    async with open_daemon(model, configured=PLAIN) as daemon:
        told = response_of(await ask(daemon, **asked))
        kept = await read(daemon, told.id)
        bare = response_of(await ask(daemon))
        form = {"format": {"type": "json_object"}}
        loose = response_of(await ask(daemon, text=form))
    for response in (told, kept):
        assert (response.temperature, response.max_output_tokens) == (0.5, 64)
        assert response.max_tool_calls == 3
        assert response.reasoning == {"effort": "low", "summary": "auto"}
        assert response.text.format.type == "json_schema"
        assert response.text.format.schema == schema
    assert (bare.temperature, bare.max_tool_calls, bare.reasoning) == (1, None, None)
    assert (bare.text.format.type, loose.text.format.type) == ("text", "json_object")


async def test_a_response_is_completed_when_its_record_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [reply("Hi."), CALL]
    async with open_daemon(callboard.ScriptedModel(steps), configured=PLAIN) as daemon:
        ended = response_of(await ask(daemon))
        waits = response_of(await ask(daemon, tools=[WEATHER]))
        clock = types.SimpleNamespace(time=lambda: 1.0)  # of whoever would look at it while reading
        monkeypatch.setattr(response_fold, "time", clock)
        kept = [await read(daemon, each.id) for each in (ended, waits)]
    for response in kept:
        assert response.status == "completed"
        assert response.completed_at is not None
        assert response.completed_at >= response.created_at > 1


async def test_no_more_calls_are_made_than_a_response_may_have() -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("get_current_time", {}), ("get_current_time", {})]
    model = callboard.ScriptedModel([reply(calls=calls), reply(calls=calls), reply("Noon.")])
    async with open_daemon(model) as daemon:
        limited = msgspec.json.decode((await ask(daemon, max_tool_calls=1)).body)
        enough = msgspec.json.decode((await ask(daemon, max_tool_calls=2)).body)
        none = await ask(daemon, max_tool_calls=0)
    assert [each["status"] for each in limited["output"][:2]] == ["completed", "failed"]
    assert limited["status"] == "incomplete"
    assert limited["completed_at"] is None
    assert [each["status"] for each in enough["output"]] == ["completed"] * 3
    assert enough["status"] == "completed"
    assert none.status == 400


async def test_a_model_is_offered_the_tools_that_are_allowed() -> None:
    """Of the client's; the record has them, so that the response says the same again."""
    named = {"type": "function", "name": "get_weather"}
    time = WEATHER | {"name": "get_time"}
    model = callboard.ScriptedModel([reply("Rain."), CALL, reply("None."), reply("Noon.")])
    async with open_daemon(model, configured=PLAIN) as daemon:
        for mode, tools in (("auto", [named]), ("required", [named]), ("auto", [])):
            choice = {"type": "allowed_tools", "mode": mode, "tools": tools}
            given = await ask(daemon, tools=[WEATHER, time], tool_choice=choice)
            found = response_of(given)
            kept = await read(daemon, found.id)
            assert msgspec.to_builtins(found.tool_choice) == choice
            assert found.tool_choice == kept.tool_choice
            assert [each.name for each in found.tools] == ["get_weather", "get_time"]
        own = {"type": "mcp", "server_label": "callboard"}
        choice = {"type": "allowed_tools", "mode": "auto", "tools": [own, named]}
        await ask(daemon, tools=[WEATHER, time], tool_choice=choice)
    asked = [([each.name for each in it.tools], str(it.tool_choice)) for it in model.requests]
    clients = [({"get_weather", "get_time"} & {*names}, choice) for names, choice in asked]
    assert clients == [
        ({"get_weather"}, "auto"),
        ({"get_weather"}, "required"),
        (set(), "auto"),
        ({"get_weather"}, "auto"),
    ]
    assert ["read_file" in names for names, _ in asked] == [True, False, True, True]


async def test_a_response_begins_with_the_call_that_is_wanted() -> None:
    """The model is free again once it has called, and where nothing is said of it."""
    named = {"type": "function", "name": "get_weather"}
    time = WEATHER | {"name": "get_time"}
    model = callboard.ScriptedModel([CALL, reply("Rain."), CALL, reply("Rain."), reply("Hi.")])
    async with open_daemon(model, configured=PLAIN) as daemon:
        for choice in (named, "required"):
            first = response_of(await ask(daemon, tools=[WEATHER, time], tool_choice=choice))
            kept = await read(daemon, first.id)
            assert msgspec.to_builtins(first.tool_choice) == choice
            assert first.tool_choice == kept.tool_choice
            (call,) = first.output
            assert isinstance(call, FunctionCall)
            result = {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": "Rain.",
            }
            last = response_of(await ask(daemon, previous_response_id=first.id, input=[result]))
            assert isinstance(last.output[-1], Message)
        free = response_of(await ask(daemon, tools=[WEATHER]))
        assert free.tool_choice == "auto"
    asked = [(each.forced_tool, str(each.tool_choice)) for each in model.requests]
    assert asked == [
        ("get_weather", "auto"),
        (None, "auto"),
        (None, "required"),
        (None, "auto"),
        (None, "auto"),
    ]
    offered = [{tool.name for tool in each.tools} for each in model.requests]
    assert offered[2] == {
        "get_weather",
        "get_time",
    }  # of which one is called, and none of the agent's
    assert all("read_file" in names for at, names in enumerate(offered) if at != 2)


async def test_what_changes_no_answer_is_named_and_probabilities_are_refused() -> None:
    passed_over = {
        "include": ["reasoning.encrypted_content"],
        "truncation": "disabled",
        "presence_penalty": 1,
        "frequency_penalty": 1,
        "stream_options": {"include_obfuscation": False},
        "safety_identifier": "a",
        "prompt_cache_key": "b",
        "prompt_cache_options": {"mode": "implicit"},
        "moderation": {"mode": "none"},
        "context_management": [{"type": "compaction"}],
        "background_options": {"priority": 1},
        "access_programs": ["x"],
        "image": {"context_compression": "auto"},
        "text": {"verbosity": "low"},
    }
    names = {*passed_over} - {"text"} | {"text.verbosity"}
    async with open_daemon(callboard.ScriptedModel([reply("Hi."), reply("Hi.")])) as daemon:
        answer = await ask(daemon, **passed_over)
        quiet = await ask(daemon, truncation="auto", include=[])
        refused = [
            await ask(daemon, include=["message.output_text.logprobs"]),
            await ask(daemon, top_logprobs=3),
            await ask(daemon, truncation="some"),
        ]
    assert {*answer.headers["x-callboard-ignored"].split(", ")} == names
    assert response_of(answer).truncation == "auto"
    assert "x-callboard-ignored" not in quiet.headers
    assert [each.status for each in refused] == [400, 400, 400]
    assert [msgspec.json.decode(each.body)["error"]["param"] for each in refused] == [
        "include",
        "top_logprobs",
        "truncation",
    ]
