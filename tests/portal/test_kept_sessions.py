"""Sessions are named, found, deleted, restored and purged in the same way by all programs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.identity import RequestKey

QUESTION = "What time is it in Tokyo?"


def options(folder: Path) -> dict[str, Any]:
    model = callboard.ScriptedModel([callboard.reply("It is noon.")])
    return {"model": model, "workspace": folder, "environ": {}}


def test_in_a_plain_program(tmp_path: Path) -> None:
    with callboard.start_in_thread(**options(tmp_path)) as runtime:
        key = RequestKey(sender="me", method="new", key="k", digest="d")
        session = runtime.create_session(request=key)
        with pytest.raises(ConflictError):
            runtime.create_session(request=key)
        session.run(QUESTION)
        session.rename("The clock")
        assert runtime.search("tokyo noon") == []  # not in one message
        (hit,) = runtime.search("tokyo")
        assert (hit.session.session_id, hit.session.title) == (session.session_id, "The clock")
        with pytest.raises(ConflictError, match="delete it first"):
            runtime.purge([session.session_id])
        session.delete()
        assert runtime.sessions() == []
        session.restore()
        assert len(runtime.sessions()) == 1
        session.delete()
        assert runtime.purge([session.session_id]) == [session.session_id]
        with pytest.raises(NotFoundError):
            runtime.get_session(session.session_id)


def test_in_an_asyncio_program(tmp_path: Path) -> None:
    async def main() -> None:
        async with callboard.aio.open_runtime(**options(tmp_path)) as runtime:
            session = await runtime.create_session()
            await session.run(QUESTION)
            await session.rename("The clock")
            (hit,) = await runtime.search("tokyo")
            assert hit.session.title == "The clock"
            await session.delete()
            await session.restore()
            await session.delete()
            assert await runtime.purge([session.session_id]) == [session.session_id]
            assert await runtime.search("tokyo") == []

    asyncio.run(main())


async def test_in_a_trio_program(tmp_path: Path) -> None:
    with trio.fail_after(20):
        async with callboard.open_runtime(**options(tmp_path)) as runtime:
            session = await runtime.create_session()
            await session.run(QUESTION)
            await session.rename("The clock")
            (hit,) = await runtime.search("tokyo", limit=1)
            assert hit.session.title == "The clock"
            await session.delete()
            with pytest.raises(ConflictError, match="deleted"):
                await session.run("And now?")
            await session.restore()
            await session.delete()
            assert await runtime.purge([session.session_id]) == [session.session_id]
            assert await runtime.sessions() == []
