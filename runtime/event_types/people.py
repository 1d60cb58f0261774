"""What is said to people, and by them, on the channel of a session."""

from __future__ import annotations

from ..text import StoredInteger
from .durable import Event


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """A model asks a person, through `ask_user`.

    Attributes:
        question_id: Names the question.
        options: Answers to choose from; a free text is an answer too.
        expires_at_ms: When nobody is waited for any more, in Unix milliseconds.
    """

    question_id: str
    turn_id: str
    call_id: str
    question: str
    options: tuple[str, ...] = ()
    expires_at_ms: StoredInteger = 0


class QuestionAnswered(Event, frozen=True, kw_only=True, tag="question_answered"):
    """A model's question has its answer, or (with `answered_by` empty) will have none."""

    question_id: str
    call_id: str
    answer: str
    answered_by: str = ""


class MessageSent(Event, frozen=True, kw_only=True, tag="message_sent"):
    """A model says something to the people of the session's channel, through `message`.

    `child_id` is the session that says it, when it is a branch of this one; `call_id` is its call.
    """

    call_id: str
    text: str
    channel: str
    child_id: str = ""


class ChildAsks(Event, frozen=True, kw_only=True, tag="child_asks"):
    """A session that this one delegated to, or one below that, has a question for its people.

    Attributes:
        question_id: The approval, or the question of `ask_user`; it is on record in the child.
        child_id: The session that asks.
        call_id: Its call.
        name: The tool.
    """

    question_id: str
    child_id: str
    call_id: str
    name: str
