"""Every built-in tool, called wrongly in every way: exactly the right error, and nothing else.

What is wrong is derived from the tools' schemas and definitions. A new tool needs a row in `GOOD`, and in
`WORKERS` when sessions that only look may have it.
"""

from __future__ import annotations

import copy
import inspect
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.actors.calls.call import CallPreparation
from callboard.config.sections import GitSettings
from callboard.config.settings import SearchEngine, SearchSettings, Settings
from callboard.embedding import runtime as embedded
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import SessionKind
from callboard.runtime.events import CallFinished, CallProposed, CallStarted, TurnEnded
from callboard.tools import registry
from callboard.tools.builtin import builtin_tools
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.tool import Tool, ToolContext
from support.stage import open_local_stage, play, read_result

GOOD: dict[str, dict[str, Any]] = {
    "get_current_time": {},
    "list_directory": {"path": "."},
    "read_file": {"path": "a.txt"},
    "write_file": {"path": "new.txt", "content": "new"},
    "edit_file": {"path": "a.txt", "edits": [{"old_text": "a", "new_text": "b"}]},
    "move_file": {"from": "a.txt", "to": "b.txt"},
    "delete_file": {"path": "a.txt"},
    "search_files": {"pattern": "a"},
    "run_code": {"language": "bash", "code": "touch ran.txt"},
    "shell": {"command": "touch ran.txt"},
    "process": {"action": "output", "id": "p1"},
    "http_request": {"url": "http://callboard.invalid/"},
    "web_fetch": {"url": "http://callboard.invalid/"},
    "web_search": {"query": "weather"},
    "message": {"text": "Hello."},
    "ask_user": {"question": "Which one?"},
    "delegate": {"kind": "worker", "task": "Look around."},
    "memory_store": {"text": "It rains."},
    "memory_search": {"query": "rain"},
    "plan": {"items": [{"text": "look", "status": "done"}]},
    "skill": {"name": "cooking"},
    "git_status": {},
    "git_diff": {},
    "git_log": {},
    "git_commit": {"message": "A change"},
    "git_push": {},
    "run_tests": {},
    "format_code": {},
    "install_package": {"manager": "pip", "packages": ["left"]},
}
"""Arguments with which a call of each would run."""

WORKERS = {
    "get_current_time", "list_directory", "read_file", "search_files", "web_fetch", "web_search",
    "memory_search", "plan", "skill",
}  # fmt: skip
"""What a session that only looks may use."""

INSTANT = {"get_current_time"}
"""What waits for nothing, so that neither a deadline nor a cancel can meet it."""

WRITERS = {"write_file", "edit_file", "move_file", "delete_file"}
"""Whose work on the disk is waited for: what their results say is what became of the file."""

TOOLS = [each.load() for each in builtin_tools()]
NAMES = [tool.name for tool in TOOLS]
SLOW = [name for name in NAMES if name not in INSTANT]
DEADLINE = 0.05

UNASKED: dict[str, Any] = {
    "policy": "auto",
    "on_approval": "allow",
    "settings": Settings(
        git=GitSettings(name="A Person", email="person@example.org"),
        search=SearchSettings(engine=SearchEngine.SEARXNG, base_url="http://searx.invalid"),
    ),
}
"""With these every tool runs, and nobody makes a preview before."""

HANDLES = (
    "files_read", "files_write", "network", "channel", "sessions", "processes", "memory_read",
    "memory_write", "plan", "skills", "search",
)  # fmt: skip
"""The fields of a context through which tools act."""


def test_every_tool_has_its_row() -> None:
    assert sorted(GOOD) == sorted(NAMES)
    assert set(NAMES) >= WORKERS


# ── what is wrong with arguments ─────────────────────────────────────────────────────────────────


def types_of(schema: dict[str, Any]) -> set[str]:
    """The JSON types that a schema names."""
    kinds = schema.get("type", [])
    found = {kinds} if isinstance(kinds, str) else set(kinds)
    for choice in schema.get("anyOf", ()):
        found |= types_of(choice)
    return found


def unfit(schema: dict[str, Any]) -> Any:
    """A value of a type that the schema does not name."""
    types = types_of(schema)
    assert types, f"a parameter of any type at all: {schema}"
    for kind, value in (("object", {"a": 1}), ("array", [1]), ("boolean", True)):
        if kind not in types:
            return value
    raise AssertionError(f"a parameter of nearly any type: {schema}")


def wrong_arguments(tool: Tool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each argument missing that is required, and each of another type: its name, and all."""
    good, schema = GOOD[tool.name], tool.definition.parameters
    for name in schema.get("required", ()):
        yield name, {key: value for key, value in good.items() if key != name}
    for name, its in schema["properties"].items():
        yield name, {**good, name: unfit(its)}


WRONG = [(tool.name, field, wrong) for tool in TOOLS for field, wrong in wrong_arguments(tool)]


def make_files(folder: Path) -> dict[str, bytes]:
    """A workspace with something in it."""
    workspace = folder / "work"
    workspace.mkdir()
    (workspace / "a.txt").write_text("a")
    return files_in(folder)


def files_in(folder: Path) -> dict[str, bytes]:
    workspace = folder / "work"
    found = {str(path.relative_to(workspace)): path for path in workspace.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else b"/" for name, path in found.items()}


@pytest.fixture(autouse=True)
def _offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tools, also where there is no sandbox; no call of these tests gets as far as it."""
    monkeypatch.setattr(Sandbox, "why_not", lambda self, definition: None)


async def refused(
    folder: Path, calls: list[tuple[str, dict[str, Any]]], **options: Any
) -> list[dict[str, Any]]:
    """The results of calls of one answer, none of which may run or leave anything behind."""
    before = make_files(folder)
    steps = [reply(calls=calls), reply("Done.")]
    options = {"on_approval": "allow", **options}
    async with open_local_stage(folder, steps, **options) as (runtime, _):
        session = await runtime.create_session()
        played = await play(session, "Go.")
        record = [stored.event for stored in await runtime.store.events(session.session_id)]
        assert len(await runtime.store.sessions()) == 1
    assert played.ended.outcome == "answered"
    assert [event for event in record if isinstance(event, CallStarted)] == []
    proposed = [event.call_id for event in record if isinstance(event, CallProposed)]
    finished = {event.call_id: event for event in record if isinstance(event, CallFinished)}
    assert len(proposed) == len(finished) == len(calls)
    assert files_in(folder) == before
    return [read_result(finished[call_id]) for call_id in proposed]


async def test_missing_and_ill_typed_arguments(tmp_path: Path) -> None:
    assert {name for name, *_ in WRONG} == {
        tool.name for tool in TOOLS if tool.definition.parameters["properties"]
    }
    results = await refused(tmp_path, [(name, wrong) for name, _, wrong in WRONG])
    told = [
        (name, field, result["error_type"], result["field"].partition("[")[0].partition(".")[0])
        for (name, field, _), result in zip(WRONG, results, strict=True)
    ]
    assert told == [(name, field, "validation_error", field) for name, field, _ in WRONG]
    for (name, *_), result in zip(WRONG, results, strict=True):
        [tool] = [tool for tool in TOOLS if tool.name == name]
        assert result["schema"] == tool.definition.parameters


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_further_arguments_are_dropped(tool: Tool) -> None:
    good = tool.decode(json.dumps(GOOD[tool.name]))
    more = tool.decode(json.dumps({**GOOD[tool.name], "approved": True, "tier": "read_only"}))
    assert more == good
    assert "approved" not in good.canonical


# ── who may call it ──────────────────────────────────────────────────────────────────────────────


async def test_a_session_that_only_looks_has_no_others(tmp_path: Path) -> None:
    before = make_files(tmp_path)
    others = [name for name in NAMES if name not in WORKERS]
    steps = [
        reply(calls=[("delegate", {"kind": "worker", "task": "Look."})]),
        reply(calls=[(name, GOOD[name]) for name in others]),
        reply("I looked."),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps, on_approval="allow") as (runtime, model):
        main = await runtime.create_session()
        await play(main, "Go.")
        calls = await runtime.store.calls()
    assert {tool.name for tool in model.requests[1].tools} == WORKERS
    worker = {call.name: call for call in calls if call.session_id != main.session_id}
    assert sorted(worker) == sorted(others)
    for call in worker.values():
        result = json.loads(model_result(model, call.call_id))
        assert result["error_type"] == "tool_not_available"
    assert files_in(tmp_path) == before


def model_result(model: callboard.ScriptedModel, call_id: str) -> str:
    """What the model was told of a call."""
    rounds = [item for request in model.requests for made in request.rounds for item in made.items]
    return next(item.content for item in rounds if getattr(item, "call_id", "") == call_id)  # type: ignore[union-attr]


async def test_a_branch_has_all(tmp_path: Path) -> None:
    steps = [
        reply(calls=[("delegate", {"kind": "branch", "task": "Act."})]),
        reply("I acted."),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        await play(await runtime.create_session(), "Go.")
    assert [tool.name for tool in model.requests[1].tools] == NAMES
    kinds = {kind: registry.ToolRegistry(TOOLS).definitions(None, kind) for kind in SessionKind}
    assert {definition.name for definition in kinds[SessionKind.WORKER]} == WORKERS


async def test_an_agent_without_tools_has_none(tmp_path: Path) -> None:
    calls = [(name, GOOD[name]) for name in NAMES]
    results = await refused(tmp_path, calls, agents=[callboard.Agent(tools=())])
    assert {result["error_type"] for result in results} == {"tool_not_available"}


async def test_without_its_handles_a_tool_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = CallPreparation._context

    def bare(*given: Any) -> ToolContext:
        context = usual(*given)
        for name in HANDLES:
            setattr(context, name, None)
        return context

    monkeypatch.setattr(CallPreparation, "_context", bare)
    needy = [tool for tool in TOOLS if tool.definition.needs]
    results = await refused(tmp_path, [(tool.name, GOOD[tool.name]) for tool in needy])
    for tool, result in zip(needy, results, strict=True):
        assert (result["error_type"], result["tier"]) == ("permission_denied", tool.definition.tier)
        assert result["reason"] in {f"no {need} handle" for need in tool.definition.needs}


async def test_what_a_person_denies_does_nothing(tmp_path: Path) -> None:
    strict = [tool for tool in TOOLS if tool.definition.tier != "read_only"]
    calls = [(tool.name, GOOD[tool.name]) for tool in strict]
    results = await refused(tmp_path, calls, policy="strict", on_approval="deny")
    assert {result["error_type"] for result in results} == {"permission_denied"}


# ── deadlines and cancels ────────────────────────────────────────────────────────────────────────


class Hanging:
    """A handle of which nothing ever returns: it waits on Trio, or blocks a thread until `opened`.

    Blocking work that writes is waited for, so that `opened` lets it fail, or with `then_works` work.
    """

    def __init__(self, real: Any, hang: Hang) -> None:
        self._real = real
        self._entered = hang.entered
        self._opened = hang.opened
        self._then_works = hang.then_works

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if inspect.iscoroutinefunction(real):
            return self._wait
        return self._blocking(real) if callable(real) else real

    async def _wait(self, *given: object, **named: object) -> None:
        self._entered.set()
        await trio.sleep_forever()

    def _blocking(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def block(*given: Any, **named: Any) -> Any:
            if trio.lowlevel.in_trio_task():  # what is asked before a call runs
                return real(*given, **named)
            with suppress(trio.RunFinishedError, trio.Cancelled):
                trio.from_thread.run_sync(self._entered.set)
            self._opened.wait()
            if self._then_works:
                return real(*given, **named)
            raise OSError("the disk is gone")

        return block


class Hang:
    """Makes every handle of every call hang."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, then_works: bool = False) -> None:
        self.entered = trio.Event()
        self.opened = threading.Event()
        self.then_works = then_works
        usual = CallPreparation._context

        def hanging(*given: Any) -> ToolContext:
            context = usual(*given)
            for name in HANDLES:
                if (handle := getattr(context, name)) is not None:
                    setattr(context, name, Hanging(handle, self))
            return context

        monkeypatch.setattr(CallPreparation, "_context", hanging)

    @asynccontextmanager
    async def opened_late(self) -> AsyncGenerator[None]:
        """Lets blocked threads go on once nothing else can happen: deadline or cancel came first."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._open)
            yield

    async def _open(self) -> None:
        await self.entered.wait()
        await trio.sleep(2 * DEADLINE)
        self.opened.set()


def hurried(name: str) -> Tool:
    """The tool with hardly any time."""
    [usual] = [tool for tool in TOOLS if tool.name == name]
    tool: Tool = copy.copy(usual)
    tool.definition = msgspec.structs.replace(usual.definition, timeout_seconds=DEADLINE)
    return tool


async def hung(
    folder: Path, name: str, how: str, monkeypatch: pytest.MonkeyPatch, *, then_works: bool = False
) -> tuple[CallFinished, str]:
    """The end of a call that hangs until its deadline or a cancel came, and how its turn ended."""
    hang = Hang(monkeypatch, then_works=then_works)
    if how == "deadline":
        others = [tool for tool in TOOLS if tool.name != name]
        monkeypatch.setattr(embedded, "builtin_tools", lambda: (*others, hurried(name)))
    steps = [reply(calls=[(name, GOOD[name])]), reply("Done.")]
    async with open_local_stage(folder, steps, **UNASKED) as (runtime, _):
        session = await runtime.create_session()
        with trio.fail_after(30):
            async with session.prompt("Go.") as turn:
                await hang.entered.wait()
                async with hang.opened_late():
                    if how == "cancel":
                        await turn.cancel()
                [ended] = [event async for event in turn if isinstance(event, TurnEnded)]
        record = [stored.event for stored in await runtime.store.events(session.session_id)]
    [finished] = [event for event in record if isinstance(event, CallFinished)]
    return finished, ended.outcome


@pytest.mark.parametrize("name", SLOW)
async def test_past_its_deadline_it_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_files(tmp_path)
    finished, _ = await hung(tmp_path, name, "deadline", monkeypatch)
    result = read_result(finished)
    if name in WRITERS:
        assert (finished.status, result["error_type"]) == ("error", "execution_error")
        assert "the disk is gone" in result["message"]
    else:
        assert (finished.status, result["error_type"]) == ("timeout", "timeout")
        assert result["elapsed_seconds"] == DEADLINE
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("name", SLOW)
async def test_a_cancel_ends_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_files(tmp_path)
    finished, _ = await hung(tmp_path, name, "cancel", monkeypatch)
    wanted = ("error", "execution_error") if name in WRITERS else ("cancelled", "cancelled")
    assert (finished.status, read_result(finished)["error_type"]) == wanted
    assert files_in(tmp_path) == before


WRITTEN = {
    "write_file": {"a.txt": b"a", "new.txt": b"new"},
    "edit_file": {"a.txt": b"b"},
    "move_file": {"b.txt": b"a"},
    "delete_file": {},
}
"""The workspace behind each call that has worked."""


@pytest.mark.parametrize("how", ["deadline", "cancel"])
@pytest.mark.parametrize("name", sorted(WRITERS))
async def test_what_was_written_after_all_is_no_timeout_and_no_cancel(
    name: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_files(tmp_path)
    finished, outcome = await hung(tmp_path, name, how, monkeypatch, then_works=True)
    assert (finished.status, "error_type" in read_result(finished)) == ("success", False)
    assert files_in(tmp_path) == WRITTEN[name] != before
    assert outcome == ("answered" if how == "deadline" else "cancelled")
