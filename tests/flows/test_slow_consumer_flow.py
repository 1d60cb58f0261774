"""A program that stops reading: its turn waits, what it holds is bounded, nothing is cut."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.actors.model.stream import ModelStream, StartModelCall
from callboard.config.settings import Limits
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.provider import Emit, Endpoint, ModelRequest, ModelTarget
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.events import CallProgress, InputAccepted, TurnStarted
from callboard.runtime.history import Input
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.messages import AppendEvents, StopSessions
from callboard.runtime.stream import AnyStreamEvent, Done, StopReason, StreamError, TextDelta
from support.stage import open_in, run_in

PIECES = 200


class Chatty:
    async def run(self, request: ModelRequest, emit: Emit) -> None:
        for _ in range(PIECES):
            await emit([TextDelta("x")])
        await emit([Done(StopReason.END)])


async def test_a_reader_that_pauses_is_not_taken_for_a_silent_model(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_in(tmp_path, Chatty()) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Speak.") as turn:
            assert await turn.wait_events()
            await trio.sleep(10 * Limits().idle_seconds)
            assert await turn.answer() == "x" * PIECES


class _Body:
    status = 200

    def __init__(self, reads: list[bytes]) -> None:
        self.headers: dict[str, str] = {}
        self._reads = reads

    async def read_some(self) -> bytes:
        return self._reads.pop(0) if self._reads else b""


class _Http:
    def __init__(self, reads: list[bytes]) -> None:
        self._reads = reads

    @asynccontextmanager
    async def stream_post(self, *_: object) -> AsyncGenerator[_Body]:
        yield _Body(self._reads)


def _chunk(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


async def test_an_answer_whose_last_batch_was_lost_to_a_deadline_is_not_whole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    http: Any = _Http([_chunk("first"), _chunk("second"), _chunk("last", "stop")])
    mailbox: Mailbox[StartModelCall] = Mailbox("model stream", 2)
    outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](2)
    endpoint = Endpoint(name="p", dialect=OPENAI_CHAT, base_url="http://x")
    async with trio.open_nursery() as nursery:
        await nursery.start(ModelStream(mailbox, http, Limits()).run)
        await mailbox.tell(
            StartModelCall(
                target=ModelTarget(provider="p", model="m", endpoint=endpoint),
                request=ModelRequest(model="m", rounds=[]),
                outlet=outlet,
                scope=trio.CancelScope(),
            )
        )
        await trio.sleep(2 * Limits().model_call_seconds)
        with batches:
            events = [event async for batch in batches for event in batch]
        nursery.cancel_scope.cancel()
    assert isinstance(events[-1], StreamError)


async def test_progress_that_nobody_reads_does_not_gather(tmp_path: Path) -> None:
    @callboard.tool(tier="read_only")
    async def work(context: callboard.ToolContext) -> None:
        """Works."""
        for _ in range(2000):
            context.progress("still at it")
            await trio.lowlevel.checkpoint()

    model = ScriptedModel([reply(calls=[("work", {})]), reply("Done.")])
    async with open_in(tmp_path, model, tools=[work]) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Work.") as turn:
            while not await runtime.store.calls(status="success"):  # type: ignore[arg-type]
                await trio.testing.wait_all_tasks_blocked()
            events = await turn.next_events()
            assert sum(isinstance(event, CallProgress) for event in events) < 100


async def test_what_is_committed_while_a_session_loads_is_in_its_history_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel([reply("One."), reply("Two.")])
    async with open_in(tmp_path, model) as runtime:
        session = await run_in(runtime, "First.")
        host = runtime._host
        await host.directory.ask(StopSessions(reason="unloaded"))
        store = host.plan.store
        read = store.events
        late = (
            InputAccepted(input_id="late", text="Late."),
            TurnStarted(turn_id="t", input_ids=("late",), provider="p", model="m"),
        )

        async def events(session_id: str) -> Any:
            monkeypatch.undo()
            await host.journal.ask(AppendEvents(session_id=session_id, events=late))
            return await read(session_id)

        monkeypatch.setattr(store, "events", events)
        await session.run("Second.")
    items = [item for part in model.requests[1].rounds for item in part.items]
    assert [item.text for item in items if isinstance(item, Input)] == [
        "First.",
        "Late.",
        "Second.",
    ]
