"""Durable events of a session's channel: questions to people, their answers, messages."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..text import StoredInteger
from .durable import Event

FieldKind = Literal["text", "integer", "number", "yes_no", "choice", "choices"]
FormValue = str | bool | StoredInteger | float | tuple[str, ...]


class FormField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field of a form.

    Attributes:
        name: Its name in the answer.
        kind: What its value is; of `choice` and `choices` the value is among `options`.
        title, description: What people read.
        required: Whether there must be a value.
        options, labels: The values of a choice, and what people read of them, where that is something else.
        default: The value when nothing is said.
        form: What a text should look like: `email`, `uri`, `date` or `date-time`.
        least, most: The bounds of a number, of the length of a text, or of how many are chosen.
    """

    name: str
    kind: FieldKind = "text"
    title: str = ""
    description: str = ""
    required: bool = False
    options: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    default: FormValue | None = None
    form: str = ""
    least: float | None = None
    most: float | None = None


class QuestionForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program wants of a person: fields to fill in, or an address to open.

    Attributes:
        fields: The fields; an answer is a JSON object with their values.
        url: The address that the person opens, by themselves; nothing of callboard fetches it.
        asked_by: The program that asks, as the server of a tool.
    """

    fields: tuple[FormField, ...] = ()
    url: str = ""
    asked_by: str = ""


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """A model asks a person, through `ask_user`; or the server of a tool does, while a call runs.

    Attributes:
        options: Suggested answers; any other text is an answer too.
        form: What a server wants; then an answer is one of the options, or a JSON object with its fields.
        expires_at_ms: When the question expires, in Unix milliseconds.
    """

    question_id: str
    turn_id: str
    call_id: str
    question: str
    options: tuple[str, ...] = ()
    expires_at_ms: StoredInteger = 0
    form: QuestionForm | None = None


class QuestionAnswered(Event, frozen=True, kw_only=True, tag="question_answered"):
    """A model's question was answered, or (with `answered_by` empty) ended without an answer."""

    question_id: str
    call_id: str
    answer: str
    answered_by: str = ""


class MessageSent(Event, frozen=True, kw_only=True, tag="message_sent"):
    """A model sent a message to the people of the session's channel, with the tool `message`.

    `child_id` is the session that sent it, if that is a branch of this one; `call_id` is its call.
    """

    call_id: str
    text: str
    channel: str
    child_id: str = ""


class ChildAsks(Event, frozen=True, kw_only=True, tag="child_asks"):
    """A session below this one has a question for this session's people.

    `question_id` is the approval, or the question of `ask_user`, which is on record in the child.
    """

    question_id: str
    child_id: str
    call_id: str
    name: str
