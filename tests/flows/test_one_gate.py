"""One gate for every path: whatever makes a tool run, the broker gave its verdict about that call.

The ways in are found, not listed: a new public method, or a new place that hands calls to the
dispatcher or runs a tool, fails here until somebody says what it does.
"""

from __future__ import annotations

import ast
import asyncio  # ruff: ignore[banned-api] one of the ways in
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.actors.permissions.decisions import Decisions
from callboard.config.settings import Settings
from callboard.embedding import runtime as embedded
from callboard.portals import aio
from callboard.providers.testing.script import fail, reply
from callboard.runtime.definitions import Verdict
from callboard.runtime.messages import CheckPermissions, Decision, DispatcherMessage, RunCalls
from callboard.tools.tool import Tool, ToolContext
from support.stage import make_workspace, on_both_stores, run_in
from support.waiting import go_on, killed_while_waiting, open_on

PACKAGE = Path(callboard.__file__).parent

RUNS_TOOLS = {
    *("Session.prompt", "Session.run", "Session.resume", "Session.submit"),
    *("Session.retry", "Session.regenerate"),
    *("Runtime.call_tool", "Runtime.call_tools"),
}
"""Public methods by which tools may run; each has its way below."""

RUNS_NONE = {
    "Runtime": {
        "answer", "answer_question", "approval", "approvals", "complete", "create_session", "definitions_for",
        "get_session", "grants", "list_models", "plugins", "purge", "questions", "register",
        "reload", "revoke", "search", "sessions", "status", "test_provider", "tools", "unregister", "usage", "wait_lists",
    },
    "Session": {
        "cancel", "changes", "delete", "delete_messages", "follow", "fork", "messages", "rename", "restore",
        "set_agent", "set_budget", "undo", "usage",
    },
}  # fmt: skip


class Gate:
    """Counts verdicts, and what ran, by call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verdicts: Counter[str] = Counter()
        self.ran: list[str] = []
        usual = Decisions.decide

        def counted(decisions: Decisions, message: CheckPermissions) -> Any:
            self.verdicts.update(question.call_id for question in message.questions)
            return usual(decisions, message)

        monkeypatch.setattr(Decisions, "decide", counted)

    @property
    def tool(self) -> Tool:
        @callboard.tool(tier="system")
        async def act(context: ToolContext) -> str:
            """Acts."""
            self.ran.append(context.call_id)
            return "acted"

        return act

    def check(self, runs: int) -> None:
        assert len(self.ran) == runs
        assert set(self.ran) <= self.verdicts.keys()
        assert all(self.verdicts[call_id] >= 1 for call_id in self.ran)


def steps(*more: Any) -> callboard.ScriptedModel:
    return callboard.ScriptedModel([*more, reply(calls=[("act", {})]), reply("Done.")])


def options(gate: Gate, folder: Path, store: str = "memory", *more: Any) -> dict[str, Any]:
    data = folder / "data" if store == "disk" else None
    return {
        "model": steps(*more), "workspace": make_workspace(folder), "environ": {},
        "tools": [gate.tool], "data": data,
    }  # fmt: skip


async def by_run(gate: Gate, folder: Path, store: str) -> None:
    async with callboard.open_runtime(**options(gate, folder, store)) as runtime:
        await (await runtime.create_session()).run("Act.")


async def by_prompt(gate: Gate, folder: Path, store: str) -> None:
    async with callboard.open_runtime(**options(gate, folder, store)) as runtime:
        async with (await runtime.create_session()).prompt("Act.") as turn:
            await turn.answer()


async def by_call(gate: Gate, folder: Path, store: str) -> None:
    """No model asks for it."""
    async with callboard.open_runtime(**options(gate, folder, store)) as runtime:
        assert (await runtime.call_tool("act")).output == "acted"


async def by_retry(gate: Gate, folder: Path, store: str) -> None:
    """The model call fails first, and is made again."""
    broken = fail("overloaded", retryable=True)
    given = options(gate, folder, store, broken)
    async with callboard.open_runtime(**given) as runtime:
        await (await runtime.create_session()).run("Act.")


async def by_retried_turn(gate: Gate, folder: Path, store: str) -> None:
    """The turn failed, and is asked for once more."""
    async with callboard.open_runtime(**options(gate, folder, store, fail("broken"))) as runtime:
        session = await runtime.create_session()
        with pytest.raises(callboard.CallboardError, match="broken"):
            await session.run("Act.")
        async with session.retry() as turn:
            await turn.answer()


async def by_regenerated_answer(gate: Gate, folder: Path, store: str) -> None:
    """The turn was answered without a call, and is asked for another answer."""
    async with callboard.open_runtime(**options(gate, folder, store, reply("No."))) as runtime:
        session = await run_in(runtime, "Act.")
        async with session.regenerate() as turn:
            await turn.answer()


async def by_delegate(gate: Gate, folder: Path, store: str) -> None:
    """A session below makes the call."""
    below = reply(calls=[("delegate", {"kind": "branch", "task": "Act."})])
    script = [below, reply(calls=[("act", {})]), reply("Acted."), reply("Done.")]
    given = {**options(gate, folder, store), "model": callboard.ScriptedModel(script)}
    async with callboard.open_runtime(**given) as runtime:
        await (await runtime.create_session()).run("Have it act.")
        delegated = await runtime.store.calls(name="delegate")
    assert [gate.verdicts[call.call_id] for call in delegated] == [1]


@on_both_stores
@pytest.mark.parametrize(
    "way",
    [by_run, by_prompt, by_call, by_delegate, by_retry, by_retried_turn, by_regenerated_answer],
)
async def test_each_way_passes_the_broker(
    tmp_path: Path,
    store: str,
    way: Callable[[Gate, Path, str], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch)
    await way(gate, tmp_path, store)
    gate.check(runs=1)


def test_a_plain_program_passes_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with callboard.start_in_thread(**options(gate, tmp_path)) as runtime:
        runtime.create_session().run("Act.")
    gate.check(runs=1)


def test_an_asyncio_program_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)

    async def main() -> None:
        async with aio.open_runtime(**options(gate, tmp_path)) as runtime:
            await (await runtime.create_session()).run("Act.")

    asyncio.run(main())
    gate.check(runs=1)


@pytest.mark.parametrize("by", ["resume", "prompt"])
async def test_what_goes_on_after_a_crash_passes_the_broker(
    tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = killed_while_waiting(tmp_path)
    gate = Gate(monkeypatch)
    async with open_on(tmp_path, [reply("Done.")] * 2, "allow") as runtime:
        if by == "prompt":
            await (await runtime.get_session(session_id)).run("Go on.")
        else:
            await go_on(runtime, session_id)
        ran = [row.call_id for row in await runtime.store.calls(name="note")]
    assert len(ran) == 2
    assert all(gate.verdicts[call_id] >= 1 for call_id in ran)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_deferred_call_passes_the_broker_in_the_turn_that_runs_it(
    tmp_path: Path, is_restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    given = options(gate, tmp_path, "disk") | {
        "policy": "strict", "on_approval": "wait",
        "settings": Settings(agents={"general": callboard.Agent(defer=True)}),
        "model": steps(reply(calls=[("act", {})]), reply("It waits.")),
    }  # fmt: skip
    async with callboard.open_runtime(**given) as runtime:
        session = await run_in(runtime, "Act.")
        [row] = await runtime.approvals()
        assert (gate.ran, gate.verdicts[row.call_id]) == ([], 1)
        if not is_restarted:
            await late_turn(runtime, session, row.approval_id)
    if is_restarted:
        async with callboard.open_runtime(**given) as runtime:
            session = await runtime.get_session(session.session_id)
            await late_turn(runtime, session, row.approval_id)
    assert gate.ran == [row.call_id]
    assert gate.verdicts[row.call_id] == 2


async def late_turn(
    runtime: callboard.Runtime, session: callboard.Session, approval_id: str
) -> None:
    await runtime.answer(approval_id, "allow")
    while await runtime.store.open_inputs(session.session_id):  # noqa: ASYNC110  nothing tells
        await trio.sleep(0.01)


async def test_a_denial_ends_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control: without the verdict, nothing runs."""
    gate = Gate(monkeypatch)
    denied = Decision(verdict=Verdict.DENY, reason="the test says so")
    monkeypatch.setattr(Decisions, "decide", lambda _, m: (denied,) * len(m.questions))
    await by_run(gate, tmp_path, "memory")
    assert gate.ran == []


# ── the ways in are all of them ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["Runtime", "Session"])
def test_every_public_method_is_known(name: str) -> None:
    kind = getattr(embedded, name)
    methods = {each for each in dir(kind) if each[0] != "_" and callable(getattr(kind, each))}
    running = {each.partition(".")[2] for each in RUNS_TOOLS if each.startswith(name)}
    assert methods == RUNS_NONE[name] | running


def test_the_dispatcher_takes_calls_by_one_message_from_one_place() -> None:
    assert DispatcherMessage is RunCalls
    assert set(places_that_call("RunCalls")) == {"actors/turn/turn.py"}


def test_a_tool_is_run_in_one_place_behind_one_start() -> None:
    assert set(places_that_call("execute", on="tool")) == {"actors/calls/call.py"}
    assert set(places_that_name("call", "execute")) == {"actors/calls/dispatcher.py"}


def modules_with(name: str) -> Iterator[tuple[str, ast.Module]]:
    """Those whose text has the name: no others can call it, or take it from anywhere."""
    for path in sorted(_files(PACKAGE)):
        text = path.read_text(encoding="utf-8")
        if name in text:
            yield str(path.relative_to(PACKAGE)), ast.parse(text)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            yield from _files(path)
        elif path.suffix == ".py":
            yield path


def places_that_call(name: str, *, on: str = "") -> Iterator[str]:
    """Modules with a call of this function, or of this method of what is called `on`."""
    for module, tree in modules_with(name):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(called, ast.Name) and called.id == name and not on:
                yield module
            elif isinstance(called, ast.Attribute) and called.attr == name and on:
                owner = called.value
                if getattr(owner, "attr", getattr(owner, "id", "")) == on:
                    yield module


def places_that_name(source: str, name: str) -> Iterator[str]:
    """Modules that import this name from this module."""
    for module, tree in modules_with(name):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").endswith(source):
                continue
            if any(alias.name == name for alias in node.names):
                yield module
