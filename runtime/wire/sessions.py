"""`session/…` on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ..budget import Budget
from ..definitions import InputMode, SessionKind
from ..identity import TraceContext
from ..store.lists import Hit
from ..store.rows import MessageRow
from ..text import WireInteger
from ..turn_options import TurnOptions
from .fields import Attachments, FileText, Line, ModelName, PromptText, Word, Words


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session to create; `workspace` is a folder below one of the daemon's roots."""

    agent: Word = "general"
    workspace: Line | None = None
    title: Line = ""
    model: ModelName | None = None
    budget: Budget | None = None


class ListSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list.

    `before` is the `next_before` of the previous page; `kind` what they are in the session tree; `via` what began
    them (a protocol, `schedule` or `hook`; empty for callboard's own clients); `workspace` the folder that they work in;
    `query` a text in title, preview or id; `deleted` leaves deleted sessions out, includes them, or lists them alone.
    """

    limit: WireInteger = 100
    before: WireInteger | None = None
    agent: Word | None = None
    kind: SessionKind | None = None
    via: Line | None = None
    workspace: Line | None = None
    query: Line = ""
    deleted: Literal["no", "also", "only"] = "no"
    include_children: bool = True


class OneSession(msgspec.Struct, frozen=True):
    """A session by its id."""

    session_id: Word


class Messages(msgspec.Struct, frozen=True):
    """A page of messages, in the order asked for; with `has_more`, more follow behind the last one.

    A page ends at `limit`, or at a size. The next one is `after` the last one's position, or `before` it
    with `latest_first`.
    """

    messages: list[MessageRow]
    has_more: bool = False


class ListMessages(msgspec.Struct, frozen=True):
    """Messages of a session between two positions, in order, or from the end with `latest_first`.

    With `from_message`, the page begins with that message, wherever in the session it stands.
    """

    session_id: Word
    after: WireInteger = 0
    before: WireInteger | None = None
    latest_first: bool = False
    limit: WireInteger = 100
    from_message: Word | None = None


class GetAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a message, by its place in the message's `files`, from 0; and the byte to begin with."""

    session_id: Word
    message_id: Word
    number: WireInteger = 0
    offset: WireInteger = 0


class AttachmentPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file, as base64 in JSON; it has all when it ends at `size_bytes`."""

    name: str
    media_type: str
    size_bytes: int
    data: bytes


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """An input for a session; `mode` says what it does while a turn runs.

    `options` are for its turn. A preset that asks less than the agent's needs the role `admin`. With
    `is_untrusted`, strangers may have written the text, which taints the session. `trace` says where the sender
    stands in a trace of its own.
    """

    session_id: Word
    content: PromptText
    attachments: Attachments = ()
    budget: Budget | None = None
    mode: InputMode = InputMode.QUEUE
    options: TurnOptions | None = None
    is_untrusted: bool = False
    trace: TraceContext | None = None


class Ticket(msgspec.Struct, frozen=True):
    """A stored input: its id, its event `seq`, and the turn that it began.

    Without a turn it waits; `turn_started` or `input_delivered` will name it.
    """

    input_id: str
    seq: int
    turn_id: str | None = None


class RunAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Run the last turn of a session again; with `message_id`, only if that is one of its messages."""

    session_id: Word
    message_id: Word | None = None


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """Make a session that goes on from a message of another one; without `message_id`, from its last turn.

    It has what was said up to an answer, a call or a result and what belongs to it; or up to an input, so that
    something else can be asked in its place.
    """

    session_id: Word
    message_id: Word | None = None
    title: Line = ""


class DeleteMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Delete messages of a session; of a call, its result goes with it, and the other way round."""

    session_id: Word
    message_ids: Words


class DeletedMessages(msgspec.Struct, frozen=True):
    """The messages that were deleted."""

    message_ids: tuple[str, ...]


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """What to cancel: the running turn, or the turn of one input, even if it waits."""

    session_id: Word
    reason: Line = "cancelled by a client"
    input_id: Word | None = None


class Cancelled(msgspec.Struct, frozen=True):
    """Whether there was something to cancel; it has ended completely."""

    was_running: bool


class Subscribe(msgspec.Struct, frozen=True, kw_only=True):
    """Subscribe to a session: stored events after `after_seq`, then the live state, then live events.

    Without `after_seq`, only new events. It is of the store with `epoch`, or of the present store.
    """

    session_id: Word
    after_seq: WireInteger | None = None
    epoch: Word | None = None


class Subscribed(msgspec.Struct, frozen=True):
    """`seq` is the last stored event now; without `after_seq`, `waiting` are the inputs that have no turn yet."""

    seq: int
    waiting: tuple[str, ...] = ()


class NamedSessions(msgspec.Struct, frozen=True):
    """The sessions that a request is about."""

    session_ids: Words


class SomeSessions(msgspec.Struct, frozen=True):
    """The sessions that a request has changed: the named ones and all below them."""

    session_ids: tuple[str, ...]


class Rename(msgspec.Struct, frozen=True):
    """A title given by a person; models never replace it."""

    session_id: Word
    title: Line


class SetAgent(msgspec.Struct, frozen=True):
    """The agent that these sessions have from their next turns on."""

    session_ids: Words
    agent: Word


class FindWords(msgspec.Struct, frozen=True, kw_only=True):
    """Words that must all be in one message; other characters are ignored.

    In the session `session_id` every message with the words is found, the latest first. Otherwise `agent`, `kind`, `via`,
    `workspace` and `include_children` say in which sessions, as in `session/list`.
    """

    query: Line
    limit: WireInteger = 20
    session_id: Word | None = None
    agent: Word | None = None
    kind: SessionKind | None = None
    via: Line | None = None
    workspace: Line | None = None
    include_children: bool = True


class Hits(msgspec.Struct, frozen=True):
    """Sessions in which words were found, the best first; of one session, its messages, the latest first."""

    hits: list[Hit]


class CancelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A running call to cancel while its turn continues."""

    session_id: Word
    call_id: Word


class GetUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How to group the sums, of one session or of all, since a time in Unix milliseconds."""

    by: Literal["call", "turn", "session", "agent", "model", "day"] = "session"
    session_id: Word | None = None
    since_ms: WireInteger = 0


MAX_LEFT = 1000
"""Inputs that a command takes up: more than wait in a session, which has 256 at most, and a turn."""


class GiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the inputs that a command sends to a session, and of all that comes of them.

    Attributes:
        has_people: Whether questions wait for clients; otherwise, what asks is denied.
        left: Inputs on record that the command takes up: its people answer for them, too, and they have its options as far as
            these ask no less.
        is_for_left: Whether the options are for those: it sends no other input.
    """

    session_id: Word
    options: TurnOptions
    has_people: bool = True
    left: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_LEFT)] = ()
    is_for_left: bool = False


class SetBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The budget of a whole session from its next turn on; `None` removes its own limit."""

    session_id: Word
    budget: Budget | None = None


class ExportSession(msgspec.Struct, frozen=True, kw_only=True):
    """Where to continue an export: after an event, and a number of characters of the next line."""

    session_id: Word
    after_seq: WireInteger = 0
    offset: WireInteger = 0


class ExportedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of events, the last perhaps in part; `after_seq` and `offset` say where the page ends.

    `head_seq` is the last event now. `session_ids` are the session and all below it: each has pages of
    its own, and the head of the file counts all their events.
    """

    session_ids: tuple[str, ...]
    head_seq: int
    text: str
    after_seq: int
    offset: int


class ImportSessions(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file of sessions; the client chooses one `upload_id` for all its parts.

    Parts count from 0. With the last part the sessions are stored, all or none. They work in `workspace`,
    or in a folder of their own.
    """

    upload_id: Word
    part: WireInteger
    text: FileText
    is_last: bool = False
    workspace: Line | None = None


class ImportedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes were received; after the last part, the id of the first session."""

    received_bytes: int
    session_id: str | None = None
