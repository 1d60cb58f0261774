"""Whole sessions over the wire: by page, found by words, named, deleted, restored, purged."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import callboard
from callboard.client.client import Client
from callboard.runtime.errors import AuthError, ConflictError, NotFoundError, ValidationError
from callboard.runtime.store.lists import CallPage
from callboard.runtime.wire.daemon import ListCalls
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, View, open_client, open_daemon


@asynccontextmanager
async def open_pair(model: Any = None, **options: Any) -> AsyncGenerator[tuple[Daemon, Client]]:
    script = callboard.ScriptedModel([callboard.reply(f"Answer {n}.") for n in range(20)])
    async with open_daemon(model or script, **options) as daemon, open_client(daemon) as client:
        yield daemon, client


async def said(client: Client, *texts: str) -> str:
    """A session in which these were said, and answered."""
    session = await client.create_session()
    for text in texts:
        await client.ask(session.session_id, text)
    return session.session_id


async def listed(client: Client, **wanted: Any) -> list[str]:
    return [row.session_id for row in (await client.find_sessions(**wanted)).sessions]


async def test_pages_of_a_list_follow_each_other_without_a_hole() -> None:
    async with open_pair() as (_, client):
        ids = [(await client.create_session(title=f"no. {n}")).session_id for n in range(7)]
        seen: list[str] = []
        before = None
        while True:
            page = await client.find_sessions(limit=3, before=before)
            seen += [row.session_id for row in page.sessions]
            if (before := page.next_before) is None:
                break
        assert seen == ids[::-1]


async def test_a_list_is_filtered_by_words_agent_and_deletion() -> None:
    agents = [callboard.Agent(name="other")]
    async with open_pair(agents=agents) as (_, client):
        first = (await client.create_session(title="Buy MILK 100%")).session_id
        second = (await client.create_session(title="bread", agent="other")).session_id
        assert await listed(client, query="milk 100%") == [first]
        assert await listed(client, query="%") == [first]
        assert await listed(client, query="_") == [second, first]  # of their ids
        assert await listed(client, agent="other") == [second]
        await client.delete_sessions([first])
        assert await listed(client) == [second]
        assert await listed(client, deleted="only") == [first]
        assert set(await listed(client, deleted="also")) == {first, second}


async def test_a_title_that_a_person_gave_holds() -> None:
    async with open_pair() as (_, client):
        session_id = await said(client, "What  is the\nweather?")
        assert (await client.session(session_id)).title == "What is the weather?"
        await client.rename(session_id, " The  weather ")
        assert (await client.session(session_id)).title == "The weather"
        for bad in ("", " \n", "x" * 201):
            with pytest.raises(ValidationError, match="characters"):
                await client.rename(session_id, bad)


async def test_a_deleted_session_takes_no_prompts_until_it_is_restored() -> None:
    async with open_pair() as (_, client):
        session_id = await said(client, "Hello.")
        assert await client.delete_sessions([session_id]) == (session_id,)
        assert await client.delete_sessions([session_id]) == ()
        with pytest.raises(ConflictError, match="restore"):
            await client.prompt(session_id, "Again.")
        assert await client.restore_sessions([session_id]) == (session_id,)
        await client.prompt(session_id, "Again.")
        assert (await client.session(session_id)).deleted_at_ms is None


async def test_a_deleted_session_s_turn_is_cancelled_and_its_queue_waits() -> None:
    slow = callboard.ScriptedModel(
        [callboard.reply("Slow.", delay_seconds=3600), callboard.reply("Later.")]
    )
    async with open_pair(slow) as (_, client):
        session_id = (await client.create_session()).session_id
        view = View()
        async with client.events(session_id) as events:
            await client.prompt(session_id, "One.")
            await client.prompt(session_id, "Two.")
            await client.delete_sessions([session_id])
            await client.restore_sessions([session_id])
            await view.read(events, turns=2)
        ends = [s.event for s in view.stored if isinstance(s.event, callboard.TurnEnded)]
        assert [(end.outcome, end.message) for end in ends] == [
            ("cancelled", "the session was deleted"),
            ("answered", ""),
        ]


async def test_only_deleted_sessions_are_purged_and_then_nothing_is_left() -> None:
    async with open_pair() as (daemon, client):
        gone, kept = await said(client, "The secret garden."), await said(client, "A garden.")
        with pytest.raises(ConflictError, match="delete it first"):
            await client.purge_sessions([gone])
        await client.search("garden")
        await client.delete_sessions([gone])
        operator = daemon.new_token("operator", Role.OPERATOR)
        async with open_client(daemon, operator) as other:
            with pytest.raises(AuthError):
                await other.purge_sessions([gone])
        await client.purge_sessions([gone])
        with pytest.raises(NotFoundError):
            await client.session(gone)
        store = daemon.runtime.store
        assert await store.events(gone) == []
        assert await store.usage(gone) == []
        found = await client.search("garden")
        assert [hit.session.session_id for hit in found] == [kept]
        new = await said(client, "Another garden.")  # ids of rows may be used again
        found = await client.search("garden")
        assert {hit.session.session_id for hit in found} == {kept, new}


async def test_a_search_finds_what_was_said_and_says_where() -> None:
    async with open_pair() as (_, client):
        text = "x " * 200 + "Where is the Zürich   timetable? " + "y " * 200
        first = await said(client, text, "And the timetable of Zurich?")
        await said(client, "Where is Zürich?")
        found = await client.search("zurich TIMETABLE")
        (hit,) = found
        assert (hit.session.session_id, hit.matches) == (first, 2)
        assert "timetable" in hit.snippet
        third = await said(client, "Bahnhofstraße 5")
        found = await client.search("BAHNHOFSTRAßE")
        assert [hit.session.session_id for hit in found] == [third]


LITERAL = ['"', "'; drop table sessions; --", "NEAR(", "NOT", "a*", "text:x", "^x", "\0", "()", "—"]


@pytest.mark.parametrize("query", LITERAL)
async def test_case_60_a_query_is_words_and_nothing_else(query: str) -> None:
    async with open_pair() as (_, client):
        session_id = await said(client, "Of it there is less.")
        found = await client.search(query)
        assert found == []
        assert await listed(client, query=query) == []
        assert await listed(client) == [session_id]


async def test_to_a_limited_token_nothing_else_is_found_listed_or_deleted() -> None:
    async with open_pair() as (daemon, client):
        seen, hidden = await said(client, "Common word."), await said(client, "Common word.")
        token = daemon.new_token("guest", Role.OPERATOR, sessions=(seen,))
        async with open_client(daemon, token) as guest:
            found = await guest.search("common")
            assert [hit.session.session_id for hit in found] == [seen]
            assert await listed(guest, limit=1) == [seen]
            with pytest.raises(NotFoundError):
                await guest.delete_sessions([seen, hidden])
        assert set(await listed(client)) == {seen, hidden}, "a refused batch deletes nothing"


async def test_another_agent_holds_from_the_next_turn_on() -> None:
    async with open_pair(agents=[callboard.Agent(name="other")]) as (_, client):
        session_id = await said(client, "Hello.")
        await client.set_agent([session_id], "other")
        assert (await client.session(session_id)).agent == "other"
        with pytest.raises(NotFoundError, match="general, other"):
            await client.set_agent([session_id], "nobody")


async def test_calls_are_listed_by_page_status_and_time() -> None:
    script = [callboard.reply(calls=[("get_current_time", {})] * 3), callboard.reply("Late.")]
    async with open_pair(callboard.ScriptedModel(script)) as (_, client):
        await said(client, "What time is it?")

        async def history(**wanted: Any) -> CallPage:
            return await client.request("tool/history", ListCalls(**wanted), CallPage)

        first = await history(limit=2)
        rest = await history(limit=2, before=first.next_before)
        assert (len(first.calls), len(rest.calls), rest.next_before) == (2, 1, None)
        last = first.calls[0]
        assert (await history(since_ms=last.proposed_at_ms + 1)).calls == []
        assert len((await history(until_ms=last.proposed_at_ms + 1)).calls) == 3
        assert (await history(status="denied")).calls == []
        assert len((await history(status="success", name="get_current_time")).calls) == 3
