"""The HTTP API of OpenAI, as OpenAI's own client for Python uses it; every body is one of its models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import openai
import pytest
import trio
from openai.types.chat import (
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
)
from pydantic import BaseModel

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_daemon

Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")


def checked(body: Body) -> Body:
    """The body, as its own model has it: the client itself checks nothing."""
    return type(body).model_validate(body.to_dict())  # type: ignore[attr-defined]


@asynccontextmanager
async def asked(
    daemon: Daemon, token: str | None = None, **options: Any
) -> AsyncGenerator[openai.AsyncOpenAI]:
    """OpenAI's client for asyncio, which runs on Trio too."""
    base = f"http://127.0.0.1:{daemon.gateway.port}/v1"
    key = daemon.token if token is None else token
    async with openai.AsyncOpenAI(base_url=base, api_key=key, **options) as client:
        yield client


def say(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def general(*steps: Any) -> callboard.ScriptedModel:
    return callboard.ScriptedModel([*steps])


async def test_models_are_the_agents_that_the_token_sees() -> None:
    agents = [callboard.Agent(name="poet"), callboard.Agent(name="judge")]
    async with open_daemon(agents=agents) as daemon:
        limited = daemon.new_token("limited", Role.OPERATOR, agents=("poet",))
        async with asked(daemon) as client:
            models = checked(await client.models.list())
            one = checked(await client.models.retrieve("judge"))
        async with asked(daemon, limited) as client:
            seen = checked(await client.models.list())
            with pytest.raises(openai.NotFoundError) as hidden:
                await client.models.retrieve("judge")
    assert {each.id for each in models.data} == {"general", "poet", "judge"}
    assert (one.id, one.owned_by) == ("judge", "callboard")
    assert [each.id for each in seen.data] == ["poet"]
    assert hidden.value.code == "model_not_found"


async def test_a_chat_is_answered_whole() -> None:
    async with open_daemon(general(reply("It is noon."))) as daemon, asked(daemon) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="general", messages=say("What time is it?")
        )
        answer = checked(raw.parse())
        row = await daemon.runtime.store.session(raw.headers["x-callboard-session"])
    assert answer.choices[0].message.content == "It is noon."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 5)
    assert row is not None
    assert not row.is_tainted


async def blocking(daemon: Daemon, use: Callable[[openai.OpenAI], Result]) -> Result:
    """What the blocking client gives, in a thread."""

    def ask() -> Result:
        base = f"http://127.0.0.1:{daemon.gateway.port}/v1"
        with openai.OpenAI(base_url=base, api_key=daemon.token) as client:
            return use(client)

    return await trio.to_thread.run_sync(ask)


async def test_a_chat_is_answered_as_it_comes() -> None:
    def use(client: openai.OpenAI) -> list[ChatCompletionChunk]:
        with client.chat.completions.create(
            model="general",
            messages=say("What time is it?"),
            stream=True,
            stream_options={"include_usage": True},
        ) as stream:
            return [checked(each) for each in stream]

    async with open_daemon(general(reply(["It ", "is ", "noon."]))) as daemon:
        *said, last = await blocking(daemon, use)
    text = "".join(each.choices[0].delta.content or "" for each in said)
    assert text == "It is noon."
    assert said[0].choices[0].delta.role == "assistant"
    assert said[-1].choices[0].finish_reason == "stop"
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.total_tokens == 15


async def test_a_blocking_client_has_the_same() -> None:
    def use(client: openai.OpenAI) -> str | None:
        answer = client.chat.completions.create(model="general", messages=say("Well?"))
        return checked(answer).choices[0].message.content

    async with open_daemon(general(reply("Yes."))) as daemon:
        assert await blocking(daemon, use) == "Yes."


async def test_a_program_on_asyncio_reads_a_stream() -> None:
    async def use(base: str, token: str) -> str:
        async with openai.AsyncOpenAI(base_url=base, api_key=token) as client:
            async with client.chat.completions.stream(
                model="general", messages=say("Well?")
            ) as stream:
                whole = await stream.get_final_completion()
        return str(whole.choices[0].message.content)

    async with open_daemon(general(reply(["Y", "es."]))) as daemon:
        base = f"http://127.0.0.1:{daemon.gateway.port}/v1"
        run = partial(asyncio.run, use(base, daemon.token))
        assert await trio.to_thread.run_sync(run) == "Yes."


async def test_a_history_comes_along_and_taints_the_session() -> None:
    model = general(reply("Ada."))
    async with open_daemon(model) as daemon, asked(daemon) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="general",
            messages=[
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": "I am Ada."},
                {"role": "assistant", "content": "Hello, Ada."},
                {"role": "user", "content": "Who am I?"},
            ],
        )
        assert raw.parse().choices[0].message.content == "Ada."
        row = await daemon.runtime.store.session(raw.headers["x-callboard-session"])
    (request,) = model.requests
    assert "Be short." in request.system
    said = [getattr(item, "text", "") for each in request.rounds for item in each.items]
    assert said == ["I am Ada.", "Hello, Ada.", "Who am I?"]
    assert row is not None
    assert row.is_tainted


async def test_a_wrong_key_is_an_error_of_authentication() -> None:
    async with open_daemon(general(reply("No."))) as daemon:
        async with asked(daemon, "cb_wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as refused:
                await client.models.list()
        observer = daemon.new_token("watcher", Role.OBSERVER)
        async with asked(daemon, observer) as client:
            await client.models.list()
            with pytest.raises(openai.PermissionDeniedError):
                await client.chat.completions.create(model="general", messages=say("Hi"))
    assert refused.value.code == "invalid_api_key"


def functions(message: ChatCompletionMessage) -> list[ChatCompletionMessageFunctionToolCall]:
    """The calls of the client's functions."""
    return [each for each in message.tool_calls or () if each.type == "function"]


WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


async def test_a_client_runs_its_own_tools() -> None:
    model = general(
        reply("Let me see.", calls=[("get_weather", {"city": "Oslo"}), ("get_current_time", {})]),
        reply("It rains."),
    )
    async with open_daemon(model) as daemon, asked(daemon) as client:
        messages = say("How is Oslo?")
        first = checked(
            await client.chat.completions.create(
                model="general", messages=messages, tools=[WEATHER]
            )
        )
        (choice,) = first.choices
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me see."
        (call,) = functions(choice.message)
        assert (call.function.name, call.function.arguments) == ("get_weather", '{"city":"Oslo"}')
        messages += [
            choice.message.to_dict(),
            {"role": "tool", "tool_call_id": call.id, "content": "Rain."},
        ]
        raw = await client.chat.completions.with_raw_response.create(
            model="general", messages=messages, tools=[WEATHER]
        )
        second = checked(raw.parse())
        assert second.choices[0].message.content == "It rains."
        sessions = await daemon.runtime.sessions()
    assert [each.is_tainted for each in sessions] == [True]  # by what the client's tool said
    offered = {each.name for each in model.requests[0].tools}
    assert {"get_weather", "get_current_time"} <= offered
    results = [
        item.content for item in model.requests[1].rounds[-1].items if hasattr(item, "content")
    ]
    assert '{"status":"success","result":"Rain."}' in results


async def test_a_stream_ends_with_the_calls_of_the_client() -> None:
    def use(client: openai.OpenAI) -> list[Any]:
        with client.chat.completions.stream(
            model="general", messages=say("How is Oslo?"), tools=[WEATHER]
        ) as stream:
            stream.until_done()
            message = stream.get_final_completion().choices[0].message
        (call,) = functions(message)
        messages: list[Any] = [
            *say("How is Oslo?"),
            {"role": "assistant", "tool_calls": [call.to_dict()]},
            {"role": "tool", "tool_call_id": call.id, "content": "Rain."},
            {"role": "user", "content": "In one word."},
        ]
        with client.chat.completions.create(
            model="general", messages=messages, stream=True
        ) as chunks:
            said = [checked(each).choices[0] for each in chunks]
        return [call.function.name, "".join(each.delta.content or "" for each in said)]

    model = general(reply(calls=[("get_weather", {"city": "Oslo"})]), reply("Rain."))
    async with open_daemon(model) as daemon:
        assert await blocking(daemon, use) == ["get_weather", "Rain."]
    assert any(
        getattr(item, "text", "") == "In one word." for item in model.requests[1].rounds[-1].items
    )


async def test_results_that_no_turn_waits_for_begin_a_session_with_their_history() -> None:
    model = general(reply("So it rains."))
    async with open_daemon(model) as daemon, asked(daemon) as client:
        call = {"id": "call_gone", "function": {"name": "get_weather", "arguments": "{}"}}
        messages: list[Any] = [
            *say("How is Oslo?"),
            {"role": "assistant", "tool_calls": [{"type": "function", **call}]},
            {"role": "tool", "tool_call_id": "call_gone", "content": "Rain."},
        ]
        answer = await client.chat.completions.create(model="general", messages=messages)
        assert checked(answer).choices[0].message.content == "So it rains."
    (first, *_) = model.requests[0].rounds
    assert [type(item).__name__ for item in first.items] == ["Input", "Answer", "Result"]
