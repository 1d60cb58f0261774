"""A channel of a program that doesn't know Trio is asked where that program is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.portals import aio
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from callboard.runtime.event_types.people import QuestionAsked
from callboard.runtime.events import ApprovalAsked

CALLS = [
    ("ask_user", {"question": "Which door?", "options": ["left", "right"]}),
    ("message", {"text": "The kettle is on."}),
    ("act", {}),
]
STEPS = [reply(calls=CALLS), reply("Done.")]


@callboard.tool(approval="always")
def act() -> str:
    """Acts."""
    return "acted"


def options(folder: Path, channel: object) -> dict[str, Any]:
    return {
        "model": callboard.ScriptedModel(STEPS), "workspace": folder, "environ": {},
        "tools": [act], "channel": channel, "strict": True,
    }  # fmt: skip


class Blocking(callboard.Channel):
    """Answers in plain functions; `where` are the threads that called them."""

    name = "desk"

    def __init__(self) -> None:
        self.where: set[threading.Thread] = set()
        self.told: list[str] = []

    def approve(self, request: callboard.ApprovalRequest) -> bool:
        self.where.add(threading.current_thread())
        return True

    def ask(self, question: callboard.UserQuestion) -> str:
        self.where.add(threading.current_thread())
        return question.options[1]

    def tell(self, message: callboard.ChannelMessage) -> None:
        self.where.add(threading.current_thread())
        self.told.append(message.text)


class Awaiting(callboard.Channel):
    """The same in coroutine functions."""

    name = "desk"

    def __init__(self) -> None:
        self._inner = Blocking()
        self.where, self.told = self._inner.where, self._inner.told

    async def approve(self, request: callboard.ApprovalRequest) -> bool:
        return self._inner.approve(request)

    async def ask(self, question: callboard.UserQuestion) -> str:
        await asyncio.sleep(0)
        return self._inner.ask(question)

    async def tell(self, message: callboard.ChannelMessage) -> None:
        self._inner.tell(message)


def results(calls: list[Any]) -> dict[str, Any]:
    return {call.name: json.loads(str(call.result)).get("result") for call in calls}


def check(channel: Blocking | Awaiting, calls: list[Any]) -> None:
    assert results(calls) == {
        "ask_user": {"answer": "right", "option": 1},
        "message": {"delivered": True, "channel": "desk"},
        "act": "acted",
    }
    assert channel.told == ["The kettle is on."]


def test_plain_functions_of_a_plain_program_run_in_threads_of_their_own(tmp_path: Path) -> None:
    channel = Blocking()
    with callboard.start_in_thread(**options(tmp_path, channel)) as runtime:
        session = runtime.create_session()
        session.run("Go.")
        check(channel, runtime.store.calls(session_id=session.session_id))
        trio_thread = runtime._portal._thread
    assert channel.where.isdisjoint({threading.current_thread(), trio_thread})


@pytest.mark.parametrize("make", [Blocking, Awaiting])
def test_a_channel_of_an_asyncio_program_runs_on_its_event_loop(
    tmp_path: Path, make: Callable[[], Blocking | Awaiting]
) -> None:
    channel = make()

    async def main() -> None:
        async with aio.open_runtime(**options(tmp_path, channel)) as runtime:
            session = await runtime.create_session()
            await session.run("Go.")
            check(channel, await runtime.store.calls(session_id=session.session_id))

    asyncio.run(main())
    assert channel.where == {threading.current_thread()}


class Refusing(callboard.Channel):
    """Overrides nothing but one method, which says no by a failure of its own."""

    def tell(self, message: callboard.ChannelMessage) -> None:
        raise callboard.ToolFailure("access_denied", "Not today.")


def test_what_a_channel_refuses_is_refused_across_threads_too(tmp_path: Path) -> None:
    with callboard.start_in_thread(**options(tmp_path, Refusing())) as runtime:
        session = runtime.create_session()
        session.run("Go.")
        calls = runtime.store.calls(session_id=session.session_id)
    errors = {call.name: json.loads(str(call.result)).get("error_type") for call in calls}
    assert errors == {
        "ask_user": "permission_denied",
        "message": "access_denied",
        "act": "permission_denied",
    }


class Away(callboard.Channel):
    """Nobody is there."""

    is_connected = False

    def approve(self, request: callboard.ApprovalRequest) -> bool:
        pytest.fail("nobody is there")


def test_questions_are_answered_by_id_from_a_plain_program(tmp_path: Path) -> None:
    with callboard.start_in_thread(**options(tmp_path, Away())) as runtime:
        session = runtime.create_session()
        with session.prompt("Go.") as turn:
            for event in turn:
                if isinstance(event, QuestionAsked):
                    runtime.answer_question(event.question_id, "right")
                    with pytest.raises(ConflictError):
                        runtime.answer_question(event.question_id, "left")
                    with pytest.raises(NotFoundError):
                        runtime.answer_question("question_x", "left")
                if isinstance(event, ApprovalAsked):
                    runtime.answer(event.approval_id, "allow")
        found = results(runtime.store.calls(session_id=session.session_id))
    assert found["ask_user"] == {"answer": "right", "option": 1}
    assert found["act"] == "acted"


def test_what_is_no_channel_is_refused_by_every_door(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open_runtime(**options(tmp_path, "desk")):
            pass

    with pytest.raises(ValidationError, match="subclass"):
        callboard.start_in_thread(**options(tmp_path, "desk"))
    with pytest.raises(ValidationError, match="subclass"):
        asyncio.run(main())
