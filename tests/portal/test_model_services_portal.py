"""Models, tests and short texts from programs that don't know Trio."""

from __future__ import annotations

import asyncio

import pytest

import callboard
from callboard.providers.catalog.connection_test import ConnectionFault
from callboard.providers.testing.script import fail, reply
from callboard.runtime.errors import NotFoundError, ProviderError


def test_in_a_plain_program() -> None:
    model = callboard.ScriptedModel([reply("A title."), fail("out of cards")])
    with callboard.start_in_thread(model=model, environ={}) as runtime:
        assert runtime.complete("Name it.", system="Be short.", seconds=20) == "A title."
        with pytest.raises(ProviderError, match="out of cards"):
            runtime.complete("Name it.")
        assert runtime.list_models("openai").models[0].choice.startswith("openai/")
        assert runtime.test_provider("openai", model="m").fault is ConnectionFault.KEY
        with pytest.raises(NotFoundError):
            runtime.list_models("nobody", refresh=True)
    assert [request.system for request in model.requests] == ["Be short.", ""]


def test_in_an_asyncio_program() -> None:
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
