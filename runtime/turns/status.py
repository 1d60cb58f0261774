"""What a runtime does at one moment, in words for programs that watch it."""

from __future__ import annotations

import msgspec

from ..kernel.activity import RunningCall, RunningTurn


class RunningProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs in the background of a session.

    Attributes:
        process_id: Its name in its session, as the tool `process` takes it.
        command: As a person would write it.
        seconds: Since its start.
    """

    session_id: str
    process_id: str
    command: str
    seconds: float


class ActorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an actor is.

    Attributes:
        is_running: Whether it takes messages; one that was given up does not.
        waiting: Messages in its mailbox, of `capacity`.
        restarts: How often it crashed and was started anew.
    """

    name: str
    is_running: bool
    waiting: int
    capacity: int
    restarts: int


class RuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime does at one moment.

    Attributes:
        sessions: The ids of the sessions that are loaded.
        turns: The turns that run, and since when.
        calls: The calls whose tools run.
        background: The programs that run beside the calls, those of `shell` with `background`.
        storage_failed: Why the store can't be relied on now, and what to do; empty when it can. On a
            full disk nothing new begins until there is room.
        storage_warning: What to do before the store is as large as `max_store_mib` of `[sessions]` lets
            it be, or since it is; empty when there is room, as of the last look.
        actors: Those that all sessions share, then those of the loaded sessions, at most a hundred:
            which are given up, then those for which most messages wait, then which have crashed. A
            daemon tells them beside this, in `Status.actors`.

    Example:
        async with callboard.open_runtime(model="rehearsal") as runtime:
            await (await runtime.create_session()).run("What time is it in Tokyo?")
            status = await runtime.status()
            print(len(status.sessions), "loaded,", len(status.turns), "at work")
    """

    sessions: tuple[str, ...]
    turns: tuple[RunningTurn, ...] = ()
    calls: tuple[RunningCall, ...] = ()
    background: tuple[RunningProgram, ...] = ()
    storage_failed: str = ""
    storage_warning: str = ""
    actors: tuple[ActorStatus, ...] = ()
