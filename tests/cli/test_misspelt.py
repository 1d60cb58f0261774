"""A name that is nearly right: the command says which one was meant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from support.cli.command import Command, Finished
from support.cli.command import command as command
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here

RunHere = Callable[..., Awaitable[Finished]]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("sesions", "sessions"),
        ("rnu Hello", "run"),
        ("policy chek", "check"),
        ("providers tst openai", "test"),
        ("grants revok x", "revoke"),
        ("settings gett x", "get"),
        ("run --polcy auto Hello", "--policy"),
        ("session delete last --dta x", "--data"),
        ("run -m gpt-5 Hello", "openai/gpt-5"),
        ("run -m opnai/gpt-5 Hello", "openai"),
        ("run -m gpt5 Hello", "openai/gpt-5"),
        ("run -m gtp-5.5 Hello", "openai/gpt-5.5"),
        ("run -m claude Hello", "anthropic/claude-"),
        ("run -a genral -m rehearsal Hello", "general"),
        ("run -a generl -m rehearsal Hello", "general"),
        ("run -a gardner Hello", "gardener"),
        ("models antropic", "anthropic"),
    ],
)
async def test_what_was_meant(command: Command, run_here: RunHere, line: str, meant: str) -> None:
    command.configure('[agents.gardener]\npolicy = "strict"\n')
    is_run = line.startswith("run")  # which takes signals, in a process of its own
    done = await (command(*line.split()) if is_run else run_here(command, *line.split()))
    assert done.code in {1, 2}
    assert f'Did you mean "{meant}' in done.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("resume", "Here it is `callboard chat --continue`."),
        ("login", "`callboard keys set PROVIDER`"),
        ("restoer x", 'Did you mean "restore"?'),
        ("xyzzy", "The most used are chat, run, sessions"),
        ("run --resume Hello", "Here it is `--continue`."),
        ("chat --dangerously-skip-permissions", "Here it is `--policy auto`."),
        ("run -p Hello", "Here it is `callboard run PROMPT`."),
    ],
)
async def test_what_other_programs_call_it(
    command: Command, run_here: RunHere, line: str, said: str
) -> None:
    """And nobody who may have meant something else is led to what replaces all sessions."""
    done = await run_here(command, *line.split())
    assert (done.code, said in done.err) == (2, True), done.err
    assert ("restore" in done.err) == line.startswith("restoer")


async def test_a_command_of_models_is_not_taken_for_a_provider(
    command: Command, run_here: RunHere
) -> None:
    done = await run_here(command, "models", "defalt")
    assert "Did you mean `callboard models default`?" in done.err
    done = await run_here(command, "models", "opanai")
    assert 'Did you mean "openai"?' in done.err


async def test_help_and_version_are_commands_too(command: Command, run_here: RunHere) -> None:
    for line, same in (("help run", "run --help"), ("help", "--help"), ("version", "--version")):
        done = await run_here(command, *line.split())
        assert done.code == 0
        assert done.out == (await run_here(command, *same.split())).out


async def test_a_prompt_without_a_command_is_told_where_it_stands(
    command: Command, run_here: RunHere
) -> None:
    done = await run_here(command, "Fix the tests")
    assert (done.code, "`callboard run PROMPT`" in done.err) == (2, True)


async def test_a_misspelt_tool_of_an_agent_is_said(command: Command, run_here: RunHere) -> None:
    command.configure('[agents.gardener]\ntools = ["read_fil", "write_file"]\n')
    said = "agent 'gardener' names a tool 'read_fil', which does not exist. Did you mean \"read_file\"?"
    run = await command("run", "-a", "gardener", "-m", "rehearsal", "Hello")
    assert (run.code, said in run.err) == (0, True)
    lint = await run_here(command, "policy", "lint")
    assert (lint.code, said in lint.out, "write_file" in lint.out) == (1, True, False)
    doctor = await run_here(command, "doctor")
    assert said in " ".join(doctor.out.split())


async def test_a_rule_that_denies_no_tool_is_said_wherever_work_begins(command: Command) -> None:
    """Whoever wrote it believes to be protected."""
    command.configure(
        '[[rules]]\ntool = "wirte_file"\nverdict = "deny"\n[[rules]]\ntool = "shell"\nverdict = "deny"\n'
    )
    said = "there is no tool 'wirte_file', and so the rule to deny it does nothing."
    for line in ("run -m rehearsal Hello", "chat -m rehearsal Hello", "doctor"):
        done = await command(*line.split(), stdin=b"")
        text = " ".join((done.out + done.err).split())
        assert said in text, done
        assert 'Did you mean "write_file"?' in text
        assert "'shell'" not in text


async def test_a_misspelt_tool_of_a_programs_agent_is_refused() -> None:
    agent = callboard.Agent(name="gardener", tools=("read_fil",))
    with pytest.raises(callboard.ValidationError, match='Did you mean "read_file"'):
        async with callboard.open_runtime(agents=[agent], environ={}):
            pass
    agent = callboard.Agent(name="gardener", tools=("read_file", "of_a_plugin"))
    async with callboard.open_runtime(agents=[agent], environ={}):
        pass


async def test_a_server_that_was_added_is_asked_for_a_model_of_that_name(command: Command) -> None:
    async with open_scripted_server([reply("Hi.")]) as server:
        command.configure(f'[providers.mine]\nbase_url = "{server.base_url}"\n')
        done = await command("run", "-m", "scripted", "Hello")
    assert (done.code, done.out) == (0, "Hi.\n")
