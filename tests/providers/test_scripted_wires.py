"""The scripted server in each wire format: read by the real client, and by the official SDKs."""

from __future__ import annotations

import json
from functools import cache
from itertools import starmap
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from callboard.providers.dialects import dialect_named
from callboard.providers.provider import ModelRequest
from callboard.providers.sse import SseParser
from callboard.providers.testing.script import (
    ScriptedCall,
    ScriptedReply,
    Step,
    cut_after,
    drip,
    events_of,
    fail,
    reply,
    stall,
    status,
)
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.providers.testing.wires import wire_named
from callboard.runtime.errors import NetworkError, NotFoundError
from callboard.runtime.history import Input, Round
from callboard.runtime.http.client import open_http_client
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from support.providers.decoding import ask

DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")
BESIDE_CHAT = DIALECTS[1:]

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)

EVERYTHING = reply(
    ["Hé", "llo 😀"],
    thinking=["h", "m"],
    signature="cHJvb2Y=",
    calls=[
        ScriptedCall("t", '{"path":"a long name of a file.txt"}', "i"),
        ScriptedCall("u", "{}", "j"),
    ],
    usage=Usage(20, 9, 4, 3, 2),
)


async def play(dialect: str, *steps: Step) -> list[list[AnyStreamEvent]]:
    """What comes of each step."""
    async with open_scripted_server(steps) as server, open_http_client() as client:
        answers = [await ask(client, server, dialect_named(dialect)) for _ in steps]
        assert [request.dialect for request in server.requests] == [dialect] * len(steps)
    server.assert_complete()
    return answers


def plain(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    """What the formats have in common: one call behind the other, its arguments in one piece, the
    last usage, and no words of the format's own.
    """
    calls = [e for e in events if isinstance(e, ToolCallStart | ToolCallDelta | ToolCallEnd)]
    parts: list[AnyStreamEvent] = [
        e for e in events if not isinstance(e, OpaquePart | Usage | Done) and e not in calls
    ]
    for start in calls:
        if isinstance(start, ToolCallStart):
            pieces = [
                e.arguments
                for e in calls
                if isinstance(e, ToolCallDelta) and e.index == start.index
            ]
            ends = [e for e in calls if isinstance(e, ToolCallEnd) and e.index == start.index]
            parts += [start, ToolCallDelta(start.index, "".join(pieces)), *ends]
    parts += [event for event in events if isinstance(event, Usage)][-1:]
    return [*parts, *(Done(e.stop_reason) for e in events if isinstance(e, Done))]


@pytest.mark.parametrize("chunk", ["event", "all", "bytes:1", "bytes:7"])
@each_dialect
async def test_a_reply_arrives_as_the_events_that_it_stands_for(dialect: str, chunk: str) -> None:
    [events] = await play(dialect, msgspec.structs.replace(EVERYTHING, chunk=chunk))
    expected = plain(events_of(EVERYTHING))
    if dialect in {"openai_chat", "gemini"}:
        # The one has no proof of its reasoning; the other has it beside the call.
        expected = [ThinkingEnd() if isinstance(e, ThinkingEnd) else e for e in expected]
    if dialect == "gemini":
        # It does not count what is written to the cache.
        expected = [Usage(20, 9, 4, 3) if isinstance(e, Usage) else e for e in expected]
        kept = [json.loads(bytes(e.data)) for e in events if isinstance(e, OpaquePart)]
        assert kept == [{"id": "i", "thoughtSignature": "cHJvb2Y="}, {"id": "j"}]
    assert plain(events) == expected


@each_dialect
async def test_reasons_to_stop(dialect: str) -> None:
    texts = [reply("a"), reply("a", finish="length"), reply("a", finish="content_filter")]
    answers = await play(dialect, *texts, reply(refusal=["I can", "not."]))
    ends = [events[-1] for events in answers]
    assert [end.stop_reason for end in ends if isinstance(end, Done)] == [
        StopReason.END,
        StopReason.MAX_TOKENS,
        StopReason.REFUSED,
        StopReason.REFUSED,
    ]
    assert "".join(getattr(event, "text", "") for event in answers[-1]) == "I cannot."


@pytest.mark.parametrize("dialect", BESIDE_CHAT)
async def test_reasoning_without_a_proof_gets_one_of_its_own_answer(dialect: str) -> None:
    step = reply("So.", thinking="Hm.")
    first, second = await play(dialect, step, step)
    proofs = [
        e.signature if isinstance(e, ThinkingEnd) else json.loads(bytes(e.data))["thoughtSignature"]
        for e in (*first, *second)
        if (isinstance(e, ThinkingEnd) and e.signature) or isinstance(e, OpaquePart)
    ]
    assert len(proofs) == len(set(proofs)) == 2


@each_dialect
async def test_calls_have_ids_that_are_unique_where_the_format_has_ids(dialect: str) -> None:
    step = reply(calls=[("t", {}), ("t", {})])
    answers = await play(dialect, step, step)
    ids = [e.call_id for events in answers for e in events if isinstance(e, ToolCallStart)]
    assert len(ids) == 4
    assert len(set(ids)) == (1 if dialect == "gemini" else 4)
    assert all(ids) == (dialect != "gemini")


ERRORS = {"overloaded": "overloaded", "auth": "auth", "provider": "provider"}


@each_dialect
async def test_an_error_in_the_middle_is_of_its_type(dialect: str) -> None:
    steps = [
        fail("Busy.", error_type="overloaded", retryable=True, text="so"),
        fail("No key.", error_type="auth"),
        fail("Broken.", retryable=True),
        fail("Wrong."),
    ]
    answers = await play(dialect, *steps)
    assert answers[0][:-1] == [TextDelta("so")]
    errors = [events[-1] for events in answers]
    assert [
        (e.error_type, e.retryable, e.status) for e in errors if isinstance(e, StreamError)
    ] == [
        ("overloaded", True, None),
        ("auth", False, None),
        ("provider", True, None),
        ("provider", False, None),
    ]
    assert all(words in str(e) for words, e in zip(("Busy", "No key"), errors, strict=False))


STATUSES = {
    400: ("provider", False),
    401: ("auth", False),
    403: ("auth", False),
    404: ("provider", False),
    429: ("overloaded", True),
    500: ("provider", True),
    503: ("overloaded", True),
    529: ("overloaded", True),
}


@each_dialect
async def test_an_error_status_has_the_shape_of_the_format(dialect: str) -> None:
    steps = [status(code, message=f"So {code}.", retry_after="3") for code in STATUSES]
    errors = [error for [error] in await play(dialect, *steps) if isinstance(error, StreamError)]
    assert [(e.error_type, e.retryable) for e in errors] == list(STATUSES.values())
    assert [e.retry_after_seconds for e in errors] == [
        3.0 if retryable else None for _, retryable in STATUSES.values()
    ]
    for code, error in zip(STATUSES, errors, strict=True):
        assert f"(HTTP {code}): So {code}." in error.message
        body = json.loads(wire_named(dialect).error_body(code, "x"))
        assert body["error"]["message"] == "x"
        assert body.get("type") == ("error" if dialect == "anthropic" else None)
        assert ("status" in body["error"]) == (dialect == "gemini")


@each_dialect
async def test_an_answer_cut_at_any_byte_is_an_error_until_it_is_whole(dialect: str) -> None:
    answer = reply("Hello", thinking="Hm.", calls=[("t", {"a": 1})])

    def cut(number: int, left: int) -> Step:
        whole = b"".join(wire_named(dialect).reply_events(answer, number))
        return cut_after(max(len(whole) - left, 0), answer, clean=True)

    lefts = [*range(6000, 40, -97), *range(40, -1, -1)]
    cuts = list(starmap(cut, enumerate(lefts, 1)))
    outcomes = [isinstance(e[-1], StreamError) for e in await play(dialect, *cuts)]
    assert outcomes == sorted(outcomes, reverse=True)
    assert (outcomes[0], outcomes[-1]) == (True, False)
    with pytest.raises(NetworkError):
        await play(dialect, cut_after(100, answer))


@pytest.mark.parametrize("said", [reply("so"), "so", ""], ids=["whole", "begun", "nothing"])
@each_dialect
async def test_a_stall_keeps_the_connection_open(dialect: str, said: str | ScriptedReply) -> None:
    its = dialect_named(dialect)
    built = its.build(ModelRequest(model="m", rounds=[Round([Input("hi")])]))
    size = len(b"".join(wire_named(dialect).reply_events(reply("so"), 1)))
    async with open_scripted_server([stall(said), reply("b")]) as server:
        async with open_http_client() as client:
            url = server.base_url + built.path
            async with client.stream_post(url, built.headers, built.body) as body:
                decoder, events, left = its.decoder(), list[AnyStreamEvent](), size
                while isinstance(said, ScriptedReply) and left:
                    data = await body.read_some()
                    left -= len(data)
                    events += decoder.feed(data)
                if isinstance(said, str) and said:
                    while TextDelta("so") not in events:
                        events += decoder.feed(await body.read_some())
                events += decoder.finish()
            assert isinstance(events[-1], Done if isinstance(said, ScriptedReply) else StreamError)
            assert TextDelta("b") in await ask(client, server, its)
        assert server.connections == 2


@each_dialect
async def test_pings_say_nothing(dialect: str) -> None:
    its = dialect_named(dialect)
    built = its.build(ModelRequest(model="m", rounds=[Round([Input("hi")])]))
    decoder = its.decoder()
    async with open_scripted_server([drip(0.001)]) as server, open_http_client() as client:
        url = server.base_url + built.path
        async with client.stream_post(url, built.headers, built.body) as body:
            for _ in range(3):
                assert decoder.feed(await body.read_some()) == []
    [error] = decoder.finish()
    assert isinstance(error, StreamError)
    assert error.retryable


@each_dialect
async def test_models_are_listed_in_the_format_of_who_asks(dialect: str) -> None:
    its = dialect_named(dialect)
    request = its.list_models()
    async with open_scripted_server([], models=["a", "b"]) as server, open_http_client() as client:
        headers = {**request.headers, **its.auth_headers("k")}
        async with client.request("GET", server.base_url + request.path, headers) as body:
            page = its.read_models(await body.read_all(10_000))
    assert [model.model for model in page.models] == ["a", "b"]
    assert page.next_page == ""
    assert (page.models[0].context_tokens is not None) == (dialect in {"anthropic", "gemini"})


@each_dialect
async def test_a_request_beyond_the_script_is_refused_in_the_format(dialect: str) -> None:
    its = dialect_named(dialect)
    async with open_scripted_server([]) as server, open_http_client() as client:
        [error] = await ask(client, server, its)
    assert isinstance(error, StreamError)
    assert "0 steps" in error.message
    assert not error.retryable
    with pytest.raises(AssertionError, match="0 steps, and 1 requests"):
        server.assert_complete()


@pytest.mark.parametrize("path", ["/messages/", "/models/m:generateContent", "/v1/responses"])
async def test_nothing_is_served_elsewhere(path: str) -> None:
    async with open_scripted_server([]) as server, open_http_client() as client:
        async with client.stream_post(server.base_url + path, {}, b"{}") as body:
            assert body.status == 404
            assert path in json.loads(await body.read_all(1000))["error"]["message"]
        async with client.request("GET", server.base_url + "/messages", {}) as body:
            assert body.status == 404
    assert server.requests == []


async def test_arguments_that_geminis_format_can_t_write_are_a_mistake_in_the_script() -> None:
    with pytest.raises(ValueError, match="no JSON object"):
        await play("gemini", reply(calls=[("t", "{broken")]))
    [events] = await play("gemini", reply(calls=[("t", "")]))
    assert ToolCallDelta(0, "{}") in events


def test_an_unknown_wire_format_is_refused() -> None:
    with pytest.raises(NotFoundError, match="anthropic, gemini"):
        wire_named("morse")


def _payloads(events: list[bytes]) -> list[Any]:
    payloads = SseParser().feed(b"".join(events))
    return [json.loads(payload) for payload in payloads if payload != b"[DONE]"]


def check_openai_chat(payload: Any) -> None:
    from openai.types.chat import ChatCompletionChunk

    ChatCompletionChunk.model_validate(payload)


@cache
def adapter(union: Any) -> TypeAdapter[Any]:
    return TypeAdapter(union)


def check_openai_responses(payload: Any) -> None:
    from openai.types.responses import ResponseStreamEvent

    adapter(ResponseStreamEvent).validate_python(payload)


def check_anthropic(payload: Any) -> None:
    from anthropic.types import RawMessageStreamEvent

    if payload["type"] != "ping":  # which is in the documentation, and not in the types
        adapter(RawMessageStreamEvent).validate_python(payload)


def check_gemini(payload: Any) -> None:
    from google.genai.types import GenerateContentResponse

    GenerateContentResponse.model_validate_json(json.dumps(payload))


CHECKS = {
    "openai_chat": check_openai_chat,
    "openai_responses": check_openai_responses,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
}


@each_dialect
def test_every_event_is_one_by_the_providers_own_types(dialect: str) -> None:
    usage = EVERYTHING.usage
    answers = [
        EVERYTHING,
        reply("a", finish="length", usage=usage),
        reply(thinking="a", refusal="b", usage=usage),
    ]
    for number, answer in enumerate(answers):
        for payload in _payloads(wire_named(dialect).reply_events(answer, number)):
            CHECKS[dialect](payload)
