"""What is printed comes out whole and in order, and nobody waits for a reader that doesn't read."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from callboard.cli.terminal.output import Output
from support.cli.command import PATIENCE_SECONDS

MORE_THAN_A_PIPE = 300_000


@contextmanager
def line(kind: str) -> Generator[tuple[int, int]]:
    """The ends of a line: where it is read, and where it is written."""
    if kind == "socket":
        one, two = socket.socketpair()
        with one, two:
            yield one.fileno(), two.fileno()
        return
    reads, writes = os.pipe()
    os.set_blocking(writes, kind != "non-blocking pipe")
    try:
        yield reads, writes
    finally:
        os.close(reads)
        os.close(writes)


@pytest.mark.parametrize("kind", ["pipe", "non-blocking pipe", "socket"])
async def test_a_reader_that_waits_holds_up_nobody_and_gets_all(kind: str) -> None:
    texts = [f"{number}\n" for number in range(2_000)] + ["x" * MORE_THAN_A_PIPE, "end\n"]
    with line(kind) as (reads, writes), trio.fail_after(PATIENCE_SECONDS):
        output = Output(writes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.run)
            for text in texts:
                output.write(text)
                await trio.lowlevel.checkpoint()  # it is written while nobody reads
            found = b""
            while not found.endswith(b"end\n"):
                found += await trio.to_thread.run_sync(os.read, reads, 1 << 16)
            await output.drain()
            nursery.cancel_scope.cancel()
    assert found.decode() == "".join(texts)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_short_text_needs_no_thread_and_a_long_one_does(kind: str) -> None:
    threads = trio.to_thread.current_default_thread_limiter()
    with line(kind) as (reads, writes), trio.fail_after(PATIENCE_SECONDS):
        output = Output(writes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.run)
            for _ in range(int(threads.total_tokens)):
                threads.acquire_on_behalf_of_nowait(object())
            try:
                output.write("short\n")
                await output.drain()
                assert os.read(reads, 100) == b"short\n"
                output.write("x" * MORE_THAN_A_PIPE)
                await trio.testing.wait_all_tasks_blocked()
                assert threads.statistics().tasks_waiting == 1
            finally:
                nursery.cancel_scope.cancel()
                for taken in threads.statistics().borrowers:
                    threads.release_on_behalf_of(taken)


async def test_a_reader_that_has_gone_is_noticed() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with trio.fail_after(PATIENCE_SECONDS):
        output = Output(writes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.run)
            output.write("Is anybody there?\n")
            await output.wait_lost()
            nursery.cancel_scope.cancel()
    os.close(writes)
    assert isinstance(output.error, BrokenPipeError)
