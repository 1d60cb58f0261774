"""When the store is taken, broken or full: said clearly, nothing lost, nothing pretended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import trio

import callboard
from callboard.embedding.host import Plan, open_host
from callboard.embedding.models import ModelFinder
from callboard.embedding.runtime import Runtime
from callboard.providers.catalog.catalog import ModelSelection
from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.errors import ConflictError, StorageError, StorageFull
from callboard.runtime.events import (
    CallFinished,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    TurnEnded,
)
from callboard.runtime.store.interface import Committed, Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append, CommitResult
from callboard.tools.registry import ToolRegistry
from support.stage import check_messages, check_record, make_workspace, messages_of, open_stage

HOLDER = """
import sys
import callboard, trio

async def main():
    async with callboard.open_runtime(model="rehearsal", workspace=sys.argv[2], data=sys.argv[1]):
        print("open", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)

trio.run(main)
"""


async def open_and_close(folder: Path) -> None:
    async with callboard.open_runtime(
        model=ScriptedModel([]), workspace=make_workspace(folder), data=folder / "data"
    ):
        pass


async def test_a_second_writer_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    await open_and_close(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "data"), str(tmp_path / "work")]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = await nursery.start(run)
        assert await process.stdout.receive_some(4) == b"open"
        with pytest.raises(ConflictError) as refused:
            await open_and_close(tmp_path)
        assert str(process.pid) in str(refused.value)
        assert str(tmp_path / "data") in str(refused.value)
        await process.stdin.aclose()
    await open_and_close(tmp_path)


async def test_a_second_writer_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Hi.")], store="disk") as stage:
        with pytest.raises(ConflictError, match=str(os.getpid())):
            await open_and_close(tmp_path)
        assert await (await stage.runtime.create_session()).run("Hello.") == "Hi."


@pytest.mark.parametrize(
    "content",
    [b"this is no database" * 500, b"\x00" * 8192, b"SQLite format 3\x00" + b"\xff" * 5000],
)
async def test_a_broken_database_is_named_and_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data" / "callboard.db"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StorageError) as broken:
        await open_and_close(tmp_path)
    assert str(path) in str(broken.value)
    assert path.read_bytes() == content
    path.unlink()
    await open_and_close(tmp_path)


class FullStore:
    """A store whose disk is full whenever `is_full` says so about what is to be stored."""

    def __init__(self) -> None:
        self._store = open_memory_store()
        self.full_for: tuple[type[DurableEvent], ...] = ()
        self.refused = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        self._check(appends)
        return await self._store.commit(appends)

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        try:
            self._check(appends)
        except StorageFull as error:
            done(error)
            return True
        return self._store.commit_soon(appends, done)

    def _check(self, appends: Sequence[Append]) -> None:
        if any(isinstance(event, self.full_for) for each in appends for event in each.events):
            self.refused += 1
            raise StorageFull("The disk is full.")


@callboard.tool
async def count() -> str:
    """Has an effect."""
    effects.append("counted")
    return "counted"


effects: list[str] = []


@asynccontextmanager
async def open_on(
    store: FullStore, folder: Path, steps: Sequence[Step]
) -> AsyncGenerator[tuple[Runtime, ScriptedModel]]:
    """A runtime on this store, with a model in the process."""
    model = ScriptedModel(steps)
    finder = ModelFinder(ModelSelection(environ={}), local=model)
    plan = Plan(
        store=cast("Store", store),
        models=finder,
        registry=ToolRegistry([count]),
        strict=True,
    )
    effects.clear()
    async with open_host(plan) as host:
        yield Runtime(host, make_workspace(folder), finder), model


async def test_a_session_can_not_begin_on_a_full_disk(tmp_path: Path) -> None:
    store = FullStore()
    async with open_on(store, tmp_path, [reply("Hi.")]) as (runtime, _):
        store.full_for = (SessionCreated,)
        with pytest.raises(StorageError, match="full"):
            await runtime.create_session()
        store.full_for = ()
        assert await (await runtime.create_session()).run("Hello.") == "Hi."
        assert len(await runtime.sessions()) == 1


FULL_FOR: list[tuple[type[DurableEvent], int, str | None]] = [
    (InputAccepted, 0, None),
    (MessageCompleted, 0, None),
    (CallStarted, 0, "interrupted"),
    (CallFinished, 1, "interrupted"),
    (TurnEnded, 1, "success"),
]
"""What can't be stored; how often the tool ran then; and what becomes of its call."""


@pytest.mark.parametrize(
    ("event", "ran", "status"), FULL_FOR, ids=[f[0].__name__ for f in FULL_FOR]
)
async def test_a_full_disk_ends_the_turn_and_the_next_one_works(
    tmp_path: Path, event: type[DurableEvent], ran: int, status: str | None
) -> None:
    store = FullStore()
    asks: list[Step] = [] if event is InputAccepted else [reply("I count.", calls=[("count", {})])]
    asks += [reply("Counted.")] if event is TurnEnded else []
    async with open_on(store, tmp_path, [*asks, reply("Well.")]) as (runtime, model):
        session = await runtime.create_session()
        for _ in range(2):
            store.full_for = (event,)
            with trio.fail_after(20), pytest.raises(StorageError, match=r"full|store failed"):
                await session.run("Go.")
            assert store.refused
            assert len(effects) == ran
            if event is not InputAccepted:
                break
        store.full_for = ()
        assert await session.run("Again.") == "Well."
        record = await runtime.store.events(session.session_id)
        check_record(record)
        check_messages(messages_of(model.requests[-1]))
        finished = [s.event.status for s in record if isinstance(s.event, CallFinished)]
        assert finished == ([status] if status else [])
        assert len(effects) == ran
        assert await runtime.store.open_turns() == []


async def test_another_session_goes_on_while_one_meets_the_full_disk(tmp_path: Path) -> None:
    store = FullStore()
    async with open_on(store, tmp_path, [reply("Hi.")] * 3) as (runtime, _):
        one, two = await runtime.create_session(), await runtime.create_session()
        assert await one.run("Hello.") == "Hi."
        store.full_for = (InputAccepted,)
        with pytest.raises(StorageError):
            await one.run("Hello?")
        # What only reads goes on.
        assert [row.session_id for row in await runtime.sessions()].count(one.session_id) == 1
        store.full_for = ()
        assert [await two.run("Hello."), await one.run("Hello.")] == ["Hi.", "Hi."]
