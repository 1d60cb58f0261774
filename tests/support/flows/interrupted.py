"""One answer with a call in every state, and the runtime failing under it.

As a program, `python interrupted.py FOLDER`, it plays the answer until every call is where it
should be, names its session, and waits to be killed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import msgspec
import trio

import callboard
from callboard.actors.calls import dispatcher as tool_dispatcher
from callboard.actors.conversation.conversation import Conversation
from callboard.actors.permissions.decisions import Decisions
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Resource
from callboard.runtime.errors import CallboardError
from callboard.runtime.events import CallFinished, CallProposed, TurnEnded
from callboard.runtime.store.sqlite_store import open_reader
from callboard.tools.tool import Tool
from support.flows.killed import killed_when_ready, say_ready
from support.stage import (
    check_messages,
    check_record,
    messages_of,
    open_in,
    tool_contents,
)

READY = {
    "done": "success",
    "runs": "running",
    "reads": "running",
    "waits_for_a_key": "pending",
    "waits_for_a_person": "waiting",
}
"""The calls of the answer by the tools' names, and their states on record when something fails."""

GO_ON = "Go on."
POISON = "poison"


class Bench:
    """The calls' tools, and a person who never answers, and says no when asked once more."""

    def __init__(self, folder: Path) -> None:
        self.effects = folder / "effects"
        self.questions = folder / "questions"
        self.is_asked = trio.Event()
        self.end = trio.Event()
        self._began: dict[str, trio.Event] = {name: trio.Event() for name in ("runs", "reads")}

    async def work(self, name: str) -> str:
        """Notes that it began, and at its end how it ended."""
        self._note(name, "began")
        if name in self._began:
            self._began[name].set()
            try:
                await self.end.wait()
            except trio.Cancelled:
                self._note(name, "stopped")
                raise
        self._note(name, "ended")
        return name

    async def person(self, request: callboard.ApprovalRequest) -> bool:
        asked_before = self.questions.exists()
        with self.questions.open("a") as file:
            file.write(f"{request.approval_id}\n")
        self.is_asked.set()
        if not asked_before:
            await trio.sleep_forever()
        return False

    async def wait_ready(self, runtime: callboard.Runtime, session_id: str) -> None:
        """Until every call is in its state."""
        for event in (*self._began.values(), self.is_asked):
            await event.wait()
        # Nothing tells of the last commit.
        for _ in range(3000):
            if await states(runtime, session_id) == READY:
                return
            await trio.sleep(0.01)
        raise AssertionError("it did not happen in half a minute")

    @property
    def asked(self) -> list[str]:
        """The questions that the person heard, in all processes."""
        return self.questions.read_text().splitlines()

    def noted(self) -> list[str]:
        """What tools did, in all processes."""
        return sorted(self.effects.read_text().splitlines())

    @property
    def tools(self) -> list[Tool]:
        async def done() -> str:
            """Ends at once."""
            return await self.work("done")

        async def runs() -> str:
            """Changes something."""
            return await self.work("runs")

        async def reads() -> str:
            """Only reads."""
            return await self.work("reads")

        async def waits_for_a_key() -> str:
            """Wants what `runs` has."""
            return await self.work("waits_for_a_key")

        async def waits_for_a_person() -> str:
            """Asks first."""
            return await self.work("waits_for_a_person")

        async def poison() -> None:
            """Whoever handles its call crashes."""
            await trio.lowlevel.checkpoint()

        def keys(_: Any) -> list[Resource]:
            return [Resource("key")]

        return [
            callboard.tool(done),
            callboard.tool(resources=keys)(runs),
            callboard.tool(effect="read", tier="read_only")(reads),
            callboard.tool(resources=keys)(waits_for_a_key),
            callboard.tool(approval="always")(waits_for_a_person),
            callboard.tool(tier="read_only")(poison),
        ]

    def _note(self, name: str, what: str) -> None:
        with self.effects.open("a") as file:
            file.write(f"{name} {what}\n")


class Aftermath(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be seen behind a fault.

    Attributes:
        heard: By call, the kinds of events that the consumer of the turn heard.
        raised: What its iteration raised, or nothing.
        ended: How the turn ended on record.
        states: Of the calls, on record.
        contents: By call, what the model gets with the next prompt.
        contents_later: The same after (another) restart.
        noted: What the tools did.
        asked: The questions that a person heard.
    """

    heard: dict[str, list[str]]
    raised: str
    ended: TurnEnded
    states: dict[str, str]
    contents: dict[str, dict[str, Any]]
    contents_later: dict[str, dict[str, Any]]
    noted: list[str]
    asked: list[str]


async def states(runtime: callboard.Runtime, session_id: str) -> dict[str, str]:
    """The calls' states on record, in the model's order."""
    rows = await runtime.store.calls(session_id=session_id)
    found = {row.name: row.status.value for row in rows}
    return {name: found[name] for name in READY if name in found}


def open_on(
    folder: Path, bench: Bench, model: callboard.ScriptedModel, *, strict: bool = False
) -> AbstractAsyncContextManager[callboard.Runtime]:
    """A runtime on the folder's data."""
    return open_in(
        folder, model, "disk", strict=strict, tools=bench.tools, on_approval=bench.person
    )


def first_answer() -> callboard.ScriptedModel:
    poisoned = reply(calls=[(POISON, {})])
    return callboard.ScriptedModel(
        [reply(calls=[(name, {}) for name in READY]), poisoned, *[reply("Well.")] * 3]
    )


async def break_down(folder: Path, crash: Callable[[], None]) -> Aftermath:
    """Plays the answer, lets an actor crash under it, and looks at what is left."""
    bench, model = Bench(folder), first_answer()
    heard: dict[str, list[str]] = {}
    raised = ""
    async with open_on(folder, bench, model) as runtime:
        session, other = await runtime.create_session(), await runtime.create_session()

        async def fail() -> None:
            await bench.wait_ready(runtime, session.session_id)
            crash()
            victim = session if crash is crash_session else other
            with suppress(CallboardError):  # it is not this one that we look at
                await victim.run(POISON)
            if crash is crash_broker:
                bench.end.set()  # for what this does not stop

        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.relative_deadline = 30
            nursery.start_soon(fail)
            try:
                async with session.prompt("Go.") as turn:
                    async for event in turn:
                        note(event, heard)
            except CallboardError as error:
                raised = f"{type(error).__name__}: {error}"
        with trio.fail_after(30):
            # A suspended turn goes on by itself.
            while await runtime.store.open_turns():  # noqa: ASYNC110  nothing tells of it
                await trio.sleep(0.01)
    return await look_after(folder, bench, session.session_id, heard, raised)


async def look_after(
    folder: Path, bench: Bench, session_id: str, heard: dict[str, list[str]], raised: str
) -> Aftermath:
    """Restarts twice on the data, prompts, and checks what must hold."""
    noted = bench.noted()
    contents = await prompt_again(folder, bench, session_id)
    contents_later = await prompt_again(folder, bench, session_id)
    assert bench.noted() == noted  # nothing runs again by itself
    reader = await open_reader(folder / "data")
    record = [stored.event for stored in await reader.events(session_id)]
    rows = await reader.calls(session_id=session_id)
    await reader.aclose()
    [ended, *_] = [event for event in record if isinstance(event, TurnEnded)]
    return Aftermath(
        heard=heard, raised=raised, ended=ended, contents=contents, contents_later=contents_later,
        states={row.name: row.status.value for row in rows}, noted=noted,
        asked=bench.asked,
    )  # fmt: skip


async def prompt_again(folder: Path, bench: Bench, session_id: str) -> dict[str, dict[str, Any]]:
    """Restarts and prompts; gives the results that the model gets."""
    # A turn that was suspended goes on first.
    model = callboard.ScriptedModel([reply("Here I am.")] * 2)
    async with open_on(folder, bench, model, strict=True) as runtime:
        session = await runtime.get_session(session_id)
        assert await session.run(GO_ON) == "Here I am."
        check_record(await runtime.store.events(session_id))
    messages = messages_of(model.requests[0])
    check_messages(messages)
    return dict(zip(READY, tool_contents(messages), strict=False))


def note(event: callboard.TurnEvent, heard: dict[str, list[str]]) -> None:
    """Notes an event under the name of its call."""
    call_id = getattr(event, "call_id", None)
    if isinstance(event, CallProposed):
        heard[event.name] = []
        _names[event.call_id] = event.name
    if call_id in _names:
        kind = str(event.__struct_config__.tag)
        heard[_names[call_id]].append(
            f"{kind}: {event.status}" if isinstance(event, CallFinished) else kind
        )


_names: dict[str, str] = {}


# ── faults ───────────────────────────────────────────────────────────────────────────────────────


def crash_dispatcher() -> None:
    def is_poisoned(batch: Any) -> bool:
        return any(call.name == POISON for call in batch._request.calls)

    _crash_once(tool_dispatcher.CallBatch, "_prepare", is_poisoned)


def crash_broker() -> None:
    def is_poisoned(_: Any, message: Any) -> bool:
        return any(question.name == POISON for question in message.questions)

    _crash_once(Decisions, "decide", is_poisoned)


def crash_session() -> None:
    def is_poisoned(_: Any, stored: Any) -> bool:
        return getattr(stored.event, "text", "") == POISON

    _crash_once(Conversation, "fold", is_poisoned)


def _crash_once(owner: Any, name: str, is_poisoned: Callable[..., bool]) -> None:
    usual = getattr(owner, name)

    def crashing(*arguments: Any) -> Any:
        if not is_poisoned(*arguments):
            return usual(*arguments)
        setattr(owner, name, usual)
        raise ZeroDivisionError("a fault in the actor")

    setattr(owner, name, crashing)


async def wait_for_the_kill(folder: Path) -> None:
    bench = Bench(folder)
    async with open_on(folder, bench, first_answer()) as runtime:
        session = await runtime.create_session()

        async def be_ready() -> None:
            await bench.wait_ready(runtime, session.session_id)
            say_ready(session.session_id)

        async with trio.open_nursery() as nursery, session.prompt("Go.") as turn:
            nursery.start_soon(be_ready)
            async for _ in turn:
                pass


async def kill(folder: Path) -> Aftermath:
    """Plays the answer in a process of its own, kills that, and looks at what is left."""
    session_id = await trio.to_thread.run_sync(_killed, folder)
    return await look_after(folder, Bench(folder), session_id, {}, "")


def _killed(folder: Path) -> str:
    return killed_when_ready(__file__, folder)


if __name__ == "__main__":
    trio.run(wait_for_the_kill, Path(sys.argv[1]))
