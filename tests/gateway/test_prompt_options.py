"""What a client gives one turn in the place of its agent's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager as AsyncContext
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.client.client import Client, connect
from callboard.config.keys.tokens import local_credential
from callboard.config.sections import ServerSettings
from callboard.config.settings import Settings
from callboard.gateway.gateway import Gateway, open_gateway
from callboard.gateway.shared.clients_channel import ClientsChannel
from callboard.providers.testing.script import reply, stall
from callboard.runtime.definitions import InputMode, Preset, ThinkingEffort
from callboard.runtime.events import ApprovalAsked, CallFinished, InputAccepted, TurnEnded
from callboard.runtime.turn_options import TurnOptions
from callboard.runtime.wire.fields import Nothing, Role
from callboard.runtime.wire.rpc import INVALID_PARAMS, NOT_AUTHORIZED, NOT_FOUND
from callboard.runtime.wire.sessions import GiveOptions
from support.gateway.daemon_scene import (
    Daemon,
    RawClient,
    View,
    open_client,
    open_daemon,
    open_greeted,
)
from support.waits import until

WRITE = ("write_file", {"path": "a.txt", "content": "a"})


async def statuses(client: Client, session_id: str, after_seq: int, *, turns: int = 1) -> list[str]:
    """How the calls of the next turns ended."""
    view, epoch = View(), client.welcome.epoch
    async with client.events(session_id, after_seq=after_seq, epoch=epoch) as events:
        await view.read(events, turns)
    return [each.event.status for each in view.stored if isinstance(each.event, CallFinished)]


async def test_options_are_of_one_turn() -> None:
    model = callboard.ScriptedModel([reply("One."), reply("Two."), reply("Three.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        options = TurnOptions(
            temperature=0.5,
            max_output_tokens=50,
            thinking=ThinkingEffort.LOW,
            fallbacks=("openai/x",),
        )
        for each in (options, None):
            ticket = await client.prompt(session_id, "Go.", options=each)
            await statuses(client, session_id, ticket.seq)
        asked = [(r.temperature, r.max_output_tokens, r.thinking) for r in model.requests]
        assert asked == [(0.5, 50, ThinkingEffort.LOW), (None, None, None)]
        record = await daemon.runtime.store.events(session_id)
        said = [each.event for each in record if isinstance(each.event, InputAccepted)]
        assert [(each.options, each.widens) for each in said] == [(options, ""), (None, "")]


@pytest.mark.parametrize("options", [None, TurnOptions(temperature=0.5)])
async def test_a_client_says_that_strangers_may_have_written_the_text(
    options: TurnOptions | None,
) -> None:
    model = callboard.ScriptedModel([reply("One."), reply("Two.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        for is_untrusted in (False, True):
            ticket = await client.prompt(
                session_id, "Go.", options=options, is_untrusted=is_untrusted
            )
            await statuses(client, session_id, ticket.seq)
            row = await daemon.runtime.store.session(session_id)
            assert row is not None
            assert row.is_tainted is is_untrusted


@pytest.mark.parametrize("options", [None, TurnOptions(temperature=0.5)])
async def test_a_prompt_says_where_its_sender_stands_in_a_trace(
    options: TurnOptions | None,
) -> None:
    usable = callboard.TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "vendor=1")
    model = callboard.ScriptedModel([reply("One."), reply("Two.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        for trace in (usable, callboard.TraceContext("00-zz-bb-01")):
            ticket = await client.prompt(session_id, "Go.", options=options, trace=trace)
            await statuses(client, session_id, ticket.seq)
        record = await daemon.runtime.store.events(session_id)
        said = [each.event for each in record if isinstance(each.event, InputAccepted)]
        assert [each.trace for each in said] == [usable, None]


async def test_a_turn_that_is_run_again_has_its_options_again() -> None:
    model = callboard.ScriptedModel([reply("One."), reply("Two."), reply("Three.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        ticket = await client.prompt(session_id, "Go.", options=TurnOptions(temperature=0.5))
        for _ in range(2):
            await statuses(client, session_id, ticket.seq)
            ticket = await client.regenerate(session_id)
        await statuses(client, session_id, ticket.seq)
        assert [request.temperature for request in model.requests] == [0.5, 0.5, 0.5]


async def test_only_an_administrator_lets_more_run_and_nobody_who_has_it_run_again(
    tmp_path: Path,
) -> None:
    steps = [reply(calls=[WRITE]), reply("One."), reply(calls=[WRITE]), reply("Two.")]
    model = callboard.ScriptedModel(steps)
    wide = TurnOptions(policy=Preset.AUTO)
    agent = callboard.Agent(policy=Preset.STRICT)
    options: dict[str, Any] = {"agents": [agent], "workspace": tmp_path, "on_approval": "deny"}
    async with open_daemon(model, **options) as daemon, open_client(daemon) as client:
        row = await client.create_session(workspace=None)
        for name, limits in (("operator", {}), ("admin", {"agents": ("general",)})):
            role = Role.OPERATOR if name == "operator" else Role.ADMIN
            async with open_greeted(daemon, daemon.new_token(name, role, **limits)) as raw:
                code = await refused(raw, row.session_id, policy="auto")
                assert code == NOT_AUTHORIZED
        ticket = await client.prompt(row.session_id, "Go.", options=wide)  # the control
        assert await statuses(client, row.session_id, ticket.seq) == ["success"]
        ticket = await client.regenerate(row.session_id)
        assert await statuses(client, row.session_id, ticket.seq) == ["denied"]


@pytest.mark.parametrize(("agent", "status"), [("power", "denied"), ("general", "success")])
async def test_what_one_agent_was_let_is_not_let_to_another(agent: str, status: str) -> None:
    model = callboard.ScriptedModel([stall(), reply(calls=[WRITE]), reply("Done.")])
    agents = [callboard.Agent(name=name, policy=Preset.STRICT) for name in ("general", "power")]
    async with open_daemon(model, agents=agents, on_approval="deny") as daemon:
        async with open_client(daemon) as admin, open_greeted(daemon, operator(daemon)) as raw:
            session_id = (await admin.create_session()).session_id
            await admin.prompt(session_id, "Long.")
            ticket = await admin.prompt(session_id, "Go.", options=TurnOptions(policy=Preset.AUTO))
            switch = {"session_ids": [session_id], "agent": agent}
            assert "result" in await raw.call("session/set_agent", **switch)
            await raw.call("session/cancel", session_id=session_id)
            # The first to end is the one that is cancelled.
            assert await statuses(admin, session_id, ticket.seq) == []
            assert await statuses(admin, session_id, ticket.seq, turns=2) == [status]


async def test_only_who_may_widen_a_turn_steers_one_that_is_wider() -> None:
    model = callboard.ScriptedModel([stall(), stall(), reply("Done."), reply("Done.")])
    agent = callboard.Agent(policy=Preset.STRICT)
    async with open_daemon(model, agents=[agent], on_approval="deny") as daemon:
        async with open_client(daemon) as admin, open_greeted(daemon, operator(daemon)) as raw:
            session_id = (await admin.create_session()).session_id
            asked = {"session_id": session_id, "content": "Write.", "mode": "steer"}
            await admin.prompt(session_id, "Go.", options=TurnOptions(policy=Preset.AUTO))
            answer = await raw.call("session/prompt", **asked)
            assert answer["error"]["code"] == NOT_AUTHORIZED
            assert "only an administrator steers it" in answer["error"]["message"]
            assert await inputs(daemon, session_id) == 1
            budget = {"total_tokens": 5}
            answer = await raw.call("session/prompt", **asked, budget=budget)
            assert answer["error"]["code"] == INVALID_PARAMS
            await admin.prompt(session_id, "Faster.", mode=InputMode.STEER)
            await admin.cancel(session_id)
            await admin.prompt(session_id, "Go.")
            assert "result" in await raw.call("session/prompt", **asked)  # the control


@pytest.mark.parametrize(("policy", "second"), [(Preset.STRICT, "deferred"), (None, "success")])
async def test_the_turn_of_a_late_answer_is_as_strict(policy: Preset | None, second: str) -> None:
    delete = ("delete_file", {"path": "a.txt"})
    first = reply(calls=[delete if policy is None else WRITE])
    other = ("write_file", {"path": "b.txt", "content": "b"})
    steps = [first, reply("Pending."), reply(calls=[other]), reply("Done.")]
    agent = callboard.Agent(policy=Preset.BALANCED, defer=True)
    async with open_daemon(callboard.ScriptedModel(steps), agents=[agent]) as daemon:
        async with open_client(daemon) as client:
            session_id = (await client.create_session()).session_id
            ticket = await client.prompt(session_id, "Go.", options=TurnOptions(policy=policy))
            await statuses(client, session_id, ticket.seq)
            (asked,) = await client.approvals()
            await client.answer(asked.approval_id, "allow")
            await statuses(client, session_id, ticket.seq, turns=2)
            calls = await client.calls()
            (again,) = [call for call in calls if call.call_id != asked.call_id]
            assert again.status == second


def operator(daemon: Daemon) -> str:
    return daemon.new_token("operator", Role.OPERATOR)


async def test_everybody_who_prompts_lets_less_run() -> None:
    steps = [reply(calls=[WRITE]), reply("One."), reply(calls=[WRITE]), reply("Two.")]
    model = callboard.ScriptedModel(steps)
    async with open_daemon(model, policy="auto", on_approval="deny") as daemon:
        token = daemon.new_token("operator", Role.OPERATOR)
        async with open_client(daemon, token) as client:
            session_id = (await client.create_session()).session_id
            strict = TurnOptions(policy=Preset.STRICT)
            ticket = await client.prompt(session_id, "Go.", options=strict)
            assert await statuses(client, session_id, ticket.seq) == ["denied"]
            ticket = await client.prompt(session_id, "Go.", options=TurnOptions(policy=Preset.AUTO))
            assert await statuses(client, session_id, ticket.seq) == ["success"]


@pytest.mark.parametrize(("policy", "status"), [(Preset.BALANCED, "denied"), (None, "success")])
async def test_what_is_delegated_has_the_options_too(policy: Preset | None, status: str) -> None:
    delegate = ("delegate", {"kind": "branch", "task": "Write it, and delete it."})
    below = [reply(calls=[WRITE]), reply(calls=[("delete_file", {"path": "a.txt"})])]
    steps = [reply(calls=[delegate]), *below, reply("Below."), reply("Done.")]
    model = callboard.ScriptedModel(steps)
    async with open_daemon(model, policy="auto", on_approval="deny") as daemon:
        async with open_client(daemon) as client:
            session_id = (await client.create_session()).session_id
            options = TurnOptions(policy=policy, temperature=0.5)
            ticket = await client.prompt(session_id, "Go.", options=options)
            await statuses(client, session_id, ticket.seq)
            assert [request.temperature for request in model.requests] == [0.5] * 5
            calls = {call.name: call.status for call in await client.calls()}
            assert calls == {"delegate": "success", "write_file": "success", "delete_file": status}


async def refused(raw: RawClient, session_id: str, **options: Any) -> int:
    asked = {"session_id": session_id, "content": "Go.", "options": options}
    answer = await raw.call("session/prompt", **asked)
    code: int = answer["error"]["code"]
    return code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"model": "nobody/x"}, NOT_FOUND),
        ({"fallbacks": ["nobody/x"]}, NOT_FOUND),
        ({"fallbacks": ["x"]}, INVALID_PARAMS),
        ({"temperature": 99}, INVALID_PARAMS),
        ({"max_output_tokens": 0}, INVALID_PARAMS),
        ({"policy": "lax"}, INVALID_PARAMS),
        ({"widens": "general"}, INVALID_PARAMS),
    ],
)
async def test_what_can_not_be_is_refused_before_anything_is_stored(
    options: dict[str, Any], code: int
) -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        session_id = (await raw.call("session/new"))["result"]["session_id"]
        assert await refused(raw, session_id, **options) == code
        assert await inputs(daemon, session_id) == 0
        steering = {"session_id": session_id, "content": "Go.", "mode": "steer"}
        answer = await raw.call("session/prompt", **steering, options={"temperature": 1})
        assert answer["error"]["code"] == INVALID_PARAMS
        await raw.call("session/prompt", session_id=session_id, content="Go.")  # the control
        assert await inputs(daemon, session_id) == 1


async def inputs(daemon: Daemon, session_id: str) -> int:
    record = await daemon.runtime.store.events(session_id)
    return sum(isinstance(each.event, InputAccepted) for each in record)


@asynccontextmanager
async def open_beside_commands(
    folder: Path, policy: Preset, model: Any = "rehearsal"
) -> AsyncGenerator[tuple[callboard.Runtime, Gateway, Callable[[], AsyncContext[Client]]]]:
    """A runtime that commands of its user share: what they connect with."""
    local, token = local_credential()
    (folder / "work").mkdir()
    async with (
        callboard.open_runtime(
            model=model,
            workspace=folder / "work",
            settings=Settings(policy=policy),
            channel=ClientsChannel(),
        ) as runtime,
        open_gateway(runtime, ServerSettings(port=0), folder / "data", local=local) as gateway,
    ):
        url = f"ws://127.0.0.1:{gateway.port}/ws"
        yield runtime, gateway, lambda: connect(url, token.reveal())


async def give(client: Client, session_id: str, policy: Preset, *, has_people: bool = True) -> None:
    options = TurnOptions(policy=policy)
    given = GiveOptions(session_id=session_id, options=options, has_people=has_people)
    await client.request("session/give_options", given, Nothing)


async def test_stricter_options_of_a_command_hold_for_its_inputs_when_it_is_gone(
    tmp_path: Path,
) -> None:
    """Its connection may break: what goes on meanwhile must not run by laxer ones."""
    write = [reply(calls=[("write_file", {"path": "a.txt", "content": "a"})]), reply("Done.")]
    model = callboard.ScriptedModel([stall("Thinking."), *write, *write])
    async with open_beside_commands(tmp_path, Preset.AUTO, model) as (runtime, gateway, come):
        session = await runtime.create_session()
        async with come() as client:
            await give(client, session.session_id, Preset.STRICT, has_people=False)
            await client.prompt(session.session_id, "Wait.")
            await client.prompt(session.session_id, "Write.")
        await until(lambda: not gateway.daemon.connections)
        async with session.follow() as events:
            await session.cancel()
            async for event in events:
                if isinstance(event, TurnEnded) and event.outcome == "answered":
                    break
        assert not (tmp_path / "work" / "a.txt").exists()
        await session.run("Write.")  # somebody else's: as the agent has it
        assert (tmp_path / "work" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("door", ["prompt", "program", "regenerate", "mid-turn"])
async def test_a_laxer_policy_of_a_command_is_that_of_its_own_inputs(
    tmp_path: Path, door: str
) -> None:
    """Turns that others began, or ran again, in the session of a `run --policy auto` ran as laxly; what they asked was denied."""
    steps = [reply(calls=[WRITE]), reply("Done.")] * 2
    model = callboard.ScriptedModel([stall("Thinking."), *steps] if door == "mid-turn" else steps)
    async with (
        open_beside_commands(tmp_path, Preset.STRICT, model) as (runtime, _, come),
        come() as client,
        come() as other,
    ):
        session, written = await runtime.create_session(), tmp_path / "work" / "a.txt"
        session_id = session.session_id
        await give(client, session_id, Preset.AUTO, has_people=False)
        if door == "mid-turn":
            await client.prompt(session_id, "Wait.")
        else:
            await client.ask(session_id, "Write.")
            assert written.read_text() == "a"  # the control
            written.unlink()
        async with session.follow() as events:
            match door:
                case "prompt":
                    await other.prompt(session_id, "Write.")
                case "program":  # as schedules, webhooks and the protocols of others begin turns
                    await session.submit("Write.")
                case "regenerate":
                    await other.regenerate(session_id)
                case _:
                    await other.prompt(session_id, "Write.")
                    await session.cancel()
            asked: ApprovalAsked | None = None
            async for event in events:
                assert not isinstance(event, CallFinished)
                if isinstance(event, ApprovalAsked):
                    asked = event  # and it waits for people: only the command has none
                    break
        assert asked is not None
        assert not written.exists()
        await other.answer(asked.approval_id, callboard.ApprovalAnswer(decision="allow"))
        await until(written.exists)
