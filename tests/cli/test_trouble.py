"""What a person reads of a model that fails, live and afterwards."""

from __future__ import annotations

import pytest

from callboard.cli.run.flags import RunFlags
from callboard.cli.show.event_lines import TroubleEvent, trouble_line
from callboard.cli.show.markdown import Markdown
from callboard.cli.show.transcript import Transcript, TurnEvent
from callboard.cli.terminal.style import Style
from callboard.config.settings import Settings
from callboard.providers.testing.script import Step, cut_after, reply, status
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.definitions import Agent, SessionKind, ThinkingEffort
from callboard.runtime.errors import NotFoundError
from callboard.runtime.events import (
    AttemptFailed,
    HistoryCompacted,
    ModelSwitched,
    ProviderSetAside,
    Stored,
    TurnEnded,
)
from callboard.runtime.store.rows import SessionRow
from callboard.runtime.stream import Usage
from support.cli.command import Command, at
from support.cli.command import command as command


def failed(message: str, *, attempt: int = 1, seconds: float = 3) -> AttemptFailed:
    return AttemptFailed(
        turn_id="t", provider="openai", model="m", attempt=attempt, error_type="overloaded",
        message=message, wait_seconds=seconds,
    )  # fmt: skip


LINES: list[tuple[TroubleEvent, str]] = [
    (
        failed("The provider is overloaded (HTTP 503): busy."),
        "openai: The provider is overloaded (HTTP 503): busy. Again in 3.0 s (attempt 2).",
    ),
    (failed("It broke.", attempt=3, seconds=0.25), "openai: It broke. Again in 250 ms (attempt 4)."),
    (
        ModelSwitched(turn_id="t", provider="b", model="m", reason="It broke."),
        "switched to b/m: It broke.",
    ),
    (
        ModelSwitched(
            turn_id="t", provider="b", model="m",
            reason="The provider refused the key. There is no x/y.",
        ),
        "switched to b/m: The provider refused the key. There is no x/y.",
    ),
    (
        ProviderSetAside(turn_id="t", provider="b", seconds=30, reason="It broke."),
        "b is set aside for 30.0 s: It broke.",
    ),
    (
        HistoryCompacted(
            turn_id="t", rounds=12, summary="NOTES\n\nMORE", provider="b", model="m",
            usage=Usage(1000, 20),
        ),
        "the history was too long for b/m: a summary stands for its first 12 rounds",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "line"), LINES)
def test_each_is_one_line(event: TroubleEvent, line: str) -> None:
    assert trouble_line(event) == line
    assert shown(event) == f"{line}\n"
    assert f"\n*{line}*\n" in rendered(event)


def shown(*events: TurnEvent) -> str:
    pieces: list[str] = []
    transcript = Transcript(pieces.append, Style(), "session_1")
    for event in events:
        transcript.show(event)
    return "".join(pieces)


def rendered(event: TroubleEvent) -> str:
    row = SessionRow(
        session_id="s", title="t", agent="general", kind=SessionKind.MAIN, workspace="/w",
        model=None, parent_id=None, message_count=0, last_message_preview="", is_active=False,
        head_seq=0, created_at_ms=0, updated_at_ms=0, deleted_at_ms=None,
    )  # fmt: skip
    return Markdown(row).add(Stored("s", 1, 0, event))


def test_foreign_words_can_not_paint_and_are_cut() -> None:
    text = shown(failed("red \x1b[31m and\nlong " + "x" * 1000))
    assert "\x1b" not in text
    assert text.count("\n") == 1
    assert len(text) < 600
    assert "\x1b" not in rendered(failed("\x1b[31m"))


def test_a_summary_is_told_in_full_and_its_tokens_are_counted() -> None:
    compacted = LINES[-1][0]
    assert "## Summary\n\nNOTES\n\nMORE\n" in rendered(compacted)
    ended = TurnEnded(turn_id="t", outcome="answered", duration_ms=1000)
    assert "1000 tokens in · 20 tokens out" in shown(compacted, ended)


# ── options ──────────────────────────────────────────────────────────────────────────────────────


def test_options_change_the_agent_of_the_run_alone() -> None:
    other, mine = (
        Agent(name="other"),
        Agent(name="mine", prompt="p", temperature=1, fallbacks=("a/b",)),
    )
    settings = Settings(agents={"other": other, "mine": mine})
    assert RunFlags().apply(settings, "mine") is settings
    tuning = RunFlags(
        fallback=("groq/d", "openrouter/f/g"), thinking="low", temperature=0.0, max_tokens=9
    )
    tuned = tuning.apply(settings, "mine")
    assert tuned.agents["other"] is other
    assert tuned.agents["mine"] == Agent(
        name="mine", prompt="p", temperature=0.0, fallbacks=("groq/d", "openrouter/f/g"),
        thinking=ThinkingEffort.LOW, max_output_tokens=9,
    )  # fmt: skip
    assert RunFlags(max_tokens=9).apply(Settings(), "general").agent().max_output_tokens == 9
    with pytest.raises(NotFoundError):
        RunFlags(max_tokens=9).apply(settings, "nobody")


@pytest.mark.parametrize(
    ("tuning", "words"),
    [
        (RunFlags(fallback=("a/b",) * 17), "--fallback is given 17 times; 16 are the most"),
        (RunFlags(fallback=("a/b", "openai")), "--fallback 'openai' is not PROVIDER/MODEL"),
        (RunFlags(fallback=("/m",)), "PROVIDER/MODEL"),
        (RunFlags(temperature=2.1), "--temperature is between 0 and 2"),
        (RunFlags(temperature=-0.1), "--temperature"),
        (RunFlags(temperature=float("nan")), "--temperature"),
        (RunFlags(max_tokens=0), "--max-tokens is between 1 and"),
        (RunFlags(max_tokens=10**9), "--max-tokens"),
    ],
)
def test_a_wrong_value_is_named(tuning: RunFlags, words: str) -> None:
    assert words in (tuning.mistake() or "")


def test_right_values_are_right() -> None:
    assert RunFlags(fallback=("a/b", "c/d/e"), temperature=2, max_tokens=1).mistake() is None
    assert RunFlags(temperature=0).mistake() is None


# ── the command ──────────────────────────────────────────────────────────────────────────────────


SOON = "[limits]\nretry_wait_seconds = 0.02\n"


async def test_a_run_tells_its_waits_and_goes_on(command: Command) -> None:
    busy = status(503, {"error": {"message": "busy"}})
    command.configure(SOON)
    steps: list[Step] = [busy, cut_after(400, reply(["This answer ", "is cut"])), reply("Here.")]
    async with open_scripted_server(steps) as server:
        done = await command("run", "Go.", *at(server))
    assert (done.code, done.complaints, done.out) == (0, [], "Here.\n")
    lines = done.err.splitlines()
    assert "custom: The provider is overloaded (HTTP 503): busy. Again in" in lines[2]
    assert "(attempt 2)." in lines[2]
    [third] = [line for line in lines if "(attempt 3)." in line]
    assert "Try again" not in third
    seen = await command("show", "last")
    assert f"*{lines[2]}*" in seen.out
    server.assert_complete()


async def test_a_run_goes_on_with_its_fallback(command: Command) -> None:
    refused = status(401, {"error": {"message": "bad key"}})
    async with (
        open_scripted_server([refused, refused]) as one,
        open_scripted_server([reply("I am two.")] * 2) as two,
    ):
        command.configure(
            f'[providers.two]\nbase_url = "{two.base_url}"\n'
            f'[providers.one]\nbase_url = "{one.base_url}"\n',
        )
        tokens = ("run", "Go.", "--model", "one/m", "--fallback", "two/n", "--thinking", "high",
                  "--temperature", "0.5", "--max-tokens", "77")  # fmt: skip
        done = await command(*tokens)
        assert (done.code, done.complaints, done.out) == (0, [], "I am two.\n")
        lines = done.err.splitlines()
        assert lines[2] == (
            "one is set aside for 30.0 s: The provider refused the key (HTTP 401): bad key."
        )
        assert lines[3].startswith("switched to two/n: The provider refused the key (HTTP 401)")
        told = await command(*tokens, "--json")
        kinds = [line["event"]["type"] for line in told.lines]
        assert kinds.index("provider_set_aside") < kinds.index("model_switched")
    sent = two.requests[0].body
    assert (sent["model"], sent["temperature"]) == ("n", 0.5)
    assert 77 in {sent.get("max_tokens"), sent.get("max_completion_tokens")}


async def test_the_last_word_says_what_was_tried(command: Command) -> None:
    command.configure(SOON)
    busy = status(429, {"error": {"message": "slow down"}})
    async with open_scripted_server([busy] * 4) as server:
        done = await command("run", "Go.", *at(server))
    assert done.code == 1
    assert done.err.endswith("It was asked 4 times.\n")
    assert len(done.complaints) == 1
    server.assert_complete()
