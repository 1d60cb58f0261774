"""Events that change little in the tables, or nothing: what the projection looks at last."""

from __future__ import annotations

from .events import (
    AgentSwitched,
    AttemptCharged,
    AttemptFailed,
    CallDeferred,
    ChangesUndone,
    ChildAsks,
    FilesMarked,
    HistoryCompacted,
    InputCancelled,
    InputDelivered,
    MessageSent,
    ModelSwitched,
    PlanSet,
    PrivateDataRead,
    ProviderSetAside,
    QuestionAnswered,
    QuestionAsked,
    SessionBudgetSet,
    SessionCreated,
    SessionDeleted,
    SessionPurged,
    SessionRestored,
    ToolGivenUp,
    TurnSetAside,
)

Ignored = (
    ChangesUndone
    | ChildAsks
    | MessageSent
    | PlanSet
    | ProviderSetAside
    | QuestionAnswered
    | QuestionAsked
    | SessionCreated
    | SessionPurged
    | ToolGivenUp
)
"""What changes no row: `create` did the creation, and a purge leaves none."""

Rare = (
    AgentSwitched
    | AttemptCharged
    | AttemptFailed
    | CallDeferred
    | FilesMarked
    | HistoryCompacted
    | InputCancelled
    | InputDelivered
    | ModelSwitched
    | PrivateDataRead
    | SessionBudgetSet
    | SessionDeleted
    | SessionRestored
    | TurnSetAside
    | Ignored
)
"""What happens once in a while."""
