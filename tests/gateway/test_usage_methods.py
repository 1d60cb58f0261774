"""What was used is summed up for clients, and budgets are set by them."""

from __future__ import annotations

import pytest

import callboard
from callboard.config.usage_sums import UsageReport
from callboard.runtime.budget import Budget
from callboard.runtime.errors import CallboardError, NotFoundError
from callboard.runtime.events import SessionBudgetSet
from callboard.runtime.wire.fields import Nothing, Role
from callboard.runtime.wire.sessions import GetUsage, SetBudget
from support.gateway.daemon_scene import open_client, open_daemon


async def test_usage_over_the_wire_is_that_of_the_runtime() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await daemon.runtime.create_session()
        await session.run("What time is it in Tokyo?")
        report = await client.request("usage/get", GetUsage(by="session"), UsageReport)
        assert report == await daemon.runtime.usage(by="session")
        assert report.total.calls == 2
        one = GetUsage(by="turn", session_id=session.session_id)
        assert await client.request("usage/get", one, UsageReport) == await session.usage()


async def test_a_limited_token_asks_for_its_own_sessions_alone() -> None:
    async with open_daemon() as daemon:
        own, other = [await daemon.runtime.create_session() for _ in range(2)]
        await own.run("Hello")
        token = daemon.new_token("limited", Role.OBSERVER, sessions=(own.session_id,))
        async with open_client(daemon, token) as client:
            asked = GetUsage(session_id=own.session_id)
            assert (await client.request("usage/get", asked, UsageReport)).total.calls == 1
            asked = GetUsage(session_id=other.session_id)
            with pytest.raises(NotFoundError):
                await client.request("usage/get", asked, UsageReport)
            with pytest.raises(CallboardError, match="name one of its own"):
                await client.request("usage/get", GetUsage(), UsageReport)


async def test_a_session_gets_another_budget() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await client.create_session()
        for budget in (Budget(tokens=1000), None):
            params = SetBudget(session_id=session.session_id, budget=budget)
            await client.request("session/set_budget", params, Nothing)
        events = await daemon.runtime.store.events(session.session_id)
        given = [each.event for each in events if isinstance(each.event, SessionBudgetSet)]
        assert [event.budget for event in given] == [callboard.Budget(tokens=1000), None]
