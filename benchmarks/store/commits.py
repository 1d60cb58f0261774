"""What the store of a tool loop costs: prints the CPU time of a round's two commits.

    python benchmarks/store/commits.py [--rounds 9] [--folder FOLDER]

A round is what one answer with a call makes of the journal: the answer, its call and the call's
start in one commit, its result in another. The fan-out is an answer with 100 calls, and their
results in ten commits. Medians over rounds, each with a store of its own; the CPU time is that of
all threads. FOLDER should lie on the disk that is asked about.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median

import trio

from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    TurnStarted,
)
from callboard.runtime.history import Call
from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from callboard.runtime.stream import Usage

SESSION = "session_0123456789abcdefghjk"
TURN = "turn_0123456789abcdefghjk"
LOOPS = 100
"""Rounds of one session, twice those of the workload `toolloop`."""
CALLS = 100
GROUP = 10

Commits = list[list[Append]]


def opening() -> Commits:
    """A session and its first input."""
    return [
        [Append(SESSION, (SessionCreated(agent="bench", workspace="/tmp/work"),))],
        [
            Append(
                SESSION,
                (
                    InputAccepted(input_id="input_0123456789abcdefghjk", text="go"),
                    TurnStarted(
                        turn_id=TURN, input_ids=("input",), provider="openai", model="tools-1-50"
                    ),
                ),
            )
        ],
    ]


def asked(number: int, calls: int) -> tuple[DurableEvent, ...]:
    """An answer with so many calls, and their starts."""
    message_id = f"message_{number:020}"
    asked = [
        Call(
            call_id=f"call_{number:012}_{index:07}",
            name="noop",
            arguments='{"x":1,"note":"call 1"}',
        )
        for index in range(calls)
    ]
    answer = MessageCompleted(
        turn_id=TURN,
        message_id=message_id,
        parts=tuple(asked),
        provider="openai",
        model="tools-1-50",
        dialect="openai-chat",
        stop_reason="tool_calls",
        usage=Usage(input_tokens=100, output_tokens=20),
        duration_ms=3,
    )
    proposed = [
        CallProposed(
            turn_id=TURN,
            message_id=message_id,
            call_id=call.call_id,
            index=index,
            name=call.name,
            arguments=call.arguments,
        )
        for index, call in enumerate(asked)
    ]
    started = [CallStarted(turn_id=TURN, call_id=call.call_id) for call in asked]
    return (answer, *proposed, *started)


def result(event: DurableEvent) -> Append:
    """The end of a call that was proposed."""
    assert isinstance(event, CallProposed)
    finished = CallFinished(
        turn_id=TURN,
        call_id=event.call_id,
        name=event.name,
        status=CallStatus.SUCCESS,
        result='"ok"',
        arguments=event.arguments,
        duration_ms=1,
    )
    return Append(SESSION, (finished,))


def loop() -> Iterator[list[Append]]:
    """Two commits a round."""
    for number in range(LOOPS):
        events = asked(number, 1)
        yield [Append(SESSION, events)]
        yield [result(events[1])]


def fanout() -> Iterator[list[Append]]:
    """One answer, and its results as they come."""
    events = asked(0, CALLS)
    yield [Append(SESSION, events)]
    for first in range(1, CALLS + 1, GROUP):
        yield [result(event) for event in events[first : first + GROUP]]


async def seconds(store: Store, commits: Commits, *, is_read: bool = False) -> float:
    """The CPU time of these commits, and of a first look at what they made."""
    for commit in opening():
        await store.commit(commit)
    began = time.process_time()
    for commit in commits:
        await store.commit(commit)
    if is_read:
        await store.session(SESSION)
    spent = time.process_time() - began
    await store.aclose()
    return spent


async def main(rounds: int, folder: str | None) -> None:
    """Prints a line for each store and workload."""

    async def in_memory() -> Store:
        await trio.lowlevel.checkpoint()
        return open_memory_store()

    async def on_disk() -> Store:
        return await open_disk_store(Path(tempfile.mkdtemp(dir=parent)))

    stores: dict[str, Callable[[], Awaitable[Store]]] = {"memory": in_memory, "disk": on_disk}
    with tempfile.TemporaryDirectory(dir=folder) as parent:
        for name, opened in stores.items():
            loops = [await seconds(await opened(), list(loop())) for _ in range(rounds)]
            print(f"{name:8} tool loop       {median(loops) / LOOPS * 1e6:8.1f} us a round")
            read = [
                await seconds(await opened(), list(loop()), is_read=True) for _ in range(rounds)
            ]
            print(f"{name:8} the same, read  {median(read) / LOOPS * 1e6:8.1f} us a round")
            fans = [await seconds(await opened(), list(fanout())) for _ in range(rounds)]
            print(f"{name:8} fan-out         {median(fans) / CALLS * 1e6:8.1f} us a call")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measures the commits of a tool loop.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", help="on the disk that is asked about")
    chosen = parser.parse_args()
    trio.run(main, chosen.rounds, chosen.folder)
