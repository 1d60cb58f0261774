"""`hook/…` over the websocket: a change holds for the next delivery, who may make one, and what is told."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from callboard.config.keys.tokens import Role
from callboard.providers.testing.script import events_of, reply
from callboard.runtime.errors import AuthError, ConflictError, ValidationError
from callboard.runtime.events import TurnEnded
from callboard.runtime.hooks.hook import Hook
from callboard.runtime.wire.hooks import hook_of_row
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import Daemon, open_client
from support.gateway.gated_model import GatedModel
from support.gateway.hook_scene import SECRET, by_bearer, deliver, made

CI = Hook(name="ci", prompt="Look.")
ANSWER = events_of(reply("Done."))


async def outcome(daemon: Daemon, session_id: str) -> str:
    """How the turn of a session has ended, once it has."""
    while True:
        for each in await daemon.runtime.store.events(session_id):
            if isinstance(each.event, TurnEnded):
                return each.event.outcome
        await trio.sleep(0.003)


async def test_a_change_holds_for_the_next_delivery_and_a_turn_that_runs_goes_on(
    tmp_path: Path,
) -> None:
    model = GatedModel(ANSWER)
    async with served(tmp_path, model=model) as (daemon, _), open_client(daemon) as client:

        async def status(name: str) -> int:
            return (await deliver(daemon, "ci", b"{}", by_bearer(name))).status

        assert await status("0") == 401
        row = await client.hooks.create(CI)
        assert "no secret" in row.problem
        assert await status("1") == 401
        await client.keys.set("hook:ci", SECRET)
        session_id, _ = made(await deliver(daemon, "ci", b"{}", by_bearer("2")))
        row = await client.hooks.get("ci")
        assert (row.has_secret, row.problem, row.source) == (True, "", "managed")
        await client.hooks.update(replace(hook_of_row(row), paused=True))
        assert await status("3") == 401
        await client.hooks.update(CI)
        assert await status("2") == 202  # the same delivery again
        await client.hooks.delete("ci")
        assert await status("4") == 401
        assert await client.hooks.list() == []
        assert SECRET not in (tmp_path / "config" / "managed.toml").read_text()
        model.let_all()
        assert await outcome(daemon, session_id) == "answered"
        assert len(await daemon.runtime.sessions()) == 1


async def test_whoever_follows_the_list_hears_of_each_change(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        known = await client.wait_lists({"hooks": 0})
        for change in (
            partial(client.hooks.create, CI),
            partial(client.hooks.update, replace(CI, paused=True)),
            partial(client.hooks.delete, "ci"),
        ):
            await change()
            with trio.fail_after(30):
                later = await client.wait_lists(known)
            assert later["hooks"] > known["hooks"]
            known = later


async def test_who_may_change_hooks_and_which(tmp_path: Path) -> None:
    own = '[hooks.theirs]\nprompt = "Look."\n[agents.reader]\nprompt = "You read."\n'
    async with served(tmp_path, own) as (daemon, _), open_client(daemon) as client:
        operator = daemon.new_token("hand", Role.OPERATOR)
        limited = daemon.new_token("part", Role.ADMIN, agents=("reader",))
        async with open_client(daemon, operator) as other:
            assert (await other.hooks.get("theirs")).source == "callboard.toml"
            with pytest.raises(AuthError):
                await other.hooks.create(CI)
        async with open_client(daemon, limited) as other:
            with pytest.raises(AuthError, match="limited"):
                await other.hooks.create(CI)
        theirs = Hook(name="theirs", prompt="Other.")
        for change in (
            partial(client.hooks.create, theirs),
            partial(client.hooks.update, theirs),
            partial(client.hooks.delete, "theirs"),
        ):
            with pytest.raises(ConflictError, match=r"callboard\.toml, line 1"):
                await change()
        with pytest.raises(ValidationError, match="not below a root") as refused:
            await client.hooks.create(replace(CI, workspace="/etc"))
        assert refused.value.field == "hook.workspace"
        first = hook_of_row(await client.hooks.create(replace(CI, agent="reader")))
        await client.hooks.update(replace(first, max_per_minute=3))
        with pytest.raises(ConflictError, match="changed meanwhile"):
            await client.hooks.update(replace(first, max_per_minute=4))
        file = tmp_path / "config" / "callboard.toml"
        file.write_text('[hooks.ci]\nprompt = "Mine."\n')
        with pytest.raises(
            ValidationError, match=r"(?s)callboard\.toml, line 1.*managed\.toml, line"
        ):
            await client.upkeep.reload()
        file.write_text("")  # its agent has gone, and it can be paused all the same
        await client.upkeep.reload()
        row = await client.hooks.get("ci")
        assert row.agent == "reader"
        assert (await client.hooks.update(replace(hook_of_row(row), paused=True))).paused
