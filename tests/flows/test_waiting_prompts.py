"""A prompt that was acknowledged has its turn, also when the process ends before that begins."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

import callboard
from callboard.runtime.events import MessageCompleted, TurnEnded, TurnStarted
from callboard.runtime.history import Text
from support.environment import SUPPORT
from support.flows.killed import killed_when_ready
from support.flows.queued import SilentModel, submit_three

PROGRAM = str(SUPPORT / "flows" / "queued.py")
PATIENCE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path) -> None:
    """The folder that sessions work in."""
    (tmp_path / "work").mkdir()


@asynccontextmanager
async def opened(
    folder: Path, *answers: str, model: object = None, **options: bool
) -> AsyncGenerator[callboard.Runtime]:
    """A runtime on the data of `folder`."""
    scripted = callboard.ScriptedModel([callboard.reply(each) for each in answers])
    async with callboard.open_runtime(
        model=model or scripted,  # type: ignore[arg-type]
        data=folder / "data",
        workspace=folder / "work",
        environ={},
        **options,  # type: ignore[arg-type]
    ) as runtime:
        yield runtime


async def story(runtime: callboard.Runtime, session_id: str) -> list[str]:
    """The outcomes of the turns that have ended, and what was answered, in order."""
    told: list[str] = []
    for stored in await runtime.store.events(session_id):
        match stored.event:
            case TurnEnded(outcome=outcome):
                told.append(outcome)
            case MessageCompleted(parts=parts):
                told += [part.text for part in parts if isinstance(part, Text)]
            case _:
                pass
    return told


async def wait_story(runtime: callboard.Runtime, session_id: str, length: int) -> list[str]:
    """The story, once it is that long."""
    while len(told := await story(runtime, session_id)) < length:  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
        await trio.sleep(0.005)
    return told


async def stopped(folder: Path) -> str:
    """A runtime is closed in order while one prompt has its turn and two wait."""
    model = SilentModel()
    async with opened(folder, model=model) as runtime:
        session_id = await submit_three(runtime)
        await model.is_asked.wait()
    return session_id


async def killed(folder: Path) -> str:
    """A process is killed with kill -9 at that point."""
    return await trio.to_thread.run_sync(partial(killed_when_ready, PROGRAM, folder))


@pytest.mark.parametrize(("end", "outcome"), [(stopped, "cancelled"), (killed, "failed")])
async def test_prompts_that_waited_have_their_turns_after_a_restart(
    tmp_path: Path, end: Callable[[Path], object], outcome: str
) -> None:
    session_id = await end(tmp_path)  # type: ignore[misc]
    async with opened(tmp_path, "To two.", "To three.") as runtime:
        told = await wait_story(runtime, session_id, 5)
    assert told == [outcome, "To two.", "answered", "To three.", "answered"]
    async with opened(tmp_path) as runtime:  # the model has no answer left: nothing is run again
        assert await story(runtime, session_id) == told
        assert await runtime.store.waking_sessions() == []


async def test_a_runtime_that_is_soon_closed_leaves_them_waiting(tmp_path: Path) -> None:
    session_id = await stopped(tmp_path)
    async with opened(tmp_path, wake=False) as runtime:
        assert await runtime.store.waking_sessions() == [session_id]
        assert (await runtime.create_session()).session_id != session_id  # it works
        assert (await runtime.status()).sessions == ()
    async with opened(tmp_path, "To two.", "To three.", wake=False) as runtime:
        turn = await (await runtime.get_session(session_id)).resume()
        assert turn is not None
        async with turn:
            assert await turn.answer() == "To two."
        await wait_story(runtime, session_id, 5)


async def test_those_of_a_deleted_session_wait_until_it_is_restored(tmp_path: Path) -> None:
    session_id = await stopped(tmp_path)
    async with opened(tmp_path, wake=False) as runtime:
        await (await runtime.get_session(session_id)).delete()
    async with opened(tmp_path, "To two.", "To three.") as runtime:
        assert (await runtime.status()).sessions == ()
        started = [
            each
            for each in await runtime.store.events(session_id)
            if isinstance(each.event, TurnStarted)
        ]
        assert len(started) == 1
        await (await runtime.get_session(session_id)).restore()
        assert (await wait_story(runtime, session_id, 5))[-2:] == ["To three.", "answered"]
