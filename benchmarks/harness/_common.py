"""What the drivers share: the workloads, the command line, and one line of JSON at the end.

A driver is a file with a subclass of `Driver` that ends in `main(ItsDriver())`. `compare.py` puts
this folder on its path; another harness that has a `_common` of the same form can run the same
file with its own. Only the standard library is imported here, so that the time of a cold start is
the driver's own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from statistics import median

MAX_FILES = 65536
DELTA = 20
"""Characters that the provider sends in each delta."""
PART_OF_A_BURST = 4096
"""Bytes that wait to be read; fewer are a delta or a short answer, and all that was sent."""
BURST_SECONDS = 0.1
"""When nothing more came for so long the burst is over."""


class Driver:
    """What is measured; `main` calls load, open, then session and turn, then close."""

    name = "?"
    runner = "trio"
    packages: tuple[str, ...] = ()

    def load(self) -> None:
        """Imports what it needs; timed."""
        raise NotImplementedError

    def make_steady(self) -> None:
        """Takes out what depends on time; called after `load`, where instructions are counted."""

    async def open(self, base_url: str) -> None:
        """Makes the client; the URL ends in /v1."""
        raise NotImplementedError

    def session(self, model, tool=None, rounds=1):
        """A conversation, with `async turn(prompt, on_delta) -> text`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Ends what `open` began."""


class Watch:
    """Wall and CPU seconds of repeated pieces of work."""

    def __init__(self) -> None:
        self.walls: list[float] = []
        self.cpus: list[float] = []

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.walls.append(time.perf_counter() - self._began[0])
        self.cpus.append(time.process_time() - self._began[1])


def memory(key: str) -> float:
    """MiB of VmHWM (the most so far) or VmRSS (now); 0 where there is no /proc."""
    try:
        with open("/proc/self/status") as status:
            lines = [line for line in status if line.startswith(key)]
    except FileNotFoundError:
        return 0.0
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def expect(what: str, found: int, wanted: int) -> None:
    """A driver that loses anything has no figure."""
    if found != wanted:
        raise RuntimeError(f"{found} {what}, expected {wanted}")


def ignore(text: str) -> None:
    pass


class Tools:
    """The two tools, and how often they ran."""

    def __init__(self) -> None:
        self.calls = 0

        async def noop(x: int, note: str) -> str:  # noqa: ASYNC124  drivers await it
            """Does nothing."""
            self.calls += 1
            return "ok"

        async def sleep50(x: int, note: str) -> str:
            """Sleeps 50 ms."""
            import trio

            self.calls += 1
            await trio.sleep(0.05)
            return "ok"

        self.noop = noop
        self.sleep50 = sleep50


# ── workloads ────────────────────────────────────────────────────────────────────────────────────


async def cold(driver, options, figures) -> None:
    """From the start of the process to the first delta."""
    await driver.open(options.base_url)
    first: list[float] = []

    def on_delta(text: str) -> None:
        if not first:
            first.append(time.monotonic())
            if options.first_delta_only:
                os._exit(0)

    await driver.session("text-5").turn("hello", on_delta)
    figures["first_token_ms"] = (first[0] - options.t0) * 1e3
    figures["rss_mb"] = memory("VmHWM")


async def stream(driver, options, figures, kind="text") -> None:
    """One session that gets many deltas as fast as it can take them."""
    count = options.n or 20_000
    await driver.open(options.base_url)
    await driver.session(f"{kind}-200").turn("warm", ignore)
    watch = Watch()
    for _ in range(options.reps):
        characters = 0

        def on_delta(text: str) -> None:
            nonlocal characters
            characters += len(text)

        with watch:
            await driver.session(f"{kind}-{count}").turn("go", on_delta)
        expect("characters", characters, DELTA * count)
    figures["cpu_us"] = median(watch.cpus) / count * 1e6
    figures["deltas_per_s"] = count / median(watch.walls)


async def streamc(driver, options, figures) -> None:
    """The same, one HTTP chunk for each event."""
    await stream(driver, options, figures, "textc")


async def toolloop(driver, options, figures) -> None:
    """Answer after answer that asks for one call."""
    rounds = options.n or 50
    tools = Tools()
    await driver.open(options.base_url)
    await driver.session("tools-1-2", tools.noop, 2).turn("warm", ignore)
    watch = Watch()
    for _ in range(options.reps):
        tools.calls = 0
        with watch:
            await driver.session(f"tools-1-{rounds}", tools.noop, rounds).turn("go", ignore)
        expect("calls", tools.calls, rounds)
    figures["cpu_us_per_round"] = median(watch.cpus) / (rounds + 1) * 1e6
    figures["wall_us_per_round"] = median(watch.walls) / (rounds + 1) * 1e6


async def fanout(driver, options, figures) -> None:
    """One answer that asks for many calls of 50 ms."""
    count = options.n or 100
    tools = Tools()
    await driver.open(options.base_url)
    await driver.session("tools-2-1", tools.sleep50, 1).turn("warm", ignore)
    watch = Watch()
    for _ in range(options.reps):
        tools.calls = 0
        with watch:
            await driver.session(f"tools-{count}-1", tools.sleep50, 1).turn("go", ignore)
        expect("calls", tools.calls, count)
    figures["wall_ms"] = median(watch.walls) * 1e3
    figures["cpu_ms"] = median(watch.cpus) * 1e3


async def sessions(driver, options, figures) -> None:
    """Many sessions at once, in a burst or paced."""
    import trio

    many, count = options.sessions, options.n or 200
    pace = f"-p{options.pace:g}" if options.pace else ""
    await driver.open(options.base_url)
    await driver.session("text-20").turn("warm", ignore)
    before = memory("VmRSS")
    characters = 0

    def on_delta(text: str) -> None:
        nonlocal characters
        characters += len(text)

    async def one() -> None:
        await driver.session(f"text-{count}{pace}").turn("go", on_delta)

    watch = Watch()
    with watch:
        async with trio.open_nursery() as nursery:
            for _ in range(many):
                nursery.start_soon(one)
    expect("characters", characters, DELTA * count * many)
    figures["wall_s"] = watch.walls[0]
    figures["cpu_us"] = watch.cpus[0] / (count * many) * 1e6
    figures["kb_per_session"] = (memory("VmHWM") - before) * 1024 / many


async def history(driver, options, figures) -> None:
    """Many short turns of one session, the history sent again in each."""
    turns = options.n or 400
    await driver.open(options.base_url)
    await driver.session("text-5").turn("warm", ignore)
    session = driver.session("text-5")
    watch = Watch()
    for number in range(turns):
        prompt = f"this is the question of turn number {number}, please answer it"
        with watch:
            await session.turn(prompt, ignore)
    figures["cpu_t10_ms"] = median(watch.cpus[5:15] or watch.cpus) * 1e3
    figures["cpu_tlast_ms"] = median(watch.cpus[-10:]) * 1e3
    figures["growth"] = figures["cpu_tlast_ms"] / figures["cpu_t10_ms"]


WORKLOADS = {
    work.__name__: work for work in (cold, stream, streamc, toolloop, fanout, sessions, history)
}


# ── the command line ─────────────────────────────────────────────────────────────────────────────


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--n", type=int, default=0, help="deltas, rounds, calls or turns")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--pace", type=float, default=0, help="milliseconds between deltas")
    parser.add_argument("--reps", type=int, default=3, help="repeats in this process; the median")
    parser.add_argument("--t0", type=float, default=time.monotonic(), help="when it was started")
    parser.add_argument("--first-delta-only", action="store_true", help="cold ends there, at once")
    parser.add_argument("--steady", action="store_true", help="counts of instructions repeat")
    parser.add_argument("--profile", help="writes what cProfile saw to this file")
    return parser.parse_args()


def make_reads_steady() -> None:
    """Reads get as much of a burst as they ask for, however late the provider was; before trio."""
    import fcntl
    import socket
    import termios

    def waiting(receive):
        def received(sock, size, *more):
            there = -1
            while there < (now := waiting_bytes(sock)) < size and now >= PART_OF_A_BURST:
                there = now
                time.sleep(BURST_SECONDS)
            return receive(sock, size, *more)

        return received

    def waiting_bytes(sock) -> int:
        return int.from_bytes(fcntl.ioctl(sock, termios.FIONREAD, bytes(4)), sys.byteorder)

    socket.socket.recv = waiting(socket.socket.recv)


def make_tasks_steady() -> None:
    """Trio shuffles the tasks that can run at once; garbage is collected in jumps."""
    import gc

    import trio

    trio._core._run._r.seed(0)
    gc.disable()


def main(driver: Driver) -> None:
    """Runs one workload and prints its figures."""
    chosen = options()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MAX_FILES), most))
    figures: dict[str, object] = {"driver": driver.name, "workload": chosen.workload}
    if chosen.steady:
        make_reads_steady()
    began = time.perf_counter()
    driver.load()
    figures["import_ms"] = (time.perf_counter() - began) * 1e3
    import trio

    if chosen.steady:
        make_tasks_steady()
        driver.make_steady()

    async def work() -> None:
        try:
            await WORKLOADS[chosen.workload](driver, chosen, figures)
        finally:
            # No scope around it: it closes scopes that were opened in `work`.
            await driver.close()  # noqa: ASYNC102

    if chosen.profile:
        import cProfile

        with cProfile.Profile(time.process_time) as profile:
            trio.run(work)
        profile.dump_stats(chosen.profile)
    else:
        trio.run(work)
    print(json.dumps(figures), flush=True)
    sys.stdout.flush()
    os._exit(0)
