"""Budgets through the public API: what is cut, what is refused, what a restart remembers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.prices import Price
from callboard.config.settings import Limits, Settings
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import fail, reply, stall
from callboard.runtime.errors import BudgetError
from callboard.runtime.events import (
    AttemptCharged,
    AttemptFailed,
    CallFinished,
    MessageCompleted,
    TurnEnded,
)
from callboard.runtime.stream import Usage
from support.cast import Cast, below, open_cast
from support.stage import (
    NO_RETRIES,
    check_record,
    heard,
    make_workspace,
    on_both_stores,
    open_in,
    open_local_stage,
    open_stage,
    play,
    play_in,
    read_result,
    text_of,
)
from support.waiting import go_on, killed_while_waiting, open_on
from support.waits import leap
from support.web.raw_server import HEAD, Answer, Wire, open_raw_server

BARE = callboard.Agent(name="bare", prompt="Go.", tools=())
"""Its requests are a handful of tokens."""
PIECE = "word" * 20
"""20 tokens."""
LIMIT = 2000

ran: list[str] = []


@callboard.tool
def note(text: str) -> str:
    """Notes a text."""
    ran.append(text)
    return text


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


# ── inside a stream ──────────────────────────────────────────────────────────────────────────────


def chunked(event: str) -> bytes:
    data = event.encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def chat(piece: str) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': piece}}]})}\n\n"


def chat_arguments(piece: str) -> str:
    call: dict[str, Any] = {"index": 0, "function": {"arguments": piece}}
    if piece == PIECE:
        call |= {"id": "c1", "function": {"name": "note", "arguments": piece}}
    delta = {"tool_calls": [call]}
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"


def anthropic(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def anthropic_text(piece: str) -> str:
    delta = {"type": "text_delta", "text": piece}
    return anthropic("content_block_delta", index=0, delta=delta)


def anthropic_thinking(piece: str) -> str:
    delta = {"type": "thinking_delta", "thinking": piece}
    return anthropic("content_block_delta", index=0, delta=delta)


def anthropic_start(block: dict[str, str]) -> str:
    usage = {"input_tokens": 400, "output_tokens": 1}
    message = {"id": "m", "role": "assistant", "content": [], "model": "m", "usage": usage}
    started = anthropic("message_start", message=message)
    return started + anthropic("content_block_start", index=0, content_block=block)


STREAMS: dict[str, tuple[str, str, Callable[[str], str], int]] = {
    "text, and no figures": ("openai_chat", "", chat, 0),
    "arguments, and no figures": ("openai_chat", "", chat_arguments, 0),
    "text behind a figure": (
        "anthropic", anthropic_start({"type": "text", "text": ""}), anthropic_text, 400
    ),
    "thinking behind a figure": (
        "anthropic", anthropic_start({"type": "thinking", "thinking": ""}), anthropic_thinking, 400
    ),
}  # fmt: skip
"""By name: the wire format, how it begins, a piece, and the input as the provider counts it."""


def endless(beginning: str, piece: Callable[[str], str], sent: list[int]) -> Answer:
    """Never stops by itself; counts what it has sent."""

    async def answer(wire: Wire) -> None:
        await wire.send(HEAD % b"" + (chunked(beginning) if beginning else b""))
        while True:
            await wire.send(chunked(piece(PIECE)))
            sent.append(20)
            await trio.sleep(0.003)

    return answer


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_is_cut_at_the_limit_and_closed(tmp_path: Path, name: str) -> None:
    dialect, beginning, piece, counted = STREAMS[name]
    sent: list[int] = []
    async with (
        open_raw_server(endless(beginning, piece, sent)) as server,
        open_in(
            tmp_path, "m", base_url=server.base_url, dialect=dialect, agents=[BARE],
            settings=NO_RETRIES,
        ) as runtime,
    ):  # fmt: skip
        session = await runtime.create_session(agent="bare")
        async with session.prompt("Hi.", budget=callboard.Budget(tokens=LIMIT)) as turn:
            events = [event async for event in turn]
        await server.wait_idle()
        [ended] = [event for event in events if isinstance(event, TurnEnded)]
        assert ended.outcome == "budget"
        assert "The budget of the turn is used up: 2,000 of 2,000 tokens." in ended.message
        # Of the answer so much was sent as there was room for, and a few pieces on their way.
        room = LIMIT - (counted or 10)
        assert 0.95 * room <= sum(sent) <= 1.05 * room
        record = await runtime.store.events(session.session_id)
        check_record(record)
        tokens = 0
        for each in (stored.event for stored in record):
            if isinstance(each, MessageCompleted | AttemptCharged):
                assert each.estimate is not None
                usage = each.usage or Usage()
                assert usage.output_tokens is None
                assert usage.input_tokens == (counted or None)
                tokens = (usage.input_tokens or each.estimate.input_tokens or 0) + (
                    each.estimate.output_tokens or 0
                )
        assert 0.95 * LIMIT <= tokens <= LIMIT
        if "text" in name:
            shown = "".join(e.text for e in events if isinstance(e, callboard.TextDelta))
            [kept] = [e for e in events if isinstance(e, MessageCompleted)]
            assert kept.incomplete
            assert text_of(kept) == shown
        report = await session.usage()
        assert report.total.output_tokens is None
        assert (report.total.input_tokens, report.total.calls) == (counted or None, 1)
        assert report.total.estimated_tokens == tokens - counted


@on_both_stores
async def test_the_history_is_valid_and_a_new_budget_goes_on(tmp_path: Path, store: str) -> None:
    steps = [reply(["word"] * 50, usage=None, finish=None), reply("The end.")]
    async with open_stage(tmp_path, steps, store=store, agents=[BARE]) as stage:
        session = await stage.runtime.create_session(agent="bare")
        with pytest.raises(BudgetError, match="is used up: 30 of 30 tokens"):
            await session.run("Go.", budget=callboard.Budget(tokens=30))
        assert await session.run("Go on.", budget=callboard.Budget(tokens=300)) == "The end."
        [_, asked, kept, again] = stage.sent[1]
        assert (asked["content"], again["content"]) == ("Go.", "Go on.")
        assert kept["role"] == "assistant"
        assert 80 <= len(kept["content"]) <= 120


# ── whole calls ──────────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_sent_when_nothing_is_left(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Hello.", usage=Usage(90, 10))]) as stage:
        session = await stage.runtime.create_session(budget=callboard.Budget(tokens=10_000))
        await session.set_budget(callboard.Budget(tokens=100))
        with pytest.raises(BudgetError, match="has 100 of 100 tokens left"):
            await session.run("Hello?")
        assert stage.server.requests == []
        await session.set_budget(callboard.Budget(model_calls=1))
        assert await session.run("Hello?") == "Hello."
        with pytest.raises(BudgetError, match=r"budget of the session is used up: 1 of 1 calls"):
            await session.run("Hello?")
        assert len(stage.server.requests) == 1


async def test_attempts_that_fail_are_counted(tmp_path: Path) -> None:
    broken = fail("busy", error_type="overloaded", retryable=True, text="word" * 10)
    settings = Settings(limits=Limits(retry_wait_seconds=0.01))
    async with open_stage(tmp_path, [broken, reply("Hello.")], settings=settings) as stage:
        session, played = await play_in(stage.runtime, "Hello?")
        [failed] = [e for e in played.events if isinstance(e, AttemptFailed)]
        assert failed.estimate is not None
        assert failed.estimate.output_tokens == 10
        report = await session.usage(by="call")
        assert [each.calls for each in report.sums] == [1, 1]
        assert report.total.estimated_tokens == 10 + (failed.estimate.input_tokens or 0)
        [answer] = [e for e in played.events if isinstance(e, MessageCompleted)]
        assert answer.usage is not None
        # Counted and estimated tokens never stand in one sum.
        assert report.total.input_tokens == answer.usage.input_tokens
        with pytest.raises(BudgetError):
            await session.run("Again?", budget=callboard.Budget(model_calls=0))


async def test_the_last_attempt_is_counted_too(tmp_path: Path) -> None:
    broken = fail("wrong", text="word" * 10)
    async with open_stage(tmp_path, [broken]) as stage:
        played = await play(await stage.runtime.create_session(), "Hello?")
        assert played.ended.outcome == "failed"
        [charged] = [e for e in played.events if isinstance(e, AttemptCharged)]
        assert charged.estimate is not None
        assert charged.estimate.output_tokens == 10


async def test_what_a_person_cancels_is_counted(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [stall("word" * 10)]) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Hello?") as turn:
            await heard(turn, callboard.TextDelta)
        report = await session.usage()
        assert (report.total.estimated_tokens or 0) > 10


# ── costs ────────────────────────────────────────────────────────────────────────────────────────

PRICED = Settings(
    limits=Limits(model_retries=0), prices={"local/ScriptedModel": Price(input=1000, output=1000)}
)
"""A tenth of a cent for a token."""


async def test_a_model_without_a_price_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async with open_local_stage(tmp_path, [reply("Hello.")]) as (runtime, model):
        session = await runtime.create_session()
        with pytest.raises(BudgetError, match="The price of local/ScriptedModel is unknown"):
            await session.run("Hello?", budget=callboard.Budget(cost_usd=1))
        assert model.requests == []
        assert await session.run("Hello?", budget=callboard.Budget(tokens=100_000)) == "Hello."


async def test_a_cost_is_added_up_over_turns(tmp_path: Path) -> None:
    steps = [reply("Hello.", usage=Usage(400, 100))] * 2
    async with open_local_stage(tmp_path, steps, settings=PRICED, agents=[BARE]) as (runtime, _):
        session = await runtime.create_session(agent="bare", budget=callboard.Budget(cost_usd=0.9))
        assert await session.run("Hello?") == "Hello."
        assert await session.run("Hello?") == "Hello."  # $0.5 is spent, and room for a request
        with pytest.raises(BudgetError, match=r"budget of the session is used up: \$1 of \$0\.9"):
            await session.run("Hello?")


async def test_a_fallback_without_a_price_is_refused_likewise(tmp_path: Path) -> None:
    agent = callboard.Agent(
        name="bare", prompt="Go.", tools=(), fallbacks=("openai/unheard-of", "rehearsal/rehearsal")
    )
    settings = Settings(limits=Limits(model_retries=0), prices=PRICED.prices)
    async with open_local_stage(
        tmp_path, [fail("No.", error_type="auth")], settings=settings, agents=[agent]
    ) as (runtime, _):
        session = await runtime.create_session(agent="bare")
        async with session.prompt("Hi.", budget=callboard.Budget(cost_usd=1)) as turn:
            played = [event async for event in turn]
        switched = [e for e in played if isinstance(e, callboard.ModelSwitched)]
        assert switched[-1].provider == "rehearsal"
        assert isinstance(played[-1], TurnEnded)
        assert played[-1].outcome == "answered"


# ── tools and time ───────────────────────────────────────────────────────────────────────────────


@on_both_stores
async def test_calls_beyond_the_limit_end_the_turn(tmp_path: Path, store: str) -> None:
    three = [("note", {"text": text}) for text in ("a", "b", "c")]
    steps = [reply("I note.", calls=three), reply("Well.")]
    async with open_stage(tmp_path, steps, store=store, tools=[note], policy="auto") as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.", budget=callboard.Budget(tool_calls=2)) as turn:
            events = [event async for event in turn]
        results = [e for e in events if isinstance(e, CallFinished)]
        assert sorted(result.status for result in results) == ["error", "success", "success"]
        [refused] = [read_result(r) for r in results if r.status == "error"]
        assert "2 of 2 calls of tools" in refused["message"]
        assert sorted(ran) == ["a", "b"]
        assert turn.ended is not None
        assert turn.ended.outcome == "budget"
        assert "--budget" in turn.ended.message
        assert await session.run("Go on.") == "Well."


async def test_calls_that_do_not_run_cost_nothing(tmp_path: Path) -> None:
    steps = [
        reply(calls=[("note", {}), ("unheard_of", {})]),
        reply(calls=[("note", {"text": "a"})]),
        reply("Well."),
    ]
    async with open_stage(tmp_path, steps, tools=[note], policy="auto") as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Go.", budget=callboard.Budget(tool_calls=1)) == "Well."
        assert ran == ["a"]


async def test_time_is_over_in_the_middle_of_a_tool(
    tmp_path: Path, leaping_clock: trio.testing.MockClock
) -> None:
    @callboard.tool
    async def hang() -> None:
        """Never ends by itself."""
        leap(20)
        await trio.sleep_forever()

    steps = [reply("I try.", calls=[("hang", {})]), reply("Well.")]
    async with open_stage(tmp_path, steps, tools=[hang], policy="auto") as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.", budget=callboard.Budget(seconds=20)) as turn:
            events = [event async for event in turn]
        [result] = [e for e in events if isinstance(e, CallFinished)]
        assert result.status == "cancelled"
        assert turn.ended is not None
        assert (turn.ended.outcome, turn.ended.unreaped) == ("budget", ())
        assert "of 20 seconds" in turn.ended.message
        assert await session.run("Go on.", budget=callboard.Budget(seconds=30)) == "Well."


async def test_time_counts_while_a_person_is_asked(tmp_path: Path) -> None:
    steps = [reply(calls=[("delete_file", {"path": "a.txt"})])]
    async with open_stage(tmp_path, steps, on_approval="wait") as stage:
        (stage.workspace / "a.txt").write_text("a")
        session = await stage.runtime.create_session(budget=callboard.Budget(seconds=0.5))
        with trio.fail_after(30), pytest.raises(BudgetError, match="budget of the session"):
            await session.run("Go.")
        assert await stage.runtime.approvals() == []
        assert (stage.workspace / "a.txt").exists()


# ── restarts ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_restart_keeps_what_was_used(tmp_path: Path) -> None:
    steps = [
        reply("Noting.", calls=[("note", {"text": "a"})], usage=Usage(500, 100)),
        reply("Well.", usage=Usage(500, 100)),
    ]
    options: dict[str, Any] = {"store": "disk", "tools": [note], "policy": "auto"}
    async with open_stage(tmp_path, steps, **options) as stage:
        budget = callboard.Budget(tokens=50_000, tool_calls=1)
        session = await stage.runtime.create_session(budget=budget)
        assert await session.run("Go.") == "Well."
    again = [reply(calls=[("note", {"text": "b"})]), reply("Now.")]
    async with open_stage(tmp_path, again, **options) as stage:
        session = await stage.runtime.get_session(session.session_id)
        with pytest.raises(BudgetError, match=r"session is used up: 1 of 1 calls of tools"):
            await session.run("Go on.")
        assert ran == ["a"]
        await session.set_budget(callboard.Budget(tokens=1200))
        with pytest.raises(BudgetError, match=r"1,[0-9]{3} of 1,200 tokens"):
            await session.run("Go on.")
        await session.set_budget(None)
        assert await session.run("Go on.") == "Now."


async def test_a_turn_that_was_suspended_has_used_what_it_used_before(tmp_path: Path) -> None:
    session_id = killed_while_waiting(tmp_path)
    async with open_on(tmp_path, [reply("Done.")], "allow") as runtime:
        session = await runtime.get_session(session_id)
        await session.set_budget(callboard.Budget(model_calls=1))
        ended = (await go_on(runtime, session_id))[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.outcome == "budget"
        assert "1 of 1 calls of models" in ended.message


# ── below ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_delegated_session_uses_its_parents_budget(tmp_path: Path) -> None:
    task = {"kind": "worker", "task": "Look.", "tools": []}
    steps = [
        reply(calls=[("delegate", task)], usage=Usage(100, 10)),
        reply("I looked.", usage=Usage(60_000, 10)),
    ]
    async with open_stage(tmp_path, steps, policy="auto") as stage:
        session = await stage.runtime.create_session()
        with pytest.raises(BudgetError, match="budget of the turn is used up: 60,120 of 50,000"):
            await session.run("Go.", budget=callboard.Budget(tokens=50_000))
        rows = await stage.runtime.sessions()
        [child] = [row for row in rows if row.parent_id == session.session_id]
        spending = await stage.runtime.store.spending(child.session_id)
        assert spending is not None
        assert spending.budget == callboard.Budget(tokens=49_890)


async def test_the_time_of_what_nobody_waits_for_is_the_sessions(
    tmp_path: Path, leaping_clock: trio.testing.MockClock
) -> None:
    away = {"kind": "worker", "task": "Look.", "tools": [], "wait": False}
    cast = Cast(
        {"Go.": [reply(calls=[("delegate", away)]), *[reply("Well.")] * 3], "Look.": [stall("I ")]}
    )
    async with open_cast(tmp_path, cast, policy="auto") as runtime:
        session = await runtime.create_session(budget=callboard.Budget(seconds=60))
        assert await session.run("Go.") == "Well."
        leap(60)
        [child] = await below(runtime, session)
        while (await runtime.store.children())[0].is_detached:  # noqa: ASYNC110
            await trio.sleep(0.01)
        last = (await runtime.store.events(child.session_id))[-1].event
        assert isinstance(last, TurnEnded)
        assert last.outcome == "budget"
        with pytest.raises(BudgetError, match="budget of the session is used up"):
            await session.run("And now?")
        await session.set_budget(callboard.Budget(seconds=600))
        assert await session.run("And now?") == "Well."
        # Neither the turn of its answer nor the one that had no time asked a model.
        assert len(cast.parts["Go."].requests) == 3


class Silent:
    """A model that is asked and says nothing."""

    def __init__(self) -> None:
        self.asked = trio.Event()

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        self.asked.set()
        await trio.sleep_forever()


@pytest.mark.parametrize("most", [1, 2])
async def test_a_cancel_ahead_of_the_first_word_is_counted(tmp_path: Path, most: int) -> None:
    model = Silent()
    options: dict[str, Any] = {"workspace": make_workspace(tmp_path), "environ": {}, "strict": True}
    async with callboard.open_runtime(model=model, **options) as runtime:
        session = await runtime.create_session(budget=callboard.Budget(model_calls=most))
        for turn_count in range(2):
            model.asked = trio.Event()
            async with session.prompt("word" * 100) as turn:
                if turn_count == most:
                    events = [event async for event in turn]
                    assert isinstance(events[-1], TurnEnded)
                    assert "1 of 1 calls of models" in events[-1].message
                else:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(drain, turn)
                        await model.asked.wait()
                        nursery.cancel_scope.cancel()
            assert model.asked.is_set() is (turn_count < most)
        report = await session.usage()
        assert (report.total.estimated_tokens or 0) > 100 * most


async def drain(turn: callboard.Turn) -> None:
    async for _ in turn:
        pass
