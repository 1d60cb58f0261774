"""Plain and asyncio programs ask what turns took in the same way as Trio programs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.stream import Usage


def test_plain_programs_and_asyncio_programs_ask_in_the_same_way(tmp_path: Path) -> None:
    def model() -> callboard.ScriptedModel:
        return callboard.ScriptedModel([reply("Hm.", usage=Usage(2, 3))])

    with callboard.start_in_thread(model=model(), workspace=tmp_path, environ={}) as runtime:
        plain_session = runtime.create_session()
        plain_session.run("Think.")
        assert plain_session.usage(by="call").total.output_tokens == 3
        assert runtime.usage(by="day").total.input_tokens == 2

    async def main() -> None:
        async with callboard.aio.open_runtime(
            model=model(), workspace=tmp_path, environ={}
        ) as runtime:
            session = await runtime.create_session()
            await session.run("Think.")
            assert (await session.usage(by="call")).total.output_tokens == 3
            assert (await runtime.usage(by="day")).total.input_tokens == 2

    asyncio.run(main())
