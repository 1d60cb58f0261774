"""A model call that goes wrong: one clear line, the session kept, nothing of a broken answer runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import callboard
from callboard.actors.conversation.unanswered import FAILED
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import (
    Step,
    close_before_head,
    cut_after,
    drip,
    fail,
    garbage,
    html,
    reply,
    reset,
    stall,
    status,
)
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.events import MessageCompleted
from callboard.runtime.history import Call
from support.flows.screen import cuts_of
from support.stage import (
    NO_RETRIES,
    Played,
    Stage,
    on_both_stores,
    open_in,
    open_stage,
    play,
    play_in,
)

NOTE = FAILED.format(left_out="")

DANGEROUS = reply(
    ["I dele", "te it"],
    thinking="Hm.",
    calls=[("write_file", {"path": "ran.txt", "content": "it ran " * 5}), ("read_file", {})],
)
"""An answer of which nothing may run unless it is whole."""


def check_failed(stage: Stage, played: Played) -> str:
    """The turn failed with one line; nothing ran, and nothing of the answer is in the history."""
    assert played.ended.outcome == "failed"
    assert played.ended.error_type
    message = played.ended.message
    assert 10 < len(message) < 700
    assert len(message.splitlines()) == 1
    assert "Traceback" not in message
    assert played.results == []
    assert list(stage.workspace.iterdir()) == []
    assert not [event for event in played.events if isinstance(event, MessageCompleted)]
    assert [event for event in played.events if isinstance(event, callboard.MessageDiscarded)]
    return message


async def check_goes_on(stage: Stage, session: callboard.Session) -> None:
    """The next prompt works, and the model reads that the one before is not to be done now."""
    assert await session.run("Again.") == "Here I am."
    assert [message["role"] for message in stage.sent[-1]] == ["system", "user"]
    assert stage.sent[-1][1]["content"] == f"Go.\n\n{NOTE}\n\nAgain."


QUOTA = {"error": {"message": "all is spent", "code": "insufficient_quota"}}

FAULTS: list[tuple[str, Step, str, str]] = [
    ("quota", status(429, QUOTA), "quota", "all is spent"),
    ("429", status(429, {"error": {"message": "slow down"}}, retry_after="3"), "", "slow down"),
    ("500", status(500, "boom"), "provider", "500"),
    ("503", html(503), "", "web page"),
    ("empty", status(200, b""), "", ""),
    ("no http", garbage(), "network", ""),
    ("no head", close_before_head(), "network", ""),
    ("reset", reset(), "network", ""),
    ("overloaded", fail("busy", error_type="overloaded", retryable=True), "overloaded", "busy"),
]


@pytest.mark.parametrize(
    ("step", "error_type", "words"), [fault[1:] for fault in FAULTS], ids=[f[0] for f in FAULTS]
)
async def test_a_fault_is_one_line(tmp_path: Path, step: Step, error_type: str, words: str) -> None:
    async with open_stage(tmp_path, [step, reply("Here I am.")]) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert words in check_failed(stage, played)
        assert played.ended.error_type == (error_type or played.ended.error_type)
        await check_goes_on(stage, session)


async def test_run_raises_what_the_turn_failed_with(tmp_path: Path) -> None:
    steps: list[Step] = [status(401, {"error": {"message": "no"}}), garbage()]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        with pytest.raises(callboard.CallboardError, match="401") as refused:
            await session.run("Go.")
        assert refused.value.type == "auth"
        with pytest.raises(callboard.CallboardError) as broken:
            await session.run("Go.")
        assert broken.value.type == "network"


@pytest.mark.parametrize("clean", [False, True], ids=["broken", "clean"])
async def test_an_answer_that_is_cut_anywhere_never_runs(tmp_path: Path, clean: bool) -> None:
    cuts = cuts_of(DANGEROUS)
    assert len(cuts) > 30
    steps: list[Step] = [cut_after(size, DANGEROUS, clean=clean) for size in cuts]
    async with open_stage(tmp_path, [*steps, DANGEROUS, reply("Done.")]) as stage:
        for _ in cuts:
            session = await stage.runtime.create_session()
            check_failed(stage, await play(session, "Go."))
        # The positive control: the same answer, whole.
        session, played = await play_in(stage.runtime, "Go.")
        assert played.statuses == [("read_file", "error"), ("write_file", "success")]
        assert (stage.workspace / "ran.txt").exists()


@on_both_stores
async def test_a_session_outlives_many_cuts(tmp_path: Path, store: str) -> None:
    steps: list[Step] = [cut_after(size, DANGEROUS) for size in cuts_of(DANGEROUS)[::6]]
    async with open_stage(tmp_path, [*steps, reply("Here I am.")], store=store) as stage:
        session = await stage.runtime.create_session()
        for _ in steps:
            check_failed(stage, await play(session, "Go."))
        assert await session.run("Again.") == "Here I am."
        asked = ["Go.", NOTE] * len(steps) + ["Again."]
        assert stage.sent[-1][1:] == [{"role": "user", "content": "\n\n".join(asked)}]


STALLS: list[tuple[str, Step, Limits, str]] = [
    ("head", stall(), Limits(model_retries=0, first_byte_seconds=0.2), "said nothing for 0.2 s"),
    ("text", stall("Well"), Limits(model_retries=0, idle_seconds=0.2), "fell silent for 0.2 s"),
    (
        "no head",
        reply(delay_seconds=60),
        Limits(model_retries=0, first_byte_seconds=0.2),
        "nothing for 0.2 s",
    ),
    (
        "talk",
        reply(["So"] * 999, piece_seconds=0.05),
        Limits(model_retries=0, model_call_seconds=1),
        "after 1 s",
    ),
    (
        "pings",
        drip(0.01),
        Limits(model_retries=0, first_byte_seconds=1, progress_seconds=1),
        "only sent pings for 1 s",
    ),
]


@pytest.mark.parametrize(
    ("step", "limits", "words"), [case[1:] for case in STALLS], ids=[case[0] for case in STALLS]
)
async def test_a_model_that_stalls_is_stopped(
    tmp_path: Path, step: Step, limits: Limits, words: str
) -> None:
    settings = Settings(limits=limits)
    async with open_stage(tmp_path, [step], settings=settings, store="disk") as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert words in check_failed(stage, played)
        assert played.ended.error_type == "timeout"
    # With usual deadlines again: those above are too short for a busy machine.
    async with open_stage(tmp_path, [reply("Here I am.")], store="disk") as stage:
        await check_goes_on(stage, await stage.runtime.get_session(session.session_id))


async def test_a_fault_behind_a_round_keeps_the_round(tmp_path: Path) -> None:
    steps: list[Step] = [
        reply(calls=[("write_file", {"path": "kept.txt", "content": "x"})]),
        reset(),  # of a kept connection: it is asked once more, over a new one
        reset(),
        reply("It is written."),
    ]
    async with open_stage(tmp_path, steps) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert (played.ended.outcome, played.statuses) == ("failed", [("write_file", "success")])
        assert await session.run("And?") == "It is written."
        roles = [message["role"] for message in stage.sent[-1]]
        assert roles == ["system", "user", "assistant", "tool", "user"]


async def test_calls_of_a_refused_answer_never_run(tmp_path: Path) -> None:
    refused = reply(calls=[("write_file", {"path": "a", "content": "x"})], finish="content_filter")
    async with open_stage(tmp_path, [refused, reply("No.")]) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert (played.ended.outcome, played.statuses) == ("refused", [("write_file", "cancelled")])
        assert list(stage.workspace.iterdir()) == []
        assert await session.run("Well?") == "No."


async def test_an_answer_without_anything_ends_the_turn(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply(), reply("Here I am.")]) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert (played.ended.outcome, played.text) == ("answered", "")
        assert await session.run("Hello?") == "Here I am."
        assert not any(isinstance(event, Call) for event in played.events)


async def test_a_wrong_base_url_is_named_as_such(tmp_path: Path) -> None:
    async with (
        open_scripted_server([]) as server,
        open_in(tmp_path, "m", base_url=f"{server.base_url}/v2") as runtime,
    ):
        played = await play(await runtime.create_session(), "Go.")
        assert played.ended.outcome == "failed"
        assert "base URL" in played.ended.message
        assert "404" in played.ended.message


async def test_nothing_listens_at_the_base_url(tmp_path: Path) -> None:
    with trio.socket.socket() as taken:
        # Bound and not listening: nobody else gets the port, and every connection is refused.
        await taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with open_in(tmp_path, "m", base_url=url, settings=NO_RETRIES) as runtime:
            session = await runtime.create_session()
            for _ in range(2):
                played = await play(session, "Go.")
                assert played.ended.outcome == "failed"
                assert played.ended.error_type == "network"
                assert "127.0.0.1" in played.ended.message
