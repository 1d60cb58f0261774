"""The scripted server's connections and scripts, through the real client; answers: see the wires."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import (
    Step,
    close_before_head,
    cut_after,
    garbage,
    html,
    raw_events,
    reply,
    reset,
    stall,
    status,
)
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.errors import NetworkError
from callboard.runtime.history import Input, Round
from callboard.runtime.http.client import open_http_client
from callboard.runtime.stream import (
    AnyStreamEvent,
    StreamError,
    TextDelta,
    ToolCallDelta,
)
from support.providers.decoding import ask

REQUEST = ModelRequest(model="m", rounds=[Round([Input("hi")])])


async def play(step: Step) -> list[AnyStreamEvent]:
    async with open_scripted_server([step]) as server, open_http_client() as client:
        events = await ask(client, server, OPENAI_CHAT)
        assert client.statistics().active == 0
    server.assert_complete()
    return events


async def test_arguments_of_any_kind_arrive_as_they_are() -> None:
    events = await play(reply(calls=[("t", "{broken"), ("u", "")]))
    assert [e.arguments for e in events if isinstance(e, ToolCallDelta)] == ["{broken"]


async def test_requests_are_recorded() -> None:
    async with open_scripted_server([reply("a")]) as server, open_http_client() as client:
        await ask(client, server, OPENAI_CHAT)
    [request] = server.requests
    assert request.method == "POST"
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    assert request.body["messages"] == [{"role": "user", "content": "hi"}]


async def test_a_step_can_depend_on_the_request() -> None:
    steps = [lambda request: reply(request.body["model"])]
    async with open_scripted_server(steps) as server, open_http_client() as client:
        assert TextDelta("m") in await ask(client, server, OPENAI_CHAT)


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


@pytest.mark.parametrize(
    "step", [reset(), close_before_head(), garbage(), cut_after(100, reply("x" * 100))]
)
async def test_a_broken_connection_is_a_network_error(step: Step) -> None:
    with pytest.raises(NetworkError):
        await play(step)


async def test_leaving_the_block_ends_connections_that_stall() -> None:
    built = OPENAI_CHAT.build(REQUEST)
    async with open_http_client() as client, AsyncExitStack() as stack:
        async with open_scripted_server([stall("so")]) as server:
            stream = client.stream_post(server.base_url + built.path, {}, built.body)
            body = await stack.enter_async_context(stream)
            assert await body.read_some()
        with pytest.raises(NetworkError):
            await body.read_some()


async def test_a_body_that_is_no_json_is_refused_and_takes_no_step() -> None:
    async with open_scripted_server([reply("a")]) as server, open_http_client() as client:
        url = server.base_url + "/chat/completions"
        async with client.stream_post(url, {}, b"{nonsense") as body:
            assert body.status == 400
        assert TextDelta("a") in await ask(client, server, OPENAI_CHAT)
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
