"""Lives of a runtime, each killed with SIGKILL at one operation of its disk, and what must hold behind it.

Run as a program, so that it can fork: `python -m support.crash.lives FOLDER FLOW:POWER:PLACE ...`. Every write, flush
and truncation of the store is such an operation (by a VFS of SQLite), and so is every change that tools make in
files. For each place a life plays a flow and dies there; a second one may die while it recovers; the last
one goes on to the end and is judged.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.errors import NotFoundError
from callboard.runtime.events import CallFinished, CallStarted, InputAccepted, TurnEnded
from callboard.runtime.store.ledger import Ledger
from support.stage import check_records

SECTOR = 512
_write, _open, _pwrite, _truncate = os.write, os.open, os.pwrite, os.truncate


class Death:
    """Counts operations, and kills the process at one of them; with `power`, what was not flushed may be lost."""

    def __init__(self, place: int | None, power: bool) -> None:
        self.count = 0
        self._place = place
        self._random = random.Random(place)
        self._unsynced: list[tuple[str, int, bytes, int]] = []
        self._power = power

    def step(self) -> None:
        """Note one operation, ahead of it."""
        if self.count == self._place:
            if self._power:
                self._lose()
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def wrote(self, path: str, offset: int, size: int) -> None:
        """Note what is there before a write that is not flushed."""
        if self._power:
            fd = _open(path, os.O_RDONLY)
            try:
                before = os.pread(fd, size, offset)
                self._unsynced.append((path, offset, before, os.fstat(fd).st_size))
            finally:
                os.close(fd)

    def synced(self, path: str) -> None:
        """Note that a file was flushed."""
        self._unsynced = [each for each in self._unsynced if each[0] != path]

    def _lose(self) -> None:
        """Take back some of the writes that were not flushed, whole or from a sector on."""
        for path, offset, before, size in reversed(self._unsynced):
            kept = self._random.choice((None, 0, SECTOR))
            if kept is None:
                continue
            fd = _open(path, os.O_WRONLY)
            _pwrite(fd, before[kept:], offset + kept)
            os.close(fd)
            if offset + kept >= size:
                _truncate(path, max(size, offset + kept))


class MortalFile(apsw.VFSFile):
    """A file of the store."""

    def __init__(self, name: Any, flags: list[int], death: Death) -> None:
        self._path = "" if name is None else name.filename() if hasattr(name, "filename") else name
        self._death = death
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._death.step()
        if self._path:
            self._death.wrote(self._path, offset, len(data))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._death.step()
        super().xSync(flags)
        self._death.synced(self._path)
        self._death.step()

    def xTruncate(self, newsize: int) -> None:
        self._death.step()
        super().xTruncate(newsize)


class MortalDisk(apsw.VFS):
    """SQLite's way to the disk."""

    def __init__(self, death: Death) -> None:
        self._death = death
        super().__init__("mortal", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        # Only logs: every commit is a write and a flush there. Through a file of Python's, locks of the
        # database itself fail when it is opened again.
        is_log = flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        return MortalFile(name, flags, self._death) if is_log else super().xOpen(name, flags)


def mortal(death: Death) -> MortalDisk:
    """Make this process die where `death` says."""
    _step_files(death)
    return MortalDisk(death)


def recovering(death: Death) -> None:
    """Make this process die where `death` says, at changes of files and around commits.

    SQLite's files stay its own: it can't lock one of Python's again that a dead process had locked.
    """
    _step_files(death)
    Ledger.commit = _stepping(Ledger.commit, death)  # type: ignore[method-assign]


def _step_files(death: Death) -> None:
    for name in (
        "write",
        "pwrite",
        "rename",
        "link",
        "unlink",
        "rmdir",
        "mkdir",
        "fsync",
        "ftruncate",
    ):
        setattr(os, name, _stepping(getattr(os, name), death))


def _stepping(function: Callable[..., Any], death: Death) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        death.step()
        done = function(*args, **options)
        death.step()
        return done

    return call


# ── what is played ───────────────────────────────────────────────────────────────────────────────


def say(path: Path, line: str) -> None:
    """Append a line, by a way that is no operation."""
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _write(fd, f"{line}\n".encode())
    os.close(fd)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


WRITE = ("write_file", {"path": "n/new.txt", "content": "written"})
EDIT = ("edit_file", {"path": "a.txt", "edits": [{"old_text": "first", "new_text": "second"}]})
DELETE = ("delete_file", {"path": "b.txt"})
NOTE = ("note", {"text": "one"})
AWAY = ("delegate", {"kind": "branch", "task": "Do it."})

FLOWS: dict[str, list[Any]] = {
    "parallel": [reply(calls=[WRITE, EDIT, NOTE, ("look", {})]), reply("Done.")],
    "approval": [reply(calls=[DELETE, ("asked", {"text": "one"})]), reply("Done.")],
    "delegation": [reply(calls=[AWAY]), reply(calls=[NOTE]), reply("Mine."), reply("Done.")],
    "undo": [reply(calls=[EDIT]), reply(calls=[DELETE, NOTE]), reply("Done.")],
}


def tools(folder: Path) -> list[Any]:
    def effect(context: callboard.ToolContext, text: str) -> str:
        say(folder / "effects", f"{context.call_id} {context.session_id}")
        return text

    @callboard.tool(tier="workspace")
    def note(context: callboard.ToolContext, text: str) -> str:
        """Has an effect that can be counted."""
        return effect(context, text)

    @callboard.tool(tier="workspace", approval="always")
    def asked(context: callboard.ToolContext, text: str) -> str:
        """Has one, and asks before."""
        return effect(context, text)

    @callboard.tool(tier="read_only", effect="read")
    def look() -> str:
        """Has none."""
        return "seen"

    return [note, asked, look]


async def person(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
    """Allows everything, some of it with other arguments."""
    await trio.lowlevel.checkpoint()
    changed = '{"text": "two"}' if request.tool == "asked" else None
    return callboard.ApprovalAnswer(decision="allow", arguments=changed)


def opened(folder: Path, steps: list[Any]) -> Any:
    return callboard.open_runtime(
        model=callboard.ScriptedModel(steps),
        workspace=folder / "work",
        data=folder / "data",
        environ={},
        tools=tools(folder),
        policy="balanced",
        on_approval=person,
    )


async def play(folder: Path, flow: str) -> None:
    """Play a flow from its beginning."""
    async with opened(folder, FLOWS[flow]) as runtime:
        session = await runtime.create_session()
        say(folder / "made", session.session_id)
        async with session.prompt("Go.") as turn:
            say(folder / "acked", session.session_id)
            async for _ in turn:
                pass
        if flow == "undo":
            await session.undo()
            say(folder / "undone", session.session_id)


async def recover(folder: Path) -> None:
    """Go on with all that was left, and check what must hold."""
    async with opened(folder, [reply("Done.")] * 20) as runtime:
        for session_id in lines(folder / "made"):
            session = await runtime.get_session(session_id)
            while (turn := await session.resume()) is not None:
                async with turn:
                    async for _ in turn:
                        pass
            assert await session.run("And now?") == "Done."
            await session.changes()
        await check_records(runtime)
        await judge(folder, runtime)
        for session_id in lines(folder / "acked"):
            session = await runtime.get_session(session_id)
            if await session.changes():
                await undone(session)
                assert (folder / "work" / "a.txt").read_text() == "first"
                assert (folder / "work" / "b.txt").exists()
    left = list((folder / "work").rglob(".callboard-*"))
    assert not left, f"left behind: {left}"
    with_file = apsw.Connection(str(folder / "data" / "callboard.db"))
    [(sound,)] = with_file.execute("pragma integrity_check").fetchall()
    with_file.close()
    assert sound == "ok"


async def undone(session: callboard.Session) -> None:
    """What is undone already has nothing left to undo."""
    with suppress(NotFoundError):
        await session.undo()


async def judge(folder: Path, runtime: callboard.Runtime) -> None:
    """What was acknowledged is there and has ended; no effect is doubled, none came before its start."""
    started: dict[str, int] = {}
    finished: dict[str, str] = {}
    for row in await runtime.sessions(limit=100):
        for stored in await runtime.store.events(row.session_id):
            event = stored.event
            if isinstance(event, CallStarted):
                started[event.call_id] = stored.seq
            elif isinstance(event, CallFinished):
                finished[event.call_id] = event.status.value
    effects = [line.split()[0] for line in lines(folder / "effects")]
    assert len(set(effects)) == len(effects), f"doubled: {effects}"
    assert set(effects) <= started.keys(), "an effect without its start"
    noted = {"success", "interrupted", "cancelled"}
    assert all(finished[each] in noted for each in effects), (
        "an effect that is reported as an error"
    )
    for session_id in lines(folder / "acked"):
        events = [each.event for each in await runtime.store.events(session_id)]
        assert any(isinstance(e, InputAccepted) and e.text == "Go." for e in events)
        assert sum(isinstance(e, TurnEnded) for e in events) == 2
    new = folder / "work" / "n" / "new.txt"
    assert not new.exists() or new.read_text() == "written", "a torn file"


# ── lives ────────────────────────────────────────────────────────────────────────────────────────


def live(
    act: Callable[[], Awaitable[None]],
    place: int | None,
    *,
    power: bool = False,
    is_first: bool = False,
) -> int:
    """Fork a life that acts; return its exit status, negative when it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            death = Death(place, power)
            disk = mortal(death) if is_first else None
            if place is not None and not is_first:
                recovering(death)
            trio.run(act)
            code = 0
            del disk  # the last connection is closed
        except BaseException:  # noqa: ASYNC103
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def make(folder: Path) -> None:
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "a.txt").write_text("first")
    (folder / "work" / "b.txt").write_text("first")


def die(folder: Path, flow: str, place: int, *, power: bool) -> tuple[bool, bool]:
    """Play a flow, dying at a place, recover, dying again, and go on; return whether each life did die."""
    make(folder)
    status = live(partial(play, folder, flow), place, power=power, is_first=True)
    if status == 0:
        return False, False
    assert status == -signal.SIGKILL, f"{folder.name}: {status}"
    again = live(partial(recover, folder), place * 7 % 23)
    assert again in {0, -signal.SIGKILL}, f"{folder.name}: in recovery"
    assert live(partial(recover, folder), None) == 0, folder.name
    return True, again != 0


def main(top: Path, words: list[str]) -> dict[str, list[int]]:
    """Die as each word says (`FLOW:POWER:PLACE`, or `FLOW:POWER:*` for all places); return how many lives did."""
    deaths: dict[str, list[int]] = {}
    for word in words:
        flow, power, place = word.split(":")
        counts = deaths.setdefault(f"{flow}:{power}", [0, 0])
        for at in itertools.count() if place == "*" else [int(place)]:
            first, second = die(top / f"{flow}-{power}-{at}", flow, at, power=power == "1")
            counts[0] += first
            counts[1] += second
            if not first:
                break
    return deaths


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2:])))
