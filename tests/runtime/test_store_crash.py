"""A process that stores is killed in the middle; what it had acknowledged is there."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import apsw
import pytest

from callboard.runtime.events import InputAccepted
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader

SESSIONS = 4

WRITER = """
import sys
from pathlib import Path
import trio
from callboard.runtime.events import InputAccepted, SessionCreated
from callboard.runtime.store.sqlite_store import open_disk_store
from callboard.runtime.store.interface import Append

async def write(store, session_id, head):
    if head == 0:
        await store.commit([Append(session_id, (SessionCreated(agent="a", workspace="/"),))])
        head = 1
    while True:
        # Two appends of one session and 1 to 3 events each: a kill must not tear a commit.
        count = head % 3 + 1
        texts = [str(head + n + 1) for n in range(count + 1)]
        events = [InputAccepted(input_id=text, text=text * 200) for text in texts]
        results = await store.commit(
            [Append(session_id, tuple(events[:count])), Append(session_id, tuple(events[count:]))]
        )
        for stored in results[0] + results[1]:
            assert stored.event.input_id == str(stored.seq)
            print(session_id, stored.seq)
        sys.stdout.flush()
        head = results[1][-1].seq

async def main():
    store = await open_disk_store(Path(sys.argv[1]))
    async with trio.open_nursery() as nursery:
        for number in range(int(sys.argv[2])):
            session = await store.session(str(number))
            nursery.start_soon(write, store, str(number), session.head_seq if session else 0)

trio.run(main)
"""


def acknowledged_before_kill(folder: Path, lines: int) -> dict[str, int]:
    """Runs a writer, kills it after so many acknowledgements, gives the last seq by session."""
    last: dict[str, int] = defaultdict(int)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(SESSIONS)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            for number, line in enumerate(process.stdout):
                if number == lines:
                    process.kill()
                if not line.endswith(b"\n"):
                    break  # the kill cut it
                session_id, seq = line.split()
                last[session_id.decode()] = int(seq)
        finally:
            process.kill()
    assert process.returncode == -9
    return last


@pytest.mark.parametrize("lines", [1, 57, 233])
async def test_every_acknowledged_event_outlives_a_kill(tmp_path: Path, lines: int) -> None:
    for _ in range(2):
        acknowledged = acknowledged_before_kill(tmp_path, lines)
        assert sum(acknowledged.values()) >= lines
        # A reader needs no lock and no repair, even before a writer has come back.
        reader = await open_reader(tmp_path)
        seen = {row.session_id: row.head_seq for row in await reader.sessions()}
        await reader.aclose()
        store = await open_disk_store(tmp_path)
        for session_id, last in acknowledged.items():
            assert seen[session_id] >= last
            stored = await store.events(session_id)
            assert [one.seq for one in stored] == list(range(1, seen[session_id] + 1))
            events = [one.event for one in stored[1:]]
            texts = [event.input_id for event in events if isinstance(event, InputAccepted)]
            assert texts == [str(seq) for seq in range(2, seen[session_id] + 1)]
            assert len(await store.messages(session_id)) == len(texts)
        await store.aclose()
        check = apsw.Connection(str(tmp_path / "callboard.db"))
        assert check.execute("pragma integrity_check").get == "ok"
        check.close()
