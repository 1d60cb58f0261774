"""The HTTP API of OpenAI against clients of every kind: those that leave, wait, send too much or the wrong thing."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.sections import OpenAiSettings, ServerSettings
from callboard.config.settings import Settings
from callboard.embedding.runtime import host_of
from callboard.gateway.connection.caller import Requester
from callboard.gateway.door.exchange import ResponseStream
from callboard.gateway.openai.chat_request import MAX_MESSAGES
from callboard.gateway.openai.content import MAX_VALUES
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import fail, reply
from callboard.runtime.errors import ContextOverflow
from callboard.runtime.events import (
    HistoryGiven,
    InputAccepted,
    SessionTainted,
    Stored,
    TurnEnded,
)
from callboard.runtime.history import Answer as GivenAnswer
from callboard.runtime.history import Result
from callboard.runtime.store.lists import SessionFilter
from callboard.runtime.stream import Done, StopReason, TextDelta, ToolCallDelta, ToolCallStart
from callboard.runtime.turn_options import MAX_SCHEMA_CHARS, ClientContext
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_scene import request
from support.gateway.gated_model import GatedModel
from support.gateway.raw_door import PATIENCE, Answer, answer_to, open_stream, read_answer, read_end
from support.waits import until

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello."}]
RUN = msgspec.json.encode({"threadId": "t", "runId": "r", "messages": [{"id": "1", **HELLO[0]}]})


def body_of(messages: Any = HELLO, **fields: Any) -> bytes:
    return msgspec.json.encode({"model": "general", "messages": messages} | fields)


async def ask(daemon: Daemon, body: bytes, target: str = CHAT, **headers: Any) -> Answer:
    return await answer_to(daemon, request(daemon, target, body, **headers))


def problem(answer: Answer) -> dict[str, Any]:
    error: dict[str, Any] = msgspec.json.decode(answer.body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


async def events_of(daemon: Daemon, session_id: str) -> list[Any]:
    return [each.event for each in await daemon.runtime.store.events(session_id)]


def saying(*texts: str) -> GatedModel:
    return GatedModel([*map(TextDelta, texts), Done(StopReason.END)])


# ── what is asked wrongly ────────────────────────────────────────────────────────────────────────

TOOL = {"type": "function", "function": {"name": "mine"}}
ASSISTANT = {"role": "assistant", "content": "Yes?"}
REFUSED: dict[str, tuple[dict[str, Any], str | None]] = {
    "no messages": ({"messages": []}, "messages"),
    "one message too many": ({"messages": HELLO * (MAX_MESSAGES + 1)}, "messages"),
    "messages are a text": ({"messages": "Hello."}, "messages"),
    "an unknown role": ({"messages": [{"role": "root", "content": "x"}]}, "messages[0].role"),
    "a number for a content": (
        {"messages": [{"role": "user", "content": 7}]},
        "messages[0].content",
    ),
    "nothing is asked": ({"messages": [*HELLO, ASSISTANT]}, "messages"),
    "a result of no call": (
        {"messages": [*HELLO, {"role": "tool", "tool_call_id": "c", "content": "x"}]},
        "messages[1]",
    ),
    "an image that has to be fetched": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "http://x.example/a.png"}}
                    ],
                }
            ]
        },
        "messages[0]",
    ),
    "an image that is none, long ago": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}
                    ],
                },
                ASSISTANT,
                *HELLO,
            ]
        },
        "attachments",
    ),
    "two answers": ({"n": 2}, "n"),
    "probabilities": ({"logprobs": True}, "logprobs"),
    "sound": ({"modalities": ["text", "audio"]}, "modalities"),
    "functions of old": ({"functions": [{"name": "f"}]}, "functions"),
    "a call of no tool": ({"tool_choice": "required"}, "tool_choice"),
    "a call of the agent's tool": (
        {
            "tools": [TOOL],
            "tool_choice": {"type": "function", "function": {"name": "read_file"}},
        },
        "tool_choice",
    ),
    "a choice of no kind": (
        {"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}},
        "tool_choice",
    ),
    "a choice among tools of others": (
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "web_search"}]},
            },
        },
        "tool_choice",
    ),
    "a choice among tools that are not there": (
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "read_file"}}],
                },
            },
        },
        "tool_choice",
    ),
    "a call of none of no tools": (
        {
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": []},
            },
        },
        "tool_choice",
    ),
    "a choice by another word": ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice"),
    "too hot": ({"temperature": 9}, "temperature"),
    "no effort": ({"reasoning_effort": "huge"}, "reasoning_effort"),
    "a form of no object": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}},
        "answer_schema",
    ),
    "the agent's own tool": (
        {"tools": [{"type": "function", "function": {"name": "read_file"}}]},
        "tools[0]",
    ),
    "one tool twice": ({"tools": [TOOL, TOOL]}, "tools[1]"),
    "10,000 tools": ({"tools": [TOOL] * 10_000}, "tools"),
    "a tool with no name": ({"tools": [{"type": "function", "function": {"name": "  "}}]}, "name"),
}


async def test_what_can_t_be_had_is_refused_with_its_parameter() -> None:
    model = callboard.ScriptedModel([])
    async with open_daemon(model) as daemon:
        for name, (fields, param) in REFUSED.items():
            answer = await ask(daemon, body_of(**{"messages": HELLO} | fields))
            error = problem(answer)
            assert (answer.status, error["param"], error["type"]) == (
                400,
                param,
                "invalid_request_error",
            ), name
        assert await daemon.runtime.sessions() == []  # nothing is begun for what is refused
    assert model.requests == []


async def test_bodies_that_are_no_json_too_deep_or_too_large_are_refused() -> None:
    settings = Settings(openai=OpenAiSettings(max_body_bytes=128 * 1024))
    async with open_daemon(callboard.ScriptedModel([]), configured=settings) as daemon:
        deep = b'{"model": "general", "messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
        unknown = b'{"model": "general", "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
        for body, status in (
            (b"{", 400),
            (b"\xff\xfe", 400),
            (b"[]", 400),
            (deep, 400),
            (unknown, 400),
            (body_of("x" * 128 * 1024), 413),
        ):
            answer = await ask(daemon, body)
            assert (answer.status, problem(answer)["param"] is None) == (
                status,
                True,
            ) or body == deep
        form = await ask(daemon, b"model=general", content_type="application/x-www-form-urlencoded")
        assert form.status == 415
        lost = await ask(daemon, body_of(), "/v1/nothing")
        assert (lost.status, problem(lost)["code"]) == (404, "not_found")
        wrong = await answer_to(daemon, request(daemon, CHAT, method="GET"))
        assert (wrong.status, wrong.headers["allow"]) == (405, "POST")


MANY = b"[" + b"[]," * MAX_VALUES + b"[]]"
DEEP: dict[str, Any] = {"type": "object"}
for _ in range(70):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
LONG_SCHEMA = {"type": "object", "description": "x" * MAX_SCHEMA_CHARS}
HALF_SCHEMA = {"type": "object", "description": "x" * (MAX_SCHEMA_CHARS * 3 // 4)}


def tools_of(target: str, *parameters: Any) -> dict[str, Any]:
    """Tools of a client with these parameters, as the route has them."""
    each = [{"name": f"t{at}", "parameters": given} for at, given in enumerate(parameters)]
    if target == CHAT:
        return {"tools": [{"type": "function", "function": function} for function in each]}
    return {"tools": [{"type": "function"} | function for function in each]}


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/responses"])
async def test_a_body_makes_a_bounded_amount_of_work(target: str) -> None:
    """msgspec holds the interpreter's lock while it decodes: millions of values held all up for seconds."""
    said = {"messages": HELLO} if target == CHAT else {"input": "Hello."}
    async with open_daemon(callboard.ScriptedModel([])) as daemon:
        whole = msgspec.json.encode({"model": "general"} | said)
        for body, param in (
            (whole[:-1] + b',"top_p":' + MANY + b"}", None),
            (whole[:-1] + b',"unknown":' + MANY + b"}", None),
            (msgspec.json.encode({"model": "general"} | said | tools_of(target, DEEP)), "tools[0]"),
            (
                msgspec.json.encode({"model": "general"} | said | tools_of(target, LONG_SCHEMA)),
                "tools[0]",
            ),
            (
                msgspec.json.encode(
                    {"model": "general"} | said | tools_of(target, *[HALF_SCHEMA] * 3)
                ),
                "tools[2]",
            ),
            (msgspec.json.encode({"model": "general"} | said | tools_of(target, 7)), "tools[0]"),
        ):
            answer = await ask(daemon, body, target)
            assert (answer.status, problem(answer)["param"]) == (400, param), body[:100]
        assert await daemon.runtime.sessions() == []


async def test_many_commas_in_a_text_are_no_values() -> None:
    async with open_daemon(callboard.ScriptedModel([reply("Yes.")])) as daemon:
        text = "," * (MAX_VALUES + 1) + '\\"'
        answer = await ask(daemon, body_of([{"role": "user", "content": text}]))
    assert answer.status == 200


async def test_calls_in_a_row_are_one_answer() -> None:
    model = callboard.ScriptedModel([reply("Yes.")])
    async with open_daemon(model) as daemon:
        calls = [
            {"type": "function_call", "call_id": f"c{at}", "name": "f", "arguments": "{}"}
            for at in range(3)
        ]
        brought = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "I go."}]
        body = {"model": "general", "input": [*brought, *calls, {"role": "user", "content": "?"}]}
        answer = await ask(daemon, msgspec.json.encode(body), RESPONSES)
        session = answer.headers["x-callboard-session"]
        (given,) = [e for e in await events_of(daemon, session) if isinstance(e, HistoryGiven)]
    assert [type(item).__name__ for item in given.messages] == ["Input", "Answer"]
    (said,) = [item.parts for item in given.messages if isinstance(item, GivenAnswer)]
    assert [getattr(part, "call_id", "") for part in said] == ["", "c0", "c1", "c2"]


async def test_a_model_that_there_is_not_is_not_found() -> None:
    async with open_daemon(callboard.ScriptedModel([])) as daemon:
        answer = await ask(daemon, body_of(model="gpt-5"))
        elsewhere = await ask(daemon, body_of(model="general:nowhere/model"))
    assert (answer.status, problem(answer)["code"]) == (404, "model_not_found")
    assert elsewhere.status == 404


async def test_an_agent_with_another_model_is_a_model_that_is_not_listed() -> None:
    async with open_daemon(callboard.ScriptedModel([])) as daemon:
        found = []
        for name in ("general", "general:ollama/qwen3", "general:nowhere/x", "nobody:ollama/qwen3"):
            sent = request(daemon, f"/v1/models/{name}", method="GET")
            found.append(await answer_to(daemon, sent))
        listed = await answer_to(daemon, request(daemon, "/v1/models", method="GET"))
    assert [each.status for each in found] == [200, 200, 404, 404]
    assert msgspec.json.decode(found[1].body)["id"] == "general:ollama/qwen3"
    assert [each["id"] for each in msgspec.json.decode(listed.body)["data"]] == ["general"]


async def test_unknown_fields_are_passed_over_and_known_ones_are_named() -> None:
    async with open_daemon(callboard.ScriptedModel([reply("Hi.")])) as daemon:
        answer = await ask(daemon, body_of(seed=7, top_p=0.5, stop=None, whatever={"a": [1]}))
    assert answer.status == 200
    assert answer.headers["x-callboard-ignored"] == "seed, top_p"


async def test_a_key_comes_in_either_header() -> None:
    async with open_daemon(callboard.ScriptedModel([reply("Hi.")])) as daemon:
        answer = await ask(daemon, body_of(), authorization=None, x_api_key=daemon.token)
        both = await ask(daemon, body_of(), x_api_key=daemon.token)
    assert (answer.status, both.status) == (200, 401)
    assert problem(both)["code"] == "invalid_api_key"


# ── what is on record ────────────────────────────────────────────────────────────────────────────


async def test_the_record_says_who_sent_it_and_what_came_along() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with open_daemon(callboard.ScriptedModel([reply("Hi.")])) as daemon:
        messages = [{"role": "system", "content": "Short."}, *HELLO, ASSISTANT, *HELLO]
        answer = await ask(daemon, body_of(messages), traceparent=trace, tracestate="a=b")
        events = await events_of(daemon, answer.headers["x-callboard-session"])
    (accepted,) = [each for each in events if isinstance(each, InputAccepted)]
    assert accepted.via == "token:test via openai"
    assert accepted.client == ClientContext("Short.")
    assert accepted.trace is not None
    assert (accepted.trace.traceparent, accepted.trace.tracestate) == (trace, "a=b")
    assert events[0].via == "openai"
    assert [each.source for each in events if isinstance(each, SessionTainted)] == ["client"]


async def test_a_session_that_is_named_goes_on() -> None:
    model = callboard.ScriptedModel([reply("One."), reply("Two.")])
    async with open_daemon(model) as daemon:
        first = await ask(daemon, body_of())
        assert await daemon.runtime.sessions() == []  # it was begun for one request
        session = first.headers["x-callboard-session"]
        again = [*HELLO, {"role": "assistant", "content": "Something else."}, *HELLO]
        second = await ask(daemon, body_of(again), x_callboard_session=session)
        listed = await daemon.runtime.sessions()
        row = await daemon.runtime.store.session(session)
        stranger = daemon.new_token("poet", Role.OPERATOR, agents=("poet",))
        hidden = await ask(
            daemon, body_of(), x_callboard_session=session, authorization=f"Bearer {stranger}"
        )
    assert second.headers["x-callboard-session"] == session
    said = [getattr(item, "text", "") for each in model.requests[1].rounds for item in each.items]
    assert said == ["Hello.", "One.", "Hello."]
    assert row is not None
    assert not row.is_tainted
    assert [each.session_id for each in listed] == [session]  # and is somebody's from here on
    assert hidden.status == 404


# ── clients that leave, and clients that wait ────────────────────────────────────────────────────


@pytest.mark.parametrize("streams", [False, True])
async def test_the_turn_of_a_client_that_leaves_is_cancelled(streams: bool) -> None:
    model = saying("One, ", "two.")
    async with open_daemon(model) as daemon:
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, CHAT, body_of(stream=streams)))
            model.let()
            if streams:
                seen = b""
                while b"One, " not in seen:
                    seen += await stream.receive_some()
            else:
                await until(lambda: daemon.gateway.turns.count == 1)
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
            name = (
                await daemon.runtime.store.session_page(SessionFilter(deleted="also"))
            ).sessions[0]
        ended = [e for e in await events_of(daemon, name.session_id) if isinstance(e, TurnEnded)]
    assert [each.outcome for each in ended] == ["cancelled"]


async def test_more_turns_than_may_run_are_asked_to_come_again() -> None:
    model = saying("Hi.")
    settings = ServerSettings(port=0, max_http_turns=1)
    async with open_daemon(model, settings=settings) as daemon:
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, CHAT, body_of()))
            with trio.fail_after(PATIENCE):
                await until(lambda: daemon.gateway.turns.count == 1)
            refused = await ask(daemon, body_of())
            model.let_all()
            answer = await read_answer(stream)
        assert daemon.gateway.turns.count == 0
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert problem(refused)["type"] == "rate_limit_error"
    assert "x-should-retry" not in refused.headers  # nothing was begun
    assert answer.status == 200


async def test_a_turn_counts_once_from_its_request_to_its_end() -> None:
    """While its input was stored it counted twice, and others were sent away although there was room."""
    counts: list[tuple[str, int]] = []
    model = callboard.ScriptedModel([reply("Hi.")] * 3)
    async with open_daemon(model) as daemon:
        turns = daemon.gateway.turns
        await ask(daemon, body_of())  # from then on they are counted

        def look(events: tuple[Stored, ...]) -> None:
            counts.extend((type(each.event).__name__, turns.count) for each in events)

        host_of(daemon.runtime).inboxes.watch(look)
        for target, body in ((CHAT, body_of()), ("/ag-ui/general", RUN)):
            assert turns.count == 0
            sent = request(daemon, target, body, connection="close")
            assert (await answer_to(daemon, sent)).status == 200
            assert turns.count == 0
    during = [name for name, count in counts if count == 1]
    assert {"SessionCreated", "InputAccepted", "TurnStarted"} <= {*during}
    assert {count for _, count in counts} == {0, 1}


async def test_a_token_whose_turns_take_all_room_keeps_no_other_out() -> None:
    """A turn that waits for its client's tools has its place for ten minutes; another token has a few all the same."""
    settings = ServerSettings(port=0, max_http_turns=8)
    model = GatedModel(*[[Done(StopReason.END)]] * 10)
    async with open_daemon(model, settings=settings) as daemon, AsyncExitStack() as stack:
        turns = daemon.gateway.turns
        agents = ("general",)
        greedy = daemon.new_token("greedy", Role.OPERATOR, agents=agents)
        other = daemon.new_token("other", Role.OPERATOR, agents=agents)

        async def begin(token: str) -> None:
            stream = await stack.enter_async_context(open_stream(daemon))
            count = turns.count
            bearer = f"Bearer {token}"
            await stream.send_all(request(daemon, CHAT, body_of(), authorization=bearer))
            with trio.fail_after(PATIENCE):
                await until(lambda: turns.count == count + 1)

        async def refused(token: str) -> int:
            return (await ask(daemon, body_of(), authorization=f"Bearer {token}")).status

        for _ in range(8):
            await begin(greedy)
        assert await refused(greedy) == 429
        for _ in range(2):  # a quarter of what there is
            await begin(other)
        assert [await refused(token) for token in (greedy, other)] == [429, 429]
        assert turns.count == 10
        model.let_all()
        with trio.fail_after(PATIENCE):
            await until(lambda: turns.count == 0)  # there is room again


async def test_an_answer_has_the_tokens_of_what_it_delegated() -> None:
    """Whole, as a stream, and from the record; a budget counts them in the same way."""
    task = {"kind": "branch", "task": "Look it up."}
    steps = [reply(calls=[("delegate", task)]), reply("Below."), reply("Done.")]
    async with open_daemon(callboard.ScriptedModel(steps * 4)) as daemon:
        chat = msgspec.json.decode((await ask(daemon, body_of())).body)
        streamed = await ask(
            daemon, body_of(stream=True, stream_options={"include_usage": True}), connection="close"
        )
        body = msgspec.json.encode({"model": "general", "input": "Hello."})
        told = msgspec.json.decode((await ask(daemon, body, "/v1/responses")).body)
        sent = request(daemon, f"/v1/responses/{told['id']}", method="GET")
        kept = msgspec.json.decode((await answer_to(daemon, sent)).body)
        store = daemon.runtime.store
        rows = (await store.session_page(SessionFilter(deleted="also"))).sessions
        tops = [each.session_id for each in rows if each.parent_id is None]
        spent = [await store.spending(each) for each in tops]
    calls = [each.calls for each in spent if each is not None]
    assert [len(each) for each in calls] == [3, 3, 3]
    tokens = {
        (
            sum(x.usage.input_tokens or 0 for x in each),
            sum(x.usage.output_tokens or 0 for x in each),
        )
        for each in calls
    }
    ((read, written),) = tokens  # each of them said the same
    assert read > 20
    assert written > 0
    last = re.findall(r"^data: (\{.*\})$", streamed.body, re.MULTILINE)[-1]
    for usage in (chat["usage"], msgspec.json.decode(last)["usage"]):
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (read, written)
    for usage in (told["usage"], kept["usage"]):
        assert (usage["input_tokens"], usage["output_tokens"]) == (read, written)


async def test_an_answer_has_the_tokens_of_a_summary_of_what_came_before() -> None:
    said = "word " * 300
    before = [{"role": role, "content": said} for _ in range(3) for role in ("user", "assistant")]
    body = body_of(messages=[*before, *HELLO])
    too_long = fail("too long", error_type=ContextOverflow.type)
    items = msgspec.json.encode({"model": "general", "input": [*before, *HELLO]})
    model = callboard.ScriptedModel([too_long, reply("NOTES"), reply("Going on.")] * 2)
    async with open_daemon(model) as daemon:
        chat = msgspec.json.decode((await ask(daemon, body)).body)
        told = msgspec.json.decode((await ask(daemon, items, "/v1/responses")).body)
        sent = request(daemon, f"/v1/responses/{told['id']}", method="GET")
        kept = msgspec.json.decode((await answer_to(daemon, sent)).body)
    assert chat["choices"][0]["message"]["content"] == "Going on."
    assert (chat["usage"]["prompt_tokens"], chat["usage"]["completion_tokens"]) == (20, 10)
    for usage in (told["usage"], kept["usage"]):
        assert (usage["input_tokens"], usage["output_tokens"]) == (20, 10)


async def test_a_turn_that_fails_is_not_asked_for_again() -> None:
    model = callboard.ScriptedModel([fail("The model is ill.")])
    async with open_daemon(model) as daemon:
        answer = await ask(daemon, body_of())
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert "The model is ill." in problem(answer)["message"]
    assert answer.headers["x-request-id"].startswith("input_")


async def test_a_turn_waits_for_its_own_client_alone() -> None:
    model = callboard.ScriptedModel([reply(calls=[("mine", {})]), reply("Thanks."), reply("Mine.")])
    async with open_daemon(model) as daemon:
        first = await ask(daemon, body_of(tools=[TOOL]))
        message = msgspec.json.decode(first.body)["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "5"}
        messages = [*HELLO, message, result]
        other = daemon.new_token("other", Role.OPERATOR)
        theirs = await ask(daemon, body_of(messages), authorization=f"Bearer {other}")
        ours = await ask(daemon, body_of(messages))
    sessions = [each.headers["x-callboard-session"] for each in (first, theirs, ours)]
    assert sessions[0] == sessions[2] != sessions[1]


async def test_a_stream_says_that_it_waits_for_a_person() -> None:
    call = ("write_file", {"path": "a.txt", "content": "x"})
    model = callboard.ScriptedModel([reply(calls=[call]), reply("Done.")])
    strict = Settings(policy=callboard.Preset.STRICT)
    async with open_daemon(model, configured=strict) as daemon, open_stream(daemon) as stream:
        await stream.send_all(request(daemon, CHAT, body_of(stream=True), connection="close"))
        seen = b""
        while b": waits for a person approval_" not in seen:
            seen += await stream.receive_some()
        (question,) = await daemon.runtime.approvals()
        assert question.approval_id.encode() in seen
        await daemon.runtime.answer(question.approval_id, "allow")
        seen += await read_end(stream)
    assert b"write_file: success" in seen
    assert seen.index(b"write_file {") < seen.index(b": waits") < seen.index(b"Done.")
    assert b"data: [DONE]" in seen


async def test_a_turn_whose_client_is_away_ends_with_the_daemon() -> None:
    model = callboard.ScriptedModel([reply(calls=[("mine", {})])])
    async with open_daemon(model) as daemon:
        answer = await ask(daemon, body_of(tools=[TOOL]))
        session = answer.headers["x-callboard-session"]
        assert daemon.gateway.turns.count == 1
        daemon.gateway.announce_end()
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
        refused = await ask(daemon, body_of())
        ended = [e for e in await events_of(daemon, session) if isinstance(e, TurnEnded)]
    assert [each.outcome for each in ended] == ["cancelled"]
    assert refused.status == 503


# ── responses ────────────────────────────────────────────────────────────────────────────────────

RESPONSES = "/v1/responses"
OTHER_RESPONSES: dict[str, tuple[dict[str, Any], str | None]] = {
    "nothing": ({"input": []}, "input"),
    "a hosted tool": ({"tools": [{"type": "web_search"}]}, "tools[0]"),
    "another's server": ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0]"),
    "a prompt that is kept elsewhere": ({"prompt": {"id": "p"}}, "prompt"),
    "an item of no kind": ({"input": [{"type": "computer_call"}]}, "input[0]"),
    "a file that lies elsewhere": (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        "input[0]",
    ),
    "what is not stored, in the background": ({"background": True, "store": False}, "background"),
    "one item too many": ({"input": HELLO * (MAX_MESSAGES + 1)}, "input"),
    "17 pairs of metadata": ({"metadata": {str(at): "x" for at in range(17)}}, "metadata"),
    "10,000 tools": ({"tools": [{"type": "function", "name": "f"}] * 10_000}, "tools"),
}


async def test_what_a_response_can_t_have_is_refused_with_its_parameter() -> None:
    async with open_daemon(callboard.ScriptedModel([])) as daemon:
        for name, (fields, param) in OTHER_RESPONSES.items():
            body = msgspec.json.encode({"model": "general", "input": "Hello."} | fields)
            answer = await ask(daemon, body, RESPONSES)
            assert (answer.status, problem(answer)["param"]) == (400, param), name
        before = msgspec.json.encode(
            {"model": "general", "input": "x", "previous_response_id": "resp_a_b"}
        )
        assert (await ask(daemon, before, RESPONSES)).status == 404
        assert await daemon.runtime.sessions() == []


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
async def test_metadata_is_kept_with_its_turn_within_bounds(target: str) -> None:
    said = {"messages": HELLO} if target == CHAT else {"input": "Hello."}
    most = {f"{at:064}": "x" * 512 for at in range(16)}
    async with open_daemon(callboard.ScriptedModel([reply("Hi.")])) as daemon:
        for refused in (
            {"k" * 65: "x"},
            {"k": "x" * 513},
            {"k": 5},
            {str(at): "x" for at in range(17)},
        ):
            body = msgspec.json.encode({"model": "general", "metadata": refused} | said)
            answer = await ask(daemon, body, target)
            param = problem(answer)["param"] or ""
            assert (answer.status, param.partition("[")[0]) == (400, "metadata")
        body = msgspec.json.encode({"model": "general", "metadata": most} | said)
        answer = await ask(daemon, body, target)
        events = await events_of(daemon, answer.headers["x-callboard-session"])
    (accepted,) = [each for each in events if isinstance(each, InputAccepted)]
    assert accepted.client is not None
    assert accepted.client.metadata == most


async def test_the_turn_of_a_response_goes_on_when_its_client_leaves() -> None:
    model = saying("One, ", "two.")
    async with open_daemon(model) as daemon:
        body = msgspec.json.encode({"model": "general", "input": "Count.", "stream": True})
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, RESPONSES, body))
            model.let()
            seen = b""
            while b"One, " not in seen:
                seen += await stream.receive_some()
        model.let_all()
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
        found = re.search(rb'"id":"(resp_\w+)"', seen)
        assert found is not None
        name = found[1].decode()
        target = f"{RESPONSES}/{name}"
        answer = await answer_to(daemon, request(daemon, target, method="GET"))
        stranger = daemon.new_token("poet", Role.OBSERVER, agents=("poet",))
        bearer = f"Bearer {stranger}"
        hidden = await answer_to(
            daemon, request(daemon, target, method="GET", authorization=bearer)
        )
    response = msgspec.json.decode(answer.body)
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "One, two."
    assert hidden.status == 404


@pytest.mark.parametrize("target", [CHAT, RESPONSES, "again", "/ag-ui/general"])
async def test_each_stream_holds_between_its_first_text_and_its_last(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[tuple[bytes, bool]] = []
    send = ResponseStream.send

    async def noted(stream: ResponseStream, data: bytes, *, holds: bool = False) -> None:
        pieces.append((data, holds))
        await send(stream, data, holds=holds)

    monkeypatch.setattr(ResponseStream, "send", noted)
    model = saying("One, ", "two, ", "three.")
    run = {"threadId": "t", "runId": "r", "messages": [{"id": "1", **HELLO[0]}]}
    bodies: dict[str, bytes] = {
        CHAT: body_of(stream=True),
        RESPONSES: QUESTION[:-1] + b',"stream":true}',
        "/ag-ui/general": msgspec.json.encode(run),
    }
    async with open_daemon(model) as daemon:
        if target == "again":
            begun = await ask(daemon, QUESTION[:-1] + b',"background":true}', RESPONSES)
            name = msgspec.json.decode(begun.body)["id"]
            named = f"{RESPONSES}/{name}?stream=true"
            sent = request(daemon, named, method="GET", connection="close")
        else:
            sent = request(daemon, target, bodies[target], connection="close")
        async with open_stream(daemon) as stream:
            await stream.send_all(sent)
            seen = b""
            for word in (b"One, ", b"two, ", b"three."):
                model.let()
                while word not in seen:
                    seen += await stream.receive_some()
            model.let()
            await read_end(stream)
    said = [holds for data, holds in pieces if b"One, " in data or b"two, " in data]
    assert said[:2] == [True, True]
    (_, first_holds), *_, (_, last_holds) = [each for each in pieces if each[0]]
    assert (first_holds, last_holds) == (target == "again", False)


# ── requests that come twice ─────────────────────────────────────────────────────────────────────

QUESTION = msgspec.json.encode({"model": "general", "input": "Hello."})


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
async def test_a_request_that_comes_twice_with_a_key_is_one_turn(target: str) -> None:
    model = saying("Hi.")
    body = body_of() if target == CHAT else QUESTION
    other = body_of(seed=1) if target == CHAT else QUESTION.replace(b"Hello", b"Other")
    answers: list[Answer] = []
    async with open_daemon(model) as daemon:
        again = partial(ask, daemon, body, target, idempotency_key="k")

        async def first() -> None:
            answers.append(await again())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            nursery.start_soon(first)
            with trio.fail_after(PATIENCE):
                await until(lambda: daemon.gateway.turns.count == 1)
            model.let_all()
        answers.append(await again())
        refused = await ask(daemon, other, target, idempotency_key="k")
        stranger = daemon.new_token("other", Role.OPERATOR)
        empty = await ask(daemon, body, target, idempotency_key="")
        bearer = f"Bearer {stranger}"
        gone = await ask(daemon, b"{", target, idempotency_key="k", authorization=bearer)
        assert (
            len((await daemon.runtime.store.session_page(SessionFilter(deleted="also"))).sessions)
            == 1
        )
    assert [each.status for each in answers] == [200, 200, 200]
    assert len({each.headers["x-request-id"] for each in answers}) == 1
    assert sorted(each.headers.get("idempotent-replayed", "") for each in answers) == [
        "",
        "true",
        "true",
    ]
    assert all("Hi." in each.body for each in answers)
    assert (refused.status, problem(refused)["code"]) == (422, "idempotency_key_reused")
    assert (empty.status, problem(empty)["code"]) == (400, "idempotency_key_invalid")
    assert gone.status == 400  # its key is its own


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
async def test_a_client_that_was_cut_off_asks_again_with_its_key(target: str) -> None:
    model = saying("One, ", "two.")
    body = body_of(stream=True) if target == CHAT else QUESTION[:-1] + b',"stream":true}'
    async with open_daemon(model) as daemon:
        sent = request(daemon, target, body, idempotency_key="k", connection="close")
        async with open_stream(daemon) as stream:
            await stream.send_all(sent)
            model.let()
            seen = b""
            while b"One, " not in seen:
                seen += await stream.receive_some()
        async with open_stream(daemon) as stream:
            await stream.send_all(sent)
            seen = b""
            while b"One, " not in seen:  # what was said before, as it stands
                seen += await stream.receive_some()
            model.let_all()
            seen += await read_end(stream)
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
        listed = await daemon.runtime.sessions()
    assert b"two." in seen
    assert b"[DONE]" in seen or b"response.completed" in seen
    assert len(listed) == (target == RESPONSES)  # that of a chat is put away, whoever heard its end


async def test_results_that_come_twice_with_a_key_are_answered_twice() -> None:
    model = callboard.ScriptedModel([reply(calls=[("mine", {})]), reply("Thanks.")])
    async with open_daemon(model) as daemon:
        first = await ask(daemon, body_of(tools=[TOOL]), idempotency_key="one")
        message = msgspec.json.decode(first.body)["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "5"}
        body = body_of([*HELLO, message, result])
        answers = [await ask(daemon, body, idempotency_key="two") for _ in range(2)]
        before = await ask(daemon, body_of(tools=[TOOL]), idempotency_key="one")
    assert [
        msgspec.json.decode(each.body)["choices"][0]["message"]["content"] for each in answers
    ] == ["Thanks."] * 2
    assert msgspec.json.decode(before.body)["choices"] == msgspec.json.decode(first.body)["choices"]
    assert len(model.requests) == 2


async def test_what_was_not_stored_is_not_answered_twice() -> None:
    async with open_daemon(callboard.ScriptedModel([reply("Hi.")])) as daemon:
        body = QUESTION[:-1] + b',"store":false}'
        first = await ask(daemon, body, RESPONSES, idempotency_key="k")
        again = await ask(daemon, body, RESPONSES, idempotency_key="k")
    assert first.status == 200
    assert (again.status, problem(again)["code"]) == (409, "answer_gone")
    assert again.headers["x-should-retry"] == "false"


async def test_a_response_whose_client_left_waits_for_results_all_the_same() -> None:
    tool = {"type": "function", "name": "mine"}
    calls = callboard.ScriptedModel([reply(calls=[("mine", {})]), reply("Thanks.")])
    gate = trio.Event()

    class Late:
        async def run(self, asked: Any, emit: Any) -> None:
            await gate.wait()
            await calls.run(asked, emit)

    async with open_daemon(Late()) as daemon:
        body = {"model": "general", "input": "Hello.", "tools": [tool], "stream": True}
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, RESPONSES, msgspec.json.encode(body)))
            seen = b""
            while b"response.in_progress" not in seen:
                seen += await stream.receive_some()
        gate.set()
        found = re.search(rb'"id":"(resp_\w+)"', seen)
        assert found is not None
        name = found[1].decode()
        target = f"{RESPONSES}/{name}?stream=true"
        read = request(daemon, target, method="GET", connection="close")
        async with open_stream(daemon) as stream:
            await stream.send_all(read)
            seen = await read_end(stream)
        call = re.search(rb'"call_id":"(\w+)"', seen)
        assert call is not None
        output = {"type": "function_call_output", "call_id": call[1].decode(), "output": "5"}
        with trio.fail_after(PATIENCE):
            await until(lambda: bool(daemon.gateway.turns.waits_for(session_of(name))))
        more = {"model": "general", "input": [output], "previous_response_id": name}
        answer = await ask(daemon, msgspec.json.encode(more), RESPONSES)
    assert "Thanks." in answer.body
    assert len(calls.requests) == 2


def session_of(name: str) -> str:
    """The session of a response, which is in its id."""
    return f"session_{name.split('_')[1]}"


# ── turns that wait, and whose they are ──────────────────────────────────────────────────────────


class CountingModel:
    """A server that counts the ids of its calls from 0 in each answer, as some do."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        last = request.rounds[-1].items[-1]
        if isinstance(last, Result):
            await emit([TextDelta(f"It said {last.content}."), Done(StopReason.END)])
        else:
            await emit([ToolCallStart(0, "call_0", "mine"), ToolCallDelta(0, "{}")])
            await emit([Done(StopReason.TOOL_CALLS)])


async def test_results_of_calls_with_one_id_reach_their_own_turns() -> None:
    async with open_daemon(CountingModel()) as daemon:
        other = f"Bearer {daemon.new_token('other', Role.OPERATOR)}"
        bearers = (f"Bearer {daemon.token}", other, f"Bearer {daemon.token}")
        asked = []
        for bearer in bearers:
            answer = await ask(daemon, body_of(tools=[TOOL]), authorization=bearer)
            message = msgspec.json.decode(answer.body)["choices"][0]["message"]
            asked.append((bearer, message, answer.headers["x-callboard-session"]))
        for number, (bearer, message, session) in enumerate(asked):
            (call,) = message["tool_calls"]
            result = {"role": "tool", "tool_call_id": call["id"], "content": f"number {number}"}
            body = body_of([*HELLO, message, result], tools=[TOOL])
            answer = await ask(daemon, body, authorization=bearer)
            assert answer.headers["x-callboard-session"] == session
            assert f"number {number}" in answer.body


async def test_a_session_that_waits_is_not_told_to_who_does_not_see_it() -> None:
    model = callboard.ScriptedModel([reply(calls=[("mine", {})])])
    async with open_daemon(model) as daemon:
        first = await ask(daemon, body_of(tools=[TOOL]))
        session = first.headers["x-callboard-session"]
        stranger = daemon.new_token("stranger", Role.OPERATOR, sessions=("session_other",))
        hidden = await ask(
            daemon, body_of(), x_callboard_session=session, authorization=f"Bearer {stranger}"
        )
        seen = await ask(daemon, body_of(), x_callboard_session=session)
    assert hidden.status == 404
    assert "call_" not in hidden.body
    assert (seen.status, "waits for the results of call_" in seen.body) == (400, True)


async def test_a_turn_goes_on_with_the_rights_alone_that_it_had() -> None:
    model = callboard.ScriptedModel([reply(calls=[("mine", {})])])
    async with open_daemon(model) as daemon:
        first = await ask(daemon, body_of(tools=[TOOL]))
        message = msgspec.json.decode(first.body)["choices"][0]["message"]
        results = [each["id"] for each in message["tool_calls"]]
        state, turns = daemon.gateway.daemon, daemon.gateway.turns
        known = await state.credential_of(daemon.token)
        assert known is not None
        lowered = msgspec.structs.replace(known, role=Role.OPERATOR)
        assert turns.take(Requester(state, lowered, "openai"), results) is None
        assert turns.take(Requester(state, known, "openai"), results) is not None
        operator = f"Bearer {daemon.new_token('operator', Role.OPERATOR)}"
        answer = {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}
        body = msgspec.json.encode({"model": "general", "input": [answer]})
        assert (await ask(daemon, body, RESPONSES, authorization=operator)).status == 403
        assert (await ask(daemon, body, RESPONSES)).status == 404


async def test_a_session_whose_turn_was_cancelled_waits_for_nobody() -> None:
    model = callboard.ScriptedModel([reply(calls=[("mine", {})]), reply("Here.")])
    async with open_daemon(model) as daemon:
        kept = await daemon.runtime.create_session(agent="general")
        named = {"x_callboard_session": kept.session_id}
        first = await ask(daemon, body_of(tools=[TOOL]), **named)
        assert '"tool_calls"' in first.body
        await kept.cancel("a person has cancelled it")
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
        again = await ask(daemon, body_of(), **named)
    assert (again.status, "Here." in again.body) == (200, True)


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
async def test_a_client_that_closes_behind_the_last_byte_has_not_left(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may go on at once, on another connection: its turn was cancelled when its close came before our end."""

    async def end(stream: ResponseStream, data: bytes) -> None:
        await trio.sleep_forever()  # until it is seen that the client has left

    monkeypatch.setattr(ResponseStream, "end", end)
    model = callboard.ScriptedModel([reply(calls=[("mine", {})]), reply("Thanks.")])
    tool = {"type": "function", "name": "mine"}
    asked = {"input": "Hello.", "tools": [tool], "store": False}
    first = body_of(tools=[TOOL], stream=True)
    if target == RESPONSES:
        first = msgspec.json.encode({"model": "general", "stream": True} | asked)
    async with open_daemon(model) as daemon:
        async with open_stream(daemon) as stream:
            await stream.send_all(request(daemon, target, first))
            seen = b""
            while b"[DONE]" not in seen and b"event: response.completed" not in seen:
                seen += await stream.receive_some()
        found = re.search(rb"x-callboard-session: (\w+)", seen)
        call = re.search(rb'"(?:call_)?id":"(call_\w+)"', seen)
        assert found is not None
        assert call is not None
        session, name = found[1].decode(), call[1].decode()
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.waits_for(session) == {name})
        called = {"id": name, "type": "function", "function": {"name": "mine", "arguments": "{}"}}
        more = body_of(
            [
                *HELLO,
                {"role": "assistant", "tool_calls": [called]},
                {"role": "tool", "tool_call_id": name, "content": "5"},
            ]
        )
        if target == RESPONSES:
            output = {"type": "function_call_output", "call_id": name, "output": "5"}
            more = msgspec.json.encode({"model": "general", "input": [output], "store": False})
        answer = await ask(daemon, more, target)
    assert answer.headers["x-callboard-session"] == session
    assert "Thanks." in answer.body


@pytest.mark.parametrize("moment", ["in the answer", "between two answers"])
async def test_what_is_not_to_be_stored_is_gone_though_its_client_has_left(moment: str) -> None:
    model: Any = saying("One, ", "two.")
    if moment == "between two answers":
        model = callboard.ScriptedModel([reply(calls=[("mine", {})])])
    async with open_daemon(model) as daemon:
        tool = {"type": "function", "name": "mine"}
        body = {"model": "general", "input": "A secret.", "stream": True, "store": False}
        async with open_stream(daemon) as stream:
            sent = msgspec.json.encode(body | {"tools": [tool]})
            await stream.send_all(request(daemon, RESPONSES, sent))
            seen = b""
            if isinstance(model, GatedModel):
                model.let()
            while b"One, " not in seen and b"response.completed" not in seen:
                seen += await stream.receive_some()
        if moment == "between two answers":
            daemon.gateway.announce_end()
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
            all_of_them = SessionFilter(deleted="also")
            while (await daemon.runtime.store.session_page(all_of_them)).sessions:  # noqa: ASYNC110
                await trio.sleep(0.005)  # nothing tells of it
