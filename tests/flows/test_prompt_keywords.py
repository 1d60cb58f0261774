"""What a prompt gives its turn in place of the agent's own: by the same words through each door."""

from __future__ import annotations

import asyncio  # ruff: ignore[banned-api] one of the ways
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard import reply
from callboard.providers.testing.script import ScriptedCall, ScriptedReply, Step, stall
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.events import InputAccepted, TurnStarted
from callboard.runtime.turn_options import PromptKeywords, TurnOptions
from support.cli.command import Command, at
from support.gateway.daemon_scene import open_client, open_daemon
from support.stage import open_in, open_local_stage

GIVEN: PromptKeywords = {
    "thinking": "low",
    "temperature": 0.5,
    "max_output_tokens": 50,
    "tools": ["read_file", "list_directory"],
    "policy": "auto",
}
FLAGS = (
    *("--thinking", "low", "--temperature", "0.5", "--max-tokens", "50", "--policy", "auto"),
    *("--tools", "read_file,list_directory"),
)
WANTED = ("low", 0.5, 50, {"read_file", "list_directory"})
STRICT = [callboard.Agent(policy=callboard.Preset.STRICT)]

Sent = tuple[Any, Any, Any, set[str]]
Seen = tuple[Sent, str | None]
"""What the model was asked with, and the preset of the turn."""


def sent(model: callboard.ScriptedModel) -> Sent:
    [request] = model.requests
    tools = {tool.name for tool in request.tools}
    return request.thinking, request.temperature, request.max_output_tokens, tools


def in_trio(folder: Path) -> Seen:
    async def main() -> Seen:
        model = callboard.ScriptedModel([reply("Done.")])
        async with open_in(folder, model, agents=STRICT) as runtime:
            session = await runtime.create_session()
            assert await session.run("Go.", **GIVEN) == "Done."
            [row] = [
                stored.event
                for stored in await runtime.store.events(session.session_id)
                if isinstance(stored.event, TurnStarted)
            ]
            return sent(model), row.policy

    return trio.run(main)


def submitted(folder: Path) -> Seen:
    async def main() -> Seen:
        model, policy = callboard.ScriptedModel([reply("Done.")]), None
        async with open_in(folder, model, agents=STRICT) as runtime:
            session = await runtime.create_session()
            async with session.follow() as events:
                await session.submit("Go.", **GIVEN)
                async for event in events:
                    if isinstance(event, TurnStarted):
                        policy = event.policy
                    if isinstance(event, callboard.TurnEnded):
                        break
            return sent(model), policy

    return trio.run(main)


def under_asyncio(folder: Path) -> Seen:
    async def main() -> Seen:
        model, policy = callboard.ScriptedModel([reply("Done.")]), None
        async with callboard.aio.open_runtime(model=model, agents=STRICT, environ={}) as runtime:
            session = await runtime.create_session()
            async with session.prompt("Go.", **GIVEN) as turn:
                async for event in turn:
                    if isinstance(event, TurnStarted):
                        policy = event.policy
            return sent(model), policy

    return asyncio.run(main())


def in_threads(folder: Path) -> Seen:
    model = callboard.ScriptedModel([reply("Done.")])
    with callboard.start_in_thread(model=model, agents=STRICT, environ={}) as runtime:
        with runtime.create_session().prompt("Go.", **GIVEN) as turn:
            [policy] = [event.policy for event in turn if isinstance(event, TurnStarted)]
    return sent(model), policy


def far_away(folder: Path) -> Seen:
    async def main() -> Seen:
        model = callboard.ScriptedModel([reply("Done.")])
        async with open_daemon(model, agents=STRICT) as daemon, open_client(daemon) as client:
            row = await client.create_session()
            assert await client.ask(row.session_id, "Go.", **GIVEN) == "Done."
            events = await daemon.runtime.store.events(row.session_id)
        [policy] = [e.event.policy for e in events if isinstance(e.event, TurnStarted)]
        return sent(model), policy

    return trio.run(main)


def on_the_command_line(folder: Path) -> Seen:
    async def main() -> Seen:
        command = Command(folder)
        command.configure('[agents.general]\npolicy = "strict"\n')
        async with open_scripted_server([reply("Done.")]) as server:
            done = await command("run", *at(server), *FLAGS, "--json", "Go.")
            body = server.requests[0].body
        events = [line["event"] for line in done.lines]
        [policy] = [event["policy"] for event in events if event["type"] == "turn_started"]
        tools = {tool["function"]["name"] for tool in body["tools"]}
        return (body["reasoning_effort"], body["temperature"], body["max_tokens"], tools), policy

    return trio.run(main)


Door = Callable[[Path], Seen]


@pytest.mark.parametrize(
    "door", [in_trio, submitted, under_asyncio, in_threads, far_away, on_the_command_line]
)
def test_a_prompt_says_how_its_turn_runs(door: Door, tmp_path: Path) -> None:
    assert door(tmp_path) == (WANTED, "auto")


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"temperature": 9}, callboard.ValidationError, "temperature=9: Expected `float` <= 2.0"),
    ({"thinking": "much"}, callboard.ValidationError, "one of off, low, medium, high"),
    ({"policy": "lax"}, callboard.ValidationError, "one of auto, balanced, strict"),
    ({"tools": ["read_fil"]}, callboard.ValidationError, 'no tool \'read_fil\'. Did you mean "read_file"'),
    ({"timeout_seconds": 0}, callboard.ValidationError, "timeout_seconds=0: Expected `float` >= 0.001"),
    ({"fallbacks": ["gpt-5"]}, callboard.ValidationError, "'gpt-5' is not PROVIDER/MODEL"),
    ({"model": "nobody/x"}, callboard.NotFoundError, "no provider 'nobody'"),
    ({"sampling": 1}, TypeError, "a prompt has no option sampling"),
]  # fmt: skip


async def test_what_is_wrong_with_an_option_is_said_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    model = callboard.ScriptedModel([])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session = await daemon.runtime.create_session()
        for given, kind, why in WRONG:
            with pytest.raises(kind) as caught:
                session.prompt("Go.", **given)
            assert why in str(caught.value)
            with pytest.raises(kind) as caught:
                await client.ask(session.session_id, "Go.", **given)
            assert why in str(caught.value)
        with pytest.raises(callboard.ValidationError, match="steers a turn has no options"):
            await session.submit("Go.", mode="steer", temperature=0.5)
    command = Command(tmp_path)
    for flags, why in (
        (("--tools", "read_fil"), 'Did you mean "read_file"'),
        (("--timeout", "0"), "--timeout is a number of seconds above 0"),
    ):
        done = await command("run", "--model", "rehearsal", *flags, "Go.")
        assert done.code != 0
        assert why in done.err


async def test_a_turn_is_over_when_its_time_is(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    steps: list[Step] = [stall("Once upon a time"), reply("Quick.")]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        session = await runtime.create_session()
        with pytest.raises(
            callboard.DeadlineError, match=r"longer than the 30 s .*timeout_seconds"
        ):
            await session.run("Tell me a story.", timeout_seconds=30)
        assert await session.run("And quick.", timeout_seconds=30) == "Quick."


async def test_a_budget_that_is_shorter_is_what_ends_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_local_stage(tmp_path, [stall("Once")]) as (runtime, _):
        session = await runtime.create_session()
        budget = callboard.Budget(seconds=5)
        with pytest.raises(callboard.BudgetError):
            await session.run("Tell me a story.", timeout_seconds=30, budget=budget)


def called(*names: str) -> ScriptedReply:
    return reply(calls=[ScriptedCall(name, '{"path":"."}') for name in names])


async def test_a_turn_has_no_more_tools_than_its_agent_and_what_it_delegates_no_more_than_it(
    tmp_path: Path,
) -> None:
    steps = [
        reply(calls=[("delegate", {"kind": "worker", "task": "Look."})]),
        called("list_directory", "search_files"),
        reply("Looked."),
        reply("Done."),
        reply("None."),
    ]
    agents = [callboard.Agent(tools=("delegate", "list_directory", "search_files"))]
    async with open_local_stage(tmp_path, steps, agents=agents) as (runtime, model):
        session = await runtime.create_session()
        await session.run("Go.", tools=["delegate", "list_directory", "read_file"])
        await session.run("Go.", tools=[])
        rows = {row.name: row.status for row in await runtime.store.calls()}
    offered = [{tool.name for tool in request.tools} for request in model.requests]
    assert offered == [
        {"delegate", "list_directory"}, {"list_directory"}, {"list_directory"},
        {"delegate", "list_directory"}, set(),
    ]  # fmt: skip
    assert rows["list_directory"] == "success"
    assert rows["search_files"] == "error"


async def test_a_program_lets_a_turn_do_more_than_its_agent_and_steers_it(tmp_path: Path) -> None:
    write = ("write_file", {"path": "a.txt", "content": "a"})
    steps = [reply(calls=[write]), reply("One."), reply(calls=[write]), reply("Two.")]
    async with open_local_stage(tmp_path, steps, agents=STRICT) as (runtime, _):
        session = await runtime.create_session()
        async with session.prompt("Go.", policy="auto") as turn:
            await session.submit("And do it well.", mode="steer")
            assert await turn.answer() == "One."
        async with session.regenerate() as again:  # somebody else may have asked for it
            await again.answer()
        statuses = [row.status for row in await runtime.store.calls()]
        events = await runtime.store.events(session.session_id)
    assert statuses == ["denied", "success"]
    said = [each.event for each in events if isinstance(each.event, InputAccepted)]
    assert (said[0].options, said[0].widens) == (
        TurnOptions(policy=callboard.Preset.AUTO),
        "general",
    )
