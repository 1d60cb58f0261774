"""Lives of a runtime, each killed with SIGKILL at one operation of its disk, and what must hold behind it.

Run as a program, so that it can fork: `python -m support.crash.lives FOLDER FLOW:HOW:PLACE ...`. For each place a
life plays a flow (`flows.py`) and dies there (`mortal.py`); a second one dies while it recovers; the last one goes
on to the end and is judged. `FLOW:HOW:*` takes all places, `FLOW:HOW:*7` every seventh, and `FLOW:names:` lists where
they are in the program.

Several places are not killed at: one life plays on, and what a death at each of them would leave is copied
(`mortal.States`); places that leave the same are one. Their recoveries are lives of their own, as before.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterable
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
from callboard.runtime.store.health import disk_room
from support.crash.flows import DONE, FLOWS, at_rest, opened
from support.crash.mortal import Death, How, States, lines, live, say
from support.stage import check_records

MAX_PLACES = 100_000
"""No flow has so many."""
SMALL_BALLAST_BYTES = 8192
"""The usual one would be most of each copy."""
SECOND_PLACES = 97
"""A second life dies at one of so many first operations."""


async def recover(folder: Path, flow: str) -> None:
    """Go on with all that was left, and check what must hold."""
    async with opened(folder, [DONE] * 50, **FLOWS[flow].configured(folder)) as runtime:
        there = [row.session_id for row in await runtime.sessions()]
        is_refused = (folder / "refused").exists()  # a rescue says what it could not take
        made = [each for each in lines(folder / "made") if each in there or not is_refused]
        for session_id in [*made, *there]:
            session = await runtime.get_session(session_id)
            while (turn := await session.resume()) is not None:
                with suppress(ConflictError):  # it began by itself, and has ended
                    async with turn:
                        async for _ in turn:
                            pass
            if session_id in made:
                made.remove(session_id)
                assert await session.run("And now?") == "Done."
                await session.changes()
        if not there:  # whoever works there first clears what a death left
            await runtime.create_session()
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
        if row.workspace and not await trio.Path(row.workspace).is_dir():
            continue  # of data that were made elsewhere
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
        self.places = 0
        self.deaths = [0, 0, 0]
        self.unsound: list[str] = []
        self._top = top
        self._flow = flow
        self._how: How = how
        self._folder, self._ready = top / f"{flow}-{how}", top / f"{flow}-{how}.ready"
        self._states, self._again = top / f"{flow}-{how}.states", top / f"{flow}-{how}.again"
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

    def die_at(self, places: Iterable[int]) -> None:
        """Play the flow for each place, dying there, recover, dying again, and go on; until it ends before."""
        for place in places:
            shutil.copytree(self._ready, self._folder)
            status = live(partial(FLOWS[self._flow].play, self._folder), Death(place, self._how))
            if status == 0:
                shutil.rmtree(self._folder)
                return
            self.places += 1
            self._go_on(place, is_sound=status == -signal.SIGKILL, is_killed=True)

    def leave_at(self, places: range) -> None:
        """Play the flow once, and go on from what a death at each place would leave."""
        shutil.copytree(self._ready, self._folder)
        states = States(places, self._how, self._folder, self._states)
        counted = self._top / "count"
        assert live(partial(FLOWS[self._flow].play, self._folder), states, counted=counted) == 0
        shutil.rmtree(self._folder)
        self.places = len(range(int(lines(counted)[-1]))[places.start :: places.step])
        for state in sorted(self._states.iterdir(), key=lambda each: int(each.name)):
            shutil.copytree(state, self._folder, symlinks=True)
            if self._go_on(int(state.name), is_killed=False):
                shutil.rmtree(state)

    def _go_on(self, place: int, *, is_killed: bool, is_sound: bool = True) -> bool:
        """Recover from what a death left, dying again, and go on; keep what is not sound."""
        folder, second = self._folder, place * 7 % SECOND_PLACES
        end = partial(recover, folder, self._flow)
        if self._how == "flip":
            assert live(partial(flip, folder, place)) == 0, place
            self.deaths[2] += (folder / "refused").exists()
        if is_killed:
            status = live(end, Death(second, self._how))
            self.deaths[1] += status == -signal.SIGKILL
            is_sound = is_sound and status in {0, -signal.SIGKILL} and live(end) == 0
        else:
            states = States(range(second, second + 1), self._how, folder, self._again)
            is_sound = live(partial(self._recover_twice, self._again / str(second)), states) == 0
            self.deaths[1] += (folder / "again").exists()
        self.deaths[0] += 1
        if is_sound:
            shutil.rmtree(folder)
        else:
            self.unsound.append(f"{self._flow}:{self._how}:{place}")
            folder.rename(f"{folder}-{place}")
        return is_sound

    async def _recover_twice(self, copy: Path) -> None:
        """Recover, and once more from what a death in it would have left, if there was a copy of that."""
        await recover(self._folder, self._flow)
        if _take(copy, self._folder):
            say(self._folder / "again", "")
            await recover(self._folder, self._flow)


def _take(copy: Path, folder: Path) -> bool:
    """Put a copy in the place of a folder; return whether there is one."""
    if is_there := copy.exists():
        shutil.rmtree(folder)
        copy.rename(folder)
    return is_there


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
    """Die as each word says; return the places, how many lives died there, in recovery, what was refused, and unsound."""
    found: dict[str, list[Any]] = {}
    top.mkdir(exist_ok=True)
    disk_room.BALLAST_BYTES = SMALL_BALLAST_BYTES
    warm(top / "warm")
    for word in words:
        flow, how, place = word.split(":")
        if how == "names":
            found[flow] = Sweep(top, flow, "kill").names()
            continue
        sweep = Sweep(top, flow, next(each for each in get_args(How) if each == how))
        first, star, step = place.partition("*")
        if not star:
            sweep.die_at([int(place)])
        elif FLOWS[flow].has_programs:
            sweep.die_at(itertools.count(int(first or 0), int(step or 1)))
        else:
            sweep.leave_at(range(int(first or 0), MAX_PLACES, int(step or 1)))
        found[f"{flow}:{how}"] = [sweep.places, *sweep.deaths, sweep.unsound]
    return found


def warm(folder: Path) -> None:
    """Play something here, so that no life has to import it all."""
    make(folder)
    trio.run(FLOWS["delegation"].play, folder)
    trio.run(recover, folder, "delegation")
    gc.freeze()  # so that a life need not copy what it only looks at


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2:]), indent=1))
    sys.stdout.flush()
    os._exit(0)
