"""A person sees which calls run below a call of `delegate`, in a run, in a chat and in `attach`; programs by `--json`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import trio

import callboard
from callboard.cli.chat.view import ChatView
from callboard.cli.show.below import MAX_SHOWN_LINES
from callboard.cli.show.live_pieces import LivePieces
from callboard.cli.show.transcript import Transcript
from callboard.cli.terminal.style import Style
from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted_server import (
    ScriptedRequest,
    ServerStep,
    open_scripted_server,
)
from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import CallFinished, CallProposed, ChildCall, Stored
from callboard.runtime.wire.topics import Snapshot
from support.cast import Call, Cast, part, task
from support.cli.chat_scene import chatting, prompt, scripted
from support.cli.command import Command, at
from support.cli.command import command as command
from support.cli.own_daemon import daemon_of

SIGNS = Style(colours=False, signs=True)
LIST = ("list_directory", {"path": "."})
MISSING = ("read_file", {"path": "missing.txt"})


def steps(*calls: Call, last: str) -> list[Step]:
    return [reply(calls=list(calls)), reply(last)]


def played(parts: Mapping[str, Sequence[Step]]) -> list[ServerStep]:
    """Steps of a server: each session has its own, by the text of its first input."""
    left = {text: list(steps) for text, steps in parts.items()}

    def step(request: ScriptedRequest) -> Step:
        first = next(each for each in request.body["messages"] if each["role"] == "user")
        return left[first["content"]].pop(0)

    return [step] * sum(map(len, parts.values()))


TREE: Mapping[str, Sequence[Step]] = {
    "Go.": steps(task("Find the key."), last="Found."),
    "Find the key.": [
        reply(calls=[LIST]),
        reply(calls=[task("Look deeper.")]),
        reply("It is here."),
    ],
    "Look deeper.": steps(MISSING, last="Nothing."),
}


def in_order(text: str, *parts: str) -> bool:
    at = 0
    for each in parts:
        found = text.find(each, at)
        if found < 0:
            return False
        at = found + len(each)
    return True


async def test_a_run_shows_the_calls_of_the_sessions_below(command: Command) -> None:
    async with open_scripted_server(played(TREE)) as server:
        done = await command("run", *at(server), "Go.", environ={"PYTHONIOENCODING": "utf-8"})
        server.assert_complete()
    assert (done.code, done.out) == (0, "Found.\n"), done.err
    assert in_order(
        done.err,
        "\n  ▾ Find the key.\n  │ ✓ list_directory ",
        "\n  │ ▾ Look deeper.\n  │ │ ✗ read_file error ",
        "missing.txt",
        "\n  ▾ Find the key.\n  │ ✓ delegate ",
        "\n✓ delegate ",
    ), done.err


async def test_children_side_by_side_are_told_asteps(command: Command) -> None:
    parts = {
        "Go.": steps(task("One."), task("Two."), last="Done."),
        "One.": steps(LIST, last="Listed."),
        "Two.": steps(LIST, last="Listed."),
    }
    async with open_scripted_server(played(parts)) as server:
        async with command.at_terminal("run", *at(server), "Go.") as terminal:
            assert await terminal.end() == 0
    for each in ("One.", "Two."):
        assert in_order(terminal.seen, f"  ▾ {each}\n  │ ✓ list_directory "), terminal.seen


async def test_programs_have_them_as_events(command: Command) -> None:
    async with open_scripted_server(played(TREE)) as server:
        done = await command("run", *at(server), "--json", "Go.")
    calls = [line["event"] for line in done.lines if line["event"]["type"] == "child_call"]
    assert [(each["depth"], each["name"], each["state"]) for each in calls if each["status"]] == [
        (1, "list_directory", "finished"),
        (2, "read_file", "finished"),
        (1, "delegate", "finished"),
    ]
    [delegate] = [line["event"] for line in done.lines if line["event"]["type"] == "call_proposed"]
    assert {each["call_id"] for each in calls} == {delegate["call_id"]}
    assert all("seq" not in line for line in done.lines if line["event"]["type"] == "child_call")


async def test_quiet_says_nothing_of_them(command: Command) -> None:
    async with open_scripted_server(played(TREE)) as server:
        done = await command("run", *at(server), "--quiet", "Go.")
    assert (done.code, done.out, done.err) == (0, "Found.\n", "")


async def test_a_chat_shows_them_when_they_have_ended(command: Command) -> None:
    async with scripted(command, *played(TREE)), chatting(command) as terminal:
        await prompt(terminal, "Go.", "▾ Find the key.", "✓ list_directory", "│ ✗ read_file")


async def test_who_attaches_in_the_middle_sees_what_runs_below(command: Command) -> None:
    begun, go_on = trio.Event(), trio.Event()

    @callboard.tool(tier="read_only", approval="never")
    async def act(command: str) -> str:
        """Acts."""
        begun.set()
        await go_on.wait()
        return "acted"

    cast = Cast({"Go.": part(task("Act.")), "Act.": part(("act", {"command": "make all"}))})
    async with daemon_of(command, cast, tools=[act]) as runtime:
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "Go.")
            await begun.wait()
            async with command.at_terminal("attach", "last") as terminal:
                await terminal.expect("▾ Act.")
                await terminal.expect("│ act: $ make all")
                go_on.set()
                await terminal.expect("│ ✓ act")
                await terminal.type("\x03")
                assert await terminal.end() == 0


# ── the parts ────────────────────────────────────────────────────────────────────────────────────


def child_call(number: int = 1, **more: Any) -> ChildCall:
    given: dict[str, Any] = {
        "session_id": "session_2",
        "call_id": "c",
        "child_call_id": f"call_{number}",
        "name": "shell",
        "subject": f"$ make {number}",
        "task": "Build it.",
        "state": "started",
        "is_program": True,
    }
    return ChildCall(**{**given, **more})


def ok(number: int, **more: Any) -> ChildCall:
    return child_call(number, state="finished", status=CallStatus.SUCCESS, **more)


FINISHED = CallFinished(
    turn_id="t", call_id="c", name="delegate", status=CallStatus.SUCCESS, result="{}"
)


def test_what_runs_below_stands_under_its_call_in_a_chat() -> None:
    printed: list[str] = []
    now = 0.0
    transcript = Transcript(printed.append, SIGNS, is_live=True)
    view = ChatView("session_1", transcript, printed.append, SIGNS, is_live=True, now=lambda: now)
    arguments = '{"task":"Build it."}'
    proposed = CallProposed(
        turn_id="t", message_id="m", call_id="c", index=0, name="delegate", arguments=arguments
    )
    view.take(Stored("session_1", 1, 0, proposed))
    view.take(child_call(1))
    now = 3.0
    view.take(child_call(2))
    view.take(child_call(3, state="asks"))
    assert view.live_lines(60) == [
        "⋯ delegate 3.0 s  Build it.",
        "  │ ⋯ shell 3.0 s  $ make 1",
        "  │ ⋯ shell 0 ms  $ make 2",
        "  │ ⋯ shell waits for an answer  $ make 3",
    ]
    assert not printed
    view.take(ok(1, duration_ms=3000))
    assert "".join(printed) == "  ▾ Build it.\n  │ ✓ shell 3.0 s  $ make 1\n"
    assert "$ make 1" not in "\n".join(view.live_lines(60))
    view.take(Stored("session_1", 2, 0, FINISHED))
    assert view.live_lines(60) == []


def test_so_many_lines_are_shown_and_what_fails_behind_them() -> None:
    printed: list[str] = []
    transcript = Transcript(printed.append, SIGNS)
    for number in range(MAX_SHOWN_LINES + 5):
        transcript.show(ok(number))
    transcript.show(ok(97, session_id="session_3", depth=2))
    transcript.show(child_call(98, state="finished", status=CallStatus.DENIED))
    transcript.show(FINISHED)
    lines = "".join(printed).splitlines()
    assert sum("✓ shell" in line for line in lines) == MAX_SHOWN_LINES
    assert any("shell denied  $ make 98" in line for line in lines)
    assert [line for line in lines if "left out" in line] == [
        "  │ … 5 calls left out (callboard show session_2)",
        "  │ … 1 call left out (callboard show session_3)",
    ]


def test_after_other_lines_a_grandchild_stands_under_its_parent_again() -> None:
    printed: list[str] = []
    transcript = Transcript(printed.append, SIGNS)
    deep: dict[str, Any] = {"session_id": "session_3", "task": "Look deeper.", "depth": 2}
    transcript.show(ok(1))
    transcript.show(ok(2, **deep))
    transcript.notice("something else")
    transcript.show(ok(3, **deep))
    transcript.show(ok(4, **deep))
    transcript.show(ok(5))
    transcript.notice("something else")
    other: dict[str, Any] = {"session_id": "session_4", "task": "The other.", "call_id": "d"}
    transcript.show(ok(6, **other))
    transcript.show(ok(7, **deep))
    assert [re.sub(r" 0 ms.*", "", line) for line in "".join(printed).splitlines()] == [
        "  ▾ Build it.",
        "  │ ✓ shell",
        "  │ ▾ Look deeper.",
        "  │ │ ✓ shell",
        "something else",
        "  ▾ Build it.",
        "  │ ▾ Look deeper.",
        "  │ │ ✓ shell",
        "  │ │ ✓ shell",
        "  ▾ Build it.",
        "  │ ✓ shell",
        "something else",
        "  ▾ The other.",
        "  │ ✓ shell",
        "  ▾ Build it.",
        "  │ ▾ Look deeper.",
        "  │ │ ✓ shell",
    ]


def test_foreign_words_of_sessions_below_obey_nothing() -> None:
    printed: list[str] = []
    transcript = Transcript(printed.append, SIGNS)
    transcript.show(ok(1, task="\x1b[2Jtask", name="na\rme", subject="\x1b]0;x\x07"))
    assert not {"\x1b", "\r", "\x07"} & {*"".join(printed)}


def test_who_comes_back_is_shown_what_is_new_and_nothing_twice() -> None:
    pieces = LivePieces()
    assert pieces.take(child_call(1)) == [child_call(1)]
    assert pieces.take(child_call(2)) == [child_call(2)]
    now = (child_call(1), child_call(3))
    snapshot = Snapshot("session_1", 1, below=now)
    assert pieces.take(snapshot) == [child_call(2, state="finished"), child_call(3)]
    assert pieces.take(snapshot) == []
    printed: list[str] = []
    Transcript(printed.append, SIGNS).show(child_call(2, state="finished"))
    assert not printed  # how it ended is not known here
