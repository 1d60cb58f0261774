"""What of an exception of the application's code ends the task, and what is only its crash."""

from __future__ import annotations

import types
from collections.abc import Generator

import pytest
import trio

from callboard.runtime.kernel.user_code import raise_stop, stop_in

CRASHES = [ValueError("x"), SystemExit(3), BaseException("x")]


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: type(crash).__name__)
async def test_whatever_code_raises_is_its_crash(crash: BaseException) -> None:
    assert stop_in(crash) is None
    assert stop_in(BaseExceptionGroup("both", [crash, ValueError("y")])) is None


async def test_a_cancel_is_a_stop_and_the_crashes_beside_it_are_left_behind() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled) as caught:
            await trio.sleep_forever()
        cancelled = caught.value
        assert stop_in(cancelled) is cancelled
        group = BaseExceptionGroup("both", [ValueError("x"), cancelled])
        stop = stop_in(BaseExceptionGroup("around", [group, SystemExit()]))
        assert isinstance(stop, BaseExceptionGroup)
        assert stop.split(trio.Cancelled)[1] is None
        with pytest.RaisesGroup(trio.Cancelled, flatten_subgroups=True):
            raise_stop(BaseExceptionGroup("around", [group]))
        raise_stop(ValueError("x"))  # is a crash


async def test_a_keyboard_interrupt_comes_to_the_main_thread_alone() -> None:
    interrupt = KeyboardInterrupt()
    assert stop_in(interrupt) is interrupt
    assert await trio.to_thread.run_sync(stop_in, interrupt) is None


@types.coroutine
def pause() -> Generator[None, None, None]:
    yield


def test_a_coroutine_that_is_closed_ends() -> None:
    judged: list[BaseException | None] = []

    async def wait() -> None:
        try:
            await pause()
        except GeneratorExit as closing:
            judged.append(stop_in(closing))
            raise

    coroutine = wait()
    coroutine.send(None)
    coroutine.close()
    assert [type(stop) for stop in judged] == [GeneratorExit]


async def test_a_generator_exit_that_code_raises_itself_is_its_crash() -> None:
    await trio.lowlevel.checkpoint()
    assert stop_in(GeneratorExit()) is None
