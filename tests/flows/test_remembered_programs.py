"""A remembered answer about a command is about what it ran: when that changes, a person is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.settings import Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Verdict
from callboard.runtime.errors import ValidationError
from support.flows.person import Person
from support.flows.program_calls import Call
from support.stage import make_workspace, open_in

pytestmark = pytest.mark.usefixtures("sandbox")

SCRIPT: Call = ("shell", {"command": ["./x.sh"]})
ASKS = Settings(rules=(PlacedRule(Rule(tool="shell", verdict=Verdict.ASK), "a rule"),))
LIST: Call = ("shell", {"command": ["ls"]})


def steps(*calls: Call) -> list[Any]:
    return [step for call in calls for step in (reply(calls=[call]), reply("Done."))]


def put(folder: Path, text: str, name: str = "x.sh") -> None:
    path = make_workspace(folder) / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def open_it(folder: Path, person: Any, *calls: Call, **options: Any) -> Any:
    options = {"policy": "strict", "on_approval": person, **options}
    return open_in(folder, steps(*calls), options.pop("store", "memory"), **options)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["./x.sh"], "x.sh"),
        (["flock", "lock", "./x.sh"], "x.sh"),
        (["sed", "-f", "notes.txt", "x.sh"], "notes.txt"),
        (["make", "-s"], "Makefile"),
    ],
    ids=str,
)
async def test_what_ran_has_changed(
    tmp_path: Path, command: str | Sequence[str], name: str
) -> None:
    put(tmp_path, "echo old", name)
    put(tmp_path, "unused", "other.sh")
    put(tmp_path, "", "lock")
    person = Person(remember="session")
    call: Call = ("shell", {"command": command})
    async with open_it(tmp_path, person, call, call, call, call) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        put(tmp_path, "changed", "other.sh")  # which it does not name
        await session.run("Go.")
        assert len(person.asked) == 1  # the control: what it runs is as it was
        put(tmp_path, "echo new", name)
        await session.run("Go.")
        assert len(person.asked) == 2
        put(tmp_path, "echo old", name)
        await session.run("Go.")
    assert len(person.asked) == 2  # both are remembered


async def test_a_batch_that_rewrites_what_was_remembered(tmp_path: Path) -> None:
    """The calls of one answer are decided about together: the last look is when the program starts."""
    put(tmp_path, "#!/bin/sh\necho old")
    person = Person(remember="session")
    edits = [{"old_text": "echo old", "new_text": "touch made"}]
    both = reply(calls=[("edit_file", {"path": "x.sh", "edits": edits}), SCRIPT])
    answers = [*steps(SCRIPT), both, reply("Done.")]
    async with open_in(tmp_path, answers, on_approval=person, settings=ASKS) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        await session.run("Go.")
        rows = await runtime.store.calls(limit=2)
    assert {row.name: row.status for row in rows} == {"edit_file": "success", "shell": "denied"}
    assert not (tmp_path / "work" / "made").exists()


async def test_what_can_not_be_told_is_not_remembered(tmp_path: Path) -> None:
    put(tmp_path, "x")
    person = Person(remember="session")
    call: Call = ("shell", {"command": "cat x.sh | sh"})
    async with open_it(tmp_path, person, call, call, LIST, LIST) as runtime:
        session = await runtime.create_session()
        for _ in range(4):
            await session.run("Go.")
    assert [request.scopes for request in person.asked[:2]] == [("call",), ("call",)]
    assert len(person.asked) == 3  # the control: `ls` was asked about once


async def test_for_good_goes_what_does_only_what_its_words_say(tmp_path: Path) -> None:
    put(tmp_path, "#!/bin/sh\n:")
    person = Person(remember="always")
    for _ in range(2):
        async with open_it(tmp_path, person, SCRIPT, LIST, store="disk") as runtime:
            session = await runtime.create_session()
            await session.run("Go.")
            await session.run("Go.")
    assert [request.arguments for request in person.asked] == [
        '{"command":["./x.sh"]}',
        '{"command":["ls"]}',
        '{"command":["./x.sh"]}',
    ]
    assert ["always" in request.scopes for request in person.asked] == [False, True, False]


async def test_the_answer_to_a_question_of_an_earlier_process_is_bound_too(tmp_path: Path) -> None:
    put(tmp_path, "#!/bin/sh\necho old")
    late = Settings(
        rules=(PlacedRule(Rule(tool="shell", verdict=Verdict.ASK, defer=True), "late"),)
    )
    options: dict[str, Any] = {"store": "disk", "settings": late, "policy": "auto"}
    async with open_it(tmp_path, "wait", SCRIPT, **options) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        (question,) = await runtime.approvals()
    answer = callboard.ApprovalAnswer(decision="allow", remember="session")
    async with open_it(tmp_path, "wait", **options) as runtime:
        put(tmp_path, "#!/bin/sh\necho new")
        with pytest.raises(ValidationError, match="has changed since it was asked"):
            await runtime.answer(question.approval_id, answer)
        put(tmp_path, "#!/bin/sh\necho old")
        await runtime.answer(question.approval_id, answer)
        (grant,) = await runtime.grants()
    assert grant.binding.programs


async def test_changed_arguments_are_bound_to_what_they_run(tmp_path: Path) -> None:
    put(tmp_path, "#!/bin/sh\necho old")
    changed = '{"command":["./x.sh"]}'
    person = Person(remember="session", arguments=changed)
    async with open_it(tmp_path, person, LIST, SCRIPT, SCRIPT) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        await session.run("Go.")
        assert len(person.asked) == 1
        put(tmp_path, "#!/bin/sh\necho new")
        await session.run("Go.")
    assert len(person.asked) == 2


async def test_whoever_allows_the_tests_allows_them_as_they_are_by_then(tmp_path: Path) -> None:
    put(tmp_path, "test:\n\t@true\n", "Makefile")
    person = Person(remember="session")
    call: Call = ("run_tests", {"runner": "make"})
    async with open_it(tmp_path, person, call, call) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        put(tmp_path, "test:\n\t@echo other\n", "Makefile")
        await session.run("Go.")
    assert [request.scopes for request in person.asked] == [("call", "turn", "session")]


async def test_what_was_denied_stays_denied_whatever_it_holds_by_then(tmp_path: Path) -> None:
    put(tmp_path, "#!/bin/sh\necho old")
    person = Person(decision="deny", remember="session")
    async with open_it(tmp_path, person, SCRIPT, SCRIPT) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        put(tmp_path, "#!/bin/sh\necho new")
        await session.run("Go.")
    assert len(person.asked) == 1
