"""Methods of the runtime and its sessions, called by an asyncio program.

Plain programs have the same methods, generated from these; Trio programs are tested with the daemon's methods.
"""

from __future__ import annotations

import asyncio

import pytest

import callboard
from callboard.providers.catalog.connection_test import ConnectionFault
from callboard.providers.testing.script import fail, reply
from callboard.runtime.errors import ConflictError, NotFoundError, ProviderError
from support.portal.programs import on_asyncio


@on_asyncio
async def test_the_last_turn_once_more() -> None:
    model = callboard.ScriptedModel([fail("out of cards"), reply("Old."), reply("New.")])

    async with callboard.aio.open_runtime(model=model, environ={}, strict=True) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            assert [event async for event in turn]
        async with session.retry() as turn:
            assert await turn.answer() == "Old."
        with pytest.raises(ConflictError, match="nothing to retry"):
            async with session.retry():
                pass
        async with session.regenerate() as turn:
            events = [event async for event in turn]
        assert any(isinstance(event, callboard.TurnSetAside) for event in events)
        rows = await runtime.store.messages(session.session_id)
        assert [row.content for row in rows if not row.is_set_aside] == ["Go.", "New."]


def test_models_connections_and_short_texts() -> None:
    model = callboard.ScriptedModel([reply("A title."), fail("out of cards")])

    async def main() -> None:
        async with callboard.aio.open_runtime(model=model, environ={}) as runtime:
            assert await runtime.complete("Name it.", system="Be short.", seconds=20) == "A title."
            with pytest.raises(ProviderError, match="out of cards"):
                await runtime.complete("Name it.")
            assert (await runtime.list_models("openai")).models[0].choice.startswith("openai/")
            report = await runtime.test_provider("openai", model="m")
            assert report.fault is ConnectionFault.KEY
            with pytest.raises(NotFoundError):
                await runtime.list_models("nobody", refresh=True)

    asyncio.run(main())
    assert [request.system for request in model.requests] == ["Be short.", ""]
