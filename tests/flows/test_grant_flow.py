"""Remembered answers: what they cover, how far, until when; and questions that are the same one."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Resource
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from callboard.runtime.events import ApprovalAnswered, ApprovalAsked, GrantGiven, SessionTainted
from support.flows.person import Person
from support.stage import (
    make_workspace,
    on_both_stores,
    open_in,
    play,
    play_in,
    read_result,
    run_in,
)


@callboard.tool(approval="always")
async def launch(name: str) -> str:
    """Launches something."""
    return name


@callboard.tool(approval="always")
async def execute(command: list[str] | str) -> str:
    """Runs a command."""
    return "ran"


@callboard.tool(tier="read_only", needs=["network"])
async def look_up(word: str) -> str:
    """Reads what strangers wrote."""
    return "read"


def write(path: str, content: str = "x") -> tuple[str, dict[str, str]]:
    return ("write_file", {"path": path, "content": content})


def launching(*names: str) -> Any:
    return reply(calls=[("launch", {"name": name}) for name in names])


def open_it(
    folder: Path, person: Any, *steps: Any, store: str = "memory", **options: Any
) -> AbstractAsyncContextManager[callboard.Runtime]:
    options["tools"] = [*options.get("tools", ()), launch, execute, look_up]
    return open_in(folder, [*steps, *[reply("Done.")] * 4], store, on_approval=person, **options)


async def statuses(runtime: callboard.Runtime) -> list[str]:
    rows = await runtime.store.calls()
    return [row.status.value for row in reversed(rows)]


@on_both_stores
@pytest.mark.parametrize(
    ("remember", "asked_again"),
    [
        (None, ["same turn", "next turn", "other session", "other agent"]),
        ("call", ["same turn", "next turn", "other session", "other agent"]),
        ("turn", ["next turn", "other session", "other agent"]),
        ("session", ["other session", "other agent"]),
        ("agent", ["other agent"]),
        ("always", []),
    ],
)
async def test_how_far_an_answer_is_remembered(
    tmp_path: Path, store: str, remember: str | None, asked_again: list[str]
) -> None:
    person = Person(remember=remember)
    again: list[str] = []

    def note(where: str, before: int) -> None:
        again.extend([where] if len(person.asked) > before else [])

    other = callboard.Agent(name="other")
    go = launching("a")
    steps = [go, go, reply("Done."), go, reply("Done."), go, reply("Done."), go]
    async with open_it(tmp_path, person, *steps, store=store, agents=[other]) as runtime:
        session = await run_in(runtime, "Go.")
        note("same turn", 1)
        for where, agent in (
            ("next turn", ""),
            ("other session", "general"),
            ("other agent", "other"),
        ):
            before = len(person.asked)
            if agent:
                session = await runtime.create_session(agent=agent)
            await session.run("Go.")
            note(where, before)
        assert await statuses(runtime) == ["success"] * 5
        scopes = [grant.scope for grant in await runtime.grants()]
    assert again == asked_again
    # Those of turns are over with them.
    assert set(scopes) == {remember} - {None, "call", "turn"}


async def test_a_grant_for_good_outlives_the_process(tmp_path: Path) -> None:
    person = Person(remember="always")
    async with open_it(tmp_path, person, launching("a"), store="disk") as runtime:
        await (await runtime.create_session()).run("Go.")
    person = Person(decision="deny")
    async with open_it(tmp_path, person, launching("a", "b"), store="disk") as runtime:
        await (await runtime.create_session()).run("Go.")
        assert (await statuses(runtime))[1:] == ["success", "denied"]
    assert [json.loads(request.arguments) for request in person.asked] == [{"name": "b"}]


async def test_of_a_file_tool_the_path_is_remembered_and_the_mode(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("old")
    person = Person(remember="session")
    first = reply(calls=[write("a.txt", "1")])
    second = reply(
        calls=[write("a.txt", "2"), write("b.txt", "2"), ("delete_file", {"path": "a.txt"})]
    )
    async with open_it(tmp_path, person, first, second) as runtime:
        await (await runtime.create_session()).run("Go.")
        (grant, *_) = await runtime.grants()
        assert grant.binding.paths == {"path": "a.txt"}
    assert sorted(person.tools) == ["delete_file", "write_file", "write_file"]


async def test_a_person_may_widen_the_path(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    (folder / "notes").mkdir()
    for name in ("a.txt", "b.txt", "c.md"):
        (folder / "notes" / name).write_text("old")
    person = Person(remember="session", pattern="notes/*.txt")
    first = reply(calls=[write("notes/a.txt")])
    second = reply(calls=[write("notes/b.txt"), write("notes/c.md")])
    async with open_it(tmp_path, person, first, second) as runtime:
        await (await runtime.create_session()).run("Go.")
    assert [json.loads(r.arguments)["path"] for r in person.asked] == ["notes/a.txt", "notes/c.md"]


async def test_the_same_question_is_asked_once_and_answers_all(tmp_path: Path) -> None:
    person = Person()
    async with open_it(tmp_path, person, launching("a", "a", "b", "a")) as runtime:
        played = await play(await runtime.create_session(), "Go.")
        assert await statuses(runtime) == ["success"] * 4
        rows = await runtime.approvals(state="used")
    assert len(person.asked) == 2
    asked = [event for event in played.events if isinstance(event, ApprovalAsked)]
    first = next(event for event in asked if event.arguments == '{"name":"a"}')
    assert [event.same_as for event in asked].count(first.approval_id) == 2
    assert len({row.approval_id for row in rows}) == 4  # each call has its own, used once


async def test_a_new_grant_answers_what_waits_for_the_same(tmp_path: Path) -> None:
    (make_workspace(tmp_path) / "a.txt").write_text("old")
    calls = reply(calls=[write("a.txt", "1"), write("a.txt", "2")])
    async with open_it(tmp_path, "wait", calls) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, ApprovalAsked) and '"1"' in event.arguments:
                    answer = callboard.ApprovalAnswer(decision="allow", remember="session")
                    while len(await runtime.approvals()) < 2:  # noqa: ASYNC110  nothing tells of it
                        await trio.lowlevel.checkpoint()
                    await runtime.answer(event.approval_id, answer)
        (grant,) = await runtime.grants()
        answered = [
            stored.event.answered_by
            for stored in await runtime.store.events(session.session_id)
            if isinstance(stored.event, ApprovalAnswered)
        ]
    assert answered == ["application", f"grant {grant.grant_id}"]


async def test_dont_ask_again_is_a_denial_that_says_where_it_is_changed(tmp_path: Path) -> None:
    person = Person(decision="deny", remember="session", reason="Too loud.")
    async with open_it(tmp_path, person, launching("a"), launching("a")) as runtime:
        played = await play(await runtime.create_session(), "Go.")
        (grant,) = await runtime.grants()
        second = read_result(played.results[1])
        assert second["error_type"] == "permission_denied"
        assert f"callboard grants revoke {grant.grant_id}" in second["message"]
        assert "Too loud." in second["message"]
        await runtime.revoke(grant.grant_id)
        assert await runtime.grants() == []
        with pytest.raises(ConflictError, match="revoked already"):
            await runtime.revoke(grant.grant_id)
        with pytest.raises(NotFoundError, match="no grant"):
            await runtime.revoke("grant_unknown")
    assert len(person.asked) == 1


@on_both_stores
async def test_a_revoked_grant_stops_a_call_waiting_for_a_key(tmp_path: Path, store: str) -> None:
    running, go_on = trio.Event(), trio.Event()

    @callboard.tool(resources=lambda _: [Resource("key")])
    async def hold() -> None:
        """Holds the key."""
        running.set()
        await go_on.wait()

    @callboard.tool(approval="always", resources=lambda _: [Resource("key")])
    async def use() -> str:
        """Wants the key."""
        return "used"

    answers = iter([Person(remember="session").said, Person(decision="deny").said])

    async def person(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        return next(answers)

    steps = [reply(calls=[("use", {})]), reply(calls=[("hold", {}), ("use", {})])]
    async with open_it(tmp_path, person, *steps, store=store, tools=[hold, use]) as runtime:
        session = await runtime.create_session()

        async def revoke() -> None:
            await running.wait()
            (grant,) = await runtime.grants()
            await runtime.revoke(grant.grant_id)
            go_on.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(revoke)
            await session.run("Go.")
        assert await statuses(runtime) == ["success", "success", "denied"]


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        ["sh", "-c", "ls"],
        ["/usr/bin/env", "ls"],
        ["xargs", "rm"],
        ["python3.11", "x.py"],
    ],
)
async def test_what_runs_other_words_is_never_allowed_for_good(
    tmp_path: Path, command: str | list[str]
) -> None:
    call = reply(calls=[("execute", {"command": command})])
    person = Person(remember="always")
    async with open_it(tmp_path, person, call, call) as runtime:
        await (await runtime.create_session()).run("Go.")
        assert await runtime.grants() == []
        assert await statuses(runtime) == ["success", "success"]
    assert len(person.asked) == 2
    assert person.asked[0].scopes == ("call", "turn", "session")


async def test_an_exact_command_may_be_allowed_for_good(tmp_path: Path) -> None:
    calls = [("execute", {"command": ["git", "log"]}), ("execute", {"command": ["git", "push"]})]
    person = Person(remember="always")
    steps = [reply(calls=calls[:1]), reply(calls=calls)]
    async with open_it(tmp_path, person, *steps) as runtime:
        await (await runtime.create_session()).run("Go.")
    assert [json.loads(r.arguments)["command"][1] for r in person.asked] == ["log", "push"]
    assert "always" in person.asked[0].scopes


@on_both_stores
async def test_a_tainted_session_knows_no_lasting_grants(tmp_path: Path, store: str) -> None:
    person = Person(remember="always")
    tainting = reply(calls=[("look_up", {"word": "x"})])
    steps = [launching("a"), tainting, launching("a", "b"), reply("Done."), launching("a")]
    async with open_it(tmp_path, person, *steps, store=store) as runtime:
        session, played = await play_in(runtime, "Go.")
        assert sorted(json.loads(r.arguments)["name"] for r in person.asked) == ["a", "a", "b"]
        assert [r.scopes[-1] for r in person.asked] == ["always", "session", "session"]
        assert len([e for e in played.events if isinstance(e, SessionTainted)]) == 1
        assert len([e for e in played.events if isinstance(e, GrantGiven)]) == 1
        row = await runtime.store.session(session.session_id)
        assert row is not None
        assert row.is_tainted
        # In another session, which has read nothing, it holds.
        await (await runtime.create_session()).run("Go.")
    assert len(person.asked) == 3


async def test_an_answer_that_can_not_be_taken_leaves_the_question_open(tmp_path: Path) -> None:
    call = reply(calls=[("execute", {"command": "ls"})])
    async with open_it(tmp_path, "wait", call) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, ApprovalAsked):
                    for wrong in (
                        callboard.ApprovalAnswer(decision="perhaps"),  # type: ignore[arg-type]
                        callboard.ApprovalAnswer(decision="allow", remember="always"),
                        callboard.ApprovalAnswer(decision="allow", remember="sometimes"),
                        callboard.ApprovalAnswer(decision="allow", remember="turn", pattern="*"),
                        callboard.ApprovalAnswer(decision="allow", arguments='{"command": 1}'),
                    ):
                        with pytest.raises(ValidationError):
                            await runtime.answer(event.approval_id, wrong)
                    (question,) = await runtime.approvals()
                    assert question.tool == "execute"
                    await runtime.answer(event.approval_id, "allow")
                    with pytest.raises(ConflictError):
                        await runtime.answer(event.approval_id, "allow")
        assert await statuses(runtime) == ["success"]
    with pytest.raises(callboard.CallboardError):
        await runtime.answer("approval_unknown", "allow")
