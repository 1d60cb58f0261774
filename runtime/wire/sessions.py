"""`session/…` on the wire: what is asked, and what is answered."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..budget import Budget
from ..definitions import InputMode
from ..store.lists import Hit
from ..store.rows import MessageRow
from ..text import WireInteger
from ..turn_options import TurnOptions
from .fields import Attachments, FileText, Line, ModelName, PromptText, Word, Words


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to be begun; `workspace` is a folder below one of the daemon's roots."""

    agent: Word = "general"
    workspace: Line | None = None
    title: Line = ""
    model: ModelName | None = None
    budget: Budget | None = None


class ListSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions.

    `before` is the `next_before` of the page before; `query` a text that title, preview or id hold;
    `deleted` says whether deleted ones are left out, are among them, or are all.
    """

    limit: WireInteger = 100
    before: WireInteger | None = None
    agent: Word | None = None
    query: Line = ""
    deleted: Literal["no", "also", "only"] = "no"
    include_children: bool = True


class OneSession(msgspec.Struct, frozen=True):
    """A session by its id."""

    session_id: Word


class Messages(msgspec.Struct, frozen=True):
    """A page of messages, in order; with `has_more`, others stand behind the last one's position.

    A page ends at `limit`, or at a size.
    """

    messages: list[MessageRow]
    has_more: bool = False


class ListMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a session behind the position `after`."""

    session_id: Word
    after: WireInteger = 0
    limit: WireInteger = 100


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """An input for a session; `mode` is what it is to a turn that runs.

    `options` are for its turn; a preset under which more runs without asking takes an administrator.
    """

    session_id: Word
    content: PromptText
    attachments: Attachments = ()
    budget: Budget | None = None
    mode: InputMode = InputMode.QUEUE
    options: TurnOptions | None = None


class Ticket(msgspec.Struct, frozen=True):
    """The input is on record under this id, as event `seq`; `turn_id` is the turn that it began.

    Without one it waits, and `turn_started` or `input_delivered` names it.
    """

    input_id: str
    seq: int
    turn_id: str | None = None


class RunAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The last turn of a session, by its inputs; with `message_id`, when that is one of its messages."""

    session_id: Word
    message_id: Word | None = None


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """What to cancel: the running turn, or the turn of one input, also while that waits."""

    session_id: Word
    reason: Line = "cancelled by a client"
    input_id: Word | None = None


class Cancelled(msgspec.Struct, frozen=True):
    """Whether there was anything to cancel; everything of it is gone."""

    was_running: bool


class Subscribe(msgspec.Struct, frozen=True, kw_only=True):
    """Hear a session: all events on record behind `after_seq`, then what is under way, then live.

    Without `after_seq`, from now on; it counts in the store of `epoch`, or in the one that there is.
    """

    session_id: Word
    after_seq: WireInteger | None = None
    epoch: Word | None = None


class Subscribed(msgspec.Struct, frozen=True):
    """`seq` is the last event on record by now."""

    seq: int


class NamedSessions(msgspec.Struct, frozen=True):
    """Sessions by their ids, to do something with."""

    session_ids: Words


class SomeSessions(msgspec.Struct, frozen=True):
    """Sessions by their ids, with all below those that were named."""

    session_ids: tuple[str, ...]


class Rename(msgspec.Struct, frozen=True):
    """A title that a person gives; no model replaces it."""

    session_id: Word
    title: Line


class SetAgent(msgspec.Struct, frozen=True):
    """The agent whose configuration holds from the next turns of these sessions on."""

    session_ids: Words
    agent: Word


class FindWords(msgspec.Struct, frozen=True, kw_only=True):
    """Words of which each is in one message; no other sign counts."""

    query: Line
    limit: WireInteger = 20


class Hits(msgspec.Struct, frozen=True):
    """Sessions in which words were found, the best first."""

    hits: list[Hit]


class CancelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool runs, to be cancelled alone: its turn goes on."""

    session_id: Word
    call_id: Word


class GetUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What makes one sum, of one session or of all, since a time in Unix milliseconds."""

    by: Literal["call", "turn", "session", "agent", "model", "day"] = "session"
    session_id: Word | None = None
    since_ms: WireInteger = 0


class SetBudget(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole session may use from its next turn on; without a budget, no limit of its own."""

    session_id: Word
    budget: Budget | None = None


class ExportSession(msgspec.Struct, frozen=True, kw_only=True):
    """The next lines of a session's events, behind an event and so many characters of the next line."""

    session_id: Word
    after_seq: WireInteger = 0
    offset: WireInteger = 0


class ExportedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of events, the last of them perhaps in part; `after_seq` and `offset` are where it ends.

    `head_seq` is the last event by now, and `session_ids` are the session and all below it: each has
    pages of its own, and the head of the file counts all their events.
    """

    session_ids: tuple[str, ...]
    head_seq: int
    text: str
    after_seq: int
    offset: int


class ImportSessions(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file of sessions; `upload_id` is a word of the client's for all its parts.

    Parts count from 0; with the last one the sessions are stored, all or none, and work in
    `workspace`, or in a folder of their own.
    """

    upload_id: Word
    part: WireInteger
    text: FileText
    is_last: bool = False
    workspace: Line | None = None


class ImportedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes of the file have come; behind the last part, the id of its first session."""

    received_bytes: int
    session_id: str | None = None
