"""The people of a session: what they are asked, what they are told, and who answers first."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

import callboard
from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Verdict
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from callboard.runtime.event_types.people import (
    ChildAsks,
    MessageSent,
    QuestionAnswered,
    QuestionAsked,
)
from callboard.runtime.events import ApprovalAsked, Stored
from support.stage import open_local_stage, run_in

WHICH = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})
SAYS = ("message", {"text": "The kettle is on."})

Said = callboard.PersonAnswer | str


class Person(callboard.Channel):
    """Answers as told, and keeps what came."""

    name = "desk"

    def __init__(self, answer: object = "left") -> None:
        self.answer = answer
        self.questions: list[callboard.UserQuestion] = []
        self.messages: list[callboard.ChannelMessage] = []
        self.requests: list[callboard.ApprovalRequest] = []

    async def approve(self, request: callboard.ApprovalRequest) -> bool:
        self.requests.append(request)
        return True

    async def ask(self, question: callboard.UserQuestion) -> Any:
        self.questions.append(question)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def tell(self, message: callboard.ChannelMessage) -> None:
        self.messages.append(message)


class Silent(callboard.Channel):
    """Thinks for ever; `ended` counts what was taken back."""

    def __init__(self) -> None:
        self.asked = trio.Event()
        self.ended = 0

    async def ask(self, question: callboard.UserQuestion) -> str:
        self.asked.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended += 1
        return "too late"


async def play(runtime: callboard.Runtime) -> tuple[dict[str, Any], list[Stored]]:
    """The result of the first call of a turn, and the record."""
    session = await runtime.create_session()
    await session.run("Go.")
    record = await runtime.store.events(session.session_id)
    results = [e.event.result for e in record if isinstance(e.event, callboard.CallFinished)]
    return json.loads(results[0]), record


def steps(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
    return [reply(calls=list(calls)), reply("Done.")]


def of_kind(record: list[Stored], kind: type) -> list[Any]:
    return [stored.event for stored in record if isinstance(stored.event, kind)]


def settings(**limits: Any) -> Settings:
    return Settings(limits=Limits(model_retries=0, **limits))


# ── ask_user ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "text", "option", "by"),
    [
        ("right", "right", 1, "application"),
        (" left\n", " left\n", 0, "application"),
        ("Neither: there is a window.", "Neither: there is a window.", None, "application"),
        ("", "", None, "application"),
        (callboard.PersonAnswer(text="", option=1, answered_by="Ada"), "right", 1, "Ada"),
        (callboard.PersonAnswer(text="the green one", option=0), "the green one", 0, "application"),
        ("half \ud83d", "half \ufffd", None, "application"),
    ],
)
async def test_an_answer_reaches_the_model_and_the_record(
    tmp_path: Path, said: Said, text: str, option: int | None, by: str
) -> None:
    person = Person(said)
    async with open_local_stage(tmp_path, steps(WHICH), channel=person) as (runtime, _):
        result, record = await play(runtime)
    assert result == {"status": "success", "result": {"answer": text, "option": option}}
    [asked], [answered] = of_kind(record, QuestionAsked), of_kind(record, QuestionAnswered)
    [question] = person.questions
    assert (asked.question, asked.options) == ("Which door?", ("left", "right"))
    assert (question.question, question.options) == (asked.question, asked.options)
    assert question.question_id == asked.question_id == answered.question_id
    assert question.expires_at_ms == asked.expires_at_ms > 0
    assert (question.asked_in, question.origin) == ("", "")
    assert (answered.answer, answered.answered_by) == (text, by)


async def test_what_a_person_says_does_not_taint(tmp_path: Path) -> None:
    async with open_local_stage(tmp_path, steps(WHICH), channel=Person()) as (runtime, _):
        await play(runtime)
        [row] = await runtime.sessions()
    assert not row.is_tainted


async def test_it_needs_no_approval_even_in_strict(tmp_path: Path) -> None:
    person = Person()
    options: dict[str, Any] = {"channel": person, "policy": "strict"}
    async with open_local_stage(tmp_path, steps(WHICH), **options) as (runtime, _):
        result, _ = await play(runtime)
    assert result["status"] == "success"
    assert person.requests == []


@pytest.mark.parametrize("gone", [False, True])
async def test_an_answer_by_id_is_the_first_or_comes_too_late(tmp_path: Path, gone: bool) -> None:
    channel = Silent()
    channel.is_connected = not gone
    results: list[str] = []
    async with open_local_stage(tmp_path, steps(WHICH), channel=channel) as (runtime, _):
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    if not gone:
                        await channel.asked.wait()
                    third = callboard.PersonAnswer(text="", option=2)
                    with pytest.raises(ValidationError, match="there is no 2"):
                        await runtime.answer_question(event.question_id, third)
                    await runtime.answer_question(event.question_id, "right")
                    with pytest.raises(ConflictError):
                        await runtime.answer_question(event.question_id, "left")
                    with pytest.raises(NotFoundError):
                        await runtime.answer_question("question_x", "left")
                if isinstance(event, callboard.CallFinished):
                    results.append(event.result)
        record = await runtime.store.events(session.session_id)
    assert json.loads(results[0])["result"] == {"answer": "right", "option": 1}
    [answered] = of_kind(record, QuestionAnswered)
    assert answered.answer == "right"
    assert channel.ended == (not gone)
    assert channel.asked.is_set() is not gone


async def test_two_who_answer_at_once_are_told_who_was_first(tmp_path: Path) -> None:
    channel = Silent()
    heard: list[str] = []
    async with open_local_stage(tmp_path, steps(WHICH), channel=channel) as (runtime, _):
        session = await runtime.create_session()

        async def say(question_id: str, text: str) -> None:
            try:
                await runtime.answer_question(question_id, text)
            except ConflictError:
                return
            heard.append(text)

        async with session.prompt("Go.") as turn, trio.open_nursery() as nursery:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    for text in ("left", "right", "none"):
                        nursery.start_soon(say, event.question_id, text)
        record = await runtime.store.events(session.session_id)
    [answered] = of_kind(record, QuestionAnswered)
    assert heard == [answered.answer]


async def test_silence_ends_it(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    channel = Silent()
    options: dict[str, Any] = {"channel": channel, "settings": settings(approval_seconds=5000)}
    begun = trio.current_time()
    async with open_local_stage(tmp_path, steps(WHICH), **options) as (runtime, _):
        session = await run_in(runtime, "Go.")
        record = await runtime.store.events(session.session_id)
    # `max_tool_seconds` is 600: waiting for a person is no running.
    assert trio.current_time() - begun >= 5000
    [finished] = of_kind(record, callboard.CallFinished)
    assert json.loads(finished.result)["error_type"] == "approval_expired"
    [answered] = of_kind(record, QuestionAnswered)
    assert (answered.answer, answered.answered_by) == ("", "")
    assert channel.ended == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs channel"),
        ({"on_approval": "allow"}, "take no questions"),
        ({"channel": callboard.Channel()}, "take no questions"),
    ],
)
async def test_nobody_can_answer(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    async with open_local_stage(tmp_path, steps(WHICH), **options) as (runtime, _):
        result, _ = await play(runtime)
    assert result["error_type"] == "permission_denied"
    assert words in result["message"]


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (RuntimeError("odd"), "execution_error"),
        (SystemExit(3), "execution_error"),
        (42, "execution_error"),
        (callboard.PersonAnswer(text="", option=7), "execution_error"),
        (callboard.ToolFailure("access_denied", "Not today."), "access_denied"),
    ],
)
async def test_a_channel_that_fails_costs_one_call(
    tmp_path: Path, answer: object, error_type: str
) -> None:
    async with open_local_stage(tmp_path, steps(WHICH), channel=Person(answer)) as (runtime, _):
        result, record = await play(runtime)
    assert result["error_type"] == error_type
    [answered] = of_kind(record, QuestionAnswered)
    assert answered.answered_by == ""


async def test_a_cancelled_turn_takes_its_question_back(tmp_path: Path) -> None:
    channel = Silent()
    asked = ""
    async with open_local_stage(tmp_path, steps(WHICH), channel=channel) as (runtime, _):
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    asked = event.question_id
                    await channel.asked.wait()
                    await turn.cancel()
        assert channel.ended == 1
        with pytest.raises(ConflictError):
            await runtime.answer_question(asked, "left")


async def test_siblings_do_not_wait_for_it(tmp_path: Path) -> None:
    class Patient(callboard.Channel):
        async def ask(self, question: callboard.UserQuestion) -> str:
            await written.wait()
            return "left"

    written = trio.Event()
    writes = ("write_file", {"path": "a.txt", "content": "a"})
    async with open_local_stage(tmp_path, steps(WHICH, writes), channel=Patient()) as (runtime, _):
        session = await runtime.create_session()
        names: list[str] = []
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallFinished):
                    names.append(event.name)
                    written.set()
    assert names == ["write_file", "ask_user"]


# ── message ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("arguments", [{}, {"channel": "desk"}])
async def test_a_message_is_delivered_on_record(tmp_path: Path, arguments: dict[str, str]) -> None:
    person = Person()
    says = ("message", {"text": "The kettle is on.", **arguments})
    async with open_local_stage(tmp_path, steps(says), channel=person) as (runtime, _):
        result, record = await play(runtime)
    assert result["result"] == {"delivered": True, "channel": "desk"}
    [message], [sent] = person.messages, of_kind(record, MessageSent)
    assert message.text == sent.text == "The kettle is on."
    assert message.call_id == sent.call_id
    assert message.session_id == message.from_session
    assert not message.is_from_branch
    assert (sent.channel, sent.child_id) == ("desk", "")


async def test_strict_asks_about_a_message(tmp_path: Path) -> None:
    person = Person()
    options: dict[str, Any] = {"channel": person, "policy": "strict"}
    async with open_local_stage(tmp_path, steps(SAYS), **options) as (runtime, _):
        result, record = await play(runtime)
    assert result["status"] == "success"
    assert [request.tool for request in person.requests] == ["message"]
    assert len(of_kind(record, ApprovalAsked)) == 1


class Mute(Person):
    """Fails to show messages."""

    async def tell(self, message: callboard.ChannelMessage) -> None:
        raise OSError("the line is dead")


class Away(Person):
    is_connected = False


@pytest.mark.parametrize(
    ("channel", "arguments", "error_type", "words"),
    [
        (Mute(), {}, "execution_error", "failed"),
        (Away(), {}, "execution_error", "nobody is connected"),
        (callboard.Channel(), {}, "permission_denied", "takes no messages"),
        (Person(), {"channel": "phone"}, "validation_error", "There are: desk."),
        (None, {}, "permission_denied", "needs channel"),
    ],
)
async def test_a_message_that_is_not_delivered_is_an_error(
    tmp_path: Path,
    channel: callboard.Channel | None,
    arguments: dict[str, str],
    error_type: str,
    words: str,
) -> None:
    says = ("message", {"text": "The kettle is on.", **arguments})
    async with open_local_stage(tmp_path, steps(says), channel=channel) as (runtime, _):
        result, record = await play(runtime)
    assert result["error_type"] == error_type
    assert words in result["message"]
    assert of_kind(record, MessageSent) == []


# ── approvals ────────────────────────────────────────────────────────────────────────────────────


@callboard.tool(approval="always")
async def act() -> str:
    """Acts."""
    return "done"


ACTS: tuple[str, dict[str, Any]] = ("act", {})


@pytest.mark.parametrize(
    ("channel", "status", "words"),
    [
        (Person(), "success", "done"),
        (callboard.Channel(), "error", "nobody is asked about calls on the channel 'application'"),
        (None, "error", "there is nobody to ask"),
    ],
)
async def test_a_channel_approves(
    tmp_path: Path, channel: callboard.Channel | None, status: str, words: str
) -> None:
    options: dict[str, Any] = {"channel": channel, "tools": [act]}
    async with open_local_stage(tmp_path, steps(ACTS), **options) as (runtime, _):
        result, _ = await play(runtime)
    assert result["status"] == status
    assert words in json.dumps(result)


async def test_a_channel_of_plain_functions_approves(tmp_path: Path) -> None:
    class Quick(callboard.Channel):
        def approve(self, request: callboard.ApprovalRequest) -> Literal["allow"]:
            return "allow"

    options: dict[str, Any] = {"channel": Quick(), "tools": [act]}
    async with open_local_stage(tmp_path, steps(ACTS), **options) as (runtime, _):
        result, _ = await play(runtime)
    assert result["status"] == "success"


async def test_a_question_to_nobody_waits_for_an_answer_by_id(tmp_path: Path) -> None:
    channel = Away()
    options: dict[str, Any] = {"channel": channel, "tools": [act]}
    async with open_local_stage(tmp_path, steps(ACTS), **options) as (runtime, _):
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, ApprovalAsked):
                    [row] = await runtime.approvals()
                    assert row.approval_id == event.approval_id
                    await runtime.answer(event.approval_id, "allow")
                if isinstance(event, callboard.CallFinished):
                    assert event.status == "success"
    assert channel.requests == []


async def test_while_nobody_is_connected_a_question_expires(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    options: dict[str, Any] = {"channel": Away(), "tools": [act]}
    async with open_local_stage(tmp_path, steps(ACTS), **options) as (runtime, _):
        session = await runtime.create_session()
        begun = trio.current_time()
        await session.run("Go.")
        record = await runtime.store.events(session.session_id)
    [finished] = of_kind(record, callboard.CallFinished)
    assert json.loads(finished.result)["error_type"] == "approval_expired"
    assert trio.current_time() - begun >= Limits().approval_seconds


@pytest.mark.parametrize(("name", "status"), [("web", "error"), ("desk", "success")])
async def test_a_rule_about_a_channel_restricts_it(tmp_path: Path, name: str, status: str) -> None:
    channel = Person()
    channel.name = name
    rule = Rule(verdict=Verdict.DENY, min_tier=callboard.Tier.WORKSPACE, channel="web")
    options: dict[str, Any] = {
        "channel": channel,
        "settings": Settings(rules=(PlacedRule(rule, "here"),)),
    }
    writes = ("write_file", {"path": "a.txt", "content": "a"})
    async with open_local_stage(tmp_path, steps(writes), **options) as (runtime, _):
        result, _ = await play(runtime)
    assert result["status"] == status
    assert (tmp_path / "work" / "a.txt").exists() == (name == "desk")


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


def delegating(kind: str, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The parent delegates, its child makes these calls."""
    delegate = ("delegate", {"kind": kind, "task": "Count the doors."})
    script = [[delegate], list(calls), [], []]
    return [reply("Done.", calls=calls) for calls in script]


async def play_both(runtime: callboard.Runtime) -> tuple[list[Stored], list[Stored]]:
    """The records of a session and of the one that it delegated to."""
    session = await runtime.create_session()
    assert await session.run("Go.") == "Done."
    [child] = [row for row in await runtime.sessions() if row.parent_id == session.session_id]
    events = runtime.store.events
    return await events(session.session_id), await events(child.session_id)


async def test_what_a_branch_asks_and_says_comes_to_the_parents_people(tmp_path: Path) -> None:
    person = Person()
    script = delegating("branch", ACTS, WHICH, SAYS)
    options: dict[str, Any] = {"channel": person, "tools": [act]}
    async with open_local_stage(tmp_path, script, **options) as (runtime, _):
        parent, child = await play_both(runtime)
    [request], [question], [message] = person.requests, person.questions, person.messages
    for came in (request, question):
        assert came.session_id != came.asked_in
        assert "Count the doors." in came.origin
    assert message.is_from_branch
    assert (message.session_id, message.from_session) == (request.asked_in, request.session_id)
    statuses = {event.name: event.status for event in of_kind(child, callboard.CallFinished)}
    assert statuses == {"act": "success", "ask_user": "success", "message": "success"}
    asks = {event.question_id: event.name for event in of_kind(parent, ChildAsks)}
    assert asks == {request.approval_id: "act", question.question_id: "ask_user"}
    [asked] = of_kind(child, ApprovalAsked)
    assert asked.asked_in == request.asked_in
    [sent] = of_kind(parent, MessageSent)
    assert (sent.child_id, of_kind(child, MessageSent)) == (request.session_id, [])


ASKS_FOR_ALL = PlacedRule(Rule(verdict=Verdict.ASK, tool="get_current_time"), "here")


@pytest.mark.parametrize(
    ("kind", "channel", "status", "words"),
    [
        ("branch", Person(), "success", "T"),
        ("worker", Person(), "denied", "a worker asks nobody"),
        ("branch", None, "denied", "there is nobody to ask"),
    ],
)
async def test_who_is_asked_about_the_calls_of_a_child(
    tmp_path: Path, kind: str, channel: Person | None, status: str, words: str
) -> None:
    script = delegating(kind, ("get_current_time", {}))
    options: dict[str, Any] = {"channel": channel, "settings": Settings(rules=(ASKS_FOR_ALL,))}
    async with open_local_stage(tmp_path, script, **options) as (runtime, _):
        _, child = await play_both(runtime)
    [finished] = of_kind(child, callboard.CallFinished)
    assert finished.status == status
    assert words in finished.result
    if channel is not None:
        assert len(channel.requests) == (status == "success")


async def test_a_worker_can_neither_ask_nor_speak(tmp_path: Path) -> None:
    person = Person()
    script = delegating("worker", WHICH, SAYS)
    async with open_local_stage(tmp_path, script, channel=person) as (runtime, _):
        _, child = await play_both(runtime)
    results = [json.loads(event.result) for event in of_kind(child, callboard.CallFinished)]
    assert {result["error_type"] for result in results} == {"tool_not_available"}
    assert (person.questions, person.messages) == ([], [])


@pytest.mark.parametrize(("name", "status"), [("web", "denied"), ("desk", "success")])
async def test_a_rule_about_the_parents_channel_holds_for_its_branch(
    tmp_path: Path, name: str, status: str
) -> None:
    channel = Person()
    channel.name = name
    rule = Rule(verdict=Verdict.DENY, tool="write_file", channel="web")
    options: dict[str, Any] = {
        "channel": channel,
        "settings": Settings(rules=(PlacedRule(rule, "here"),)),
    }
    script = delegating("branch", ("write_file", {"path": "a.txt", "content": "a"}))
    async with open_local_stage(tmp_path, script, **options) as (runtime, _):
        _, child = await play_both(runtime)
    [finished] = of_kind(child, callboard.CallFinished)
    assert finished.status == status


async def test_only_the_call_that_asks_waits(tmp_path: Path) -> None:
    """Its siblings in the branch run on; the answer by id comes to the branch's question."""
    channel = Away()
    script = delegating("branch", ACTS, ("get_current_time", {}))
    options: dict[str, Any] = {"channel": channel, "tools": [act]}
    async with open_local_stage(tmp_path, script, **options) as (runtime, _):
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, ChildAsks):
                    [row] = await runtime.approvals()
                    assert row.session_id == event.child_id
                    while not await ran(runtime, event.child_id):  # noqa: ASYNC110
                        await trio.sleep(0.01)
                    await runtime.answer(event.question_id, "allow")
        assert await turn.answer() == "Done."
        statuses = {row.name: row.status for row in await runtime.store.calls()}
    assert statuses["act"] == "success"


async def ran(runtime: callboard.Runtime, session_id: str) -> bool:
    """Whether the call that nobody is asked about has its result."""
    calls = await runtime.store.calls(session_id=session_id)
    return any(row.name == "get_current_time" and row.status == "success" for row in calls)


# ── opening ──────────────────────────────────────────────────────────────────────────────────────


def open_with(**options: Any) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        async with callboard.open_runtime(model="rehearsal", environ={}, **options):
            pass

    return run


class Nameless(callboard.Channel):
    name = " "


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channel": Person(), "on_approval": "allow"}, "both"),
        ({"channel": Person}, "object of a subclass"),
        ({"channel": "desk"}, "object of a subclass"),
        ({"channel": Nameless()}, "name"),
    ],
)
async def test_what_is_no_channel_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        await open_with(**options)()
    await open_with(channel=Person())()
