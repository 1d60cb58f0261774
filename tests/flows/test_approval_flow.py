"""Asking a person: whatever they say or don't say, the call has one result and siblings go on."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.approval import ApprovalDecision
from callboard.runtime.events import ApprovalAnswered, ApprovalAsked
from support.stage import (
    on_both_stores,
    open_in,
    open_local_stage,
    open_stage,
    play,
    play_in,
    read_result,
    tool_contents,
)
from support.waiting import go_on
from support.waits import until

ASKS = ("delete_file", {"path": "old.txt"})
STEPS = [reply(calls=[ASKS]), reply("As you wish.")]


def make_old_file(folder: Path) -> Path:
    path = folder / "work" / "old.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("old")
    return path


async def yes(request: callboard.ApprovalRequest) -> str:
    return "allow"


async def no(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
    return callboard.ApprovalAnswer(decision="deny", reason="I need it", answered_by="Mia")


async def true(request: callboard.ApprovalRequest) -> bool:
    return True


async def nonsense(request: callboard.ApprovalRequest) -> Any:
    return 42


async def crash(request: callboard.ApprovalRequest) -> str:
    raise ZeroDivisionError


@on_both_stores
@pytest.mark.parametrize(
    ("approver", "status", "words"),
    [
        (yes, "success", ""),
        (true, "success", ""),
        ("allow", "success", ""),
        (no, "denied", "denied by Mia: I need it"),
        ("deny", "denied", "on_approval says so"),
        (None, "denied", "nobody to ask"),
        (nonsense, "denied", "not allow or deny"),
        (crash, "denied", "handler failed"),
    ],
)
async def test_the_answer_decides(
    tmp_path: Path, store: str, approver: Any, status: str, words: str
) -> None:
    old = make_old_file(tmp_path)
    async with open_stage(tmp_path, STEPS, store=store, on_approval=approver) as stage:
        played = await play(await stage.runtime.create_session(), "Delete it.")
        assert played.ended.outcome == "answered"
        assert played.statuses == [("delete_file", status)]
        assert old.exists() == (status == "denied")
        [content] = tool_contents(stage.sent[1])
        assert words in content.get("message", "")
        if status == "denied":
            assert content["error_type"] == "permission_denied"
            assert content["tier"] == "workspace"


async def test_the_person_sees_what_would_run(tmp_path: Path) -> None:
    make_old_file(tmp_path)
    seen: list[callboard.ApprovalRequest] = []

    async def look(request: callboard.ApprovalRequest) -> str:
        seen.append(request)
        return "deny"

    async with open_stage(tmp_path, STEPS, store="disk", on_approval=look) as stage:
        session, played = await play_in(stage.runtime, "Delete it.")
        [request] = seen
        assert (request.tool, request.tier) == ("delete_file", "workspace")
        assert json.loads(request.arguments)["path"] == "old.txt"
        assert request.reason
        assert (request.session_id, request.call_id) == (
            session.session_id,
            played.results[0].call_id,
        )
        kinds = [type(event) for event in played.events]
        assert kinds.index(ApprovalAsked) < kinds.index(ApprovalAnswered)
        assert kinds.index(ApprovalAnswered) < kinds.index(callboard.CallFinished)


async def test_siblings_run_while_one_waits(tmp_path: Path) -> None:
    old = make_old_file(tmp_path)
    written = trio.Event()

    async def wait(request: callboard.ApprovalRequest) -> str:
        await written.wait()
        return "allow"

    calls = [ASKS, ("write_file", {"path": "new.txt", "content": "new"})]
    steps = [reply(calls=calls), reply("Both.")]
    async with open_stage(tmp_path, steps, on_approval=wait) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallFinished) and event.name == "write_file":
                    assert old.exists()
                    written.set()
        assert not old.exists()
        assert [c["status"] for c in tool_contents(stage.sent[1])] == ["success", "success"]


@on_both_stores
async def test_the_questions_of_one_answer_come_in_the_models_order(
    tmp_path: Path, store: str
) -> None:
    """Four times, as Trio wakes tasks in either order; what asks the same is asked about once."""
    names = ["a.txt", "b.txt", "a.txt", "c.txt", "d.txt"]
    calls = [("delete_file", {"path": name}) for name in names]
    put: list[tuple[str, int, int]] = []

    async def deny(request: callboard.ApprovalRequest) -> str:
        put.append((json.loads(request.arguments)["path"], request.number, request.count))
        return "deny"

    steps = [reply(calls=calls), reply("None, then.")] * 4
    async with open_stage(tmp_path, steps, store=store, on_approval=deny) as stage:
        for name in names:
            (tmp_path / "work" / name).write_text("old")
        session = await stage.runtime.create_session()
        for _ in range(4):
            put.clear()
            played = await play(session, "Delete them.")
            in_order = ["a.txt", "b.txt", "c.txt", "d.txt"]
            assert put == [(name, number, 4) for number, name in enumerate(in_order, 1)]
            asked = [event for event in played.events if isinstance(event, ApprovalAsked)]
            assert [json.loads(event.arguments)["path"] for event in asked] == names


@pytest.mark.parametrize("life", range(4))  # Trio wakes tasks in any order
async def test_after_a_restart_they_come_in_the_models_order_too(tmp_path: Path, life: int) -> None:
    names = ["a.txt", "b.txt", "c.txt", "d.txt"]
    put: list[str] = []

    async def leave(request: callboard.ApprovalRequest) -> str:
        put.append(request.approval_id)
        await trio.sleep_forever()
        return "deny"

    async def deny(request: callboard.ApprovalRequest) -> str:
        put.append(json.loads(request.arguments)["path"])
        return "deny"

    async with trio.open_nursery() as nursery:
        calls = [("delete_file", {"path": name}) for name in names]
        steps = [reply(calls=calls)]
        async with open_in(tmp_path, steps, "disk", on_approval=leave) as runtime:
            for name in names:
                (tmp_path / "work" / name).write_text("old")
            session = await runtime.create_session()
            nursery.start_soon(prompt_until_the_end, session)
            await until(lambda: len(put) == len(names))
    put.clear()
    async with open_in(tmp_path, [reply("None.")], "disk", on_approval=deny) as runtime:
        await go_on(runtime, session.session_id)
    assert put == names


async def prompt_until_the_end(session: callboard.Session) -> None:
    with suppress(callboard.ConflictError):  # it is suspended
        async with session.prompt("Delete them.") as turn:
            async for _ in turn:
                pass


Ask = Callable[[callboard.ApprovalRequest], Awaitable[callboard.ApprovalAnswer]]


def editing(**changes: Any) -> Ask:
    """A person who allows the call with these arguments changed."""

    async def edit(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        arguments = json.loads(request.arguments) | changes
        return callboard.ApprovalAnswer(decision="allow", arguments=json.dumps(arguments))

    return edit


async def test_edited_arguments_run_and_the_model_is_told(tmp_path: Path) -> None:
    old = make_old_file(tmp_path)
    other = old.with_name("other.txt")
    other.write_text("other")
    approver = editing(path="other.txt")
    async with open_stage(tmp_path, STEPS, store="disk", on_approval=approver) as stage:
        played = await play(await stage.runtime.create_session(), "Delete it.")
        assert played.statuses == [("delete_file", "success")]
        assert old.exists()
        assert not other.exists()
        [content] = tool_contents(stage.sent[1])
        assert content["result"]["deleted"] == ["other.txt"]
        assert json.loads(played.results[0].arguments or "")["path"] == "other.txt"
        [answered] = [event for event in played.events if isinstance(event, ApprovalAnswered)]
        assert json.loads(answered.arguments or "")["path"] == "other.txt"


@pytest.mark.parametrize(
    ("changes", "error_type"),
    [({"path": 3}, "validation_error"), ({"path": "../x"}, "path_not_allowed")],
)
async def test_edited_arguments_are_checked_like_the_models_own(
    tmp_path: Path, changes: dict[str, Any], error_type: str
) -> None:
    old = make_old_file(tmp_path)
    async with open_stage(tmp_path, STEPS, on_approval=editing(**changes)) as stage:
        played = await play(await stage.runtime.create_session(), "Delete it.")
        assert read_result(played.results[0])["error_type"] == error_type
        assert old.exists()


@pytest.mark.parametrize("last", ["allow", "deny"])
async def test_a_more_dangerous_edit_asks_again(tmp_path: Path, last: ApprovalDecision) -> None:
    ran: list[str] = []

    @callboard.tool(
        approval="always",
        tier="workspace",
        raise_tier=lambda a: (
            callboard.Tier.ELEVATED if a.name == "all" else callboard.Tier.WORKSPACE
        ),
    )
    async def erase(name: str) -> None:
        """Erases."""
        ran.append(name)

    asked: list[tuple[str, str]] = []

    async def person(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        asked.append((request.tier, request.arguments))
        if len(asked) == 1:
            return callboard.ApprovalAnswer(decision="allow", arguments='{"name": "all"}')
        return callboard.ApprovalAnswer(decision=last)

    steps = [reply(calls=[("erase", {"name": "one"})]), reply("So be it.")]
    async with open_local_stage(tmp_path, steps, tools=[erase], on_approval=person) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
        assert asked == [("workspace", '{"name":"one"}'), ("elevated", '{"name":"all"}')]
        answers = [e.decision for e in played.events if isinstance(e, ApprovalAnswered)]
        assert answers == ["revised", last]
        rows = {row.arguments: row.state for row in await runtime.approvals(state=None)}
        assert rows == {
            '{"name":"one"}': "revised",
            '{"name":"all"}': "used" if last == "allow" else "denied",
        }
        result = read_result(played.results[0])
        if last == "allow":
            assert (ran, result["arguments"]) == (["all"], {"name": "all"})
        else:
            assert (ran, result["error_type"]) == ([], "permission_denied")


async def test_silence_is_a_denial(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    @callboard.tool(approval="always")
    async def ask() -> None:
        """Asks first."""
        raise AssertionError

    async def away(request: callboard.ApprovalRequest) -> str:
        await trio.sleep_forever()
        raise AssertionError

    settings = Settings(limits=Limits(approval_seconds=600))
    steps = [reply(calls=[("ask", {})]), reply("Later, then.")]
    async with open_local_stage(
        tmp_path, steps, tools=[ask], on_approval=away, settings=settings
    ) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
        assert played.statuses == [("ask", "denied")]
        assert read_result(played.results[0])["error_type"] == "approval_expired"
        assert trio.current_time() >= 600


@pytest.mark.parametrize(
    ("policy", "new", "overwrite", "read"),
    [
        ("auto", "success", "success", "success"),
        ("balanced", "success", "denied", "success"),
        ("strict", "denied", "denied", "success"),
    ],
)
async def test_presets_decide_who_is_asked(
    tmp_path: Path, policy: str, new: str, overwrite: str, read: str
) -> None:
    make_old_file(tmp_path)
    calls = [
        ("write_file", {"path": "new.txt", "content": "x"}),
        ("write_file", {"path": "old.txt", "content": "x"}),
        ("read_file", {"path": "old.txt"}),
    ]
    steps = [reply(calls=calls), reply("Done.")]
    async with open_stage(tmp_path, steps, policy=policy, on_approval="deny") as stage:
        await play(await stage.runtime.create_session(), "Go.")
        rows = await stage.runtime.store.calls()
        statuses = {(row.name, json.loads(row.arguments)["path"]): row.status for row in rows}
        assert statuses == {
            ("write_file", "new.txt"): new,
            ("write_file", "old.txt"): overwrite,
            ("read_file", "old.txt"): read,
        }
