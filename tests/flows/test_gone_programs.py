"""Background programs that ended with callboard's own process: the session is told which."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.channel import UserQuestion
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import CallFinished, Stored, TurnResumed, TurnStarted
from support.sandbox.sandbox_users import needs_sandbox
from support.stage import check_in_each_format, check_messages, messages_of, open_in, read_result
from support.waiting import go_on

BEGIN = ("shell", {"command": "echo up; sleep 600", "background": True})
SHORT = ("shell", {"command": "true", "background": True})
WAIT = ("process", {"action": "wait", "id": "p2"})
WHICH = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})
GONE = "these background processes of this session are gone"


def started(events: list[Stored]) -> list[tuple[str, ...]]:
    return [each.event.gone for each in events if isinstance(each.event, TurnStarted)]


@pytest.mark.parametrize("crashes", [False, True], ids=["stop", "crash"])
async def test_after_a_restart_the_model_is_told_once_what_is_gone(
    tmp_path: Path, crashes: bool
) -> None:
    needs_sandbox()
    steps = [reply(calls=[BEGIN, SHORT]), reply(calls=[WAIT]), reply("Up."), reply("Still up.")]
    async with open_in(tmp_path, steps, "disk", on_approval="allow") as runtime:
        session = await runtime.create_session()
        await session.run("Start it.")
        await session.run("Is it up?")
        kept = await runtime.store.events(session.session_id)
        if crashes:
            shutil.copytree(tmp_path / "data", tmp_path / "killed")
    if crashes:
        shutil.rmtree(tmp_path / "data")
        (tmp_path / "killed").rename(tmp_path / "data")
    first = next(each.event for each in kept if isinstance(each.event, CallFinished))
    assert read_result(first)["result"]["started"] is True
    assert first.display == "shell: p1 started: echo up; sleep 600"
    assert started(kept) == [(), ()], "the control: it runs"

    model = callboard.ScriptedModel([reply("I start it again."), reply("Yes.")])
    async with open_in(tmp_path, model, "disk") as runtime:
        session = await runtime.get_session(session.session_id)
        await session.run("And now?")
        await session.run("Sure?")
        assert started(await runtime.store.events(session.session_id))[2:] == [("p1",), ()]
    for request in model.requests:
        texts = [str(each["content"]) for each in messages_of(request)]
        [note] = [text for text in texts if GONE in text]
        assert "shell: p1 started: echo up; sleep 600" in note
        assert "p2" not in note, "the model has heard of that end"
        assert texts.index(note) <= next(at for at, text in enumerate(texts) if "And now?" in text)


class Person(callboard.Channel):
    """Allows every call; answers a question at once, or never."""

    def __init__(self, answer: str = "") -> None:
        self.answer = answer
        self.is_asked = trio.Event()

    async def approve(self, request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        await trio.lowlevel.checkpoint()
        return callboard.ApprovalAnswer(decision="allow")

    async def ask(self, question: UserQuestion) -> str:
        self.is_asked.set()
        if not self.answer:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self.answer


async def prompt(session: callboard.Session) -> None:
    with suppress(ConflictError):  # suspended
        async with session.prompt("Start it, and ask.") as turn:
            async for _ in turn:
                pass


async def test_a_turn_that_goes_on_is_told_behind_the_results_of_its_open_calls(
    tmp_path: Path,
) -> None:
    needs_sandbox()
    away = Person()
    steps = [reply(calls=[BEGIN]), reply(calls=[WHICH])]
    async with trio.open_nursery() as nursery:
        async with open_in(tmp_path, steps, "disk", channel=away) as runtime:
            session = await runtime.create_session()
            nursery.start_soon(prompt, session)
            await away.is_asked.wait()
    model = callboard.ScriptedModel([reply("I start it again."), reply("Yes.")])
    async with open_in(tmp_path, model, "disk", channel=Person("left")) as runtime:
        events = await go_on(runtime, session.session_id)
        session = await runtime.get_session(session.session_id)
        await session.run("Sure?")
        assert started(await runtime.store.events(session.session_id)) == [(), ()]
    [resumed] = [each for each in events if isinstance(each, TurnResumed)]
    assert resumed.gone == ("p1",)
    for request in model.requests:
        messages = messages_of(request)
        check_messages(messages)
        check_in_each_format(request)
        [at] = [at for at, each in enumerate(messages) if GONE in str(each["content"])]
        assert messages[at - 1]["role"] == "tool"
