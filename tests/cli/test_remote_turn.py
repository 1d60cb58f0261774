"""What becomes of a run's prompt in the daemon when the run is interrupted before the daemon has answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import callboard
from callboard.cli.ask.daemon_questions import DaemonQuestions
from callboard.cli.run import remote
from callboard.cli.run.choice import RunOptions
from callboard.cli.run.flags import RunFlags
from callboard.cli.run.remote import RemotePlace, RemoteSession, RemoteTurn
from callboard.providers.testing.script import stall
from callboard.runtime.events import TurnEnded
from callboard.runtime.kernel.service_nursery import open_service_nursery
from callboard.runtime.wire.providers import SelectedModel
from callboard.runtime.wire.sessions import Ticket
from support.gateway.daemon_scene import Daemon, open_client, open_daemon


class Scene:
    """A run in a daemon whose model answers nothing."""

    def __init__(self, daemon: Daemon, place: RemotePlace, session_id: str) -> None:
        self.daemon = daemon
        self.place = place
        self.session_id = session_id
        self.notices: list[str] = []
        self.is_sent, self.may_answer = trio.Event(), trio.Event()
        place.notice = self.notices.append

    async def send(self) -> Ticket:
        """Send a prompt; the answer takes its time."""
        ticket = await self.place.client.prompt(self.session_id, "Go.")
        self.is_sent.set()
        await self.may_answer.wait()
        return ticket

    async def interrupted(self, then: Callable[[], Awaitable[Any]]) -> None:
        """Enter a turn, interrupt that, and do something meanwhile."""
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                turn = RemoteTurn(self.place, self.session_id, send=self.send)
                nursery.start_soon(turn.__aenter__)
                await self.is_sent.wait()
                scope.cancel()
                with trio.CancelScope(shield=True):
                    await then()
        assert scope.cancelled_caught

    async def outcomes(self) -> list[str]:
        record = await self.daemon.runtime.store.events(self.session_id)
        return [each.event.outcome for each in record if isinstance(each.event, TurnEnded)]


@asynccontextmanager
async def open_scene() -> AsyncGenerator[Scene]:
    async def yes(question: str) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    model = callboard.ScriptedModel([stall("I think."), stall("I think.")])
    async with (
        open_daemon(model) as daemon,
        open_client(daemon) as client,
        open_service_nursery("the run is over") as nursery,
    ):
        session = await daemon.runtime.create_session()
        questions = DaemonQuestions(client, None, nursery, print)
        options = RunOptions(prompt="Go.", flags=RunFlags())
        store = daemon.runtime.store
        model_name = SelectedModel("scripted", "")
        place = RemotePlace(client, store, questions, options, model_name, yes, None)
        place.tasks = nursery
        yield Scene(daemon, place, session.session_id)


async def test_a_prompt_that_is_interrupted_before_its_ticket_is_taken_back() -> None:
    """Its turn went on, and nobody knew of it."""
    async with open_scene() as scene:

        async def answer() -> None:
            await trio.lowlevel.checkpoint()
            assert await scene.outcomes() == []  # the control: it runs
            scene.may_answer.set()

        await scene.interrupted(answer)
        assert await scene.outcomes() == ["cancelled"]
        assert scene.notices == []


async def test_where_the_daemon_does_not_answer_the_run_says_what_may_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "AWAY_SECONDS", 0.01)
    async with open_scene() as scene:
        scene.place.session_id = scene.session_id
        await scene.interrupted(trio.lowlevel.checkpoint)
        [said] = scene.notices
        assert "the daemon has not answered, and the turn may begin yet" in said
        assert f"`callboard run --session {scene.session_id}`" in said


async def test_a_cancel_of_a_turn_that_was_followed_never_means_the_next_one() -> None:
    """It had no input, and ended whichever turn ran by then."""
    async with open_scene() as scene:
        client, session_id = scene.place.client, scene.session_id
        first = await client.prompt(session_id, "One.")
        turn = await RemoteSession(scene.place, session_id).resume()
        assert turn is not None
        assert turn.input_id == first.input_id
        await client.prompt(session_id, "Two.")
        async with turn:
            await client.cancel(session_id, input_id=first.input_id)
            await until_turns(scene, 2)
            await turn.cancel("interrupted")
            assert await scene.outcomes() == ["cancelled"]  # that of the first; the second runs


async def until_turns(scene: Scene, count: int) -> None:
    async def has_begun() -> bool:
        status = await scene.daemon.runtime.status()
        ended = await scene.outcomes()
        return len(status.turns) + len(ended) >= count

    with trio.fail_after(20):
        while not await has_begun():  # noqa: ASYNC110  nothing tells of it
            await trio.sleep(0.01)
