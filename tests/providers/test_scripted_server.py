"""The scripted server, read through the real client, dialect and decoder."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import pytest

from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import (
    ScriptedCall,
    Step,
    close_before_head,
    cut_after,
    drip,
    events_of,
    fail,
    garbage,
    html,
    raw_events,
    reply,
    reset,
    stall,
    status,
)
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from callboard.runtime.errors import NetworkError
from callboard.runtime.history import Input, Round
from callboard.runtime.http.client import HttpClient, open_http_client
from callboard.runtime.stream import (
    AnyStreamEvent,
    StreamError,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)

REQUEST = ModelRequest(model="m", rounds=[Round([Input("hi")])])


async def ask(client: HttpClient, server: ScriptedServer) -> list[AnyStreamEvent]:
    """One model call, as the model stream makes it."""
    built = OPENAI_CHAT.build(REQUEST)
    headers = {**built.headers, **OPENAI_CHAT.auth_headers("k")}
    async with client.stream_post(server.base_url + built.path, headers, built.body) as body:
        if body.status != 200:
            content = await body.read_all(10_000)
            return [OPENAI_CHAT.read_error(body.status, body.headers, content)]
        decoder = OPENAI_CHAT.decoder()
        events: list[AnyStreamEvent] = []
        while data := await body.read_some():
            events += decoder.feed(data)
        return events + decoder.finish()


async def play(step: Step) -> list[AnyStreamEvent]:
    async with open_scripted_server([step]) as server, open_http_client() as client:
        events = await ask(client, server)
        assert client.statistics().active == 0
    server.assert_complete()
    return events


def merged(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    """Pieces of a call's arguments as one."""
    whole: list[AnyStreamEvent] = []
    for event in events:
        last = whole[-1] if whole else None
        if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
            whole[-1] = ToolCallDelta(event.index, last.arguments + event.arguments)
        else:
            whole.append(event)
    return whole


@pytest.mark.parametrize("chunk", ["event", "all", "bytes:1", "bytes:7"])
async def test_a_reply_arrives_as_the_events_that_it_stands_for(chunk: str) -> None:
    answer = reply(
        ["Hé", "llo 😀"],
        thinking=["h", "m"],
        calls=[
            ScriptedCall("t", '{"path": "a long name of a file.txt"}', "i"),
            ScriptedCall("u", "", "j"),
            ScriptedCall("v", "{broken", "k"),
        ],
        usage=Usage(1, 2, 0, 1),
        chunk=chunk,
    )
    assert merged(await play(answer)) == events_of(answer)


async def test_calls_without_an_id_get_one_each() -> None:
    steps = [reply(calls=[("t", {}), ("t", {})])] * 2
    async with open_scripted_server(steps) as server, open_http_client() as client:
        events = [*await ask(client, server), *await ask(client, server)]
    ids = [event.call_id for event in events if isinstance(event, ToolCallStart)]
    assert len(set(ids)) == len(ids) == 4


async def test_requests_are_recorded() -> None:
    async with open_scripted_server([reply("a")]) as server, open_http_client() as client:
        await ask(client, server)
    [request] = server.requests
    assert request.method == "POST"
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    assert request.body["messages"] == [{"role": "user", "content": "hi"}]


async def test_a_step_can_depend_on_the_request() -> None:
    steps = [lambda request: reply(request.body["model"])]
    async with open_scripted_server(steps) as server, open_http_client() as client:
        assert TextDelta("m") in await ask(client, server)


async def test_an_error_in_the_stream() -> None:
    step = fail("busy", error_type="overloaded", retryable=True, text="so")
    text, error = await play(step)
    assert text == TextDelta("so")
    assert isinstance(error, StreamError)
    assert (error.error_type, error.retryable) == ("overloaded", True)


async def test_an_error_status_with_its_headers() -> None:
    [error] = await play(status(429, {"error": {"message": "slow"}}, retry_after="3"))
    assert isinstance(error, StreamError)
    assert (error.error_type, error.retry_after_seconds) == ("overloaded", 3.0)
    assert "slow" in error.message


async def test_a_web_page() -> None:
    [error] = await play(html())
    assert isinstance(error, StreamError)
    assert "Welcome" in error.message


async def test_an_answer_that_ends_without_its_finish() -> None:
    *_, error = await play(reply("so", finish=None))
    assert isinstance(error, StreamError)
    assert error.retryable


async def test_an_answer_cut_at_any_byte_is_an_error_until_it_is_whole() -> None:
    answer = reply("Hello", usage=None)
    steps = [cut_after(size, answer, clean=True) for size in range(0, 700, 25)]
    async with open_scripted_server(steps) as server, open_http_client() as client:
        outcomes = [isinstance((await ask(client, server))[-1], StreamError) for _ in steps]
    assert outcomes == sorted(outcomes, reverse=True)
    assert outcomes[0]
    assert not outcomes[-1]


@pytest.mark.parametrize(
    "step", [reset(), close_before_head(), garbage(), cut_after(100, reply("x" * 100))]
)
async def test_a_broken_connection_is_a_network_error(step: Step) -> None:
    with pytest.raises(NetworkError):
        await play(step)


@pytest.mark.parametrize("step", [stall("so"), drip(0.001)])
async def test_a_server_that_never_ends_is_left_by_its_client(step: Step) -> None:
    async with open_scripted_server([step, reply("b")]) as server, open_http_client() as client:
        built = OPENAI_CHAT.build(REQUEST)
        async with client.stream_post(server.base_url + built.path, {}, built.body) as body:
            assert await body.read_some()
        assert TextDelta("b") in await ask(client, server)


async def test_leaving_the_block_ends_connections_that_stall() -> None:
    built = OPENAI_CHAT.build(REQUEST)
    async with open_http_client() as client, AsyncExitStack() as stack:
        async with open_scripted_server([stall("so")]) as server:
            stream = client.stream_post(server.base_url + built.path, {}, built.body)
            body = await stack.enter_async_context(stream)
            assert await body.read_some()
        with pytest.raises(NetworkError):
            await body.read_some()


async def test_models_are_listed_and_other_addresses_are_unknown() -> None:
    async with open_scripted_server([], models=["a", "b"]) as server:
        async with open_http_client() as client:
            async with client.request("GET", server.base_url + "/models", {}) as body:
                listed = json.loads(await body.read_all(10_000))
            async with client.request("GET", server.base_url + "/else", {}) as body:
                assert body.status == 404
    assert [model["id"] for model in listed["data"]] == ["a", "b"]
    server.assert_complete()


async def test_a_body_that_is_no_json_is_refused_and_takes_no_step() -> None:
    async with open_scripted_server([reply("a")]) as server, open_http_client() as client:
        url = server.base_url + "/chat/completions"
        async with client.stream_post(url, {}, b"{nonsense") as body:
            assert body.status == 400
        assert TextDelta("a") in await ask(client, server)
    server.assert_complete()


async def test_a_request_beyond_the_script_is_refused_and_told() -> None:
    async with open_scripted_server([reply("a")]) as server, open_http_client() as client:
        await ask(client, server)
        server.assert_complete()
        [error] = await ask(client, server)
    assert isinstance(error, StreamError)
    assert not error.retryable
    assert "1 steps" in error.message
    with pytest.raises(AssertionError, match="1 steps, and 2 requests"):
        server.assert_complete()


async def test_a_script_that_was_not_played_is_not_complete() -> None:
    async with open_scripted_server([reply("a")]) as server:
        pass
    with pytest.raises(AssertionError, match="1 steps, and 0 requests"):
        server.assert_complete()


@pytest.mark.parametrize(
    ("step", "words"),
    [(raw_events(TextDelta("a")), "raw stream events"), (reply("a", chunk="bytes:0"), "bytes:N")],
)
async def test_a_mistake_in_a_script_is_loud(step: Step, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        await play(step)


async def test_a_failure_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_scripted_server([]):
            raise ZeroDivisionError
