"""A real disk that is full: nothing begins, what runs ends, and space is made through callboard.

The disk is a small file system in memory, which takes a user who may mount one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio

import callboard
from callboard.cli.daemon.status import status
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.embedding.host import Plan, open_host
from callboard.embedding.models import ModelFinder
from callboard.providers.catalog.catalog import ModelSelection
from callboard.runtime.errors import DiskBroken, StorageError, StorageFailed
from callboard.runtime.events import CallFinished, SessionCreated, TurnEnded
from callboard.runtime.messages import AppendEvents
from callboard.runtime.redaction import Secret
from callboard.runtime.store import file
from callboard.runtime.store.health import disk_room
from callboard.runtime.store.health.disk_room import BALLAST_NAME
from callboard.runtime.store.interface import Committed, Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append, CommitResult
from callboard.tools.registry import ToolRegistry
from support.gateway.daemon_scene import Daemon, open_client, open_daemon
from support.stage import check_record, make_workspace, open_in

MEBIBYTE = 1024**2
CREATED = SessionCreated(agent="general", workspace="/work")


class Disk(msgspec.Struct, frozen=True):
    """A small disk, and a way to fill it."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def has_ballast(self) -> bool:
        return (self.data / BALLAST_NAME).exists()

    def fill(self) -> None:
        with (self.folder / "filling").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def free(self) -> None:
        (self.folder / "filling").unlink()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """One of 8 MiB, and what is kept and needed of it as small."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only who may mount a file system has a disk to fill")
    for name, value in {
        "BALLAST_BYTES": MEBIBYTE,
        "ROOM_FOR_BALLAST_BYTES": 2 * MEBIBYTE,
        "NEEDED_BYTES": 2 * MEBIBYTE,
        "NEEDED_SHARE": 4,
        "LOOK_SECONDS": 0.0,
        "MADE_AFTER_SECONDS": 0.0,
    }.items():
        monkeypatch.setattr(disk_room, name, value)
    monkeypatch.setattr(file, "LOG_BLOCK_BYTES", 0)  # the log would have room for many an end
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
        yield Disk(folder)


async def http(daemon: Daemon, path: str) -> str:
    """The first line of the answer to a plain request, and its body."""
    async with await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port) as stream:
        host, bearer = f"127.0.0.1:{daemon.gateway.port}", f"Authorization: Bearer {daemon.token}"
        bearer += "\r\nConnection: close"
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n\r\n".encode())
        answer = b"".join([data async for data in stream]).decode()
    return answer.splitlines()[0] + " " + answer.partition("\r\n\r\n")[2]


async def told(daemon: Daemon, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `callboard status` prints."""
    running = RunningDaemon(
        url=daemon.url, pid=os.getpid(), token=Secret(daemon.token), started_at_ms=0
    )
    with DaemonFile(folder, running):
        await trio.to_thread.run_sync(lambda: status(data=folder))
    return capsys.readouterr().out


async def test_nothing_begins_and_a_deletion_and_a_purge_are_done(
    disk: Disk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    async with (
        open_daemon(
            callboard.ScriptedModel([callboard.reply("Hi.")] * 2),
            data=disk.data,
            workspace=make_workspace(tmp_path),
        ) as daemon,
        open_client(daemon) as client,
    ):
        kept = await daemon.runtime.create_session()
        assert await kept.run("Hello.") == "Hi."
        other = (await client.create_session()).session_id
        gone = (await client.create_session()).session_id
        await client.delete_sessions([gone])
        assert disk.has_ballast
        assert "200" in await http(daemon, "/readyz")
        assert "callboard_storage_failed 0" in await http(daemon, "/metrics")
        assert "storage:" not in await told(daemon, home, capsys)

        disk.fill()
        for begin in (
            client.prompt(other, "Hello?"),
            client.create_session(),
            kept.run("Hello?"),
            daemon.runtime.create_session(),
        ):
            with pytest.raises(StorageFailed, match=str(disk.data)):
                await begin
        assert "503" in (answer := await http(daemon, "/readyz"))
        assert "storage_failed" in answer
        assert "callboard_storage_failed 1" in await http(daemon, "/metrics")
        shown = await told(daemon, home, capsys)
        assert f"storage:       failed. The disk under {disk.data} is full" in shown
        assert str(disk.data) not in answer
        work = (await client.status()).work
        assert work is not None
        assert str(disk.data) in work.storage_failed
        assert (await daemon.runtime.status()).storage_failed

        assert disk.has_ballast
        assert await client.purge_sessions([gone]) == (gone,)
        assert not disk.has_ballast
        assert await daemon.runtime.store.session(gone) is None
        assert await client.delete_sessions([other]) == (other,)
        with pytest.raises(StorageFailed):
            await kept.run("Hello?")

        disk.free()
        assert "200" in await http(daemon, "/readyz")
        assert await kept.run("Hello!") == "Hi."
        assert disk.has_ballast
        assert (await daemon.runtime.status()).storage_failed == ""
        record = await daemon.runtime.store.events(kept.session_id)
        check_record(record)
        assert [e.event.outcome for e in record if isinstance(e.event, TurnEnded)] == [
            "answered"
        ] * 2


async def test_what_runs_ends_on_record_and_its_next_call_does_not_start(
    disk: Disk, tmp_path: Path
) -> None:
    ran: list[str] = []

    @callboard.tool
    async def fill() -> str:
        """Fills the disk."""
        disk.fill()
        ran.append("fill")
        return "filled"

    @callboard.tool
    async def touch() -> str:
        """Has an effect."""
        ran.append("touch")
        return "touched"

    steps = [callboard.reply("I fill.", calls=[("fill", {})])]
    model = callboard.ScriptedModel(
        [*steps, callboard.reply("Full."), *steps, callboard.reply("More.", calls=[("touch", {})])]
    )
    options: dict[str, Any] = {"data": disk.data, "tools": [fill, touch]}
    async with open_in(tmp_path, model, on_approval="allow", **options) as runtime:
        session = await runtime.create_session()
        assert await session.run("Fill it.") == "Full."
        disk.free()
        with pytest.raises(callboard.CallboardError, match=r"full|store failed"):
            await session.run("Fill it again.")
        assert ran == ["fill", "fill"]
        disk.free()
    async with open_in(tmp_path, [callboard.reply("Well.")], **options) as runtime:
        session = await runtime.get_session(session.session_id)
        assert await session.run("And now?") == "Well."
        record = await runtime.store.events(session.session_id)
        check_record(record)
        finished = [s.event.status for s in record if isinstance(s.event, CallFinished)]
        assert finished == ["success", "success", "interrupted"]


class FailingStore:
    """A store whose disk fails in a way, once."""

    def __init__(self, error: StorageError) -> None:
        self._store = open_memory_store()
        self._errors = [error]

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        if self._errors:
            raise self._errors.pop()
        return await self._store.commit(appends)

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        if self._errors:
            done(self._errors.pop())
            return True
        return self._store.commit_soon(appends, done)


async def lived(plan: Plan, error: type[StorageError]) -> None:
    """A runtime whose first commit fails, and whose second is stored."""

    def append() -> AppendEvents:
        return AppendEvents(session_id="s1", events=(CREATED,))

    async with open_host(plan) as host:
        with pytest.raises(error, match="The disk failed"):
            await host.journal.ask(append())
        if error is DiskBroken:
            await trio.sleep_forever()
        assert await host.journal.ask(append())


@pytest.mark.parametrize("error", [DiskBroken, StorageError])
async def test_only_a_failed_fsync_ends_the_runtime_at_once(error: type[StorageError]) -> None:
    plan = Plan(
        store=cast("Store", FailingStore(error("The disk failed."))),
        models=ModelFinder(ModelSelection(environ={}), local=callboard.ScriptedModel([])),
        registry=ToolRegistry([]),
    )
    # That is what a command prints, and exits with 1.
    ends = pytest.raises(StorageError, match=r"^journal can't go on: The disk failed\.$")
    with ends if error is DiskBroken else nullcontext(), trio.fail_after(30):
        await lived(plan, error)


async def test_a_start_on_a_full_disk_opens_for_reading_purging_and_ending(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_room, "START_BYTES", 64 * 1024)
    options: dict[str, Any] = {"data": disk.data}
    async with open_in(tmp_path, [callboard.reply("Hi.")], **options) as runtime:
        gone = await runtime.create_session()
        kept = await runtime.create_session()
        assert await kept.run("Hello.") == "Hi."
        await gone.delete()
    assert disk.has_ballast
    disk.fill()
    running = RunningDaemon(url="ws://x", pid=os.getpid(), token=Secret("t" * 30), started_at_ms=0)
    async with open_in(tmp_path, [callboard.reply("Well.")], **options) as runtime:
        assert not disk.has_ballast
        with DaemonFile(disk.data, running):
            assert len(await runtime.sessions()) == 1
            kept = await runtime.get_session(kept.session_id)
            with pytest.raises(StorageFailed):
                await kept.run("More?")
            await runtime.purge([gone.session_id])
            assert await runtime.store.session(gone.session_id) is None
    async with open_in(tmp_path, [callboard.reply("Well.")], **options) as runtime:
        disk.free()  # while it runs
        kept = await runtime.get_session(kept.session_id)
        assert await kept.run("And now?") == "Well."
        assert disk.has_ballast
