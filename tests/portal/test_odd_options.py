"""What a program opens a runtime with by mistake is named, in all three ways, and opens nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.errors import ValidationError

ODD_OPTIONS: dict[str, tuple[Any, str]] = {
    "on_approval": (
        "maybe",
        'on_approval is \'maybe\': pass a function of the request, "allow", "deny" or "wait"',
    ),
    "tools": ([print], "print is not a tool: decorate it with @callboard.tool"),
    "tools that are none": (5, "tools is 5: pass a list"),
    "settings": ({}, "settings is {}: pass a Settings object"),
    "settings as a dict": ({"limits": {}}, "settings is {'limits': {}}: pass a Settings object"),
    "agents": (["x"], r"'x' is not an agent: pass callboard.Agent\(…\)"),
    "agents that are none": (5, "agents is 5: pass a list"),
    "model": (3, "model is 3: pass PROVIDER/MODEL as a text, or a model object"),
    "model of a class": (ScriptedModel, "model is <class .*ScriptedModel'>: pass PROVIDER/MODEL"),
    "base_url": (b"http://h", "base_url is b'http://h': pass a URL"),
    "workspace": (3, "workspace is 3: pass the path of a folder"),
    "data": (3, "data is 3: pass the path of a folder"),
    "record": (3, "record is 3: pass the path of a folder"),
    "environ": (["A=b"], r"environ is \['A=b'\]: pass a mapping"),
}


async def _open_and_connect() -> None:
    for opens, instead in (
        (callboard.open_runtime(model="rehearsal"), r"callboard\.aio\.open_runtime under asyncio"),
        (callboard.connect("ws://127.0.0.1:1"), r"trio\.run in a thread"),
    ):
        with pytest.raises(RuntimeError, match=instead):
            async with opens:
                pytest.fail("it must not open")


def test_under_another_loop_the_way_that_works_is_named() -> None:
    asyncio.run(_open_and_connect())


@pytest.mark.parametrize(("option", "odd"), ODD_OPTIONS.items(), ids=ODD_OPTIONS)
def test_what_opens_no_runtime_is_named(option: str, odd: tuple[Any, str], tmp_path: Path) -> None:
    value, said = odd
    name = option.partition(" ")[0]
    options: Any = {"model": "rehearsal", "workspace": tmp_path, "environ": {}, name: value}

    async def in_trio() -> None:
        async with callboard.open_runtime(**options):
            pytest.fail("it must not open")

    async def in_asyncio() -> None:
        async with callboard.aio.open_runtime(**options):
            pytest.fail("it must not open")

    ways: list[Callable[[], object]] = [
        partial(trio.run, in_trio),
        partial(callboard.start_in_thread, **options),
        lambda: asyncio.run(in_asyncio()),
    ]
    for way in ways:
        with pytest.raises(ValidationError, match=said) as caught:
            way()
        assert caught.value.field == name
    assert "callboard" not in {thread.name for thread in threading.enumerate()}
