"""Plain functions in threads: their progress, and what is left of them."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from callboard.tools import context as progress
from callboard.tools.context import ProgressRelay
from callboard.tools.processes import threads
from callboard.tools.processes.unreaped import unreaped
from callboard.tools.tool import ToolContext, tool
from support.tools.workbench import context_of, output_of, wait_until


class Shown:
    """Keeps what is shown, and in which thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, text: str) -> None:
        self.lines.append(text)
        self.threads.add(threading.get_ident())


async def test_lines_of_a_thread_are_shown_in_order_on_the_trio_thread() -> None:
    @tool
    def talk(given: ToolContext) -> int:
        for number in range(20):
            given.progress(str(number))
        return threading.get_ident()

    shown = Shown()
    told_in = await output_of(talk, context_of(on_progress=shown))
    assert shown.lines == [str(number) for number in range(20)]
    assert shown.threads == {threading.get_ident()}
    assert told_in != threading.get_ident()


async def test_a_thread_of_an_async_tool_may_tell_too() -> None:
    @tool
    async def talk(given: ToolContext) -> None:
        given.progress("before")
        await trio.to_thread.run_sync(given.progress, "in a thread")
        given.progress("after")

    shown = Shown()
    await output_of(talk, context_of(on_progress=shown))
    assert shown.lines == ["before", "in a thread", "after"]
    assert shown.threads == {threading.get_ident()}


async def test_a_thread_never_waits_and_what_nobody_takes_is_dropped() -> None:
    shown = Shown()
    relay = ProgressRelay(shown)

    def flood() -> None:
        for number in range(10 * progress.MAX_WAITING_LINES):
            relay.send(str(number))

    thread = threading.Thread(target=flood)
    thread.start()
    thread.join()  # No checkpoint: nothing was shown in the meantime, and the thread ended.
    assert shown.lines == []
    await trio.testing.wait_all_tasks_blocked()
    assert shown.lines == [str(number) for number in range(progress.MAX_WAITING_LINES)]


async def test_a_line_of_this_thread_does_not_overtake_those_of_another() -> None:
    shown = Shown()
    relay = ProgressRelay(shown)
    thread = threading.Thread(target=relay.send, args=["first"])
    thread.start()
    thread.join()
    relay.send("second")
    await trio.testing.wait_all_tasks_blocked()
    assert shown.lines == ["first", "second"]


def test_a_thread_that_outlives_its_run_tells_nobody() -> None:
    shown = Shown()

    async def main() -> ProgressRelay:
        return ProgressRelay(shown)

    relay = trio.run(main)
    thread = threading.Thread(target=relay.send, args=["late"])
    thread.start()
    thread.join()
    assert shown.lines == []


async def test_a_thread_is_listed_from_its_cancel_to_its_end() -> None:
    release = threading.Event()
    shown = trio.Event()

    @tool
    def slow(given: ToolContext) -> None:
        given.progress("started")
        release.wait(30)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(output_of, slow, context_of(on_progress=lambda _: shown.set()))
        await shown.wait()
        assert unreaped().of("turn") == ("thread of slow (call)",)
        nursery.cancel_scope.cancel()
    assert unreaped().of("turn") == ("thread of slow (call)",)
    assert unreaped().of("another") == ()
    release.set()
    await wait_until(lambda: not unreaped().of("turn"))


@pytest.mark.parametrize("crash", [False, True])
async def test_a_thread_that_ended_is_not_listed(crash: bool) -> None:
    @tool
    def quick() -> float:
        return 1 / (0 if crash else 1)

    try:
        assert await output_of(quick) == 1
    except ZeroDivisionError:
        assert crash
    assert unreaped().of("turn") == ()


async def test_threads_that_were_left_behind_hold_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "MAX_FUNCTION_THREADS", 1)
    release, started = threading.Event(), trio.Event()

    @tool
    def slow(given: ToolContext) -> str:
        given.progress("started")
        release.wait(30)
        return "done"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(output_of, slow, context_of(on_progress=lambda _: started.set()))
        await started.wait()
        nursery.cancel_scope.cancel()
    with trio.move_on_after(0.05) as waiting:
        await output_of(slow)
    assert waiting.cancelled_caught
    # The one that never got a thread is not left running.
    assert unreaped().of("turn") == ("thread of slow (call)",)
    release.set()
    assert await output_of(slow) == "done"
