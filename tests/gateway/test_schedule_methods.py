"""`schedule/…` over the websocket: who may do what, what is told, and that a repeated request fires once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.config.keys.tokens import Role
from callboard.embedding.unattended.scheduler import firing
from callboard.gateway.shared.idempotency import IdempotentRequests
from callboard.runtime.errors import AuthError, NotFoundError, ValidationError
from callboard.runtime.schedules.schedule import Schedule
from support.flows.scheduled import MORNING, Wall
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import RawClient, open_client, open_greeted

READERS = '[agents.reader]\nprompt = "You read."\n'


async def test_roles_and_limits(tmp_path: Path) -> None:
    async with served(tmp_path, READERS) as (daemon, _), open_client(daemon) as admin:
        await admin.schedules.create(MORNING)
        observer = daemon.credentials.create("eye", Role.OBSERVER).reveal()
        operator = daemon.credentials.create("hand", Role.OPERATOR).reveal()
        reader = daemon.credentials.create("reader", Role.OPERATOR, agents=("reader",)).reveal()
        async with open_client(daemon, observer) as client:
            [row] = await client.schedules.list()
            assert len(await client.schedules.next("morning", 5)) == 5
            assert (row.name, "fires no schedules" in row.problem) == ("morning", True)
            with pytest.raises(AuthError):
                await client.schedules.run("morning")
        async with open_client(daemon, operator) as client:
            fired = await client.schedules.run("morning")
            assert [each.input_id for each in await client.schedules.firings("morning")] == [
                fired.input_id
            ]
            for change in (
                client.schedules.pause,
                client.schedules.delete,
                client.schedules.resume,
            ):
                with pytest.raises(AuthError):
                    await change("morning")
        async with open_client(daemon, reader) as client:  # of another agent's it knows nothing
            assert await client.schedules.list() == []
            for look in (client.schedules.get, client.schedules.run, client.schedules.firings):
                with pytest.raises(NotFoundError, match="no schedule 'morning'"):
                    await look("morning")


async def test_a_client_names_no_folder_that_it_could_not_work_in(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        outside = Schedule(name="a", prompt="Go.", every="1h", workspace="/etc")
        with pytest.raises(ValidationError, match="not below a root") as refused:
            await client.schedules.create(outside)
        assert refused.value.field == "schedule.workspace"
        folder = tmp_path / "root" / "project"
        folder.mkdir(parents=True)
        await client.upkeep.add_root(str(tmp_path / "root"))
        inside = Schedule(name="a", prompt="Go.", every="1h", workspace=str(folder))
        assert (await client.schedules.create(inside)).workspace == inside.workspace
        fired = await client.schedules.run("a")
        row = await daemon.runtime.store.session(fired.session_id)
        assert row is not None
        assert row.workspace == str(folder)
        # What lies below a root when it is named need not lie there when it fires.
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ValidationError, match="not below a root"):
            await client.schedules.run("a")
        assert len(await client.schedules.firings("a")) == 1


async def asked(raw: RawClient, **params: str) -> Any:
    """The result of `schedule/run`."""
    return (await raw.call("schedule/run", name="morning", **params))["result"]


async def test_a_repeated_request_fires_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        await client.schedules.create(MORNING)
        async with open_greeted(daemon) as raw:
            first = await asked(raw, idempotency_key="k")
            again = await asked(raw, idempotency_key="k")
            other = await asked(raw, idempotency_key="l")
        daemon.gateway.daemon.idempotency = IdempotentRequests()  # as after a restart
        async with open_greeted(daemon) as raw:
            late = await asked(raw, idempotency_key="k")
        assert first["input_id"] == again["input_id"] == late["input_id"] != other["input_id"]
        assert len(await client.schedules.firings("morning")) == 2


async def test_whoever_follows_the_list_hears_of_a_firing_and_its_end(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        wall = daemon.runtime.schedules.clock = Wall("2026-11-02T08:59:59")
        await client.schedules.create(MORNING)
        async with firing(daemon.runtime.schedules):
            known = await client.wait_lists({"schedules": 0})
            wall.set("2026-11-02T09:00")
            await client.schedules.pause("morning")
            known = await client.wait_lists(known)
            assert (await client.schedules.get("morning")).paused
            await client.schedules.resume("morning")
            await client.schedules.run("morning")
            while (last := (await client.schedules.get("morning")).last) is None or last.state in {
                "waiting",
                "running",
            }:
                known = await client.wait_lists(known)
            assert last.planned_at_ms is None
