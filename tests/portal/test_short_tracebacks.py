"""An error that says all in its message shows the lines of the program, and not those of libraries."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import trio

import callboard
from callboard.runtime.errors import InternalError, ShortTracebacks, StorageError
from support.gateway.daemon_scene import open_daemon

MAX_LINES = 20
"""The program's own lines, those of the loop that runs it, the door, and the message."""

OPTIONS: dict[str, dict[str, Any]] = {
    "an unknown provider": {"model": "opnai/gpt-5"},
    "a missing key": {"model": "openai/gpt-5", "environ": {}},
    "a wrong option": {"policy": "lax"},
    "a wrong setting": {
        "settings": callboard.Settings(limits=callboard.Limits(max_result_bytes=-1))
    },
    "no data folder": {"data": "/proc/there/is/none"},
}


def under_trio(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with callboard.open_runtime(**options):
            pass

    trio.run(main)


def under_asyncio(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with callboard.aio.open_runtime(**options):
            pass

    asyncio.run(main())


def in_a_thread(options: dict[str, Any]) -> None:
    with callboard.start_in_thread(**options):
        pass


@pytest.mark.parametrize("program", [under_trio, under_asyncio, in_a_thread])
@pytest.mark.parametrize("wrong", OPTIONS)
def test_what_can_not_be_opened_is_said_in_some_lines(
    wrong: str, program: Callable[[dict[str, Any]], None]
) -> None:
    with pytest.raises(callboard.CallboardError) as caught:
        program({"model": "rehearsal", **OPTIONS[wrong]})
    # pytest's own call of this test, and that of the program, come on top.
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert len(lines) <= MAX_LINES + 6
    assert "direct cause" not in "".join(lines)
    assert lines[-1].startswith(f"{type(caught.value).__module__}.{type(caught.value).__name__}: ")


async def test_errors_of_a_client_show_the_lines_of_the_program() -> None:
    async with open_daemon() as daemon:
        with pytest.raises(callboard.NotFoundError) as caught:
            async with callboard.connect(daemon.url, daemon.token) as client:
                await client.ask("session_none", "Hello.")
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert len(lines) <= MAX_LINES // 2  # twice as many with what is inside of the client
    assert "direct cause" not in "".join(lines)


async def test_what_led_to_an_error_is_still_there_for_a_debugger() -> None:
    with pytest.raises(StorageError) as caught:
        async with callboard.open_runtime(model="rehearsal", data="/proc/there/is/none"):
            pass
    assert isinstance(caught.value.__context__, OSError)


async def test_a_session_of_a_closed_runtime_says_so() -> None:
    async with callboard.open_runtime(model="rehearsal") as runtime:
        session = await runtime.create_session()
    with pytest.raises(callboard.CallboardError, match="this runtime is closed; open a new one"):
        await session.run("Hello.")


def test_a_fault_of_callboard_keeps_all_that_led_to_it() -> None:
    def fail() -> None:
        try:
            raise ZeroDivisionError
        except ZeroDivisionError as error:
            raise InternalError("a fault") from error

    with pytest.raises(InternalError) as caught, ShortTracebacks():
        fail()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fail"


def test_python_in_development_mode_shows_everything() -> None:
    code = (
        "from callboard.runtime.errors import ShortTracebacks, ValidationError\n"
        "def inside(): raise ValidationError('wrong') from OSError('the cause')\n"
        "with ShortTracebacks(): inside()\n"
    )
    shown = {
        options: subprocess.run(
            [sys.executable, *options, "-c", code], capture_output=True, text=True, check=False
        ).stderr
        for options in ((), ("-X", "dev"))
    }
    assert "the cause" not in shown[()]
    assert "the cause" in shown["-X", "dev"]
    assert "in inside" in shown["-X", "dev"]
