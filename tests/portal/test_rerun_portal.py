"""The last turn once more, from programs that don't know Trio."""

from __future__ import annotations

import asyncio

import pytest

import callboard
from callboard.providers.testing.script import fail, reply
from callboard.runtime.errors import ConflictError


def test_in_a_plain_program() -> None:
    model = callboard.ScriptedModel([fail("out of cards"), reply("Old."), reply("New.")])
    with callboard.start_in_thread(model=model, environ={}, strict=True) as runtime:
        session = runtime.create_session()
        with session.prompt("Go.") as turn:
            assert [*turn]
        with session.retry() as turn:
            assert turn.answer() == "Old."
        with pytest.raises(ConflictError, match="nothing to retry"), session.retry():
            pass
        with session.regenerate() as turn:
            assert any(isinstance(event, callboard.TurnSetAside) for event in turn)
        rows = runtime.store.messages(session.session_id)
        assert [row.content for row in rows if not row.is_set_aside] == ["Go.", "New."]


def test_in_an_asyncio_program() -> None:
    model = callboard.ScriptedModel([fail("out of cards"), reply("Old."), reply("New.")])

    async def main() -> None:
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

    asyncio.run(main())
