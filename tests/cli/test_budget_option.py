"""`callboard run --budget …`: what it takes, what it refuses, and how a run ends by it."""

from __future__ import annotations

import re

import pytest

from callboard.cli.run.flags import EXAMPLE, RunFlags, budget_of
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.budget import Budget
from support.cli.command import Command, at
from support.cli.command import command as command


def test_the_example_is_one() -> None:
    assert budget_of(EXAMPLE) == Budget(
        tokens=50_000, cost_usd=0.5, seconds=60, tool_calls=20, model_calls=10
    )
    assert budget_of(" tokens = 50_000 ") == Budget(tokens=50_000)


WRONG = {
    "": "is not NAME=AMOUNT",
    "50000": "is not NAME=AMOUNT",
    "token=5": "there is no 'token'; choices: tokens, cost, seconds, tool-calls, model-calls",
    "tokens=many": "tokens=many is not a number",
    "tokens=1.5": "a whole number from 0",
    "tokens=-1": "a whole number from 0",
    "seconds=nan": "a number from 0",
    "tokens=inf": "a whole number from 0",
    "cost=-0.1": "a number from 0",
    "tokens=5,tokens=6": "tokens is given twice",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_budget_says_why(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(WRONG[text])):
        budget_of(text)
    assert str(RunFlags(budget=text).mistake()).startswith("--budget: ")
    assert str(RunFlags(session_budget=text).mistake()).startswith("--session-budget: ")


async def test_a_run_ends_by_its_budget_and_a_larger_one_goes_on(command: Command) -> None:
    steps = [
        reply(calls=[("get_current_time", {}), ("get_current_time", {"timezone": "Asia/Tokyo"})]),
        reply("It is late."),
    ]
    async with open_scripted_server(steps) as server:
        small = await command(
            "run", *at(server), "--session-budget", "tool-calls=1", "What time is it?"
        )
        assert small.code == 1
        assert "The budget of the session is used up: 1 of 1 calls of tools." in small.err
        larger = ("--session-budget", "tool-calls=5", "--budget", "seconds=60")
        done = await command("run", "--continue", *at(server), *larger, "Go on.")
        assert (done.code, done.complaints) == (0, [])
        assert done.out == "It is late.\n"
    wrong = await command("run", "--budget", "tokens=5,words=6", "Hello.")
    assert wrong.code == 2
    assert "--budget: there is no 'words'; choices: tokens, cost," in wrong.err
