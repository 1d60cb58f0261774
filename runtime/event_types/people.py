"""Durable events of a session's channel: questions to people, their answers, messages."""

from __future__ import annotations

from ..text import StoredInteger
from .durable import Event


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """A model asks a person, through `ask_user`.

    Attributes:
        options: Suggested answers; any other text is an answer too.
        expires_at_ms: When the question expires, in Unix milliseconds.
    """

    question_id: str
    turn_id: str
    call_id: str
    question: str
    options: tuple[str, ...] = ()
    expires_at_ms: StoredInteger = 0


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
