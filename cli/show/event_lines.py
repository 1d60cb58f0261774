"""One line for each event about permissions, between sessions, and of trouble with models."""

from __future__ import annotations

from typing import assert_never

from ...runtime.definitions import InputSource
from ...runtime.event_types.calls import CallDeferred, ToolGivenUp
from ...runtime.event_types.memories import MemoryForgotten
from ...runtime.event_types.people import ChildAsks, MessageSent, QuestionAnswered, QuestionAsked
from ...runtime.event_types.permissions import (
    ApprovalAnswered,
    ApprovalAsked,
    GrantGiven,
    GrantRevoked,
    PrivateDataRead,
    SessionTainted,
)
from ...runtime.event_types.plan import PlanSet, progress_of
from ...runtime.event_types.undo import ChangesUndone
from ...runtime.events import (
    AgentSwitched,
    AnswerRejected,
    AttemptFailed,
    HistoryCompacted,
    InputAccepted,
    ModelSwitched,
    ProviderSetAside,
    TurnResumed,
    TurnSetAside,
    TurnSuspended,
)
from ..hints import command_line
from ..terminal.style import counted, seconds
from .question_text import coverage

LineEvent = (
    ApprovalAsked
    | ApprovalAnswered
    | CallDeferred
    | ChangesUndone
    | ChildAsks
    | GrantGiven
    | GrantRevoked
    | InputAccepted
    | MemoryForgotten
    | MessageSent
    | PlanSet
    | PrivateDataRead
    | QuestionAnswered
    | QuestionAsked
    | SessionTainted
    | ToolGivenUp
    | TurnResumed
    | TurnSetAside
    | TurnSuspended
)

_SCOPES = {
    "turn": "for this turn",
    "session": "for this session",
    "agent": "for this agent",
    "always": "always",
}
_DECISIONS = {
    "allow": "allowed",
    "deny": "denied",
    "expired": "not answered in time",
    "revised": "changed to a call that is asked about itself",
    "withdrawn": "no longer asked",
}


def event_line(event: LineEvent) -> str:  # ruff: ignore[complex-structure]  one case a kind
    """Return the line for an event, of whatever length; it holds foreign text."""
    match event:
        case ApprovalAsked():
            where = f", put in {event.asked_in}" if event.asked_in else ""
            same = f", as {event.same_as}" if event.same_as else ""
            return f"question {event.approval_id}{where}{same} (tier {event.tier}): {event.reason}"
        case ApprovalAnswered():
            changed = f", with {event.arguments}" if event.arguments is not None else ""
            return answer_line(event) + changed
        case GrantGiven():
            verdict = "allowed" if event.verdict == "allow" else "not asked about, denied"
            covered = coverage(event.tool, event.binding)
            scope = _SCOPES.get(event.scope, event.scope)
            return f"remembered as {event.grant_id}: {verdict} {scope}: {covered}"
        case GrantRevoked():
            return f"{event.grant_id} holds no longer (revoked by {event.revoked_by})"
        case CallDeferred():
            return waits(event)
        case SessionTainted(source=source):
            whose = (
                "; [workspaces] trust says whose files are yours"
                if source.startswith("file ")
                else ""
            )
            return f"{source} may hold words of others: from now on less runs without a question{whose}"
        case PrivateDataRead(source=source):
            return f"the session has read private data, by {source}"
        case ToolGivenUp():
            where = f" in {event.child_id}" if event.child_id else ""
            answers = counted(event.attempts, "answer")
            return f"{event.name} is given up{where} after {answers}: {event.message}"
        case TurnSuspended():
            return f"the turn waits for people: {counted(len(event.call_ids), 'call')} open"
        case TurnResumed():
            count = len(event.approval_ids)  # without those of its branches
            return "the turn goes on" + (f"; {counted(count, 'question')} open" if count else "")
        case TurnSetAside(why=why):
            what = "is tried again" if why == "retry" else "is answered again"
            return f"the turn {what}: what came of it before is set aside, and nothing is undone"
        case InputAccepted(source=InputSource.DEFERRED):
            return f"late result of {event.call_id}: {event.text}"
        case InputAccepted(source=InputSource.DELEGATE):
            return f"answer of {event.child_id}: {event.text}"
        case InputAccepted():
            return f"input: {event.text}"
        case PlanSet(items=items):
            return f"plan: {progress_of(items)}"
        case ChangesUndone():
            left = f", {counted(event.left, 'path')} left as they are" if event.left else ""
            done = f"{counted(event.paths, 'path')} put back{left}"
            return f"{event.undo_id}: {done} (undone by {event.undone_by})"
        case MemoryForgotten():
            return f"{event.memory_id} is forgotten (by {event.forgotten_by})"
        case ChildAsks():
            return f"{event.child_id} asks about {event.name} ({event.question_id})"
        case QuestionAsked():
            options = f" ({' / '.join(event.options)})" if event.options else ""
            return f"the model asks: {event.question}{options}"
        case QuestionAnswered(answered_by=""):
            return "nobody answered"
        case QuestionAnswered():
            return f"{event.answered_by} answers: {event.answer}"
        case MessageSent():
            who = f" of {event.child_id}" if event.child_id else ""
            return f"message{who} to {event.channel}: {event.text}"
        case _:
            assert_never(event)


def waits(deferred: CallDeferred) -> str:
    """Return what to do about a call that waits while its turn goes on."""
    command = command_line(f"callboard approve {deferred.approval_id}")
    return f"{deferred.name} waits for an answer: {command}"


def answer_line(answered: ApprovalAnswered) -> str:
    """Return who decided what about a call, for how long and why."""
    who = f" by {answered.answered_by}" if answered.answered_by else ""
    lasting = f" {_SCOPES.get(answered.remember, answered.remember)}" if answered.remember else ""
    reason = f": {answered.reason}" if answered.reason else ""
    if answered.decision == "void":
        return f"allowed, and not started{reason}; if it comes to that, it is asked again"
    decision = _DECISIONS.get(answered.decision, answered.decision)
    return f"{decision}{lasting}{who}{reason}"


TroubleEvent = (
    AgentSwitched
    | AttemptFailed
    | ModelSwitched
    | ProviderSetAside
    | HistoryCompacted
    | AnswerRejected
)


def trouble_line(event: TroubleEvent) -> str:
    """Return the line for an event; it holds foreign text."""
    match event:
        case AttemptFailed():
            wait = seconds(round(event.wait_seconds * 1000))
            return (
                f"{event.provider}: {event.message} Again in {wait} (attempt {event.attempt + 1})."
            )
        case AgentSwitched():
            why = f": {event.reason}" if event.reason else ""
            return f"goes on with the agent {event.agent}{why}"
        case ModelSwitched():
            return f"switched to {event.provider}/{event.model}: {event.reason}"
        case ProviderSetAside():
            wait = seconds(round(event.seconds * 1000))
            return f"{event.provider} is set aside for {wait}: {event.reason}"
        case AnswerRejected():
            return f"the answer was not taken: {event.problem}"
        case HistoryCompacted():
            rounds = counted(event.rounds, "round")
            if event.why_left_out:
                return (
                    f"the history was too long for {event.provider}/{event.model}: its first {rounds} "
                    f"are left out without a summary ({event.why_left_out.rstrip('.')})"
                )
            said = f"a summary stands for its first {rounds}"
            if event.is_wanted:
                return f"{event.provider}/{event.model} summed up the history: {said}"
            return f"the history was too long for {event.provider}/{event.model}: {said}"
        case _:
            assert_never(event)
