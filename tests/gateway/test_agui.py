"""AG-UI, as a front end of somebody else speaks it: every event is one of the official models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.sections import OpenAiSettings, ServerSettings
from callboard.config.settings import Settings
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import fail, raw_events, reply
from callboard.runtime.definitions import Verdict
from callboard.runtime.errors import ContextOverflow
from callboard.runtime.event_types.people import FormField, QuestionForm
from callboard.runtime.events import (
    ApprovalAnswered,
    HistoryGiven,
    InputAccepted,
    SessionTainted,
    TurnEnded,
)
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_scene import request
from support.gateway.front_end import FrontEnd
from support.gateway.gated_model import GatedModel
from support.gateway.kept_daemon import open_kept
from support.gateway.raw_door import PATIENCE, Answer, answer_to, read_end
from support.waits import until

WRITE = ("write_file", {"path": "a.txt", "content": "x"})
ASKS_WRITING = (PlacedRule(Rule(verdict=Verdict.ASK, tool="write_file"), "rules[1]"),)
STRICT = Settings(policy=callboard.Preset.STRICT)
SUCCESS = {"type": "success"}


def scripted(*steps: Any) -> callboard.ScriptedModel:
    return callboard.ScriptedModel([*steps])


async def events_of(daemon: Daemon, session_id: str, kind: type[Any]) -> list[Any]:
    stored = await daemon.runtime.store.events(session_id)
    return [each.event for each in stored if isinstance(each.event, kind)]


def problem(answer: Answer) -> dict[str, Any]:
    error: dict[str, Any] = msgspec.json.decode(answer.body)["error"]
    return error


# ── a run ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_streams_thoughts_text_calls_and_results() -> None:
    thinking = raw_events(
        ThinkingDelta("Let me "),
        ThinkingDelta("see."),
        ThinkingEnd(None),
        TextDelta("I look."),
        Done(StopReason.END),
    )
    model = scripted(
        reply("Wait.", calls=[("get_current_time", {"timezone": "Asia/Tokyo"})]), thinking
    )
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        kinds = await front.run("What time is it?")
        again = await daemon.runtime.store.session(front.headers["x-callboard-session"])
    text = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    call = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    reasoning = ["REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"]
    assert [each for each, before in zip(kinds, ["", *kinds], strict=False) if each != before] == [
        "RUN_STARTED",
        *text,
        *call,
        "TOOL_CALL_RESULT",
        *reasoning,
        "REASONING_MESSAGE_END",
        "REASONING_END",
        *text,
        "RUN_FINISHED",
    ]
    assert front.said == ["Wait.", "I look."]
    assert front.messages[1]["toolCalls"][0]["function"]["name"] == "get_current_time"
    assert front.last["outcome"] == SUCCESS
    assert [each["inputTokens"] for each in front.last["usage"]] == [10]
    assert again is not None
    assert not again.is_tainted


async def test_a_thread_goes_on_with_what_is_new_alone() -> None:
    model = scripted(reply("One."), reply("Two."), reply("Other."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        await front.run("Hello.")
        session = front.headers["x-callboard-session"]
        front.messages[1]["content"] = "Something else."  # what the client says was said
        await front.run("Again.")
        other = FrontEnd(daemon, "thread-2")
        await other.run("Hello.")
        accepted = await events_of(daemon, session, InputAccepted)
        created = await daemon.runtime.store.events(session, limit=1)
    assert front.headers["x-callboard-session"] == session
    assert other.headers["x-callboard-session"] != session
    said = [getattr(item, "text", "") for each in model.requests[1].rounds for item in each.items]
    assert said == ["Hello.", "One.", "Again."]
    assert {each.via for each in accepted} == {"token:test via ag-ui"}
    assert created[0].event.via == "ag-ui"  # type: ignore[union-attr]


async def test_a_message_that_was_asked_already_is_not_asked_again() -> None:
    """A front end that called its run off sends the message again with the next one."""
    model = scripted(fail("The model is ill."), reply("Two."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        assert await front.run("First.") == ["RUN_STARTED", "RUN_ERROR"]
        assert "The model is ill." in front.last["message"]
        await front.run("Second.")
        accepted = await events_of(daemon, front.headers["x-callboard-session"], InputAccepted)
    assert [each.text for each in accepted] == ["First.", "Second."]


async def test_what_the_thread_was_before_is_given_and_taints() -> None:
    model = scripted(reply("Blue."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        front.messages = [
            {"id": "s", "role": "system", "content": "Be short."},
            {"id": "u", "role": "user", "content": "Pick a colour."},
            {"id": "r", "role": "reasoning", "content": "Hm."},
            {"id": "a", "role": "assistant", "content": "Red."},
        ]
        await front.run("Another.", context=[{"description": "Page", "value": "colours"}])
        session = front.headers["x-callboard-session"]
        (given,) = await events_of(daemon, session, HistoryGiven)
        (accepted,) = await events_of(daemon, session, InputAccepted)
        tainted = await events_of(daemon, session, SessionTainted)
    assert len(given.messages) == 2
    assert accepted.text == "Another."
    assert accepted.client.instructions == "Be short.\n\nPage: colours"
    assert [each.source for each in tainted] == ["client"]


async def test_the_same_run_is_done_once_and_told_again() -> None:
    model = scripted(reply("Once."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        front.say("Hello.")
        body = front.body("run-1")
        answers = [await answer_to(daemon, _request(daemon, body)) for _ in range(2)]
        other = await answer_to(daemon, _request(daemon, front.body("run-1", state={"a": 1})))
    for answer in answers:
        assert '"delta":"Once."' in answer.body
    assert len(model.requests) == 1
    assert (other.status, problem(other)["param"]) == (409, "runId")


def _request(daemon: Daemon, body: bytes) -> bytes:
    return request(daemon, "/ag-ui/general", body, connection="close")


async def test_a_plan_is_put_into_the_clients_state() -> None:
    plan = [{"text": "Look.", "status": "in_progress"}]
    model = scripted(reply(calls=[("plan", {"items": plan})]), reply("Done."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        front.state = {"theme": "dark"}
        assert "STATE_SNAPSHOT" in await front.run("Plan.")
    assert front.state == {"theme": "dark", "plan": plan}


async def test_text_that_is_withdrawn_is_marked_and_said_again() -> None:
    cut = StreamError(
        error_type="overloaded", message="Cut.", retryable=True, retry_after_seconds=0.0
    )
    broken = raw_events(TextDelta("Half"), cut)
    async with open_daemon(scripted(broken, reply("Whole."))) as daemon:
        front = FrontEnd(daemon)
        await front.run("Hello.")
    assert front.said == ["Half [withdrawn]", "Whole."]
    assert front.last["outcome"] == SUCCESS


async def test_a_task_that_is_delegated_is_a_subagent() -> None:
    model = scripted(
        reply(calls=[("delegate", {"kind": "worker", "task": "Look it up."})]),
        reply("Found."),
        reply("Done."),
    )
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        kinds = await front.run("Find it.")
    started = front.events[kinds.index("SUBAGENT_STARTED")]
    assert (started["name"], started["description"]) == ("worker", "Look it up.")
    assert started["parentToolCallId"] == started["subagentRunId"]
    assert kinds.index("SUBAGENT_FINISHED") > kinds.index("SUBAGENT_STARTED")
    assert front.said == ["Done."]


# ── the client's tools ───────────────────────────────────────────────────────────────────────────


async def test_a_call_of_the_clients_tool_is_made_by_the_client() -> None:
    model = scripted(reply("I ask.", calls=[("pick_colour", {"of": 3})]), reply("Red it is."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon, tools=("pick_colour",))
        await front.run("Pick one.")
        (call_id,) = front.last["outcome"]["pendingToolCallIds"]
        assert front.call(call_id)["function"] == {"name": "pick_colour", "arguments": '{"of":3}'}
        assert daemon.gateway.turns.count == 1
        front.bring(call_id, "red")
        assert "TOOL_CALL_START" not in await front.run()
        accepted = await events_of(daemon, front.headers["x-callboard-session"], InputAccepted)
        tainted = await events_of(daemon, front.headers["x-callboard-session"], SessionTainted)
    assert front.said == ["I ask.", "Red it is."]
    assert front.last["outcome"] == SUCCESS
    assert [each["inputTokens"] for each in front.last["usage"]] == [10]  # of its own call alone
    assert len(accepted) == 1  # it is one turn
    assert len(tainted) == 1


async def test_a_thread_that_waits_for_results_takes_no_words_instead() -> None:
    model = scripted(reply(calls=[("mine", {}), ("mine", {"again": 1})]), reply("Thanks."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon, tools=("mine",))
        await front.run("Go.")
        first, second = front.last["outcome"]["pendingToolCallIds"]
        front.bring(first, "1")
        assert await front.run() == ["RUN_STARTED", "RUN_ERROR"]
        assert front.last["code"] == "tool_results_missing"
        assert second in front.last["message"]
        front.bring(second, "2")
        front.say("And hurry.")
        await front.run()
    assert front.said == ["Thanks."]
    said = [getattr(item, "text", "") for each in model.requests[1].rounds for item in each.items]
    assert "And hurry." in said


async def test_a_turn_whose_client_does_not_come_back_ends_with_the_daemon() -> None:
    async with open_daemon(scripted(reply(calls=[("mine", {})]))) as daemon:
        front = FrontEnd(daemon, tools=("mine",))
        await front.run("Go.")
        daemon.gateway.announce_end()
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
        ended = await events_of(daemon, front.headers["x-callboard-session"], TurnEnded)
        front.say("More.")
        refused = await front.refused()
    assert [each.outcome for each in ended] == ["cancelled"]
    assert refused.status == 503


# ── people ───────────────────────────────────────────────────────────────────────────────────────


def resume(interrupt: dict[str, Any], payload: Any = None, status: str = "resolved") -> Any:
    answer = {"interruptId": interrupt["id"], "status": status}
    return [answer if payload is None else answer | {"payload": payload}]


@pytest.mark.parametrize(
    ("payload", "status", "becomes"),
    [
        ({"approved": True}, "resolved", "success"),
        (
            {"approved": True, "editedArgs": {"path": "b.txt", "content": "y"}},
            "resolved",
            "success",
        ),
        ({"approved": False, "reason": "Not now."}, "resolved", "error"),
        (None, "cancelled", "error"),
    ],
)
async def test_an_approval_is_an_interrupt_that_the_next_run_answers(
    payload: Any, status: str, becomes: str
) -> None:
    model = scripted(reply("I write.", calls=[WRITE]), reply("Done."))
    async with open_daemon(model, configured=STRICT) as daemon:
        front = FrontEnd(daemon)
        await front.run("Write it.")
        (asked,) = front.interrupts
        assert front.call(asked["toolCallId"])["function"]["name"] == "write_file"
        assert asked["reason"] == "tool_call"
        assert asked["responseSchema"]["required"] == ["approved"]
        assert asked["expiresAt"].endswith("Z")
        assert asked["metadata"]["callboard"]["arguments"] == {"path": "a.txt", "content": "x"}
        kinds = await front.run(resume=resume(asked, payload, status))
        session = front.headers["x-callboard-session"]
        (answered,) = await events_of(daemon, session, ApprovalAnswered)
    assert "TOOL_CALL_START" not in kinds  # it is in the run before
    assert front.said == ["I write.", "Done."]
    assert front.last["outcome"] == SUCCESS
    result = next(each for each in front.messages if each["role"] == "tool")
    assert result["toolCallId"] == asked["toolCallId"]
    assert f'"status":"{becomes}"' in result["content"]
    assert answered.answered_by == "token:test via ag-ui"
    if payload is not None and "editedArgs" in payload:
        assert answered.arguments == '{"content":"y","path":"b.txt"}'


async def test_a_thread_that_asks_people_takes_answers_alone() -> None:
    model = scripted(reply(calls=[WRITE]), reply("Done."), reply("Yes."))
    async with open_daemon(model, configured=STRICT) as daemon:
        front = FrontEnd(daemon)
        await front.run("Write it.")
        (asked,) = front.interrupts
        for code, fields in (
            ("interrupted", {}),
            ("unknown_interrupt", {"resume": resume({"id": "approval_of_others"}, {})}),
            ("invalid_payload", {"resume": resume(asked, {"decision": "allow"})}),
            ("invalid_payload", {"resume": resume(asked, {"approved": True, "editedArgs": {}})}),
        ):
            assert await front.run(**fields) == ["RUN_STARTED", "RUN_ERROR"]
            assert front.last["code"] == code
        assert [each.approval_id for each in await daemon.runtime.approvals()] == [asked["id"]]
        await front.run(resume=resume(asked, {"approved": True}))
        again = await front.run(resume=resume(asked, {"approved": True}))  # safe to be sent twice
        assert again == ["RUN_STARTED", "RUN_FINISHED"]
        await front.run("All well?")
    assert front.said == ["Done.", "Yes."]


async def test_a_token_that_may_not_answer_waits_for_who_may() -> None:
    model = scripted(reply(calls=[WRITE]), reply("Done."))
    async with open_daemon(model, configured=STRICT) as daemon:
        front = FrontEnd(daemon, token=daemon.new_token("operator", Role.OPERATOR))
        front.say("Write it.")
        async with front.streaming() as stream:
            seen = b""
            while b": waits for a person approval_" not in seen:
                seen += await stream.receive_some()
            (question,) = await daemon.runtime.approvals()
            said = resume({"id": question.approval_id}, {"approved": True})
            refused = await front.refused(resume=said)
            await daemon.runtime.answer(question.approval_id, "allow")
            front.take(seen + await read_end(stream))
    assert (refused.status, problem(refused)["type"]) == (403, "permission_error")
    assert "approver" in problem(refused)["message"]
    assert front.said == ["Done."]


async def test_a_question_of_the_model_is_an_interrupt_too() -> None:
    question = {"question": "Which door?", "options": ["left", "right"]}
    model = scripted(reply(calls=[("ask_user", question)]), reply("Left it is."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon, token=daemon.new_token("operator", Role.OPERATOR))
        await front.run("Go in.")
        (asked,) = front.interrupts
        assert (asked["reason"], asked["message"]) == ("input_required", "Which door?")
        await front.run(resume=resume(asked, {"answer": "left"}))
    result = next(each for each in front.messages if each["role"] == "tool")
    assert "left" in result["content"]
    assert front.said == ["Left it is."]


@callboard.tool(needs=["channel"])
async def fill_in(context: callboard.ToolContext) -> str:
    """Asks as the server of a tool does."""
    assert context.channel is not None
    form = QuestionForm(fields=(FormField(name="name", required=True),), asked_by="fake")
    said = await context.channel.ask("Who?", ("decline",), form=form, is_one_of_many=True)
    return said.text


async def test_a_form_of_a_server_is_an_interrupt_with_its_fields() -> None:
    model = scripted(reply(calls=[("fill_in", {})]), reply("Hello, Ada."))
    async with open_daemon(model, tools=[fill_in], policy="auto") as daemon:
        front = FrontEnd(daemon, token=daemon.new_token("operator", Role.OPERATOR))
        await front.run("Go in.")
        (asked,) = front.interrupts
        assert (asked["reason"], asked["message"]) == ("input_required", "Who?")
        fields = {"name": {"type": "string"}}
        assert asked["responseSchema"]["properties"] == fields
        await front.run(resume=resume(asked, {"name": "Ada"}))
    result = next(each for each in front.messages if each["role"] == "tool")
    assert "Ada" in result["content"]
    assert front.said == ["Hello, Ada."]


async def test_a_question_below_is_asked_in_the_thread() -> None:
    model = scripted(
        reply(calls=[("delegate", {"kind": "branch", "task": "Write it."})]),
        reply(calls=[WRITE]),
        reply("Below."),
        reply("Done."),
    )
    async with open_daemon(model, configured=STRICT) as daemon:
        front = FrontEnd(daemon)
        kinds = await front.run("Have it written.")
        (asked,) = front.interrupts
        if "SUBAGENT_STARTED" not in kinds:  # the delegation itself is asked about
            kinds = await front.run(resume=resume(asked, {"approved": True}))
            (asked,) = front.interrupts
        suspended = front.events[-2]
        assert (suspended["type"], suspended["outcome"]) == (
            "SUBAGENT_FINISHED",
            {"type": "suspended"},
        )
        assert asked["subagentRunId"] == suspended["subagentRunId"]
        assert "toolCallId" not in asked
        kinds = await front.run(resume=resume(asked, {"approved": True}))
    assert kinds.count("SUBAGENT_STARTED") == kinds.count("SUBAGENT_FINISHED") == 1
    assert front.said == ["Done."]


BELOW = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})


@pytest.mark.parametrize("call", [WRITE, BELOW], ids=["a call", "a question"])
@pytest.mark.parametrize("sees_below", [False, True])
async def test_what_is_asked_below_is_shown_to_who_sees_that_session(
    sees_below: bool, call: Any
) -> None:
    """For a token that is limited to a session others do not exist; one that is limited to agents sees those of these."""
    steps = (reply(calls=[call]), reply("Below."), reply("Done."))
    task = {"kind": "branch", "task": "Do it."}
    model = scripted(reply(calls=[("delegate", task)]), *steps)
    balanced = Settings(rules=ASKS_WRITING)
    async with open_daemon(model, configured=balanced) as daemon:
        top = (await daemon.runtime.create_session()).session_id
        limits: Any = {"agents": ("general",)} if sees_below else {"sessions": (top,)}
        token = daemon.new_token("limited", Role.APPROVER, **limits)
        front = FrontEnd(daemon, top, token=token)
        front.say("Have it done.")
        async with front.streaming() as stream:
            seen = b""
            while b": waits for a person" not in seen and b"RUN_FINISHED" not in seen:
                seen += await stream.receive_some()
            asked = [each.approval_id for each in await daemon.runtime.approvals()]
            asked += [each.question_id for each in await daemon.runtime.questions()]
            payload = {"approved": True} if call is WRITE else {"answer": "left"}
            said = resume({"id": asked[0]}, payload)
            if sees_below:
                front.take(seen + await read_end(stream))
                assert [each["id"] for each in front.interrupts] == asked
            else:
                assert f": waits for a person {asked[0]}".encode() in seen
                assert b"Which door?" not in seen
                other = FrontEnd(daemon, top, token=token)
                assert await other.run("x", resume=said, runId="another") == [
                    "RUN_STARTED",
                    "RUN_ERROR",
                ]
                assert other.last["code"] == "unknown_interrupt"
                if call is WRITE:
                    await daemon.runtime.answer(asked[0], "allow")
                else:
                    await daemon.runtime.answer_question(asked[0], "left")
                front.take(seen + await read_end(stream))
        if sees_below:
            await front.run(resume=said)
    assert front.said == ["Done."]


async def test_a_run_has_the_tokens_of_a_summary() -> None:
    too_long = fail("too long", error_type=ContextOverflow.type)
    said = reply("word " * 300)
    model = scripted(said, said, too_long, reply("NOTES"), reply("Going on."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        for _ in range(3):
            await front.run("Go on.")
        (used,) = front.last["usage"]
        assert (used["inputTokens"], used["outputTokens"]) == (20, 10)


async def test_a_run_has_the_tokens_of_what_it_delegated() -> None:
    task = {"kind": "branch", "task": "Look it up."}
    model = scripted(reply(calls=[("delegate", task)]), reply("Below."), reply("Done."))
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        await front.run("Have it looked up.")
        session = front.headers["x-callboard-session"]
        spent = await daemon.runtime.store.spending(session)
        own = await daemon.runtime.store.usage(session_id=session)
    assert spent is not None
    assert (len(own), len(spent.calls)) == (2, 3)
    (used,) = front.last["usage"]
    assert used["inputTokens"] == sum(each.usage.input_tokens or 0 for each in spent.calls) > 0
    assert used["outputTokens"] == sum(each.usage.output_tokens or 0 for each in spent.calls) > 0


@pytest.mark.parametrize("asks", ["write_file", "ask_user"])
async def test_a_restart_between_question_and_answer_loses_nothing(
    asks: str, tmp_path: Path
) -> None:
    call = WRITE if asks == "write_file" else ("ask_user", {"question": "Really?"})
    async with open_kept(
        tmp_path, scripted(reply("I ask.", calls=[call])), settings=STRICT
    ) as daemon:
        front = FrontEnd(daemon)
        await front.run("Write it.")
        (asked,) = front.interrupts
        token = daemon.token
    async with open_kept(
        tmp_path, scripted(reply("Done.")), token=token, settings=STRICT
    ) as daemon:
        front.daemon = daemon
        payload: Any = {"approved": True} if asks == "write_file" else "Really."
        kinds = await front.run(resume=resume(asked, payload))
    assert "TOOL_CALL_START" not in kinds
    assert kinds.count("TOOL_CALL_RESULT") == 1
    assert front.said == ["I ask.", "Done."]
    assert front.last["outcome"] == SUCCESS


class FastModel:
    """Calls a tool, if it is to, and then says more than a follower's queue holds, without a pause."""

    def __init__(self, *calls: AnyStreamEvent) -> None:
        self._calls = calls

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """See `LocalModel`."""
        if self._calls and len(request.rounds) == 1 and len(request.rounds[0].items) == 1:
            await emit([*self._calls, Done(StopReason.TOOL_CALLS)])
            return
        for number in range(MANY):
            await emit([TextDelta(f"{number} ü, ")])
        await emit([Done(StopReason.END)])


MANY = 3000
WHOLE = "".join(f"{number} ü, " for number in range(MANY))


async def test_an_answer_that_comes_faster_than_it_is_read_is_told_whole() -> None:
    call = (
        ToolCallStart(0, "call_1", "write_file"),
        ToolCallDelta(0, '{"path":"a.txt","content":"x"}'),
        ToolCallEnd(0),
    )
    async with open_daemon(FastModel()) as daemon:
        front = FrontEnd(daemon)
        await front.run("Count.")  # this turn is paced by its reader
        assert front.last["outcome"] == SUCCESS
        assert front.said == [WHOLE]
    async with open_daemon(FastModel(*call), configured=STRICT) as daemon:
        front = FrontEnd(daemon)
        await front.run("Write it.")
        (asked,) = front.interrupts
        await front.run(resume=resume(asked, {"approved": True}))  # and this one is followed
        assert front.last["outcome"] == SUCCESS
        assert front.said == [WHOLE]


# ── clients of every kind ────────────────────────────────────────────────────────────────────────


async def test_the_turn_of_a_client_that_leaves_is_cancelled() -> None:
    model = GatedModel([TextDelta("One, "), TextDelta("two."), Done(StopReason.END)])
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        front.say("Count.")
        async with front.streaming() as stream:
            model.let()
            seen = b""
            while b"One, " not in seen:
                seen += await stream.receive_some()
        with trio.fail_after(PATIENCE):
            await until(lambda: daemon.gateway.turns.count == 0)
        (row,) = await daemon.runtime.sessions()
        ended = await events_of(daemon, row.session_id, TurnEnded)
    assert [(each.outcome, each.message) for each in ended] == [
        ("cancelled", "its client has left")
    ]


async def test_a_turn_that_somebody_else_ends_is_a_cancelled_run() -> None:
    model = GatedModel([TextDelta("One, "), TextDelta("two."), Done(StopReason.END)])
    async with open_daemon(model) as daemon:
        front = FrontEnd(daemon)
        front.say("Count.")
        async with front.streaming() as stream:
            model.let()
            seen = b""
            while b"One, " not in seen:
                seen += await stream.receive_some()
            (row,) = await daemon.runtime.sessions()
            await (await daemon.runtime.get_session(row.session_id)).cancel()
            front.take(seen + await read_end(stream))
    assert front.last["outcome"] == {"type": "cancelled"}
    assert front.said == ["One, "]


async def test_more_turns_than_may_run_are_asked_to_come_again() -> None:
    model = GatedModel([TextDelta("Hi."), Done(StopReason.END)])
    settings = ServerSettings(port=0, max_http_turns=1)
    async with open_daemon(model, settings=settings) as daemon:
        front = FrontEnd(daemon)
        front.say("Hello.")
        async with front.streaming() as stream:
            with trio.fail_after(PATIENCE):
                await until(lambda: daemon.gateway.turns.count == 1)
            other = FrontEnd(daemon, "thread-2")
            other.say("Hello.")
            refused = await other.refused()
            model.let_all()
            front.take(await read_end(stream))
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert front.said == ["Hi."]


async def test_a_limited_token_sees_its_agents_alone() -> None:
    agents = [callboard.Agent(name="poet"), callboard.Agent(name="judge")]
    async with open_daemon(scripted(reply("Ode.")), agents=agents) as daemon:
        limited = daemon.new_token("limited", Role.OPERATOR, agents=("poet",))
        observer = daemon.new_token("observer", Role.OBSERVER)
        poet = FrontEnd(daemon, token=limited, agent="poet")
        await poet.run("Write.")
        statuses = []
        for token, agent in ((limited, "judge"), (limited, "nobody"), (observer, "poet")):
            front = FrontEnd(daemon, token=token, agent=agent)
            front.say("Write.")
            statuses.append((await front.refused()).status)
        # A thread is its token's: another one begins a thread of its own.
        session = poet.headers["x-callboard-session"]
        other = FrontEnd(daemon, token=daemon.new_token("other", Role.OPERATOR, agents=("judge",)))
        other.say("Write.")
        hidden = await other.refused(threadId=session)
    assert poet.said == ["Ode."]
    assert statuses == [404, 404, 403]
    assert hidden.status == 404


async def test_a_session_of_others_is_a_thread_by_its_id() -> None:
    model = scripted(reply("Noon."), reply("Still noon."))
    async with open_daemon(model) as daemon:
        session = await daemon.runtime.create_session()
        await session.run("What time is it?")
        front = FrontEnd(daemon, session.session_id)
        await front.run("And now?")
    assert front.headers["x-callboard-session"] == session.session_id
    assert len(model.requests[1].rounds) == 2


IMAGE = {"type": "image", "source": {"type": "url", "value": "http://x.example/a.png"}}
SOUND = {"type": "audio", "source": {"type": "data", "value": "eA==", "mimeType": "audio/wav"}}
WORDS = {"id": "u", "role": "user"}
REFUSED: dict[str, tuple[dict[str, Any], str | None]] = {
    "no thread": ({"threadId": ""}, "threadId"),
    "a thread with a line's end": ({"threadId": "a\nb"}, "threadId"),
    "a long run": ({"runId": "x" * 129}, "runId"),
    "nothing is asked": ({"messages": []}, "messages"),
    "an answer is the last": (
        {"messages": [{"id": "a", "role": "assistant", "content": "Hi."}]},
        "messages",
    ),
    "an unknown role": ({"messages": [{"id": "a", "role": "root"}]}, "messages[0].role"),
    "an image that has to be fetched": (
        {"messages": [WORDS | {"content": [IMAGE]}]},
        "messages[0]",
    ),
    "sound": ({"messages": [WORDS | {"content": [SOUND]}]}, "messages[0]"),
    "a result of no call": (
        {"messages": [{"id": "t", "role": "tool", "toolCallId": "c", "content": "x"}]},
        "messages[0]",
    ),
    "the agent's own tool": (
        {"tools": [{"name": "read_file", "description": "", "parameters": {}}]},
        "tools[0]",
    ),
    "10,000 tools": ({"tools": [{"name": "f", "description": ""}] * 10_000}, "tools"),
}


async def test_what_can_t_be_had_is_refused_with_its_field() -> None:
    async with open_daemon(scripted()) as daemon:
        front = FrontEnd(daemon)
        right = {
            "threadId": "t",
            "runId": "r",
            "messages": [WORDS | {"content": "Hello."}],
        }
        for name, (fields, param) in REFUSED.items():
            answer = await front.refused(msgspec.json.encode(right | fields))
            assert (answer.status, problem(answer)["param"]) == (400, param), name
        deep = b'{"threadId": "t", "runId": "r", "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
        for body in (b"{", b"[]", b"\xff", deep):
            assert (await front.refused(body)).status == 400
        wrong = await answer_to(daemon, request(daemon, "/ag-ui/general", method="GET"))
        form = await answer_to(
            daemon, request(daemon, "/ag-ui/general", b"a=b", content_type="text/plain")
        )
        nobody = await answer_to(
            daemon, request(daemon, "/ag-ui/general", b"{}", authorization=None)
        )
        assert await daemon.runtime.sessions() == []
    assert (wrong.status, form.status, nobody.status) == (405, 415, 401)


async def test_a_body_that_is_too_large_is_refused() -> None:
    settings = Settings(openai=OpenAiSettings(max_body_bytes=128 * 1024))
    async with open_daemon(scripted(reply("Yes.")), configured=settings) as daemon:
        front = FrontEnd(daemon)
        front.say("x" * 128 * 1024)
        assert (await front.refused()).status == 413
        front.messages = []
        await front.run("x" * 100_000)  # which is read in a thread
    assert front.said == ["Yes."]


async def test_images_and_documents_are_attachments_and_what_is_ignored_is_named() -> None:
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/q842iQAAAABJRU5ErkJggg=="
    source = {"type": "data", "value": png, "mimeType": "image/png"}
    text = {"type": "data", "value": "TWlsay4=", "mimeType": "text/plain"}
    content = [
        {"type": "text", "text": "Look."},
        {"type": "image", "source": source},
        {"type": "document", "source": text, "metadata": {"filename": "list.txt"}},
    ]
    async with open_daemon(scripted(reply("Nice."))) as daemon:
        front = FrontEnd(daemon)
        front.messages = [WORDS | {"content": content}]
        await front.run(forwardedProps={"a": 1}, parentRunId="before")
        (accepted,) = await events_of(daemon, front.headers["x-callboard-session"], InputAccepted)
    assert [(each.media_type, each.name) for each in accepted.attachments] == [
        ("image/png", ""),
        ("text/plain", "list.txt"),
    ]
    assert front.headers["x-callboard-ignored"] == "forwardedProps, parentRunId"
