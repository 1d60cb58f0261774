"""A process that is killed in the middle of a turn: nothing is lost, doubled or run twice."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

import callboard
from callboard.providers.testing.script import Step, reply, stall
from callboard.providers.testing.scripted_server import (
    ScriptedRequest,
    ScriptedServer,
    ServerStep,
    open_scripted_server,
)
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    CallStarted,
    InputAccepted,
    Stored,
    TurnEnded,
    TurnSuspended,
)
from callboard.runtime.history import LOST
from callboard.runtime.store.recovery import NOT_RUN
from support.flows.killed import running
from support.stage import check_messages, check_record, make_workspace, open_in

CHILD = """
import os, sys, time
import callboard, trio

url, data, work, session_id = sys.argv[1:]

def say(word):
    sys.stdout.write(word + "\\n")  # one write, since threads say something too
    sys.stdout.flush()

@callboard.tool(effect="once")
def once(number: int, hold: bool = False) -> int:
    "Appends a line: the effect that must not happen twice."
    with open(os.path.join(work, "effects"), "a") as file:
        file.write(f"{number}\\n")
    say(f"effect {number}")
    if hold:
        time.sleep(600)
    return number

@callboard.tool(effect="read", tier="read_only")
def look(hold: bool = False) -> str:
    "Only reads."
    say("look")
    if hold:
        time.sleep(600)
    return "seen"

@callboard.tool(approval="always")
async def ask() -> None:
    "Asks first."

async def nobody_answers(request):
    say("asked")
    await trio.sleep_forever()

async def main():
    async with callboard.open_runtime(
        model="scripted", base_url=url, workspace=work, data=data, environ={},
        tools=[once, look, ask], on_approval=nobody_answers,
    ) as runtime:
        if session_id:
            session = await runtime.get_session(session_id)
        else:
            session = await runtime.create_session()
        say(session.session_id)
        async with session.prompt("Go.") as turn:
            say("accepted")
            async for event in turn:
                say(type(event).__name__)
            say("over")

trio.run(main)
"""


def tools() -> list[Any]:
    """The child's tools, for the runtime that takes over; none of them may run there."""

    @callboard.tool(effect="once")
    def once(number: int, hold: bool = False) -> int:
        """Appends a line."""
        raise AssertionError

    @callboard.tool(effect="read", tier="read_only")
    def look(hold: bool = False) -> str:
        """Only reads."""
        raise AssertionError

    return [once, look]


CALLS = [
    ("once", {"number": 1}),
    ("look", {}),
    ("once", {"number": 2, "hold": True}),
    ("look", {"hold": True}),
    ("ask", {}),
]
"""Two that end, two that hold on, one that waits for a person."""

KILLS: list[tuple[str, list[Step], str, int]] = [
    ("accepted", [stall()], "accepted", 1),
    ("streaming", [stall("Once upon")], "TextDelta", 1),
    ("streaming calls", [reply("x", calls=CALLS, piece_seconds=0.02)], "ToolCallDelta", 2),
    ("proposed", [reply(calls=CALLS)], "CallProposed", 1),
    ("effect of the second", [reply(calls=CALLS)], "effect 2", 1),
    ("first result", [reply(calls=CALLS)], "CallFinished", 1),
    ("waiting for a person", [reply(calls=CALLS)], "asked", 1),
    ("between rounds", [reply(calls=CALLS[:2]), stall()], "CallFinished", 2),
]


def kill_child(url: str, folder: Path, word: str, times: int, session_id: str) -> list[str]:
    """Runs the child until it has said the word so often, kills it, gives what it said."""
    data, work = folder / "data", make_workspace(folder)
    program = folder / "child.py"
    program.write_text(CHILD)
    said: list[str] = []
    with running(str(program), url, data, work, session_id) as (process, lines):
        for line in lines:
            said.append(line.strip())
            if said.count(word) == times:
                process.kill()
    assert process.returncode == -signal.SIGKILL
    assert said.count(word) >= times
    return said


async def kill_at(url: str, folder: Path, word: str, times: int, session_id: str = "") -> list[str]:
    return await trio.to_thread.run_sync(kill_child, url, folder, word, times, session_id)


def effects(folder: Path) -> list[str]:
    path = folder / "work" / "effects"
    return path.read_text().split() if path.exists() else []


async def take_over(server: ScriptedServer, folder: Path, session_id: str) -> list[Stored]:
    """Restarts on the same data, prompts again, and checks what must hold."""
    before = effects(folder)
    url = server.base_url
    async with open_in(folder, "scripted", "disk", base_url=url, tools=tools()) as runtime:
        session = await runtime.get_session(session_id)
        assert await session.run("Go on.") == "Here I am."
        record = await runtime.store.events(session_id)
    check_record(record)
    for request in server.requests:
        check_messages(request.body["messages"])
    assert effects(folder) == before
    database = apsw.Connection(str(folder / "data" / "callboard.db"))
    assert database.execute("pragma integrity_check").get == "ok"
    database.close()
    return record


def script(steps: list[Step]) -> list[ServerStep]:
    """These steps for whoever is killed; the one who takes over gets an answer."""
    left = list(steps)

    def answer(request: ScriptedRequest) -> Step:
        said = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
        if said[-1].endswith("Go on."):
            return reply("Here I am.")
        return left.pop(0) if left else reply("Well.")  # a suspended turn goes on first

    return [answer] * (len(steps) + 2)


def check_outcomes(record: list[Stored], ran: list[str]) -> None:
    """Nothing ran twice, and what the model is told about each call fits what happened."""
    assert len(ran) == len(set(ran))
    events = [stored.event for stored in record]
    started = {event.call_id for event in events if isinstance(event, CallStarted)}
    results = {event.call_id: event for event in events if isinstance(event, CallFinished)}
    for call in (event for event in events if isinstance(event, CallProposed)):
        result = results[call.call_id]
        number = str(json.loads(call.arguments).get("number", ""))
        if number in ran:
            assert call.call_id in started
            assert result.status == "success" or result.result == LOST
        if result.status == "interrupted":
            assert result.result == (LOST if call.call_id in started else NOT_RUN)


@pytest.mark.parametrize(
    ("steps", "word", "times"), [kill[1:] for kill in KILLS], ids=[kill[0] for kill in KILLS]
)
async def test_a_kill_anywhere_in_a_turn_loses_and_doubles_nothing(
    tmp_path: Path, steps: list[Step], word: str, times: int
) -> None:
    async with open_scripted_server(script(steps)) as server:
        said = await kill_at(server.base_url, tmp_path, word, times)
        record = await take_over(server, tmp_path, said[0])
    check_outcomes(record, effects(tmp_path))
    events = [stored.event for stored in record]
    assert [e.text for e in events if isinstance(e, InputAccepted)] == ["Go.", "Go on."]
    outcomes = [event.outcome for event in events if isinstance(event, TurnEnded)]
    was_suspended = any(isinstance(event, TurnSuspended) for event in events)
    assert outcomes == ["answered" if was_suspended else "failed", "answered"]
    assert was_suspended or word != "asked"


async def test_one_kill_after_the_other(tmp_path: Path) -> None:
    kills = [("CallProposed", 1), ("effect 1", 1), ("asked", 1)]
    session_id = ""
    held, asked = reply(calls=[CALLS[0], CALLS[3]]), reply(calls=[CALLS[0], CALLS[4]])
    async with open_scripted_server(script([held, held, asked])) as server:
        for word, times in kills:
            said = await kill_at(server.base_url, tmp_path, word, times, session_id)
            session_id = session_id or said[0]
        record = await take_over(server, tmp_path, session_id)
    events = [stored.event for stored in record]
    assert len([e for e in events if isinstance(e, InputAccepted)]) == 4
    # Each turn's call has its effect at most once; that of the second one surely did.
    once = {e.call_id for e in events if isinstance(e, CallProposed) and e.name == "once"}
    started = [e for e in events if isinstance(e, CallStarted) and e.call_id in once]
    assert 1 <= len(effects(tmp_path)) <= len(started) <= 3
