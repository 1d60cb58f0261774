"""Who reads nothing, and who sends without end, costs a bounded amount and nobody else anything."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
import trio

import callboard
from callboard.actors.session.subscribers import MAX_FOLLOWER_UPDATES
from callboard.embedding.session import Following
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import reply
from callboard.runtime.errors import OverloadedError
from callboard.runtime.events import Stored, TurnEnded
from callboard.runtime.kernel.mailbox import Mailbox, Message
from callboard.runtime.store.rows import SessionRow
from callboard.runtime.stream import Done, StopReason, TextDelta
from support.cast import Cast, below, open_cast, part, task
from support.stage import open_in

PIECES = 10_000
BUDGET = 12
MESSAGES = 1_000_000 if os.environ.get("CALLBOARD_SOAK") else 20_000


class Chatty:
    """A model that says a letter at a time; the first time very many."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        for _ in range(PIECES if len(request.rounds) == 1 else 3):
            await emit([TextDelta("x")])
            await trio.lowlevel.checkpoint()
        await emit([Done(StopReason.END)])


async def test_case_62_who_never_reads_is_cut_off_and_finds_the_rest_on_record(
    tmp_path: Path,
) -> None:
    heard = 0

    async def read(follower: Following) -> None:
        nonlocal heard
        while (event := await follower.next_event()) is not None:
            heard += isinstance(event, callboard.TextDelta)
            if isinstance(event, callboard.TurnEnded):
                return

    async with open_in(tmp_path, Chatty()) as runtime:
        session = await runtime.create_session()
        async with session.follow() as idle, session.follow() as quick:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read, quick)
                assert await session.run("Speak.") == "x" * PIECES
            assert heard == PIECES
            # What waited for the one who never read is bounded, and then it is told so.
            waited = [await idle.next_event() for _ in range(MAX_FOLLOWER_UPDATES)]
            assert None not in waited
            with pytest.raises(OverloadedError, match="fell behind"):
                await idle.next_event()
            seen = idle.seq
        # Connected again, it gets what it has not seen: each event once, in order.
        rest = await runtime.store.events(session.session_id, after_seq=seen)
        whole = await runtime.store.events(session.session_id)
        assert seqs(rest) == list(range(seen + 1, seqs(whole)[-1] + 1))
        assert isinstance(rest[-1].event, callboard.TurnEnded)
        async with session.follow() as again:
            assert await session.run("Once more.") == "xxx"
            await read(again)
        assert heard == PIECES + 3


def seqs(events: list[Stored]) -> list[int]:
    return [stored.seq for stored in events]


class Letter(Message, frozen=True):
    """A message with something in it."""

    content: bytes = bytes(1000)


def letter() -> Letter:
    return Letter(bytes(1000))


async def test_case_63_a_flood_of_messages_is_refused_and_takes_no_memory() -> None:
    mailbox: Mailbox[Letter] = Mailbox("the flooded one", 64)
    refused = before = 0
    tracemalloc.start()
    try:
        for number in range(MESSAGES):
            try:
                mailbox.tell_nowait(letter())
            except OverloadedError:
                refused += 1
            if number == MESSAGES // 2:
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
        rise = tracemalloc.get_traced_memory()[1] - before
        held = [letter() for _ in range(1000)]  # the control of the measure
        assert tracemalloc.get_traced_memory()[1] - before > 10**6
    finally:
        tracemalloc.stop()
    assert refused == MESSAGES - 64
    assert mailbox.statistics().depth == 64
    assert rise < 100_000
    # The control: who takes messages out makes room.
    with mailbox.open() as messages:
        assert len((await messages.receive()).content) == len(held[0].content)
        mailbox.tell_nowait(letter())
    mailbox.close()


async def test_case_63_sessions_that_answer_each_other_without_end_have_a_budget(
    tmp_path: Path,
) -> None:
    # A task is the one message that a session gives another, and its answer the one that comes back.
    again = part(task("Look.", kind="worker", wait=False))
    rounds = [step for _ in range(BUDGET) for step in again]
    cast = Cast({"Go.": rounds, "Look.": [reply("Ask me again.")] * BUDGET})
    async with open_cast(tmp_path, cast, policy="auto") as runtime:
        session = await runtime.create_session(budget=callboard.Budget(model_calls=BUDGET))
        assert await session.run("Go.") == "Done."
        ended: list[str] = []
        children: list[SessionRow] = []
        while True:
            await trio.sleep(0.01)
            record = await runtime.store.events(session.session_id)
            ended = [e.event.outcome for e in record if isinstance(e.event, TurnEnded)]
            waiting = await runtime.store.open_inputs(session.session_id)
            children = await below(runtime, session)
            # Then nothing is left that would begin another turn.
            is_going = any(child.is_detached or child.is_active for child in children)
            if "budget" in ended and not waiting and not is_going:
                break
        assert ended.count("answered") >= 2  # it went around, until it had to end
        assert 2 <= len(children) <= BUDGET // 2
        assert sum(len(each.requests) for each in cast.parts.values()) <= BUDGET
