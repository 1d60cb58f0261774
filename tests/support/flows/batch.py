"""One batch of calls: the rows of the matrix in docs/parallel-calls.md, and how one is played.

The call in question stands between two siblings, which work for one and for three seconds. The
model is in the process and the store in memory, so that a mock clock tells exactly when something
happened.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Resource
from callboard.runtime.events import CallFinished, CallProposed, Stored
from callboard.tools.tool import Tool
from support.stage import messages_of, open_local_stage, play, tool_contents

End = Literal["return", "fail", "crash", "exit", "flood"]
Heard = list[tuple[float, str]]
Asked = tuple[str, dict[str, Any]]

FIRST: Asked = ("work", {"seconds": 1})
LAST: Asked = ("work", {"seconds": 3})
DONE = {"status": "success", "result": "done"}
CANCELLED = {"status": "error", "error_type": "cancelled", "message": "Not finished: enough."}
ENOUGH = "enough"

WORKED: Heard = [
    (0, "call_proposed"),
    (0, "call_started"),
    (0, "call_progress"),
    (2, "call_finished"),
]
NEVER_RAN: Heard = [(0, "call_proposed"), (0, "call_finished")]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one call, and what is to be seen of it.

    Attributes:
        call: The call; it has its result `ends_at` seconds after it was asked for.
        before, behind: Its siblings, by their place in the answer.
        heard: What a consumer hears of it, and when.
        content: What the model gets; `message` need only be contained.
        meanwhile: The call's state on record while its siblings run.
        answer: What a person says after `answered_after` seconds; `None`: there is no person.
    """

    call: Asked = ("work", {"seconds": 2})
    before: tuple[Asked, ...] = (FIRST,)
    behind: tuple[Asked, ...] = (LAST,)
    status: str
    ends_at: float = 2
    heard: Heard
    content: dict[str, Any]
    meanwhile: str
    answer: Literal["allow", "deny"] | None = None
    answered_after: float = 0
    limits: Limits = Limits()

    @property
    def calls(self) -> tuple[Asked, ...]:
        return (*self.before, self.call, *self.behind)

    @property
    def place(self) -> int:
        """Where the call stands in the answer."""
        return len(self.before)

    @property
    def begins_at(self) -> float | None:
        """When its tool began to run; `None` when it never did."""
        return next((at for at, kind in self.heard if kind == "call_progress"), None)


def ending(then: End) -> Asked:
    return ("work", {"seconds": 2, "then": then})


def execution_error(message: str) -> dict[str, Any]:
    return {"status": "error", "error_type": "execution_error", "message": message}


ROWS = {
    "succeeds": Row(status="success", heard=WORKED, content=DONE, meanwhile="running"),
    "fails": Row(
        call=ending("fail"),
        status="error",
        heard=WORKED,
        content={
            "status": "error",
            "error_type": "network_error",
            "message": "No route to the moon.",
            "host": "moon",
        },
        meanwhile="running",
    ),
    "crashes": Row(
        call=ending("crash"),
        status="error",
        heard=WORKED,
        content=execution_error("work failed: ZeroDivisionError: the moon has no mass"),
        meanwhile="running",
    ),
    "exits": Row(
        call=ending("exit"),
        status="error",
        heard=WORKED,
        content=execution_error("work failed: SystemExit: 3"),
        meanwhile="running",
    ),
    "times_out": Row(
        call=("hurry", {"seconds": 50}),
        status="timeout",
        heard=WORKED,
        content={
            "status": "error",
            "error_type": "timeout",
            "message": "hurry was stopped after 2 s. What it did until then is done.",
            "elapsed_seconds": 2.0,
        },
        meanwhile="running",
    ),
    "nobody_to_ask": Row(
        call=("asked", {"seconds": 2}),
        status="denied",
        ends_at=0,
        heard=[
            (0, "call_proposed"),
            (0, "approval_asked"),
            (0, "approval_answered"),
            (0, "call_finished"),
        ],
        content={
            "status": "error",
            "error_type": "permission_denied",
            "message": "nobody to ask",
            "tier": "system",
            "reason": "denied by callboard: there is nobody to ask: run in a terminal, choose "
            "--policy auto, or (in a program) pass on_approval or channel (balanced asks: asked always asks)",
        },
        meanwhile="denied",
    ),
    "person_denies": Row(
        call=("asked", {"seconds": 2}),
        answer="deny",
        answered_after=2,
        status="denied",
        heard=[
            (0, "call_proposed"),
            (0, "approval_asked"),
            (2, "approval_answered"),
            (2, "call_finished"),
        ],
        content={
            "status": "error",
            "error_type": "permission_denied",
            "message": "Not run: denied by Mia: not now",
            "tier": "system",
            "reason": "denied by Mia: not now",
        },
        meanwhile="waiting",
    ),
    "approval_expires": Row(
        call=("asked", {"seconds": 2}),
        answer="allow",
        answered_after=50,
        status="denied",
        heard=[
            (0, "call_proposed"),
            (0, "approval_asked"),
            (2, "approval_answered"),
            (2, "call_finished"),
        ],
        content={
            "status": "error",
            "error_type": "approval_expired",
            "message": "nobody answered in time",
            "tier": "system",
            "reason": "nobody answered in time",
        },
        meanwhile="waiting",
        limits=Limits(approval_seconds=2),
    ),
    "waits_for_a_person": Row(
        call=("asked", {"seconds": 2}),
        answer="allow",
        answered_after=100,
        status="success",
        ends_at=102,
        heard=[
            (0, "call_proposed"),
            (0, "approval_asked"),
            (100, "approval_answered"),
            (100, "call_started"),
            (100, "call_progress"),
            (102, "call_finished"),
        ],
        content=DONE,
        meanwhile="waiting",
    ),
    "invalid_arguments": Row(
        call=("work", {"seconds": "long"}),
        status="error",
        ends_at=0,
        heard=NEVER_RAN,
        content={
            "status": "error",
            "error_type": "validation_error",
            "message": "seconds",
            "field": "seconds",
            "attempts_left": 2,
        },
        meanwhile="error",
    ),
    "unknown_tool": Row(
        call=("wrok", {}),
        status="error",
        ends_at=0,
        heard=NEVER_RAN,
        content={
            "status": "error",
            "error_type": "tool_not_found",
            "message": "There is no tool 'wrok'.",
        },
        meanwhile="error",
    ),
    "over_the_limit": Row(
        before=(FIRST, LAST),
        behind=(),
        status="error",
        ends_at=0,
        heard=NEVER_RAN,
        content=execution_error("one answer may ask for 2 calls, and this was number 3"),
        meanwhile="error",
        limits=Limits(max_calls_per_response=2),
    ),
    "waits_for_a_key": Row(
        call=("keyed", {"seconds": 1}),
        before=(("keyed", {"seconds": 1}),),
        status="success",
        heard=[
            (0, "call_proposed"),
            (1, "call_started"),
            (1, "call_progress"),
            (2, "call_finished"),
        ],
        content=DONE,
        meanwhile="pending",
    ),
    "waits_for_a_slot": Row(
        call=("work", {"seconds": 1}),
        before=(FIRST, LAST),
        behind=(),
        status="success",
        heard=[
            (0, "call_proposed"),
            (1, "call_started"),
            (1, "call_progress"),
            (2, "call_finished"),
        ],
        content=DONE,
        meanwhile="pending",
        limits=Limits(max_calls_per_session=2),
    ),
    "oversized_result": Row(
        call=ending("flood"),
        status="success",
        heard=WORKED,
        content={
            "status": "success",
            "result": '"' + "x" * 1022,
            "truncated": "The result is 5002 bytes of JSON; this is the beginning. Read on with "
            'read_file(path="artifact:CALL", offset=1023).',
        },
        meanwhile="running",
        limits=Limits(max_result_bytes=1024),
    ),
}


class Bench:
    """What the tools of a batch saw, by call id."""

    def __init__(self) -> None:
        self.zero = 0.0
        self.runtime: callboard.Runtime
        self.began: dict[str, float] = {}
        self.found: dict[str, str] = {}
        self.worked: list[str] = []

    @property
    def now(self) -> float:
        """Seconds since the prompt."""
        return trio.current_time() - self.zero

    @property
    def tools(self) -> list[Tool]:
        async def work(context: callboard.ToolContext, seconds: float, then: End = "return") -> str:
            """Works, and ends as it is told."""
            self.began[context.call_id] = self.now
            self.found[context.call_id] = (await self.states(context.session_id))[context.call_id]
            context.progress("at work")
            await trio.sleep(seconds)
            self.worked.append(context.call_id)
            match then:
                case "fail":
                    error_type = callboard.ErrorType.NETWORK_ERROR
                    raise callboard.ToolFailure(error_type, "No route to the moon.", host="moon")
                case "crash":
                    raise ZeroDivisionError("the moon has\nno mass")
                case "exit":
                    sys.exit(3)
                case "flood":
                    return "x" * 5000
                case "return":
                    return "done"

        return [
            callboard.tool(name="work")(work),
            callboard.tool(name="hurry", timeout_seconds=2)(work),
            callboard.tool(name="asked", approval="always")(work),
            callboard.tool(name="keyed", resources=lambda _: [Resource("key")])(work),
        ]

    async def states(self, session_id: str) -> dict[str, str]:
        """The calls' states on record."""
        rows = await self.runtime.store.calls(session_id=session_id)
        return {row.call_id: row.status.value for row in rows}


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A row that was played.

    Attributes:
        heard: What the consumer heard, and when.
        call_ids: In the order of the answer.
        meanwhile: The states on record after half a second.
        contents: The results as the model gets them in its next request.
    """

    bench: Bench
    heard: list[tuple[float, callboard.TurnEvent]]
    call_ids: list[str]
    meanwhile: list[str]
    contents: list[Any]
    record: list[Stored]
    states: list[str]
    artifacts: list[str | None]

    def of_call(self, place: int) -> Heard:
        """What was heard of one call."""
        its_id = self.call_ids[place]
        return [(at, tag(e)) for at, e in self.heard if getattr(e, "call_id", None) == its_id]

    @property
    def results(self) -> dict[int, tuple[float, CallFinished]]:
        """The results by place, in the order in which they were heard."""
        return {
            self.call_ids.index(event.call_id): (at, event)
            for at, event in self.heard
            if isinstance(event, CallFinished)
        }


def tag(event: Any) -> str:
    return str(event.__struct_config__.tag)


async def play_row(folder: Path, row: Row, cancel_at: float | None = None) -> Batch:
    """Plays a batch, and behind it one more answer."""
    bench = Bench()

    async def person(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        await trio.sleep(row.answered_after)
        assert row.answer is not None
        reason = "not now" if row.answer == "deny" else ""
        return callboard.ApprovalAnswer(decision=row.answer, reason=reason, answered_by="Mia")

    async def look_between() -> None:
        await trio.sleep(0.5)
        states = await bench.states(session.session_id)
        meanwhile.extend(states[call_id] for call_id in ids())

    async def cancel(turn: callboard.Turn) -> None:
        assert cancel_at is not None
        await trio.sleep(cancel_at)
        await turn.cancel(ENOUGH)

    def note(event: callboard.TurnEvent) -> None:
        heard.append((bench.now, event))

    def ids() -> list[str]:
        return [event.call_id for _, event in heard if isinstance(event, CallProposed)]

    heard: list[tuple[float, callboard.TurnEvent]] = []
    meanwhile: list[str] = []
    again = [reply(calls=[("keyed", {"seconds": 1})] * 2)] if cancel_at is not None else []
    async with open_local_stage(
        folder,
        [reply(calls=row.calls), *again, reply("Well.")],
        tools=bench.tools,
        on_approval=None if row.answer is None else person,
        settings=Settings(limits=row.limits),
    ) as (runtime, model):
        bench.runtime = runtime
        session = await runtime.create_session()
        bench.zero = trio.current_time()
        async with session.prompt("Go.") as turn, trio.open_nursery() as nursery:
            nursery.start_soon(look_between)
            if cancel_at is not None:
                nursery.start_soon(cancel, turn)
            async for event in turn:
                note(event)
        if cancel_at is not None:
            await check_nothing_goes_on(session, bench)
        return Batch(
            bench=bench,
            heard=heard,
            call_ids=ids(),
            meanwhile=meanwhile,
            contents=tool_contents(messages_of(model.requests[1]))[: len(row.calls)],
            record=await runtime.store.events(session.session_id),
            states=[(await bench.states(session.session_id))[call_id] for call_id in ids()],
            artifacts=[
                await runtime.store.full_output(session.session_id, call_id) for call_id in ids()
            ],
        )


async def check_nothing_goes_on(session: callboard.Session, bench: Bench) -> None:
    """Behind a cancel no tool goes on or begins, and no key and no slot is held."""
    began, worked = dict(bench.began), list(bench.worked)
    await trio.sleep(200)
    assert (bench.began, bench.worked) == (began, worked)
    at = trio.current_time()
    played = await play(session, "Go on.")
    assert played.statuses == [("keyed", "success")] * 2
    assert trio.current_time() - at == 2  # one after the other, and both at once
