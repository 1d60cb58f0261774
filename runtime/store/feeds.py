"""Topics: feeds of the events that concern more than their own session."""

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
    """A feed of certain events of all sessions.

    `approvals` has questions to people, their answers and grants; `sessions` has what changes a list of
    sessions; `runtime` has the other events that concern more than one session.
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
    """A `Stored` event that is not decoded."""

    session_id: str
    seq: int
    at_ms: int
    event: msgspec.Raw


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """An event of a topic; `agent` is its session's present agent.

    `seq` counts the events of all topics, with gaps.
    """

    seq: int
    topic: Topic
    agent: str
    stored: StoredBytes


class DoneRequest(msgspec.Struct, frozen=True):
    """A request with an idempotency key that was done: its event, and a digest of its parameters."""

    digest: str
    session_id: str
    seq: int
