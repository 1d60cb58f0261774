"""Copies a whole record from one store to another: from a file to a database, back, or to another of the same kind.

Events are the truth and every row follows from them, so the events alone are copied, in the order in which they
were stored over all sessions: what one session did to another (the answer of a child, a cleared mark of a
file) comes out as it was. Behind that, every session is read again on both sides and its digests are compared.

Until then the copy is marked, and nothing opens it: not what a copy that was killed has left either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import trio

from ..disk.data_lock import check_free
from ..disk.private_folder import at_home
from ..errors import ConflictError, StorageError
from ..events import Stored
from ..store.codec import decode_event, encode_event, event_of
from ..store.file import address_in, open_reading
from ..store.interface import Store
from ..store.migrations import check_whole
from ..store.sqlite_store import open_kept_store
from ..store.threaded import ThreadedStore
from ..text import shell_word

if TYPE_CHECKING:
    from ..store.tables.connection import SqlConnection

    class Source(SqlConnection, Protocol):
        """A connection that reads the store to copy."""

        def close(self) -> None:
            """Close it."""
            ...


BATCH_EVENTS = 256
"""Events in one commit, and in one page of what is read: some hundred KB, and at most so many large results."""

_IN_ORDER = (
    f"select e.id, s.session_id, e.seq, e.at_ms, {event_of('e')} from events e"
    " join sessions s on s.id = e.session where e.id > ? order by e.id limit ?"
)
_SESSIONS = "select id, session_id from sessions where id > ? order by id limit ?"
_OF_SESSION = (
    f"select e.seq, e.at_ms, {event_of('e')} from events e join sessions s on s.id = e.session"
    " where s.session_id = ? and e.seq > ? order by e.seq limit ?"
)


class Copied(NamedTuple):
    """What was copied, and compared."""

    sessions: int
    events: int


class StorePlace(NamedTuple):
    """A store: in a data folder, or in a database."""

    folder: Path | None
    url: str | None

    @property
    def name(self) -> str:
        """What to call it."""
        return self.url or str(self.folder)


def place_of(text: str) -> StorePlace:
    """Return the place that a folder or a URL says; a folder may name a database itself.

    Raises:
        ValidationError: The URL is wrong.
    """
    if "://" not in text:
        folder = at_home(Path(text)).absolute()
        return StorePlace(folder, address_in(folder))
    from ..store.postgres.address import address_of, check_driver  # here: few have a database

    address_of(text, may_hold_password=False)
    check_driver()
    return StorePlace(None, text)


async def copy_store(
    source: str, target: str, tell: Callable[[str], None] = lambda _: None
) -> Copied:
    """Copy the record of one store into an empty one, and compare every session.

    Nobody may write to the source meanwhile.

    Args:
        source: A data folder, or the URL of a database.
        target: The same; it is made if it is missing.
        tell: Is told what is being done.

    Raises:
        ConflictError: Somebody writes to one of them, or the target holds sessions already.
        NotFoundError: There is no store at the source.
        StorageError: One of them can't be read or written, is a part of a copy, or a session came out different.
    """
    one = await trio.to_thread.run_sync(place_of, source)
    other = await trio.to_thread.run_sync(place_of, target)
    reading = await trio.to_thread.run_sync(_open, one)
    try:
        store = await open_kept_store(None if other.url else other.folder, other.url)
        try:
            if await store.sessions(limit=1, include_deleted=True):
                raise ConflictError(
                    f"{other.name} holds sessions already. A store is copied into an empty one: choose another place."
                )
            assert isinstance(store, ThreadedStore)
            await store.note_copy(one.name)
            tell(f"copying {one.name} to {other.name}")
            events = await _copy(reading, store)
            await _mark_files(reading, store)
            tell(f"comparing {events} events")
            sessions = await _compare(reading, store)
            await store.note_copy(None)
            return Copied(sessions, events)
        finally:
            await store.aclose()
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(reading.close)


def check_copied(folder: Path, url: str) -> str:
    """Return the URL of a database, without its password, that holds all sessions of a data folder.

    One that went on there since is further than the file, and that is fine.

    Raises:
        ConflictError: A session is not there, or lacks events.
        StorageError: One of them can't be read.
        ValidationError: It is not the URL of a database.
    """
    from ..store.postgres.address import address_of, check_driver  # here: few have a database

    address = address_of(url, may_hold_password=False)
    check_driver()
    from ..store.postgres.store import open_reading_connection

    heads, last = (
        "select id, session_id, head_seq from sessions where id > ? order by id limit ?",
        0,
    )
    there = "select head_seq from sessions where session_id = ?"
    with closing(open_reading(folder)) as reading, closing(open_reading_connection(url)) as copy:
        while rows := _rows(reading, heads, (last, BATCH_EVENTS)):
            last = rows[-1][0]
            for _, session_id, head in rows:
                found = _rows(copy, there, (session_id,))
                if not found or found[0][0] < head:
                    raise ConflictError(
                        f"{address.name} does not hold all of session {session_id}: copy the record first (`callboard store copy "
                        f"{shell_word(str(folder))} {address.public_url}`). Nothing was changed."
                    )
    return address.public_url


def _open(place: StorePlace) -> Source:
    """Open the store to copy; nobody writes to it until it is closed."""
    if place.url is None:
        assert place.folder is not None
        check_free(place.folder)
        reading = open_reading(place.folder)
        try:
            check_whole(reading, place.name)
        except BaseException:
            reading.close()
            raise
        return reading
    from ..store.postgres.store import open_reading_connection

    return open_reading_connection(place.url, is_alone=True)


async def _copy(reading: Source, store: Store) -> int:
    """Bring in all events, in the order in which they were stored; return how many."""
    last, count = 0, 0
    while rows := await trio.to_thread.run_sync(_rows, reading, _IN_ORDER, (last, BATCH_EVENTS)):
        last = rows[-1][0]
        events = [
            Stored(name, seq, at_ms, decode_event(data)) for _, name, seq, at_ms, data in rows
        ]
        kept = await store.bring_in(events)
        if [(each.session_id, each.seq) for each in kept] != [
            (each.session_id, each.seq) for each in events
        ]:
            raise _different(events[0].session_id)
        count += len(events)
    return count


async def _mark_files(reading: Source, store: Store) -> None:
    """Look whether each file that holds words of tainted sessions is marked there too."""
    rows = await trio.to_thread.run_sync(_rows, reading, "select path from marked_files", ())
    if missing := {row[0] for row in rows} - set(await store.marked_files()):
        raise StorageError(
            f"The mark of {min(missing)}, which holds words that nobody vouches for, was not copied."
        )


async def _compare(reading: Source, store: Store) -> int:
    """Compare the digests of every session; return how many there are."""
    last, count = 0, 0
    while rows := await trio.to_thread.run_sync(_rows, reading, _SESSIONS, (last, BATCH_EVENTS)):
        for last, session_id in rows:  # ruff: ignore[unused-loop-control-variable]  the last one is where the next page begins
            wanted = await trio.to_thread.run_sync(_digest, reading, session_id)
            if await _digest_in(store, session_id) != wanted:
                raise _different(session_id)
        count += len(rows)
    return count


def _digest(reading: Source, session_id: str) -> str:
    """Return the digest of what is on record of a session."""
    digest, seq = hashlib.sha256(), 0
    while rows := _rows(reading, _OF_SESSION, (session_id, seq, BATCH_EVENTS)):
        for seq, at_ms, data in rows:
            digest.update(_line(Stored(session_id, seq, at_ms, decode_event(data))))
    return digest.hexdigest()


async def _digest_in(store: Store, session_id: str) -> str:
    digest, seq = hashlib.sha256(), 0
    while page := await store.events(session_id, after_seq=seq, limit=BATCH_EVENTS):
        for stored in page:
            digest.update(_line(stored))
        seq = page[-1].seq
    return digest.hexdigest()


def _line(stored: Stored) -> bytes:
    # Encoded anew on both sides: an older callboard may have written what is the default today.
    return b"%d %d %b\n" % (stored.seq, stored.at_ms, encode_event(stored.event)[1])


def _rows(reading: Source, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    return reading.execute(sql, values).fetchall()


def _different(session_id: str) -> StorageError:
    return StorageError(
        f"Session {session_id} came out different: the copy is not to be used. Somebody may have written to it "
        "meanwhile; remove the copy, and make it again while no callboard runs."
    )
