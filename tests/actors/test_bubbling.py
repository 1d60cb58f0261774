"""A branch has no people of its own: its questions go up to the nearest session that has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

import callboard
from callboard.actors.people.lineage import Channels
from callboard.actors.people.speech import OpenChannel, Speech
from callboard.actors.people.user_questions import UserQuestions
from callboard.runtime.definitions import Agent, SessionKind, Tier, ToolDefinition, ToolFailure
from callboard.runtime.events import ApprovalAsked, ChildAsks, MessageSent, QuestionAsked
from callboard.runtime.history import Call
from callboard.runtime.messages import (
    Ancestor,
    AnswerApproval,
    ApprovalAnswer,
    ApprovalRequest,
    AskPerson,
    CallPlace,
    PermissionQuestion,
    Resolution,
)
from support.scene import Scene, open_scene

MAIN, BRANCH, WORKER = SessionKind.MAIN, SessionKind.BRANCH, SessionKind.WORKER


class Person(callboard.Channel):
    """Allows all, answers all, and keeps what came."""

    name = "desk"

    def __init__(self) -> None:
        self.came: list[Any] = []

    def approve(self, request: ApprovalRequest) -> bool:
        self.came.append(request)
        return True

    def ask(self, question: callboard.UserQuestion) -> str:
        self.came.append(question)
        return "left"

    def tell(self, message: callboard.ChannelMessage) -> None:
        self.came.append(message)


def above(session_id: str, kind: SessionKind, channel: str | None = None) -> Ancestor:
    return Ancestor(session_id=session_id, agent=Agent(), kind=kind, channel=channel)


HOME = above("main", MAIN, "desk")


def place_in(
    kind: SessionKind, lineage: Sequence[Ancestor] = (), channel: str | None = None
) -> CallPlace:
    return CallPlace(
        session_id="s1", turn_id="t", agent=Agent(), session_kind=kind, workspace="/work",
        channel=channel, lineage=tuple(lineage), task="Count the doors.",
    )  # fmt: skip


async def ready(channel: callboard.Channel | None = None) -> Scene:
    scene = Scene(channel=channel)
    for session_id in ("main", "middle", "s1"):
        await scene.create(session_id)
    return scene


async def ask(scene: Scene, place: CallPlace, call_id: str = "c1") -> ApprovalAnswer:
    definition = ToolDefinition(name="erase", description="", parameters={}, tier=Tier.ELEVATED)
    question = PermissionQuestion(
        call_id=call_id, name="erase", tier=Tier.ELEVATED, arguments="{}", approval_reason=None,
        definition=definition,
    )  # fmt: skip
    resolution: Resolution = await scene.broker.ask(
        AskPerson(
            place=place, call=Call(call_id, "erase", "{}"), question=question,
            reason="it is dangerous", digest=f"digest of {call_id}", policy_version="v",
            scope=trio.CancelScope(),
        )
    )  # fmt: skip
    return resolution.answer


def speech(scene: Scene) -> Speech:
    questions = UserQuestions(scene.journal, scene.limits.approval_seconds)
    return Speech(scene.channels, questions, scene.journal)


def handle(scene: Scene, place: CallPlace) -> OpenChannel:
    found = speech(scene).handle(place, Call("c1", "ask_user", "{}"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("place", "session_id"),
    [
        (place_in(MAIN, channel="desk"), "s1"),
        (place_in(MAIN), None),
        (place_in(MAIN, channel="another"), None),
        (place_in(BRANCH, [HOME]), "main"),
        (place_in(BRANCH, [above("middle", BRANCH), HOME]), "main"),
        (place_in(BRANCH, [above("middle", MAIN, "desk"), HOME]), "middle"),
        (place_in(BRANCH, [above("main", MAIN)]), None),
        (place_in(BRANCH), None),
        (place_in(WORKER, [HOME]), None),
        (place_in(WORKER, [HOME], channel="desk"), None),
    ],
)
def test_the_nearest_channel_serves(place: CallPlace, session_id: str | None) -> None:
    channels = Channels(Person())
    served = channels.serving(place)
    assert (served.session_id if served is not None else None) == session_id
    assert Channels().serving(place) is None
    names = [each.channel.name for each in channels.reachable(place)]
    assert names == (["desk"] if session_id is not None else [])


def test_only_main_sessions_have_a_channel_of_their_own() -> None:
    assert [Channels(Person()).own(kind) for kind in (MAIN, BRANCH, WORKER)] == ["desk", None, None]
    assert Channels().own(MAIN) is None


async def test_an_approval_is_asked_above_and_recorded_in_both() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, "journal", "broker"):
        place = place_in(BRANCH, [above("middle", BRANCH), HOME])
        assert (await ask(scene, place)).decision == "allow"
        [request] = person.came
        [asked] = [e for e in await scene.events("s1") if isinstance(e, ApprovalAsked)]
        above_it = await scene.events("main")
        assert await scene.events("middle") == (await scene.events("middle"))[:1]
    assert (request.session_id, request.asked_in) == ("s1", "main")
    assert request.origin == "from the branch s1, whose task is: Count the doors."
    assert asked.asked_in == "main"
    assert above_it[1:] == [
        ChildAsks(question_id=asked.approval_id, child_id="s1", call_id="c1", name="erase")
    ]


async def test_a_sessions_own_question_tells_nobody_above() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, "journal", "broker"):
        await ask(scene, place_in(MAIN, [HOME], channel="desk"))
        [request] = person.came
        [asked] = [e for e in await scene.events("s1") if isinstance(e, ApprovalAsked)]
        assert len(await scene.events("main")) == 1
    assert (request.asked_in, request.origin, asked.asked_in) == ("", "", "")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (place_in(WORKER, [HOME]), "a worker asks nobody"),
        (place_in(BRANCH), "there is nobody to ask"),
        (place_in(BRANCH, [above("main", MAIN)]), "there is nobody to ask"),
    ],
)
async def test_without_a_channel_anywhere_it_is_denied_at_once(
    place: CallPlace, words: str
) -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, "journal", "broker"):
        answer = await ask(scene, place)
        assert answer.decision == "deny"
        assert words in answer.reason
        assert (await ask(scene, place_in(BRANCH, [HOME]), "c2")).decision == "allow"
    assert len(person.came) == 1


async def test_an_answer_by_id_reaches_the_branch() -> None:
    class Away(Person):
        is_connected = False

    person = Away()
    scene = await ready(person)
    answers: list[ApprovalAnswer] = []

    async def wait() -> None:
        answers.append(await ask(scene, place_in(BRANCH, [HOME])))

    async with open_scene(scene, "journal", "broker") as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        [row] = await scene.store.approvals(state="waiting")
        assert row.session_id == "s1"
        await scene.broker.ask(
            AnswerApproval(
                approval_id=row.approval_id,
                answer=ApprovalAnswer(decision="deny", reason="Not now."),
            )
        )
        await trio.testing.wait_all_tasks_blocked()
    assert [(each.decision, each.reason) for each in answers] == [("deny", "Not now.")]
    assert person.came == []


async def test_a_question_of_ask_user_goes_up() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, "journal"):
        answer = await handle(scene, place_in(BRANCH, [HOME])).ask("Which door?", ("left",))
        [asked] = [e for e in await scene.events("s1") if isinstance(e, QuestionAsked)]
        above_it = await scene.events("main")
    [question] = person.came
    assert (answer.text, answer.option) == ("left", 0)
    assert (question.session_id, question.asked_in) == ("s1", "main")
    assert question.origin == "from the branch s1, whose task is: Count the doors."
    assert above_it[1:] == [
        ChildAsks(question_id=asked.question_id, child_id="s1", call_id="c1", name="ask_user")
    ]


async def test_a_message_of_a_branch_stands_above_and_is_marked() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, "journal"):
        assert await handle(scene, place_in(BRANCH, [HOME])).tell("Three doors.") == "desk"
        assert len(await scene.events("s1")) == 1
        above_it = await scene.events("main")
    [message] = person.came
    assert message.is_from_branch
    assert (message.session_id, message.from_session) == ("main", "s1")
    assert "Count the doors." in message.origin
    assert above_it[1:] == [
        MessageSent(call_id="c1", text="Three doors.", channel="desk", child_id="s1")
    ]


async def test_a_worker_gets_no_handle_and_no_other_channel_can_be_named() -> None:
    scene = await ready(Person())
    call = Call("c1", "message", "{}")
    assert speech(scene).handle(place_in(WORKER, [HOME], channel="desk"), call) is None
    with pytest.raises(ToolFailure, match=r"There are: desk\."):
        await handle(scene, place_in(BRANCH, [HOME])).tell("Hello.", "phone")
    scene.close_unused()
