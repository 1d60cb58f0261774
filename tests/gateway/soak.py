"""A daemon is used in every way for as long as one likes, and is in the end as it was: `make soak`.

Not among the tests of the suite, as it takes its time: `pytest tests/gateway/soak.py`. It goes on until
it is stopped, or for `CALLBOARD_SOAK_MINUTES`. A round has new sessions with prompts of all manners,
calls, questions, cuts and a reload. A life of the daemon has twice as many rounds as the one before, and
ends in the middle of the last one with a signal to end.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from callboard.client.client import Client, connect
from callboard.config.daemon_file import find_daemon
from callboard.config.keys.tokens import Credentials
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.providers.testing.scripted_server import ScriptedRequest, open_scripted_server
from callboard.runtime.definitions import InputMode
from callboard.runtime.errors import ConflictError, NetworkError, NotFoundError
from callboard.runtime.store.sqlite_store import open_reader
from callboard.runtime.wire.fields import Role
from support.cli.command import NOWHERE, Command
from support.environment import SUPPORT
from support.gateway.chaos_proxy import ChaosProxy, open_chaos
from support.gateway.crowd import IN_ORDER, Crowd, Manner
from support.gateway.foreign_witness import ForeignWitness
from support.gateway.soak_vitals import Life
from support.waits import until

MINUTES = float(os.environ.get("CALLBOARD_SOAK_MINUTES", "inf"))
FIRST_ROUNDS = 4
"""Of the first life."""
PROMPTS = 30
"""Acknowledged ones in a round, at least."""
MANY = 100_000
"""Answers of the model, which are all made by one function."""
ROUND_SECONDS = 120.0
"""For a round, which takes some seconds: one that hangs is found."""
START_SECONDS = 60.0

CALLS = (
    ("get_current_time", {"timezone": "Asia/Tokyo"}),
    ("write_file", {"path": "now.txt", "content": "late"}),
    ("list_directory", {"path": "."}),
    ("delete_file", {"path": "now.txt"}),
    ("shell", {"command": "echo late"}),
)


def answer(request: ScriptedRequest) -> ScriptedReply:
    """By what a prompt's number says: text alone, or a call first."""
    messages = request.body["messages"]
    last = messages[-1]
    if last["role"] != "user":
        return reply(["That ", "is ", "it."], piece_seconds=0.002)
    number = int("".join(filter(str.isdigit, str(last["content"])[-3:])) or 0)
    calls = [CALLS[number // 2 % len(CALLS)]] if number % 2 else []
    pieces = [f"wörd {at} " for at in range(3 + number % 9)]
    return reply(pieces, thinking=["let me ", "think "], calls=calls, piece_seconds=0.002)


def configuration(base_url: str, proxy: ChaosProxy, repeats: int) -> str:
    """What the daemon reads; `repeats` is what changes from round to round."""
    return (
        f'model = "local/scripted"\n[sessions]\ntitles = "words"\n{NOWHERE}'
        f'[providers.local]\nbase_url = "{base_url}"\n'
        f'[server]\nallowed_hosts = ["127.0.0.1:{proxy.port}"]\n'
        f"[limits]\nmax_repeats = {repeats}\n"
    )


class SoakedDaemon:
    """`callboard serve`, again and again at one port."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._process: trio.Process | None = None
        self.data = command.home / "data"
        self.port = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Returns when it takes clients."""
        program = [sys.executable, str(SUPPORT / "gateway" / "soak_daemon.py"), "serve"]
        self._process = await trio.lowlevel.open_process(
            [*program, "--port", str(self.port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._command.workspace,
            env=self._command.environ,
        )
        with trio.fail_after(START_SECONDS):  # noqa: ASYNC912  it may be there at once
            while (found := find_daemon(self.data)) is None:
                assert self._process.poll() is None, "it ended"
                await trio.sleep(0.02)
        self.port = int(found.url.split(":")[2].partition("/")[0])

    async def end(self) -> None:
        """As a supervisor ends it; whatever runs, it ends in order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        with trio.fail_after(START_SECONDS):
            assert await self._process.wait() == 0

    async def aclose(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            await self._process.wait()


async def decide(client: Client) -> None:
    """Answers whatever is asked, with yes and no in turn."""
    count = 0
    while True:
        try:
            for waiting in await client.approvals():
                count += 1
                await client.answer(waiting.approval_id, "allow" if count % 2 else "deny")
        except (ConflictError, NotFoundError, NetworkError):
            pass  # its turn was cancelled meanwhile, or the daemon ends
        await trio.sleep(0.05)


async def run_in_thread(foreign: ForeignWitness) -> None:
    """Until it was told to end, or this is cancelled."""
    try:
        await trio.to_thread.run_sync(foreign.run, abandon_on_cancel=True)
    finally:
        foreign.end()


class Soak:
    """The clients that stay, and the rounds."""

    def __init__(self, daemon: SoakedDaemon, proxy: ChaosProxy, token: str) -> None:
        self.daemon = daemon
        self.proxy = proxy
        self.token = token
        self.prompts = 0
        self._old: list[str] = []

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.daemon.port}/ws"

    async def round(self, clients: list[Client], change: str, file: Path, *, is_last: bool) -> None:
        """New sessions, and one of the round before, which is loaded again."""
        near = clients[0]
        made = [(await near.create_session()).session_id for _ in range(2)]
        reader = await open_reader(self.daemon.data)
        crowd = Crowd(made, await reader.log_head())
        foreign = ForeignWitness(self.url, self.token, made[0], crowd.said[made[0]])
        crowd.witnesses[made[0]].append(foreign.view)
        self.proxy.is_calm = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_in_thread, foreign)
            async with trio.open_nursery() as watching:
                watching.start_soon(crowd.hear, near)
                watching.start_soon(decide, near)
                async with trio.open_nursery() as prompting:
                    self._prompt(crowd, clients, watching, prompting)
                    for old in self._old:
                        await near.prompt(old, "round 0")
                    await until(lambda: crowd.count() >= PROMPTS)
                    await trio.Path(file).write_text(change)
                    assert (await near.upkeep.reload()).changed == ("limits.max_repeats",)
                    if is_last:
                        await self.daemon.end()
                        await self.daemon.start()
                    crowd.goes_on = False
                    foreign.fall_silent()
                await until(lambda: not foreign.waits)
                self.proxy.is_calm = True
                await crowd.settle(reader)
                await crowd.check(reader)
                watching.cancel_scope.cancel()
            foreign.end()
        self.prompts += crowd.count()
        self._old = made[1:]
        await reader.aclose()

    def _prompt(
        self, crowd: Crowd, clients: list[Client], watching: trio.Nursery, prompting: trio.Nursery
    ) -> None:
        modes = tuple(InputMode)
        manners = (Manner(*modes, seed=1), Manner(*modes, has_key=False, seed=2), IN_ORDER)
        for session_id in crowd.session_ids:
            for number, client in enumerate(clients):
                watching.start_soon(crowd.watch, client, session_id)
                name = f"client{number}"
                prompting.start_soon(crowd.prompt, client, session_id, name, manners[number])


@asynccontextmanager
async def soaked(folder: Path) -> AsyncGenerator[tuple[Soak, str, Path]]:
    """A daemon that runs, with its provider and its proxy."""
    command = Command(folder)
    token = Credentials(command.home / "data").create("soak", Role.ADMIN).reveal()
    file = command.home / "config" / "callboard.toml"
    daemon = SoakedDaemon(command)
    async with (
        open_chaos(seed=1, bytes_between_cuts=20_000) as proxy,
        open_scripted_server([answer] * MANY) as server,
    ):
        file.write_text(configuration(server.base_url, proxy, 5))
        try:
            await daemon.start()
            proxy.target = daemon.port
            yield Soak(daemon, proxy, token), server.base_url, file
        finally:
            with trio.CancelScope(shield=True):
                await daemon.aclose()


async def test_a_daemon_that_is_used_in_every_way_is_in_the_end_as_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    deadline = trio.current_time() + 60 * MINUTES if math.isfinite(MINUTES) else math.inf
    async with soaked(tmp_path) as (soak, base_url, file):
        daemon = soak.daemon
        through = f"ws://127.0.0.1:{soak.proxy.port}/ws"
        soak.proxy.is_calm = True
        async with connect(soak.url, soak.token) as near, connect(through, soak.token) as far:
            rounds, length, lives = 0, FIRST_ROUNDS, 1
            life = Life(daemon.pid, daemon.port, soak.token, daemon.data)
            left = length
            while lives == 1 or trio.current_time() < deadline:
                rounds, left = rounds + 1, left - 1
                change = configuration(base_url, soak.proxy, 6 + rounds % 2)
                with trio.fail_after(ROUND_SECONDS):
                    await soak.round([near, far], change, file, is_last=left == 0)
                if left == 0:
                    lives, length = lives + 1, 2 * length
                    left, life = length, Life(daemon.pid, daemon.port, soak.token, daemon.data)
                now = await life.take(connections=2)
                seen = f"{soak.prompts} prompts, {soak.proxy.cuts} cuts"
                figures = (
                    f"{now.memory / 2**20:.1f} MiB, {len(now.files)} files, {now.tasks} tasks, {now.threads} threads, "
                    f"log {now.log_bytes / 2**20:.1f} MiB, {now.events} events"
                )
                with capfd.disabled():
                    sys.stderr.write(f"\nround {rounds}, life {lives}: {seen}; {figures}")
        await daemon.end()
        reader = await open_reader(daemon.data)
        assert await reader.open_turns() == []
        await reader.aclose()
        assert soak.proxy.cuts > 0
