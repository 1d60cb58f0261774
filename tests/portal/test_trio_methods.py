"""Sessions are named, found, deleted, restored and purged by a Trio program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.runtime.errors import ConflictError

QUESTION = "What time is it in Tokyo?"


def options(folder: Path) -> dict[str, Any]:
    model = callboard.ScriptedModel([callboard.reply("It is noon.")])
    return {"model": model, "workspace": folder, "environ": {}}


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
