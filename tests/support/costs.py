"""Counters of what work costs, which are the same however fast the machine is and whatever else it does.

`open_house` runs a runtime before a model server of the benchmarks that is part of the same Trio run.
It answers in one write, and writes pieces only when everybody waits, so that each of them is one network
read. What the server's own tasks do is not counted.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import apsw
import msgspec
import trio
import trio.testing
from trio._core._thread_cache import ThreadCache

import callboard
from callboard.config.settings import Limits, Settings
from callboard.runtime.store.file import DATABASE_NAME
from callboard.tools.tool import Tool
from support.store_log import pages_in

PROVIDER = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "provider.py"
LEFT_OUT = {"sandbox"}
"""Tasks that run beside the work, whenever they get to it."""


def _provider() -> Any:
    """The model server of the benchmarks, as a module."""
    name = "callboard_benchmarks_provider"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, PROVIDER)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class Costs(msgspec.Struct):
    """What was counted, in all or for each unit of work."""

    steps: float = 0
    scopes: float = 0
    hops: float = 0
    commits: float = 0
    statements: float = 0
    pages: float = 0
    calls: float = 0

    def less(self, other: Costs, units: int) -> Costs:
        """What each unit cost that this has more than the other."""
        mine, its = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Costs(*(round((a - b) / units, 2) for a, b in zip(mine, its, strict=True)))


class Meter(trio.abc.Instrument):
    """Counts what a runtime does within `counted` blocks.

    Attributes:
        steps: The steps of each task, by its name.
        sql: The statements that ran, by their text.
    """

    def __init__(self) -> None:
        self.costs = Costs()
        self.steps: Counter[str] = Counter()
        self.sql: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()
        self._server: trio.Nursery | None = None
        self._is_ours = False
        self._counts = False
        self._are_calls_counted = False

    def leave_out(self, nursery: trio.Nursery) -> None:
        """Count nothing of what the tasks of this nursery do."""
        self._server = nursery

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self._counts:
            return
        self._is_ours = not self._is_servers(task)
        if not self._is_ours:
            return
        self.costs.steps += 1
        self.steps[task.name] += 1
        if self._are_calls_counted:
            sys.setprofile(self._called)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename != __file__:
            self.costs.calls += 1
            self.functions[f"{Path(code.co_filename).name}:{code.co_qualname}"] += 1

    def _is_servers(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task.parent_nursery is not None:
            if task.parent_nursery is self._server or task.name in LEFT_OUT:
                return True
            task = task.parent_nursery.parent_task
        return False

    @contextmanager
    def installed(self) -> Generator[None]:
        """Watch scopes, threads and databases that are opened in this block."""
        enter, start = trio.CancelScope.__enter__, ThreadCache.start_thread_soon

        def entered(scope: trio.CancelScope) -> trio.CancelScope:
            self.costs.scopes += self._counts and self._is_ours
            return enter(scope)

        def started(*args: Any, **kwargs: Any) -> None:
            self.costs.hops += self._counts and self._is_ours
            start(*args, **kwargs)

        def ran(connection: apsw.Connection) -> None:
            connection.set_exec_trace(self._ran)

        with (
            patch.object(trio.CancelScope, "__enter__", entered),
            patch.object(ThreadCache, "start_thread_soon", started),
            patch.object(apsw, "connection_hooks", [*apsw.connection_hooks, ran]),
        ):
            yield

    def _ran(self, _: object, sql: str, __: object) -> bool:
        if self._counts:
            self.costs.statements += 1
            self.sql[sql] += 1
            self.costs.commits += sql.lower().startswith("commit")
        return True

    @contextmanager
    def counted(self, log: Path | None = None, *, calls: bool = False) -> Generator[Costs]:
        """Count what happens in the block; `log` is SQLite's log, whose pages count."""
        self.costs = costs = Costs()
        for counter in (self.steps, self.sql, self.functions):
            counter.clear()
        before = pages_in(log) if log is not None else 0
        self._counts, self._are_calls_counted = True, calls
        try:
            yield costs
        finally:
            self._counts = self._are_calls_counted = False
            sys.setprofile(None)
        if log is not None:
            costs.pages = pages_in(log) - before


class House(msgspec.Struct):
    """A runtime, its meter, and the log of its store, if it has one."""

    runtime: callboard.Runtime
    meter: Meter
    log: Path | None

    async def turn(self, model: str, *, calls: bool = False) -> Costs:
        """What one turn of a new session costs."""
        session = await self.runtime.create_session(agent="bench", model=model)
        with self.meter.counted(self.log, calls=calls) as costs:
            async with session.prompt("go") as turn:
                async for _ in turn:
                    pass
        assert turn.ended is not None
        assert turn.ended.outcome == "answered", turn.ended.message
        return costs

    async def sessions(self, count: int, model: str) -> Costs:
        """What so many sessions at once cost, each with one turn."""

        async def one() -> None:
            session = await self.runtime.create_session(agent="bench", model=model)
            async with session.prompt("go") as turn:
                async for _ in turn:
                    pass

        with self.meter.counted(self.log) as costs:
            async with trio.open_nursery() as nursery:
                for _ in range(count):
                    nursery.start_soon(one)
        return costs


@callboard.tool
async def noop(x: int, note: str) -> str:  # noqa: ASYNC124  tools are async where they can be
    """Does nothing."""
    return "ok"


class Meeting:
    """A tool whose calls wait until all of them run, and end together."""

    def __init__(self) -> None:
        self._missing = 0
        self._all_run = trio.Event()

        @callboard.tool
        async def meet(x: int, note: str) -> str:
            """Waits for the others."""
            self._missing -= 1
            if self._missing:
                await self._all_run.wait()
            else:
                self._all_run.set()
            return "ok"

        self.tool = meet

    def expect(self, calls: int) -> None:
        """Let the next so many calls wait for each other."""
        self._missing = calls
        self._all_run = trio.Event()


@asynccontextmanager
async def open_house(folder: Path, tool: Tool, *, store: str = "memory") -> AsyncGenerator[House]:
    """A runtime with one tool before a server; `store` is memory or disk."""
    provider = _provider()
    meter = Meter()
    work, data = folder / "work", folder / "data"
    work.mkdir()

    async def respond(stream: trio.SocketStream, head: bytes, body: bytes) -> None:
        request = msgspec.json.decode(body, type=provider.Request)
        name = request.tools[0].function.name if request.tools else ""
        first, *others = provider.answer(request.model, request.results(), name).pieces
        await stream.send_all(first)
        for piece in others:
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(piece)

    async def serve(stream: trio.SocketStream) -> None:
        rest = bytearray()
        try:
            while request := await provider.next_request(stream, rest):
                await respond(stream, *request)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    trio.lowlevel.add_instrument(meter)
    try:
        async with trio.open_nursery() as nursery:
            meter.leave_out(nursery)
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            with meter.installed():
                async with callboard.open_runtime(
                    model="text-5",
                    base_url=f"http://127.0.0.1:{port}/v1",
                    workspace=work,
                    data=data if store == "disk" else None,
                    tools=[tool],
                    agents=[callboard.Agent(name="bench", tools=(tool.name,))],
                    policy="auto",
                    settings=Settings(limits=Limits(max_repeats=100_000)),
                    environ={},
                ) as runtime:
                    log = data / f"{DATABASE_NAME}-wal" if store == "disk" else None
                    house = House(runtime, meter, log)
                    await house.turn("text-5")  # warms up what is made on first use
                    yield house
            nursery.cancel_scope.cancel()
    finally:
        trio.lowlevel.remove_instrument(meter)
