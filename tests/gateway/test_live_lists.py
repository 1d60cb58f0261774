"""Whoever follows a list hears of each change at once, without asking again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.config.managed import load_managed
from callboard.embedding.list_changes import LOOK_SECONDS, StatusWatch
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Agent
from callboard.runtime.errors import ConflictError, PermissionRefused, ValidationError
from callboard.runtime.kernel.live_lists import ListName
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.providers import NewProvider, ProviderChanged
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import open_client, open_daemon
from support.portal.doors import options_of
from support.waits import until

PATIENCE_SECONDS = 20.0


class Follower:
    """A reader who waits for changes of lists, as a client does."""

    def __init__(self, place: Any, *names: str) -> None:
        self._place = place
        self.revisions: dict[Any, int] = dict.fromkeys(names, 0)
        self.heard: list[set[str]] = []

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.revisions = await self._place.wait_lists(self.revisions)
        task_status.started()
        while True:
            found: Mapping[Any, int] = await self._place.wait_lists(self.revisions)
            self.heard.append({str(n) for n in found if found[n] != self.revisions[n]})
            self.revisions = dict(found)


async def test_a_second_client_hears_of_each_change(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as (daemon, _),
        open_client(daemon) as one,
        open_client(daemon) as other,
        trio.open_nursery() as nursery,
    ):
        names = [name for name in ListName if name not in {ListName.TOOLS, ListName.USAGE}]
        follower = Follower(other, *names)
        await nursery.start(follower.run)

        async def changes(what: set[str]) -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                await until(lambda: set().union(*follower.heard) >= what)
            follower.heard.clear()

        await one.agents.create(Agent(name="reader"))
        await changes({"agents", "settings"})
        await one.agents.delete("reader")
        await changes({"agents"})
        await one.settings.set("limits.max_repeats", 7)
        await changes({"settings"})
        params = NewProvider(name="house", base_url="http://127.0.0.1:9/v1", model="m")
        await one.request("provider/create", params, ProviderChanged)
        await changes({"providers", "models"})
        await one.models.choose("house/m")
        await changes({"default_model"})
        await one.keys.set("git", "secret-0123456789abcdef", origin="https://git.example/me")
        await changes({"keys"})
        await one.tokens.create("eye", Role.OBSERVER)
        await changes({"tokens"})
        work = tmp_path / "work"
        work.mkdir()
        await one.upkeep.add_root(str(work))
        await changes({"roots"})
        (tmp_path / "config" / "callboard.toml").write_text(
            '[prices."house/m"]\ninput = 1\noutput = 2\n'
        )
        await one.upkeep.reload()
        await changes({"prices"})
        (work / "AGENTS.md").write_text("Use tabs.")
        (skill,) = await one.skills.list(workspace=str(work))
        await one.skills.allow(skill.path, skill.digest, workspace=str(work))
        await changes({"skills"})
        nursery.cancel_scope.cancel()


async def test_each_list_wakes_its_followers_in_the_next_step(tmp_path: Path) -> None:
    @callboard.tool(tier="read_only")
    def double(number: int) -> int:
        """Doubles a number."""
        return 2 * number

    options = options_of(tmp_path)
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs.")
    async with (
        callboard.open_runtime(**options) as runtime,
        trio.open_nursery() as nursery,
    ):
        (skill,) = await runtime.skills.list()
        changes: dict[str, Callable[[], Awaitable[object]]] = {
            "agents": lambda: runtime.agents.create(Agent(name="reader")),
            "settings": lambda: runtime.settings.set("limits.max_repeats", 7),
            "tools": lambda: runtime.register(double),
            "skills": lambda: runtime.skills.allow(skill.path, skill.digest),
        }
        told = {name: partial(host_of(runtime).lists.changed, name) for name in ListName}
        said = [name for name in ListName if name is not ListName.STATUS]  # that one is looked at
        for name in said:
            follower = Follower(runtime, name)
            await nursery.start(follower.run)
            await trio.testing.wait_all_tasks_blocked()
            if (change := changes.get(name)) is not None:
                await change()
            else:
                told[name]()
            for _ in range(
                2
            ):  # whoever is woken runs in the next step, in any order with this task
                await trio.lowlevel.checkpoint()
            assert follower.heard == [{name}]
        nursery.cancel_scope.cancel()


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_a_change_costs_each_of_a_hundred_followers_one_step(tmp_path: Path) -> None:
    async with (
        callboard.open_runtime(**options_of(tmp_path)) as runtime,
        trio.open_nursery() as nursery,
    ):
        followers = [Follower(runtime, "skills") for _ in range(100)]
        for follower in followers:
            await nursery.start(follower.run)
        await trio.testing.wait_all_tasks_blocked()
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        host_of(runtime).lists.changed(ListName.SKILLS)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(steps)
        assert [follower.heard for follower in followers] == [[{"skills"}]] * 100
        assert steps.count <= 2 * len(followers) + 20  # it hears, and waits again
        nursery.cancel_scope.cancel()


async def test_nothing_is_missed_between_two_waits_and_many_changes_are_one(tmp_path: Path) -> None:
    async with callboard.open_runtime(**options_of(tmp_path)) as runtime:
        known = await runtime.wait_lists({"agents": 0, "prices": 0})
        for name in ("one", "two"):
            await runtime.agents.create(Agent(name=name))
        later = await runtime.wait_lists(known)
        assert later["agents"] != known["agents"]
        assert later["prices"] == known["prices"]
        with trio.move_on_after(0) as waited:
            await runtime.wait_lists(later)
        assert waited.cancelled_caught
    other = tmp_path / "other"
    async with callboard.open_runtime(**options_of(other)) as runtime:  # a restart is a change, too
        assert await runtime.wait_lists(later) != later
        with pytest.raises(ValidationError, match="known"):
            await runtime.wait_lists({"agentz": 0})


async def test_usage_is_told_when_a_model_has_answered(tmp_path: Path) -> None:
    model = callboard.ScriptedModel([reply("One."), reply("Two.")])
    async with callboard.open_runtime(model=model, workspace=tmp_path) as runtime:
        session = await runtime.create_session()
        await session.run("1?")
        known = await runtime.wait_lists({"usage": 0})
        await session.run("2?")
        assert await runtime.wait_lists(known) != known


async def test_a_tool_that_comes_changes_the_lists_of_tools_and_of_agents() -> None:
    @callboard.tool(tier="read_only")
    def double(number: int) -> int:
        """Doubles a number."""
        return 2 * number

    async with callboard.open_runtime(model="rehearsal") as runtime:
        known = await runtime.wait_lists({"tools": 0, "agents": 0})
        await runtime.register(double)
        found = await runtime.wait_lists(known)
        assert all(found[name] != known[name] for name in known)
        assert "double" in {tool.name for tool in (await runtime.agents.get("general")).tools}


async def test_a_role_follows_what_it_may_read(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _):
        token = daemon.new_token("eye", Role.OBSERVER)
        limited = daemon.new_token("guest", Role.OPERATOR, agents=("general",))
        async with open_client(daemon, token) as eye, open_client(daemon, limited) as guest:
            assert await eye.wait_lists({"agents": 0, "usage": 0})  # the control
            for name in ("settings", "tokens", "keys", "providers", "roots", "skills", "hooks"):
                with pytest.raises(PermissionRefused, match=name):
                    await eye.wait_lists({name: 0})
            assert await guest.wait_lists({"agents": 0, "providers": 0})
            for name in ("usage", "status"):
                with pytest.raises(PermissionRefused, match=name):
                    await guest.wait_lists({name: 0})


class Gate:
    """A tool that runs until the test lets it end, and the model that calls it."""

    def __init__(self) -> None:
        self.opened = trio.Event()
        self.model = callboard.ScriptedModel([reply(calls=[("slowly", {})]), reply("Done.")])

        @callboard.tool(tier="read_only")
        async def slowly() -> str:
            """Wait for the test."""
            await self.opened.wait()
            return "done"

        self.tool = slowly


async def test_the_status_is_followed_while_turns_calls_and_clients_come_and_go() -> None:
    gate = Gate()
    async with (
        open_daemon(gate.model, tools=[gate.tool]) as daemon,
        open_client(daemon) as one,
        open_client(daemon) as other,
        trio.open_nursery() as nursery,
    ):
        follower = Follower(other, "status")

        async def hears() -> None:
            count = len(follower.heard)
            await until(lambda: len(follower.heard) > count)

        with trio.fail_after(PATIENCE_SECONDS):
            await nursery.start(follower.run)
            session_id = (await one.create_session()).session_id
            nursery.start_soon(one.ask, session_id, "Go.")
            while not (work := (await one.status()).work) or not work.calls:
                await hears()
            gate.opened.set()
            while not (work := (await one.status()).work) or work.turns:
                await hears()
            while (await one.status()).connections != 2:
                await hears()
            async with open_client(daemon):
                await hears()
        nursery.cancel_scope.cancel()


async def test_a_status_in_which_nothing_happens_is_no_change(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with callboard.open_runtime(model="rehearsal") as runtime:
        assert await runtime.wait_lists({"status": 0})
        also = [1]
        watch = StatusWatch(host_of(runtime), lambda: also[0])
        revisions = {ListName.STATUS: 0}
        with trio.move_on_after(10 * LOOK_SECONDS) as nothing:
            for _ in range(3):  # the first look knows of nothing, and may come a step later
                revisions = await watch.wait(revisions)
        assert nothing.cancelled_caught
        also[0] = 2
        assert await watch.wait(revisions) != revisions  # the control


async def test_what_the_operator_says_wins_over_what_is_set(tmp_path: Path) -> None:
    text = "[limits]\nmax_repeats = 7\n"
    async with served(tmp_path, text) as (daemon, _), open_client(daemon) as client:
        with pytest.raises(ConflictError, match=r"callboard\.toml, line 2"):
            await client.settings.set("limits.max_repeats", 8)
        await client.settings.set("limits.max_child_sessions", 3)
        assert (await client.settings.get("limits.max_repeats")).value == 7
        row = await client.settings.get("limits.max_child_sessions")
        assert (row.value, row.can_be_set) == (3, True)
        assert row.schema is not None
        assert (row.schema["type"], row.schema["minimum"]) == ("integer", 1)
        assert load_managed(tmp_path / "config").limits == {"max_child_sessions": 3}
        file = tmp_path / "config" / "callboard.toml"
        file.write_text("[limits]\nmax_repeats = 7\nmax_child_sessions = 5\n")
        await client.upkeep.reload()
        assert (await client.settings.get("limits.max_child_sessions")).value == 5
