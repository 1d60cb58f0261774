"""A model call that is made again: every fault of a provider over a real socket, and what follows."""

from __future__ import annotations

import email.utils
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import Step, cut_after, drip, reply, stall, status
from callboard.runtime.events import Stored
from support.flows.screen import cuts_of, failures, screen
from support.stage import Stage, on_both_stores, open_stage, play, play_in, run_in

SOON = Limits(retry_wait_seconds=0.02)
"""As by default, but the waits."""
TWO_CALLS = reply(
    ["I wr", "ite it."],
    thinking="Hm.",
    calls=[
        ("write_file", {"path": "a.txt", "content": "a " * 20}),
        ("write_file", {"path": "b.txt", "content": "b"}),
    ],
)
DONE = reply("Done.")
BUSY = {"error": {"message": "slow down", "type": "x"}}


def open_soon(
    folder: Path, steps: Sequence[Step], limits: Limits = SOON, store: str = "memory"
) -> AbstractAsyncContextManager[Stage]:
    return open_stage(folder, steps, settings=Settings(limits=limits), store=store)


def dated(seconds: float) -> dict[str, str]:
    """Headers that ask to wait until so long behind the server's own time."""
    now = 1_700_000_000
    date, then = (email.utils.formatdate(at, usegmt=True) for at in (now, now + seconds))
    return {"date": date, "retry_after": then}


ASKED: dict[str, tuple[dict[str, str], float, float]] = {
    "seconds": ({"retry_after": "2"}, 2, 2.5),
    "a date": (dated(30), 30, 30.5),
    "milliseconds": ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5, 2),
    "at once": ({"retry_after": "0"}, 0.25, 0.5),
    "a date that has passed": (dated(-30), 0.25, 0.5),
    "nothing": ({}, 0.25, 0.5),
    "garbage": ({"retry_after": "soon"}, 0.25, 0.5),
    "not a number": ({"retry_after": "nan"}, 0.25, 0.5),
    "the most": ({"retry_after": "60"}, 60, 60),
}


async def first_wait(turn: callboard.Turn) -> float:
    """Reads up to the first wait; gives how long it is."""
    async for event in turn:
        if isinstance(event, callboard.AttemptFailed):
            return event.wait_seconds
    raise AssertionError("nothing failed")


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("code", [429, 503])
async def test_the_wait_that_a_provider_asks_for(tmp_path: Path, name: str, code: int) -> None:
    """Left in the wait: the clock is the real one here."""
    headers, least, most = ASKED[name]
    async with open_soon(tmp_path, [status(code, BUSY, **headers)], Limits()) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.") as turn:
            waits = await first_wait(turn)
        assert least <= waits <= most
        last = (await stage.record(session))[-1].event
        assert isinstance(last, callboard.TurnEnded)
        assert last.outcome == "cancelled"


@pytest.mark.parametrize("value", ["61", "86400", "1e99"])
async def test_a_wait_that_is_too_long_is_not_begun(tmp_path: Path, value: str) -> None:
    async with open_soon(tmp_path, [status(429, BUSY, retry_after=value)], Limits()) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.ended.error_type == "overloaded"
        assert "60 s is the most" in played.ended.message
        assert "a little later" not in played.ended.message
        assert failures(played) == []


@on_both_stores
async def test_what_was_tried_is_on_record_and_in_the_last_word(tmp_path: Path, store: str) -> None:
    async with open_soon(tmp_path, [status(503, BUSY)] * 4, store=store) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert played.ended.message.endswith("It was asked 4 times.")
        assert played.ended.error_type == "overloaded"
        first = await stage.record(session)
    assert [type(s.event).__name__ for s in first[-4:]] == ["AttemptFailed"] * 3 + ["TurnEnded"]
    if store == "disk":
        async with open_soon(tmp_path, [DONE], store=store) as stage:
            again: list[Stored] = await stage.record(session)
            assert again == first
            same = await stage.runtime.get_session(session.session_id)
            assert await same.run("Again.") == "Done."


async def test_an_answer_that_is_cut_anywhere_is_had_again_whole(tmp_path: Path) -> None:
    places = cuts_of(TWO_CALLS)
    steps = [step for size in places for step in (cut_after(size, TWO_CALLS), TWO_CALLS, DONE)]
    async with open_soon(tmp_path, steps) as stage:
        for _ in places:
            played = await play(await stage.runtime.create_session(), "Go.")
            assert screen(played) == ["I write it.", "Done."]
            assert len(failures(played)) == 1
            assert len(played.results) == 2


async def test_an_answer_that_breaks_twice_is_given_up(tmp_path: Path) -> None:
    async with open_soon(tmp_path, [cut_after(900, TWO_CALLS)] * 2) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert (played.ended.outcome, played.results) == ("failed", [])
        assert played.ended.message.endswith("It was asked twice.")
        assert list(stage.workspace.iterdir()) == []


SILENT: dict[str, tuple[Step, Limits]] = {
    "no head": (stall(), Limits(first_byte_seconds=0.3, retry_wait_seconds=0.02)),
    "behind text": (stall("Well"), Limits(idle_seconds=0.3, retry_wait_seconds=0.02)),
    "pings": (
        drip(0.01),
        Limits(first_byte_seconds=1, progress_seconds=1, retry_wait_seconds=0.02),
    ),
}


@pytest.mark.parametrize("name", SILENT)
async def test_a_silent_model_is_asked_twice(tmp_path: Path, name: str) -> None:
    step, limits = SILENT[name]
    async with open_soon(tmp_path, [step, step], limits) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert (played.ended.outcome, played.ended.error_type) == ("failed", "timeout")
        assert [each.error_type for each in failures(played)] == ["timeout"]
        assert played.ended.unreaped == ()


async def test_two_sessions_wait_each_for_themselves(tmp_path: Path) -> None:
    busy = status(429, BUSY, retry_after="50")
    async with open_soon(tmp_path, [busy, DONE], Limits()) as stage:
        waits = await stage.runtime.create_session()
        async with waits.prompt("Go.") as turn:
            assert await first_wait(turn) >= 50
            other = await stage.runtime.create_session()
            assert await other.run("And you?") == "Done."


# ── a conversation that is too long ──────────────────────────────────────────────────────────────

TOO_LONG = status(
    400,
    {"error": {"message": "maximum context length is 9 tokens", "code": "context_length_exceeded"}},
)


@on_both_stores
async def test_a_long_conversation_goes_on_with_a_summary(tmp_path: Path, store: str) -> None:
    said: list[Step] = [TWO_CALLS, DONE, *(reply(f"answer {n} " + "x" * 200) for n in range(3))]
    steps = [*said, TOO_LONG, reply("NOTES"), reply("Going on.")]
    async with open_soon(tmp_path, steps, store=store) as stage:
        session = await stage.runtime.create_session()
        for number in range(4):
            await session.run(f"input {number}")
        played = await play(session, "input 4")
        assert played.text == "Going on."
        assert screen(played) == ["Going on."]
        [compacted] = [e for e in played.events if isinstance(e, callboard.HistoryCompacted)]
        assert compacted.summary == "NOTES"
        short = stage.sent[-1]
        assert "NOTES" in short[1]["content"]
        assert "tools" not in stage.server.requests[-2].body
        assert len(short) < len(stage.sent[-3])
    if store == "disk":
        async with open_soon(tmp_path, [reply("Still here.")], store=store) as stage:
            same = await stage.runtime.get_session(session.session_id)
            assert await same.run("input 5") == "Still here."
            # Loaded, it is what it was live: the same messages, and the new ones behind them.
            assert stage.sent[-1][: len(short)] == short


async def test_when_it_stays_too_long_the_error_says_what_to_do(tmp_path: Path) -> None:
    said = [reply("x" * 200)] * 2
    too_long: list[Step] = [TOO_LONG, reply("NOTES"), TOO_LONG]
    steps = [*said, *too_long, DONE]
    # With tools, those would be the longest.
    bare = callboard.Agent(name="bare", prompt="Go.", tools=())
    settings = Settings(limits=SOON)
    async with open_stage(tmp_path, steps, settings=settings, agents=[bare]) as stage:
        session = await stage.runtime.create_session(agent="bare")
        for _ in said:
            await session.run("Go.")
        with pytest.raises(callboard.CallboardError, match="send less at once") as refused:
            await session.run("More.")
        assert refused.value.type == "context_overflow"
        assert await session.run("Less.") == "Done."


async def test_a_prompt_that_is_too_long_alone_is_not_summed_up(tmp_path: Path) -> None:
    async with open_soon(tmp_path, [reply("Hm."), TOO_LONG]) as stage:
        session = await run_in(stage.runtime, "Hello.")
        played = await play(session, "x" * 40_000)
        assert "send less at once" in played.ended.message
        assert len(stage.server.requests) == 2
