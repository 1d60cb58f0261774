"""What a turn asks people, as interrupts, and what people said, as answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from ...runtime.channel import UserQuestion
from ...runtime.event_types.people import FormField
from ...runtime.events import ApprovalAsked, ChildAsks
from ...runtime.store.rows import ApprovalRow
from ...runtime.wire.approvals import AnswerQuestion, Resolve
from ...runtime.wire.fields import Role
from ..connection.caller import Requester
from ..openai.content import NULL
from ..openai.problems import ApiProblem
from .events import Interrupt
from .run_fold import RunFold, cut
from .run_input import Resume

TOOL_CALL = "tool_call"
INPUT_REQUIRED = "input_required"
"""The reasons that AG-UI itself defines, as front ends know them."""

MAX_PREVIEW_CHARS = 16 * 1024
"""Of what a call would do; the question on record has all of it."""
NO_ANSWER = "(The person did not answer.)"
CANCELLED = "the person called it off"

APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {
            "type": "object",
            "description": "All arguments, in place of the proposed ones.",
        },
        "reason": {"type": "string", "description": "Why not, for the model."},
    },
    "required": ["approved"],
}
"""As AG-UI recommends it for calls whose arguments may be edited."""

KINDS: dict[str, dict[str, Any]] = {
    "yes_no": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "choices": {"type": "array", "items": {"type": "string"}},
}
"""Of the fields of a form; the others are texts."""

Open = ApprovalRow | UserQuestion


class Approved(msgspec.Struct, rename="camel"):
    """The payload of an answer about a call."""

    approved: bool
    edited_args: msgspec.Raw = NULL
    reason: str = ""


async def open_questions(requester: Requester, fold: RunFold) -> dict[str, Open]:
    """Return what a turn waits for that this token may answer, by id, as the record has it."""
    found: dict[str, Open] = {}
    for name in fold.waits_for:
        if (question := await question_of(requester, fold, name)) is not None:
            found[name] = question
        elif requester.credential.role.includes(Role.APPROVER):
            row = await approval(requester, name)
            if row is not None and row.state == "waiting":
                found[name] = row
    return found


async def sees_question(requester: Requester, fold: RunFold, name: str) -> bool:
    """Return whether the token may know what was asked: for one that is limited, other sessions do not exist.

    So one that sees the session of a thread alone is not asked what a session below that asks.
    """
    asked = fold.asked[name]
    if not isinstance(asked, ChildAsks):
        return True
    child = await requester.runtime.store.session(asked.child_id)
    return child is not None and requester.sees(child)


async def question_of(requester: Requester, fold: RunFold, name: str) -> UserQuestion | None:
    """Return a question of a model, or of a server of tools, that has no answer."""
    asked = fold.asked[name]
    if isinstance(asked, ApprovalAsked) or not await sees_question(requester, fold, name):
        return None
    session_id = asked.child_id if isinstance(asked, ChildAsks) else fold.session_id
    for each in await requester.runtime.store.open_questions(session_id):
        its = each.asked
        if its.question_id == name:
            return UserQuestion(
                question_id=name,
                session_id=session_id,
                turn_id=its.turn_id,
                call_id=its.call_id,
                question=its.question,
                options=its.options,
                expires_at_ms=its.expires_at_ms,
                form=its.form,
            )
    return None


async def approval(requester: Requester, approval_id: str) -> ApprovalRow | None:
    """Return a question about a call that this token may know of."""
    rows = await requester.runtime.store.approvals(
        approval_id=approval_id, within=requester.visible
    )
    return next(iter(rows), None)


def interrupt_of(
    name: str, question: Open, *, call_id: str | None, subagent: str | None
) -> Interrupt:
    """Return a question as an interrupt; with a `call_id` that the client knows."""
    if isinstance(question, ApprovalRow):
        return Interrupt(
            id=name,
            reason=TOOL_CALL if call_id else f"callboard:{TOOL_CALL}",
            message=f"{question.tool}: {question.reason}",
            tool_call_id=call_id,
            response_schema=APPROVAL_SCHEMA,
            expires_at=_time(question.expires_at_ms),
            subagent_run_id=None if call_id else subagent,
            metadata={
                "callboard": {
                    "sessionId": question.session_id,
                    "tool": question.tool,
                    "tier": str(question.tier),
                    "arguments": msgspec.Raw(question.arguments.encode()),
                    "preview": cut(question.preview, MAX_PREVIEW_CHARS),
                }
            },
        )
    return Interrupt(
        id=name,
        reason=INPUT_REQUIRED,
        message=question.question,
        tool_call_id=call_id,
        response_schema=_schema(question),
        expires_at=_time(question.expires_at_ms),
        subagent_run_id=None if call_id else subagent,
    )


def approval_answer(said: Resume) -> Resolve:
    """Return an answer about a call; raise `ApiProblem` if it does not fit its schema."""
    if said.status == "cancelled":
        return Resolve(approval_id=said.interrupt_id, decision="deny", reason=CANCELLED)
    try:
        given = msgspec.json.decode(said.payload, type=Approved)
    except msgspec.ValidationError as error:
        why = f"{error}; an answer is an object with approved: true or false"
        raise ApiProblem(why, f"resume of {said.interrupt_id:.100}") from error
    edited = bytes(given.edited_args).decode()
    return Resolve(
        approval_id=said.interrupt_id,
        decision="allow" if given.approved else "deny",
        arguments=edited if given.approved and edited != "null" else None,
        reason=given.reason,
    )


def question_answer(said: Resume, question: UserQuestion) -> AnswerQuestion:
    """Return an answer to a model's question, or to a form; raise `ApiProblem` if there is none in it."""
    if said.status == "cancelled":
        if question.form is not None and question.options:
            return AnswerQuestion(question_id=said.interrupt_id, option=len(question.options) - 1)
        return AnswerQuestion(question_id=said.interrupt_id, text=NO_ANSWER)
    payload: Any = msgspec.json.decode(said.payload)
    match payload:
        case str() as text:
            pass
        case {"answer": str() as text}:
            pass
        case dict() as values if question.form is not None:
            text = msgspec.json.encode(values).decode()
        case _:
            why = "an answer is a text, an object with answer, or the fields that were asked for"
            raise ApiProblem(why, f"resume of {said.interrupt_id:.100}")
    return AnswerQuestion(question_id=said.interrupt_id, text=text)


def _schema(question: UserQuestion) -> dict[str, Any]:
    if question.form is not None and question.form.fields:
        fields = question.form.fields
        return {
            "type": "object",
            "properties": {each.name: _field(each) for each in fields},
            "required": [each.name for each in fields if each.required],
        }
    answer: dict[str, Any] = {"type": "string"}
    if question.options:  # any other text is an answer too, but for an address that is to be opened
        is_closed = question.form is not None
        answer |= {"enum" if is_closed else "examples": list(question.options)}
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def _field(field: FormField) -> dict[str, Any]:
    schema = dict(KINDS.get(field.kind, {"type": "string"}))
    if field.kind == "choice":
        schema["enum"] = list(field.options)
    if field.kind == "choices":
        schema["items"] = {"type": "string", "enum": list(field.options)}
    words = {"title": field.title, "description": field.description, "format": field.form}
    return schema | {name: text for name, text in words.items() if text}


def _time(at_ms: int) -> str | None:
    if not at_ms:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
