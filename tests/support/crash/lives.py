"""Lives of a runtime, each killed with SIGKILL at one operation of its disk, and what must hold behind it.

Run as a program, so that it can fork: `python -m support.crash.lives FOLDER FLOW:HOW:PLACE ...`. For each place a
life plays a flow (`flows.py`) and dies there (`mortal.py`); a second one dies while it recovers; the last one goes
on to the end and is judged. `FLOW:HOW:*` takes all places, `FLOW:HOW:*7` every seventh, and `FLOW:names:` lists where
they are in the program.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import apsw
import trio

import callboard
from callboard.runtime.backup.aside import set_aside
from callboard.runtime.backup.rescue import rescue
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError
from callboard.runtime.events import (
    CallFinished,
    CallStarted,
    InputAccepted,
    TurnEnded,
    TurnStarted,
)
from support.crash.flows import DONE, FLOWS, at_rest, opened
from support.crash.mortal import Death, How, lines, live, say
from support.stage import check_records

SECOND_PLACES = 97
"""A second life dies at one of so many first operations."""


async def recover(folder: Path, flow: str) -> None:
    """Go on with all that was left, and check what must hold."""
    async with opened(folder, [DONE] * 50) as runtime:
        there = [row.session_id for row in await runtime.sessions()]
        is_refused = (folder / "refused").exists()  # a rescue says what it could not take
        made = [each for each in lines(folder / "made") if each in there or not is_refused]
        for session_id in [*made, *there]:
            session = await runtime.get_session(session_id)
            while (turn := await session.resume()) is not None:
                async with turn:
                    async for _ in turn:
                        pass
            if session_id in made:
                made.remove(session_id)
                assert await session.run("And now?") == "Done."
                await session.changes()
        await at_rest(runtime)
        await check_records(runtime)
        if not is_refused:
            await FLOWS[flow].judge(folder, runtime)
            await judge(folder, runtime)
            await undo(folder, runtime)
    left = list((folder / "work").rglob(".callboard-*"))
    assert not left, f"left behind: {left}"
    with closing(apsw.Connection(str(folder / "data" / "callboard.db"))) as connection:
        assert connection.execute("pragma integrity_check").get == "ok"


async def judge(folder: Path, runtime: callboard.Runtime) -> None:
    """What was acknowledged is there and has ended; no effect is doubled, none came before its start."""
    started: set[str] = set()
    finished: dict[str, str] = {}
    said: list[str] = []
    for row in await runtime.sessions(limit=100):
        begun: list[str] = []
        ended: list[str] = []
        for event in (each.event for each in await runtime.store.events(row.session_id)):
            match event:
                case CallStarted():
                    started.add(event.call_id)
                case CallFinished():
                    finished[event.call_id] = event.status.value
                case TurnStarted():
                    begun.append(event.turn_id)
                case TurnEnded():
                    ended.append(event.turn_id)
                case InputAccepted():
                    said.append(f"{row.session_id} {event.text}")
                case _:
                    pass
        assert begun == ended, f"{row.session_id}: {begun} began, {ended} ended"
    effects = [line.split()[0] for line in lines(folder / "effects")]
    assert len(set(effects)) == len(effects), f"doubled: {effects}"
    if not (folder / "restored").exists():
        known = [each for each in effects if each in started]
        assert known == effects, "an effect without its start"
        noted = {"success", "interrupted", "cancelled"}
        assert all(finished[each] in noted for each in known), "reported as an error"
    for line in lines(folder / "acked"):
        assert said.count(line) == 1, f"{line!r} is there {said.count(line)} times"
    new = folder / "work" / "n" / "new.txt"
    assert not new.exists() or new.read_text() == "written", "a torn file"


async def undo(folder: Path, runtime: callboard.Runtime) -> None:
    """Everything can be undone; what is undone already has nothing left to undo."""
    for row in await runtime.sessions(limit=100):
        session = await runtime.get_session(row.session_id)
        with suppress(NotFoundError):
            await session.undo()
    if (folder / "work" / "a.txt").exists():
        assert (folder / "work" / "a.txt").read_text() == "first"
        assert (folder / "work" / "b.txt").exists()


def make(folder: Path) -> None:
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "a.txt").write_text("first")
    (folder / "work" / "b.txt").write_text("first")


class Sweep:
    """The lives of one flow, in folders below `top`."""

    def __init__(self, top: Path, flow: str, how: How) -> None:
        self.deaths = [0, 0, 0]
        self.unsound: list[str] = []
        self._top = top
        self._flow = flow
        self._how: How = how
        self._folder, self._ready = top / f"{flow}-{how}", top / f"{flow}-{how}.ready"
        make(self._folder)
        assert live(partial(FLOWS[flow].before, self._folder)) == 0, flow
        self._folder.rename(self._ready)  # a copy has the same path, which is on record

    def names(self) -> list[str]:
        """Play the flow, and recover, without a death; return the places that were passed."""
        shutil.copytree(self._ready, self._folder)
        kept = self._top / f"{self._flow}.names"
        play = partial(FLOWS[self._flow].play, self._folder)
        assert live(play, Death(None), kept) == 0, self._flow
        assert live(partial(recover, self._folder, self._flow)) == 0, self._flow
        return lines(kept)

    def die(self, place: int) -> bool:
        """Play the flow, dying at a place, recover, dying again, and go on; `False` when it ended before."""
        folder, name = self._folder, f"{self._flow}:{self._how}:{place}"
        shutil.copytree(self._ready, folder)
        end = partial(recover, folder, self._flow)
        status = live(partial(FLOWS[self._flow].play, folder), Death(place, self._how))
        if status == 0:
            return False
        if self._how == "flip":
            assert live(partial(flip, folder, place)) == 0, name
            self.deaths[2] += (folder / "refused").exists()
        again = live(end, Death(place * 7 % SECOND_PLACES, self._how))
        self.deaths[0] += 1
        self.deaths[1] += again == -signal.SIGKILL
        sound = {status, again} <= {0, -signal.SIGKILL} and live(end) == 0
        if sound:
            shutil.rmtree(folder)
        else:
            self.unsound.append(name)
            folder.rename(f"{folder}-{place}")
        return True


async def flip(folder: Path, place: int) -> None:
    """Flip a bit of the store's log; what is refused for it is rescued."""
    data, chosen = folder / "data", random.Random(place)
    log = data / "callboard.db-wal"
    if not log.exists() or not (raw := bytearray(log.read_bytes())):
        return
    raw[chosen.randrange(len(raw))] ^= 1 << chosen.randrange(8)
    log.write_bytes(raw)
    try:
        await trio.to_thread.run_sync(rescue, data)
    except ConflictError:
        return  # nothing is wrong: the bit was in what is not read any more
    except StorageError:  # its schema or its sessions can't be read: only a backup helps
        await trio.to_thread.run_sync(set_aside, data)
    say(folder / "refused", "")


def main(top: Path, words: list[str]) -> dict[str, list[Any]]:
    """Die as each word says; return how many first lives died, second ones, what was refused, and what was unsound."""
    found: dict[str, list[Any]] = {}
    top.mkdir(exist_ok=True)
    warm(top / "warm")
    for word in words:
        flow, how, place = word.split(":")
        if how == "names":
            found[flow] = Sweep(top, flow, "kill").names()
            continue
        sweep = Sweep(top, flow, next(each for each in get_args(How) if each == how))
        first, _, step = place.partition("*")
        for at in (
            itertools.count(int(first or 0), int(step or 1)) if "*" in place else [int(place)]
        ):
            if not sweep.die(at):
                break
        found[f"{flow}:{how}"] = [*sweep.deaths, sweep.unsound]
    return found


def warm(folder: Path) -> None:
    """Play something here, so that no life has to import it all."""
    make(folder)
    trio.run(FLOWS["delegation"].play, folder)
    trio.run(recover, folder, "delegation")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2:]), indent=1))
    sys.stdout.flush()
    os._exit(0)
