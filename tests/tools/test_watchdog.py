"""What ends the programs of a node when its lease is over, whatever the node itself does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio

from callboard.tools.processes.watchdog import Watchdog
from callboard.tools.processes.watchdog_process import since_boot

AN_HOUR = 3600.0
SOON = 0.2
PATIENCE = 30.0


class Lease:
    def __init__(self, seconds: float) -> None:
        self.until = since_boot() + seconds

    def __call__(self) -> float:
        return self.until

    def ends_in(self, seconds: float, watchdog: Watchdog) -> None:
        """Let it end soon, and not before what it holds is held, which starts a process."""
        self.until = since_boot() + seconds
        watchdog.renewed()


@asynccontextmanager
async def watching(lease: Lease) -> AsyncGenerator[Watchdog]:
    watchdog = Watchdog(lease)
    try:
        yield watchdog
    finally:
        await watchdog.aclose()


@contextmanager
def a_program() -> Generator[tuple[subprocess.Popen[bytes], int]]:
    with subprocess.Popen(["/bin/sleep", "3600"]) as process:
        pidfd = os.pidfd_open(process.pid)
        try:
            yield process, pidfd
        finally:
            os.close(pidfd)
            process.kill()


async def ended(process: subprocess.Popen[bytes], pidfd: int) -> int | None:
    with trio.fail_after(PATIENCE):
        await trio.lowlevel.wait_readable(pidfd)
    return process.poll()


async def test_a_program_ends_when_the_lease_does_and_not_before() -> None:
    short, long = Lease(AN_HOUR), Lease(AN_HOUR)
    with a_program() as (process, pidfd), a_program() as (other, other_pidfd):
        async with watching(short) as watchdog, watching(long) as longer:
            longer.hold(other_pidfd)
            watchdog.hold(pidfd)
            short.ends_in(SOON, watchdog)
            assert await ended(process, pidfd) == -signal.SIGKILL
            assert since_boot() >= short.until
            assert watchdog.is_over
            assert other.poll() is None
        assert await ended(other, other_pidfd) == -signal.SIGKILL  # nobody watches over it any more


async def test_a_lease_that_is_renewed_ends_nothing() -> None:
    lease, short = Lease(AN_HOUR), Lease(AN_HOUR)
    with a_program() as (process, pidfd), a_program() as (other, other_pidfd):
        async with watching(lease) as watchdog, watching(short) as shorter:
            watchdog.hold(pidfd)
            shorter.hold(other_pidfd)
            lease.ends_in(5 * SOON, watchdog)
            lease.ends_in(AN_HOUR, watchdog)
            short.ends_in(5 * SOON, shorter)
            await ended(other, other_pidfd)  # by then the other's first lease is over, too
            assert process.poll() is None


async def test_what_begins_when_the_lease_is_over_is_refused_and_ended() -> None:
    async with watching(Lease(0.0)) as watchdog:
        with a_program() as (process, pidfd):
            with pytest.raises(OSError, match="the node's lease is over"):
                watchdog.hold(pidfd)
            assert await ended(process, pidfd) == -signal.SIGKILL


async def test_one_that_was_killed_is_begun_again_with_all_that_it_held() -> None:
    lease = Lease(AN_HOUR)
    with a_program() as (process, pidfd):
        async with watching(lease) as watchdog:
            watchdog.hold(pidfd)
            first = watchdog.process_id
            assert first is not None
            first_pidfd = os.pidfd_open(first)
            os.kill(first, signal.SIGKILL)
            with trio.fail_after(PATIENCE):
                await trio.lowlevel.wait_readable(first_pidfd)
            os.close(first_pidfd)
            watchdog.renewed()
            assert watchdog.process_id not in {None, first}
            assert process.poll() is None
            lease.until = since_boot()
            watchdog.renewed()
            assert await ended(process, pidfd) == -signal.SIGKILL


async def test_what_has_ended_is_not_held_and_without_programs_there_is_no_process() -> None:
    async with watching(Lease(AN_HOUR)) as watchdog:
        watchdog.renewed()
        assert watchdog.process_id is None
        with a_program() as (process, pidfd):
            release = watchdog.hold(pidfd)
            assert watchdog.process_id is not None
            release()
            release()
            process.kill()


NODE = """
import os, subprocess, sys, trio
from callboard.tools.processes.watchdog import Watchdog
from callboard.tools.processes.watchdog_process import since_boot
until = since_boot() + 3600.0

async def main():
    global until
    process = subprocess.Popen(["/bin/sleep", "3600"], start_new_session=True)
    watchdog = Watchdog(lambda: until)
    watchdog.hold(os.pidfd_open(process.pid))
    until = since_boot() + 1.0
    watchdog.renewed()
    print(process.pid, until, flush=True)
    await trio.sleep_forever()

trio.run(main)
"""


@contextmanager
def a_node() -> Generator[tuple[subprocess.Popen[bytes], int, float]]:
    with subprocess.Popen([sys.executable, "-c", NODE], stdout=subprocess.PIPE) as node:
        try:
            assert node.stdout is not None
            process_id, until = node.stdout.readline().split()
            yield node, os.pidfd_open(int(process_id)), float(until)
        finally:
            node.kill()


async def test_a_program_of_a_node_that_is_stopped_ends_all_the_same() -> None:
    with a_node() as (node, pidfd, until):
        os.kill(node.pid, signal.SIGSTOP)
        with trio.fail_after(PATIENCE):
            await trio.lowlevel.wait_readable(
                pidfd
            )  # it is a zombie, of which the node hears later
        assert since_boot() >= until
        assert node.poll() is None
        os.close(pidfd)
