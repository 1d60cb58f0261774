"""The interface of a store: the asynchronous reads of a `StoreReader`, and the writes of a `Store`.

The reads are the methods of `queries.Queries`, where their arguments, results and SQL stand. `_read`
makes an asynchronous method of each, with the same signature for type checkers. So a query is written
once, and a store implements one method for all of them, `_run`: the store on disk in a thread with a
connection of its own, the store in memory at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import trio

from ..events import Stored
from .health.store_health import StoreHealth
from .queries import Queries
from .rows import Append, CommitResult, SessionRow

Committed = Callable[[list[CommitResult] | BaseException], None]
"""Takes the end of a commit: what `commit` would have returned or raised."""

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def _read(
    query: Callable[Concatenate[Queries, _Args], _Result],
) -> Callable[Concatenate[StoreReader, _Args], Coroutine[Any, Any, _Result]]:
    """Return the asynchronous method of a reader that runs a query."""

    @wraps(query)
    async def read(self: StoreReader, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        return await self._run(lambda queries: query(queries, *args, **kwargs))

    return read


class StoreReader(ABC):
    """What can be read; every method raises `StorageError` when the database fails.

    Reads never wait for writes. `queries.Queries` documents each method.

    Attributes:
        owned: Where several nodes share the store, says which sessions are this one's.
    """

    owned: Callable[[str], bool] | None = None

    def owns(self, session_id: str) -> bool:
        """Whether this process acts for a session by itself, as after a crash; the only one acts for all."""
        return self.owned is None or self.owned(session_id)

    events = _read(Queries.events)
    event_bytes = _read(Queries.event_bytes)
    shown_events = _read(Queries.shown_events)
    shown_bytes = _read(Queries.shown_bytes)
    epoch = _read(Queries.epoch)
    log = _read(Queries.log)
    log_head = _read(Queries.log_head)
    request = _read(Queries.request)
    named_inputs = _read(Queries.named_inputs)

    session = _read(Queries.session)
    sessions = _read(Queries.sessions)
    children = _read(Queries.children)
    session_page = _read(Queries.session_page)
    session_tree = _read(Queries.session_tree)
    expired_sessions = _read(Queries.expired_sessions)
    unused_sessions = _read(Queries.unused_sessions)
    hits = _read(Queries.hits)

    messages = _read(Queries.messages)
    whole_messages = _read(Queries.whole_messages)
    message_file = _read(Queries.message_file)
    calls = _read(Queries.calls)
    call_page = _read(Queries.call_page)
    full_output = _read(Queries.full_output)
    finished_call = _read(Queries.finished_call)
    marked_files = _read(Queries.marked_files)

    usage = _read(Queries.usage)
    spending = _read(Queries.spending)
    size = _read(Queries.size)

    approvals = _read(Queries.approvals)
    grants = _read(Queries.grants)

    turn_start = _read(Queries.turn_start)
    open_turns = _read(Queries.open_turns)
    open_questions = _read(Queries.open_questions)
    open_inputs = _read(Queries.open_inputs)
    waking_sessions = _read(Queries.waking_sessions)

    memories = _read(Queries.memories)
    found_memories = _read(Queries.found_memories)

    async def with_waiting(self, rows: Sequence[SessionRow]) -> list[SessionRow]:
        """Return sessions, each with the root for which it waits: its owner is gone, and no node that is up has that.

        Only sessions of a cluster have owners.
        """
        await trio.lowlevel.checkpoint()
        return list(rows)

    @abstractmethod
    async def _run(self, query: Callable[[Queries], _Result]) -> _Result:
        """Run a query where this store runs queries, and return its result."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the database and release its lock, if this holds it. Not cancellable."""


class Store(StoreReader):
    """A reader that also writes; it alone writes to its data folder.

    Attributes:
        health: Whether it can be used, and whether there is room for new work.
        is_slow: Whether a commit waits for a disk, so that it pays to go on meanwhile.
    """

    health: StoreHealth
    is_slow = False

    @abstractmethod
    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        """Store appends in one transaction, in order; return what was stored of each, or its refusal.

        Left out, while the rest of its append is stored: a second `CallFinished` of a call, a second
        `TurnEnded` of a turn, a second input with the answer of a child. The first one holds.

        Refused, one append alone: an append to an unknown session (`NotFoundError`); a second
        `SessionCreated`, an answer to a question that does not wait, a start that no answer allows,
        and all else that `tables.permissions` refuses (`ConflictError`); what can't be stored
        because it is too large or has an integer beyond 64 bits (`ValidationError`); new work while
        the disk has room for ends alone (`StorageFailed`).

        A lone surrogate in a text is stored, and returned, as U+FFFD.

        Raises `StorageError` (`StorageFull`: try again later) if nothing was stored. Shielded: neither
        cancellable nor a checkpoint, so a loop of nothing but commits can't be cancelled.
        """

    @abstractmethod
    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        """Begin to store appends as `commit` does; return `False`, storing nothing, while it is at work.

        `done` gets what `commit` would have returned or raised: before this returns where nothing has
        to be waited for, otherwise later, in the Trio thread. It must not raise.
        """

    @abstractmethod
    async def bring_in(self, events: Sequence[Stored]) -> list[Stored]:
        """Store the events of new sessions, each at its own time; all or none.

        Permissions are not checked: the caller has made sure that no event acts.
        """

    @abstractmethod
    async def index_words(self) -> bool:
        """Index the next messages for `hits`; return whether there may be more.

        One step takes some milliseconds, in a transaction of its own.
        """

    async def check_record(self) -> None:
        """Look whether all is there that was acknowledged, where another server may have the record now.

        Raises `RecordLost` if it is not, and from then on nothing is stored. A file has no other server.
        """
        await trio.lowlevel.checkpoint()

    @abstractmethod
    async def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """Remove deleted sessions with all their records; return an event for each.

        Raises `ConflictError`, having removed nothing, if one of them is not deleted.
        """
