"""The HTTP API of OpenAI, as OpenAI's own client for Python uses it; every body is one of its models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import trio
from pydantic import BaseModel

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import fail, reply
from callboard.runtime.stream import Done, StopReason, TextDelta
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.gated_model import GatedModel
from support.later import Later

if TYPE_CHECKING:
    import openai
    from openai.types.chat import (
        ChatCompletionChunk,
        ChatCompletionMessage,
        ChatCompletionMessageFunctionToolCall,
    )
else:
    openai = Later("openai")  # a second of each worker's time

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
        row = await daemon.runtime.store.session(raw.headers["x-callboard-session"])
    assert row is not None
    assert row.is_tainted  # by what the client's tool said
    offered = {each.name for each in model.requests[0].tools}
    assert {"get_weather", "get_current_time"} <= offered
    results = [getattr(item, "content", "") for item in model.requests[1].rounds[-1].items]
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


# ── responses ────────────────────────────────────────────────────────────────────────────────────

FUNCTION: Any = {"type": "function", **WEATHER["function"], "strict": False}


async def test_a_response_is_answered_read_again_and_goes_on() -> None:
    model = general(reply("Hello, Ada.", thinking="A name."), reply("You are Ada."))
    async with open_daemon(model) as daemon, asked(daemon) as client:
        first = checked(
            await client.responses.create(
                model="general", input="I am Ada.", instructions="Be kind.", metadata={"a": "b"}
            )
        )
        again = checked(await client.responses.retrieve(first.id))
        second = checked(
            await client.responses.create(
                model="general", input="Who am I?", previous_response_id=first.id
            )
        )
        (row,) = await daemon.runtime.sessions()
    assert (first.status, first.output_text) == ("completed", "Hello, Ada.")
    assert [each.type for each in first.output] == ["reasoning", "message"]
    assert first.usage is not None
    assert first.usage.total_tokens == 15
    assert again.output == first.output
    assert (again.metadata, again.instructions) == ({"a": "b"}, "Be kind.")
    assert second.output_text == "You are Ada."
    assert not row.is_tainted


async def test_a_response_is_streamed_with_the_calls_of_the_agent() -> None:
    model = general(reply("I look.", calls=[("get_current_time", {})]), reply(["It is ", "noon."]))

    def use(client: openai.OpenAI) -> tuple[list[Any], Any]:
        with client.responses.create(model="general", input="Time?", stream=True) as stream:
            events: list[Any] = [checked(each) for each in stream]
        return events, checked(client.responses.retrieve(events[-1].response.id))

    async with open_daemon(model) as daemon:
        events, again = await blocking(daemon, use)
    kinds = [each.type for each in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    numbers = [each.sequence_number for each in events]
    assert numbers == sorted(set(numbers))
    assert kinds[-1] == "response.completed"
    last = events[-1].response
    assert [each.type for each in last.output] == ["message", "mcp_call", "message"]
    assert [getattr(each, "phase", None) for each in last.output] == [
        "commentary",
        None,
        "final_answer",
    ]
    assert last.output[1].status == "completed"
    assert '"status":"success"' in last.output[1].output
    deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
    assert "".join(deltas) == "I look.It is noon."
    assert again.output == last.output


async def test_the_helper_for_streams_puts_a_response_together() -> None:
    def use(client: openai.OpenAI) -> Any:
        with client.responses.stream(model="general", input="Time?") as stream:
            stream.until_done()
            return stream.get_final_response()

    async with open_daemon(general(reply(["No", "on."], thinking="Hm."))) as daemon:
        assert (await blocking(daemon, use)).output_text == "Noon."


async def test_a_response_ends_with_the_calls_of_the_client() -> None:
    model = general(reply(calls=[("get_weather", {"city": "Oslo"})]), reply("It rains."))
    async with open_daemon(model) as daemon, asked(daemon) as client:
        first = checked(
            await client.responses.create(model="general", input="Oslo?", tools=[FUNCTION])
        )
        (call,) = first.output
        assert call.type == "function_call"
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(
                model="general", input="Well?", previous_response_id=first.id
            )
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
        second = checked(
            await client.responses.create(
                model="general", input=[output], previous_response_id=first.id, tools=[FUNCTION]
            )
        )
        kept = [checked(await client.responses.retrieve(each.id)) for each in (first, second)]
    assert second.output_text == "It rains."
    assert first.id != second.id
    assert [each.output for each in kept] == [first.output, second.output]
    assert [each.status for each in kept] == ["completed", "completed"]


async def test_a_response_asks_about_calls_and_takes_the_answer() -> None:
    call = ("write_file", {"path": "a.txt", "content": "x"})
    model = general(reply(calls=[call]), reply("Written."))
    strict = Settings(policy=callboard.Preset.STRICT)
    server: Any = {
        "type": "mcp", "server_label": "callboard", "server_url": "x", "require_approval": "always",
    }  # fmt: skip
    async with open_daemon(model, configured=strict) as daemon:
        async with asked(daemon) as client:
            first = checked(
                await client.responses.create(model="general", input="Write.", tools=[server])
            )
            (question,) = first.output
            assert question.type == "mcp_approval_request"
            assert question.name == "write_file"
            answer: Any = {
                "type": "mcp_approval_response",
                "approval_request_id": question.id,
                "approve": True,
            }
            second = checked(
                await client.responses.create(
                    model="general", input=[answer], previous_response_id=first.id, tools=[server]
                )
            )
            kept = [checked(await client.responses.retrieve(each.id)) for each in (first, second)]
            (row,) = await daemon.runtime.store.approvals()
        operator = daemon.new_token("operator", Role.OPERATOR)
        async with asked(daemon, operator) as client:
            with pytest.raises(openai.PermissionDeniedError):
                await client.responses.create(model="general", input="Write.", tools=[server])
    assert [each.type for each in second.output] == ["mcp_call", "message"]
    assert second.output_text == "Written."
    assert [[each.type for each in one.output] for one in kept] == [
        ["mcp_approval_request"],
        ["mcp_call", "message"],
    ]
    assert row.state == "used"


async def test_a_response_in_the_background_goes_on_and_is_cancelled() -> None:
    model = GatedModel([TextDelta("One."), TextDelta("Two."), Done(StopReason.END)])
    async with open_daemon(model) as daemon, asked(daemon) as client:
        begun = checked(
            await client.responses.create(model="general", input="Count.", background=True)
        )
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_x_y")
        cancelled = checked(await client.responses.cancel(begun.id))
        again = checked(await client.responses.cancel(begun.id))
    assert begun.status == "queued"
    assert [each.status for each in (cancelled, again)] == ["cancelled", "cancelled"]


async def test_a_response_that_is_not_stored_leaves_nothing() -> None:
    async with open_daemon(general(reply("Gone."))) as daemon, asked(daemon) as client:
        answer = checked(await client.responses.create(model="general", input="Hi.", store=False))
        assert answer.output_text == "Gone."
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(answer.id)
        assert await daemon.runtime.sessions() == []


# ── a response that is read again ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fails", [False, True])
async def test_a_stream_is_read_on_from_any_number(fails: bool) -> None:
    broken = [fail("Gone.", retryable=True, text="Err")] if fails else []
    said = reply(["It ", "is ", "noon."], thinking="Hm.")
    model = general(reply("I look.", calls=[("get_current_time", {})]), *broken, said)

    def use(client: openai.OpenAI) -> None:
        with client.responses.create(model="general", input="Time?", stream=True) as stream:
            events: list[Any] = [checked(each) for each in stream]
        begun, end = events[0].response.id, events[-1].sequence_number
        middle = next(each for each in events if getattr(each, "delta", "") == "I look.")
        for number in (-1, *(each.sequence_number for each in events), end + 9):
            with client.responses.retrieve(begun, stream=True, starting_after=number) as stream:
                rest: list[Any] = [checked(each) for each in stream]
            assert rest[-1].type == "response.completed"
            assert all(each.sequence_number > number for each in rest)
            assert rest[-1].response.output == events[-1].response.output
            if number < end:
                heard = [each for each in events if each.sequence_number <= number]
                assert words(heard + rest) == words(events) == "I look.Hm.It is noon."
        after = middle.sequence_number - len(" look.")
        with client.responses.retrieve(begun, stream=True, starting_after=after) as stream:
            assert words([*stream]) == " look.Hm.It is noon."

    limits = Settings(limits=Limits(retry_wait_seconds=0.001))
    async with open_daemon(model, configured=limits) as daemon:
        await blocking(daemon, use)


def words(events: list[Any]) -> str:
    """All that was said and thought in events, but for what was taken back."""
    text = "".join(each.delta for each in events if each.type.endswith("text.delta"))
    return text.replace("Err", "")


async def test_a_stream_is_read_on_while_its_turn_runs() -> None:
    model = GatedModel([TextDelta("One."), TextDelta("Two."), Done(StopReason.END)])
    async with open_daemon(model) as daemon, asked(daemon) as client:
        begun = await client.responses.create(model="general", input="Count.", background=True)
        model.let()
        events: list[Any] = []
        stream = await client.responses.retrieve(begun.id, stream=True, starting_after=1)
        async for event in stream:
            events.append(checked(event))
            model.let()
        whole = checked(await client.responses.retrieve(begun.id))
    assert words(events) == "One.Two."
    assert [each.type for each in events[:2]] == [
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert events[-1].response.output == whole.output


PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="


async def test_what_a_response_was_asked_is_listed() -> None:
    model = general(reply("Hi."), reply(calls=[("get_weather", {})]), reply("Rain."))
    async with open_daemon(model) as daemon, asked(daemon) as client:
        first = await client.responses.create(
            model="general",
            input=[
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": "I look."},
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "There."},
                        {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
                    ],
                },
            ],
        )
        items = [checked(each) async for each in client.responses.input_items.list(first.id)]
        pages = await client.responses.input_items.list(first.id, order="asc", limit=2)
        page = checked(pages)
        behind = [each async for each in pages]
        second = await client.responses.create(
            model="general", input="Oslo?", previous_response_id=first.id, tools=[FUNCTION]
        )
        (call,) = second.output
        assert call.type == "function_call"
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "Wet."}
        third = await client.responses.create(model="general", input=[output])
        (result,) = (await client.responses.input_items.list(third.id)).data
        (asked_then,) = (await client.responses.input_items.list(second.id)).data
    assert [getattr(each, "role", "") for each in items] == ["user", "assistant", "user"]
    assert items[0].type == "message"
    assert [each.type for each in items[0].content] == ["input_text", "input_image"]
    assert getattr(items[0].content[1], "image_url", "") == PIXEL
    assert (len(page.data), page.has_more) == (2, True)
    assert [each.id for each in behind] == [each.id for each in reversed(items)]
    assert (result.type, getattr(result, "output", "")) == ("function_call_output", "Wet.")
    assert asked_then.type == "message"


async def test_a_response_is_deleted_and_others_of_its_session_stay() -> None:
    model = general(*(reply(each) for each in ("One.", "Two.", "Three.", "Four.")))
    async with open_daemon(model) as daemon, asked(daemon) as client:
        ask = partial(client.responses.create, model="general")
        alone = await ask(input="Alone?")
        first = await ask(input="First?")
        second = await ask(input="Second?", previous_response_id=first.id)
        for gone in (alone, first):
            await client.responses.delete(gone.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(gone.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.delete(gone.id)
            with pytest.raises(openai.NotFoundError):
                await ask(input="More?", previous_response_id=gone.id)
        kept = await client.responses.retrieve(second.id)
        third = await ask(input="Third?", previous_response_id=second.id)
        observer = daemon.new_token("watcher", Role.OBSERVER)
        async with asked(daemon, observer) as other:
            with pytest.raises(openai.PermissionDeniedError):
                await other.responses.delete(third.id)
        assert (await client.responses.retrieve(third.id)).output_text == "Four."
    assert kept.output_text == "Three."
    said = [getattr(item, "text", "") for each in model.requests[3].rounds for item in each.items]
    assert said[-3:] == ["Second?", "Three.", "Third?"]
    assert {"First?", "Two."}.isdisjoint(said)
