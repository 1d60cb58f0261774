"""A turn in a program's hand: it is entered once, and read in one place."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

import callboard
from callboard.providers.testing.script import reply, stall
from callboard.runtime.errors import ConflictError
from support.stage import open_local_stage


async def test_a_turn_is_entered_once(tmp_path: Path) -> None:
    async with open_local_stage(tmp_path, [reply("Hello."), reply("Next.")]) as (runtime, _):
        session = await runtime.create_session()
        turn = session.prompt("Hi.")
        with pytest.raises(ConflictError, match=r"enter it first.*`async with turn:`"):
            await turn.answer()
        async with turn:
            with pytest.raises(ConflictError, match=r"entered once.*call session.prompt again"):
                await turn.__aenter__()
            assert await turn.answer() == "Hello."
        with pytest.raises(ConflictError, match="entered once"):
            await turn.__aenter__()
        assert len(await runtime.store.messages(session.session_id)) == 2
        assert await session.run("And now?") == "Next."


async def test_a_second_reader_of_a_turn_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with open_local_stage(tmp_path, [stall("Well")]) as (runtime, _):
        async with (await runtime.create_session()).prompt("Hi.") as turn:
            told: list[callboard.TurnEvent] = []

            async def read() -> None:
                told.extend([event async for event in turn])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked(0.05)
                for again in (turn.answer, turn.next_events, turn.__anext__):
                    with pytest.raises(ConflictError, match="is being read already"):
                        await again()
                await turn.cancel()
            assert told[-1] is turn.ended
