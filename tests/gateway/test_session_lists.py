"""Whole sessions over the wire: by page, found by words, named, deleted, restored, purged."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import callboard
from callboard.client.client import Client
from callboard.runtime.errors import AuthError, ConflictError, NotFoundError, ValidationError
from callboard.runtime.store.lists import CallPage, SessionPage
from callboard.runtime.wire.daemon import ListCalls
from callboard.runtime.wire.fields import Nothing, Role
from callboard.runtime.wire.sessions import (
    FindWords,
    Hits,
    ListSessions,
    Rename,
    SetAgent,
    SomeSessions,
)
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
        async with client.events(session.session_id) as events:
            await client.prompt(session.session_id, text)
            view = View()
            async for event in events:
                view.take(event)
                if view.has_ended:
                    break
    return session.session_id


async def listed(client: Client, **wanted: Any) -> list[str]:
    page = await client.request("session/list", ListSessions(**wanted), SessionPage)
    return [row.session_id for row in page.sessions]


async def delete(client: Client, *session_ids: str) -> tuple[str, ...]:
    params = SomeSessions(session_ids)
    return (await client.request("session/delete", params, SomeSessions)).session_ids


async def test_pages_of_a_list_follow_each_other_without_a_hole() -> None:
    async with open_pair() as (_, client):
        ids = [(await client.create_session(title=f"no. {n}")).session_id for n in range(7)]
        seen: list[str] = []
        before = None
        while True:
            params = ListSessions(limit=3, before=before)
            page = await client.request("session/list", params, SessionPage)
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
        await delete(client, first)
        assert await listed(client) == [second]
        assert await listed(client, deleted="only") == [first]
        assert set(await listed(client, deleted="also")) == {first, second}


async def test_a_title_that_a_person_gave_holds() -> None:
    async with open_pair() as (_, client):
        session_id = await said(client, "What  is the\nweather?")
        assert (await client.session(session_id)).title == "What is the weather?"
        await client.request("session/rename", Rename(session_id, " The  weather "), Nothing)
        assert (await client.session(session_id)).title == "The weather"
        for bad in ("", " \n", "x" * 201):
            with pytest.raises(ValidationError, match="characters"):
                await client.request("session/rename", Rename(session_id, bad), Nothing)


async def test_a_deleted_session_takes_no_prompts_until_it_is_restored() -> None:
    async with open_pair() as (_, client):
        session_id = await said(client, "Hello.")
        assert await delete(client, session_id) == (session_id,)
        assert await delete(client, session_id) == ()
        with pytest.raises(ConflictError, match="restore"):
            await client.prompt(session_id, "Again.")
        params = SomeSessions((session_id,))
        restored = await client.request("session/restore", params, SomeSessions)
        assert restored.session_ids == (session_id,)
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
            await delete(client, session_id)
            await client.request("session/restore", SomeSessions((session_id,)), SomeSessions)
            ended = 0
            async for event in events:
                view.take(event)
                ended += isinstance(getattr(event, "event", None), callboard.TurnEnded)
                if ended == 2:
                    break
        ends = [s.event for s in view.stored if isinstance(s.event, callboard.TurnEnded)]
        assert [(end.outcome, end.message) for end in ends] == [
            ("cancelled", "the session was deleted"),
            ("answered", ""),
        ]


async def test_only_deleted_sessions_are_purged_and_then_nothing_is_left() -> None:
    async with open_pair() as (daemon, client):
        gone, kept = await said(client, "The secret garden."), await said(client, "A garden.")
        params = SomeSessions((gone,))
        with pytest.raises(ConflictError, match="delete it first"):
            await client.request("session/purge", params, SomeSessions)
        await client.request("session/search", FindWords(query="garden"), Hits)
        await delete(client, gone)
        operator = daemon.new_token("operator", Role.OPERATOR)
        async with open_client(daemon, operator) as other:
            with pytest.raises(AuthError):
                await other.request("session/purge", params, SomeSessions)
        await client.request("session/purge", params, SomeSessions)
        with pytest.raises(NotFoundError):
            await client.session(gone)
        store = daemon.runtime.store
        assert await store.events(gone) == []
        assert await store.usage(gone) == []
        found = await client.request("session/search", FindWords(query="garden"), Hits)
        assert [hit.session.session_id for hit in found.hits] == [kept]
        new = await said(client, "Another garden.")  # ids of rows may be used again
        found = await client.request("session/search", FindWords(query="garden"), Hits)
        assert {hit.session.session_id for hit in found.hits} == {kept, new}


async def test_a_search_finds_what_was_said_and_says_where() -> None:
    async with open_pair() as (_, client):
        text = "x " * 200 + "Where is the Zürich   timetable? " + "y " * 200
        first = await said(client, text, "And the timetable of Zurich?")
        await said(client, "Where is Zürich?")
        found = await client.request("session/search", FindWords(query="zurich TIMETABLE"), Hits)
        (hit,) = found.hits
        assert (hit.session.session_id, hit.matches) == (first, 2)
        assert "timetable" in hit.snippet
        third = await said(client, "Bahnhofstraße 5")
        found = await client.request("session/search", FindWords(query="BAHNHOFSTRAßE"), Hits)
        assert [hit.session.session_id for hit in found.hits] == [third]


LITERAL = ['"', "'; drop table sessions; --", "NEAR(", "NOT", "a*", "text:x", "^x", "\0", "()", "—"]


@pytest.mark.parametrize("query", LITERAL)
async def test_case_60_a_query_is_words_and_nothing_else(query: str) -> None:
    async with open_pair() as (_, client):
        session_id = await said(client, "Of it there is less.")
        found = await client.request("session/search", FindWords(query=query), Hits)
        assert found.hits == []
        assert await listed(client, query=query) == []
        assert await listed(client) == [session_id]


async def test_to_a_limited_token_nothing_else_is_found_listed_or_deleted() -> None:
    async with open_pair() as (daemon, client):
        seen, hidden = await said(client, "Common word."), await said(client, "Common word.")
        token = daemon.new_token("guest", Role.OPERATOR, sessions=(seen,))
        async with open_client(daemon, token) as guest:
            found = await guest.request("session/search", FindWords(query="common"), Hits)
            assert [hit.session.session_id for hit in found.hits] == [seen]
            assert await listed(guest, limit=1) == [seen]
            with pytest.raises(NotFoundError):
                await delete(guest, seen, hidden)
        assert set(await listed(client)) == {seen, hidden}, "a refused batch deletes nothing"


async def test_another_agent_holds_from_the_next_turn_on() -> None:
    async with open_pair(agents=[callboard.Agent(name="other")]) as (_, client):
        session_id = await said(client, "Hello.")
        params = SetAgent((session_id,), "other")
        await client.request("session/set_agent", params, Nothing)
        assert (await client.session(session_id)).agent == "other"
        params = SetAgent((session_id,), "nobody")
        with pytest.raises(NotFoundError, match="general, other"):
            await client.request("session/set_agent", params, Nothing)


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
