"""Has a page read in a process of its own, which is gone when this returns.

Parsers in C hold the interpreter while they work, and pages exist on which they work for minutes:
in a thread one of them would stop every session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

import msgspec
import trio

READ_SECONDS = 10.0
"""A hundred times what pages take; the call's own deadline may be shorter."""
REAP_SECONDS = 5.0
"""How long a killed process may take to be gone."""
MAX_READERS = 4
"""Processes at once: they compute, and more of them than cores only take memory."""
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""Of the process: more than any text that is asked for, in JSON."""

_START = "from callboard.tools.web.page_worker import main; main()"

_slots: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("page_readers")


class PageWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read.

    Attributes:
        kind: `html` or `pdf`.
        url: Where it comes from: what its links are relative to.
        content_type: What the server says of it.
        most: How many characters of text are wanted.
    """

    kind: str
    url: str
    content_type: str
    most: int


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """What it says, or why it can't be read.

    Attributes:
        problem: Why not; empty when it was read.
        title: What it calls itself, as it does.
        text: Markdown, or a PDF's plain text.
        is_cut: Whether there is more.
    """

    problem: str = ""
    title: str = ""
    text: str = ""
    is_cut: bool = False


async def read_page(work: PageWork, data: bytes) -> PageText:
    """The text of a page; cancelled, it kills the process and returns when that is gone."""
    async with _limiter():
        answer = bytearray()
        process = await _started()
        try:
            with trio.move_on_after(READ_SECONDS) as deadline:
                await _talk(process, msgspec.json.encode(work) + b"\n", data, answer)
                await process.wait()
        finally:
            with trio.move_on_after(REAP_SECONDS, shield=True):
                await _end(process)
    if deadline.cancelled_caught:
        return PageText(problem=f"it is made so that it can't be read in {READ_SECONDS:g} seconds")
    try:
        return msgspec.json.decode(answer, type=PageText)
    except msgspec.DecodeError:
        return PageText(problem="it is made so that what reads it breaks")


async def _started() -> trio.Process:
    return await trio.lowlevel.open_process(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys.path}; {_START}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath},
        start_new_session=True,
    )


async def _talk(process: trio.Process, head: bytes, data: bytes, answer: bytearray) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_feed, process, head, data)
        assert process.stdout is not None
        async for chunk in process.stdout:
            answer += chunk
            if len(answer) > MAX_ANSWER_BYTES:
                answer.clear()
                process.kill()
                break
        nursery.cancel_scope.cancel()


async def _feed(process: trio.Process, head: bytes, data: bytes) -> None:
    assert process.stdin is not None
    with suppress(trio.BrokenResourceError):  # It died before it read: its answer is missing.
        await process.stdin.send_all(head)
        await process.stdin.send_all(data)
        await process.stdin.aclose()


async def _end(process: trio.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            await stream.aclose()
    await process.wait()


def _limiter() -> trio.CapacityLimiter:
    try:
        return _slots.get()
    except LookupError:
        limiter = trio.CapacityLimiter(MAX_READERS)
        _slots.set(limiter)
        return limiter
