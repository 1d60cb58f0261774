"""`callboard chat`: options of turns, changed while it goes on, and the line that shows them."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.cli.chat import status_line as status_lines
from callboard.cli.chat.status_line import (
    StatusFacts,
    StatusLine,
    context_text,
    status_line,
    window_warning,
)
from callboard.cli.terminal.folding import text_columns
from callboard.cli.terminal.style import Style
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.definitions import Preset
from callboard.runtime.stream import Usage
from support.cli.chat_scene import READY, answer, chatting, leave, prompt, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

SHIFT_TAB = "\x1b[Z"
CREATE = ("write_file", {"path": "new.txt", "content": "new"})


async def test_options_of_turns_are_given_and_changed(command: Command) -> None:
    """Options of the command line reach the model; model and policy change from one prompt to the next."""
    (command.workspace / "notes.txt").write_text("attached words")
    options = ("--policy", "strict", "--temperature", "0.5", "--attach", "notes.txt")
    given = "Hello @a.txt"  # which is typed by nobody, and attaches nothing
    steps = [reply(calls=[CREATE]), *map(reply, ("One.", "Two.", "Three."))]
    async with scripted(command, *steps) as server:
        async with command.at_terminal("chat", *options, given) as terminal:
            await terminal.expect("attached: notes.txt")
            await terminal.expect("may write_file run?")  # which only strict asks
            await answer(terminal, "y")
            await terminal.expect("  One.\n")
            await terminal.expect("answered")
            await terminal.type(SHIFT_TAB)
            await say(terminal, "/policy")
            await terminal.expect("  auto; /policy")
            await say(terminal, "/policy lax")
            await terminal.expect("▸ /policy lax\n")  # what was typed stands above what came of it
            await terminal.expect("there is no policy 'lax'; there are auto, balanced, strict")
            await say(terminal, "/policy balanced")
            await terminal.expect("from your next prompt on the policy is balanced")
            await say(terminal, "/model gpt-6-sol")
            await terminal.expect("openai/gpt-6-sol?")
            await say(terminal, "/model local/other")
            await terminal.expect("from your next prompt on local/other answers")
            await prompt(terminal, "And now?", "  Two.\n")
            await say(terminal, "/model")
            await terminal.expect("  local/other; /model")
            await leave(terminal)
        async with command.at_terminal("chat", "-c", "--max-tokens", "77") as terminal:
            await terminal.expect("  Two.\n")
            await terminal.expect(READY)
            await say(terminal, "Again")
            await terminal.expect("  Three.\n")
    bodies = [request.body for request in server.requests]
    assert [body["model"] for body in bodies] == ["scripted", "scripted", "other", "scripted"]
    assert [body.get("temperature") for body in bodies] == [0.5, 0.5, 0.5, None]
    assert "attached words" in str(bodies[0]["messages"][-1])
    assert "a.txt" not in str(bodies[0]["messages"][-1]).replace(given, "")
    assert "77" in str({k: v for k, v in bodies[-1].items() if k != "messages"})
    assert len((await command("sessions")).out.splitlines()) == 1


async def test_a_session_that_goes_on_drops_no_option_without_a_word(command: Command) -> None:
    """Who names an agent that only reads does so for safety: the session's own must not act in its place."""
    async with scripted(command, reply("One."), reply("Two.")) as server:
        assert (await command("chat", "Hello.", stdin=b"")).code == 0
        for words in (("-c", "--agent", "reader"), ("--session", "last", "--agent", "nope")):
            refused = await command("chat", *words, stdin=b"Go on.\n")
            assert "has the agent 'general': leave --agent out" in refused.err, refused
            assert refused.code == 1
        elsewhere = ("--session", "session_", "--workspace", "/tmp")
        refused = await command("chat", *elsewhere, stdin=b"Go on.\n")
        assert f"works in {command.workspace}: leave --workspace out" in refused.err, refused
        done = await command("chat", "-c", "--agent", "general", stdin=b"Go on.\n")
        assert (done.code, "Two." in done.out) == (0, True)
    assert len(server.requests) == 2


async def test_a_session_that_goes_on_gets_the_budget_that_is_given(command: Command) -> None:
    steps = [reply(calls=[("get_current_time", {})] * 2), reply("It is late."), reply("Never.")]
    async with scripted(command, *steps) as server:
        small = await command("chat", "--session-budget", "tool-calls=1", "What time?", stdin=b"")
        assert (small.code, "used up: 1 of 1 calls of tools" in small.out) == (1, True)
        larger = ("-c", "--session-budget", "tool-calls=5")
        done = await command("chat", *larger, stdin=b"Go on.\n")
        assert "It is late." in done.out
        smaller = ("--session", "last", "--session-budget", "tokens=1")
        refused = await command("chat", *smaller, stdin=b"Once more.\n")
        assert "of 1 tokens" in refused.out
    assert len(server.requests) == 2


async def test_a_wrong_value_is_said_before_anything_begins(command: Command) -> None:
    done = await command("chat", "--budget", "much")
    assert (done.code, "--budget: 'much' is not NAME=AMOUNT" in done.err) == (2, True)


async def test_the_window_is_that_of_the_server_of_a_base_url(command: Command) -> None:
    """A chat lends its daemon the place, which asks the server as it asks llama.cpp at its usual address."""
    listed = b'{"data": [{"id": "tiny", "owned_by": "llamacpp", "meta": null}]}'
    props = b'{"default_generation_settings": {"n_ctx": 4096}}'
    beside = {"/v1/models": listed, "/props": props}
    async with open_scripted_server([reply("Hi.", usage=Usage(2048, 10))], beside=beside) as server:
        place = ("--base-url", server.base_url, "--model", "tiny", "--policy", "strict")
        async with chatting(command, *place) as terminal:
            await prompt(terminal, "Hello", "  Hi.\n")
            await terminal.expect("50% of 4.1k")
            await say(terminal, "/status")
            await terminal.expect(
                "  agent: general\n  model: custom/tiny, 50% of 4.1k\n  policy: strict"
            )
            await leave(terminal)


def test_the_status_line_fits_and_leaves_out_what_tells_least() -> None:
    facts = StatusFacts(
        agent="reader", model="local/漢字", policy=Preset.BALANCED, cost="at least $0.12"
    )
    folder = "/srv/of/a/team/and/a/project/that/has/a/long/name"
    for columns in (20, 40, 60, 80, 200):
        line = status_line(Style(), columns, folder, facts, "6% of 200k", "/help")
        assert text_columns(line) < columns
        assert line.endswith("/help") or columns == 20
        assert ("balanced" in line, "name" in line) == (columns > 20, columns >= 80)


def test_the_status_line_is_laid_out_when_it_says_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stands below an answer that comes in thousands of pieces, and says the same for all of them."""
    laid_out: list[str] = []

    def counted(*said: Any) -> str:
        laid_out.append(status_line(*said))
        return laid_out[-1]

    monkeypatch.setattr(status_lines, "status_line", counted)
    line = StatusLine(Style())
    drawn = {
        line.drawn(80, "/srv/tea", StatusFacts(model="local/m"), "new session", "/help")
        for _ in range(1000)
    }
    assert laid_out == [*drawn] == ["/srv/tea · local/m · new session · /help"]
    narrow = line.drawn(30, "/srv/tea", StatusFacts(model="local/m"), "new session", "/help")
    assert text_columns(narrow) < 30
    other = line.drawn(30, "/srv/tea", StatusFacts(model="local/n"), "new session", "/help")
    assert "local/n" in other
    assert len(laid_out) == 3


def test_the_context_is_a_share_where_the_window_is_known() -> None:
    assert context_text(21_000, 1_050_000) == "2% of 1.05M"
    assert context_text(21_000, None) == "21k tokens"
    assert context_text(1_500_340, None) == "1.5M tokens"
    assert context_text(0, None) == ""


def test_a_window_that_ollama_would_cut_in_silence_is_warned_of() -> None:
    facts = StatusFacts(model="ollama/qwen3", window=4096)
    assert "OLLAMA_CONTEXT_LENGTH" in window_warning(3900, facts)
    assert window_warning(2000, facts) == ""
    assert window_warning(3900, StatusFacts(model="llamacpp/qwen3", window=4096)) == ""
    assert window_warning(3900, StatusFacts(model="ollama/qwen3")) == ""
