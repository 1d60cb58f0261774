"""What happens beside single sessions, by topic: who hears one, hears it of all sessions."""

from __future__ import annotations

import enum

import msgspec

from ..event_types.durable import Event
from ..events import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    GrantGiven,
    GrantRevoked,
    MemoryForgotten,
    MemoryStored,
    ProviderSetAside,
    QuestionAnswered,
    QuestionAsked,
    SessionCreated,
    SessionDeleted,
    SessionPurged,
    SessionRestored,
    TitleSet,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)


class Topic(enum.StrEnum):
    """A part of what happens in all sessions.

    `approvals` are questions to people, their answers and what is remembered of them; `sessions` is
    what changes a list of sessions; `runtime` is the rest that concerns more than one session.
    """

    APPROVALS = "approvals"
    SESSIONS = "sessions"
    RUNTIME = "runtime"


TOPIC_OF: dict[type[Event], Topic] = {
    **dict.fromkeys(
        (
            ApprovalAsked,
            ApprovalAnswered,
            QuestionAsked,
            QuestionAnswered,
            GrantGiven,
            GrantRevoked,
        ),
        Topic.APPROVALS,
    ),
    **dict.fromkeys(
        (
            SessionCreated,
            TitleSet,
            AgentSwitched,
            SessionDeleted,
            SessionRestored,
            SessionPurged,
            TurnSetAside,
            TurnStarted,
            TurnSuspended,
            TurnResumed,
            TurnEnded,
        ),
        Topic.SESSIONS,
    ),
    **dict.fromkeys((ProviderSetAside, MemoryStored, MemoryForgotten), Topic.RUNTIME),
}
"""The topic of each type of event that has one."""


class StoredBytes(msgspec.Struct, frozen=True, gc=False):
    """A durable event as it is kept: `Stored`, whose event nobody has decoded."""

    session_id: str
    seq: int
    at_ms: int
    event: msgspec.Raw


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """An event of a topic. `seq` counts those of all topics, and may have gaps.

    `agent` is whose session it is by now.
    """

    seq: int
    topic: Topic
    agent: str
    stored: StoredBytes


class DoneRequest(msgspec.Struct, frozen=True):
    """A request with a key that was done: its event, and the digest of its parameters."""

    digest: str
    session_id: str
    seq: int
