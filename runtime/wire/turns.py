"""`turn/…` and `log/…` on the wire: what a turn was made of, and the end of the daemon's log."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..events import Stored
from ..text import WireInteger
from ..turns.activity import RunningCall
from .fields import Word


class OneTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of a session, by default its latest; its events behind `after_seq`.

    With `texts` false, what was said is cut to its beginning: enough for a picture of when what ran.
    """

    session_id: Word
    turn_id: Word | None = None
    after_seq: WireInteger = 0
    texts: bool = True


class DelegatedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to which a call delegated."""

    session_id: str
    call_id: str
    agent: str
    title: str
    is_active: bool


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a turn's events, from those that stored its inputs on; with `has_more`, more follow the last one.

    Attributes:
        turn_id: The turn; empty when the session has none.
        is_over: Whether the turn has ended, within these events or before them.
        delegated: Sessions to which calls of the session delegated since the turn began, as far as the token may
            see them, a thousand at most; each says which call that was.
        running: Its calls whose tools run now, and for how many seconds; the other open ones wait.
        now_ms: The time of the daemon's clock, in Unix milliseconds.
    """

    session_id: str
    turn_id: str
    events: list[Stored]
    is_over: bool
    has_more: bool
    delegated: tuple[DelegatedSession, ...]
    running: tuple[RunningCall, ...]
    now_ms: int


LogLevel = Literal["debug", "info", "warning", "error"]


class TailLog(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of the log to return: those behind `after` of at least this level, the latest `limit` of them.

    With `wait`, the answer comes once there is one, within 25 seconds in any case.
    """

    after: WireInteger = 0
    level: LogLevel = "info"
    limit: WireInteger = 200
    wait: bool = False


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record of the log, with secrets masked; `number` counts the records since the daemon began."""

    number: int
    at_ms: int
    level: LogLevel
    logger: str
    message: str
    traceback: str = ""


class LogTail(msgspec.Struct, frozen=True, kw_only=True):
    """Records of the log, the oldest first.

    Attributes:
        head: The number of the last record, of whatever level: where the next request goes on.
        is_cut: Whether there were others behind `after` that are not here: too many, or too long ago.
    """

    records: list[LogRecord]
    head: int
    is_cut: bool
