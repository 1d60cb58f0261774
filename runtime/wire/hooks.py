"""Hooks on the wire: what other systems begin here, and what they are told."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .fields import MAX_ITEMS, Line, Word

HookDirection = Literal["in", "out"]


class HookRow(msgspec.Struct, frozen=True, kw_only=True):
    """A hook, or a webhook, in a list; never its secret.

    Attributes:
        direction: `in` for one of `[hooks]`, `out` for one of `[webhooks]`.
        place: The path that deliveries are posted to, or the host of a webhook: its URL may be a secret.
        has_secret: Whether one is stored. Without it a hook lets nothing in, and a webhook is not signed.
        signature, agent, session, max_per_minute: Of a hook.
        events: What a webhook is told of.
        waiting, dead: Notices to a webhook that are under way, and that nobody took.
        problem: Why nothing is let in, or told, if that is so.
    """

    name: str
    direction: HookDirection
    place: str
    has_secret: bool
    paused: bool = False
    signature: str = ""
    agent: str = ""
    session: str = ""
    max_per_minute: int = 0
    events: tuple[str, ...] = ()
    waiting: int = 0
    dead: int = 0
    problem: str = ""


class HookList(msgspec.Struct, frozen=True):
    """The hooks, then the webhooks, by name."""

    hooks: list[HookRow]


class OneHook(msgspec.Struct, frozen=True):
    """A webhook by its name."""

    name: Word


class HookTested(msgspec.Struct, frozen=True):
    """What came of a test; without a problem, the webhook took it."""

    problem: str = ""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A notice that no attempt delivered.

    Attributes:
        name: What it is called here, as `WEBHOOK/ID`.
        webhook: Whom it was for.
        type: `question_waits` or `turn_ended`.
        session_id: What it is about.
        at_ms: When it happened, in Unix milliseconds.
        attempts: How often it was sent.
        problem: Why the last attempt failed.
    """

    name: str
    webhook: str
    type: str
    session_id: str
    at_ms: int
    attempts: int
    problem: str


class DeadLetterList(msgspec.Struct, frozen=True):
    """Dead letters, the oldest first."""

    letters: list[DeadLetter]


class Resend(msgspec.Struct, frozen=True):
    """Dead letters to send again, by their names; none are all."""

    names: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_ITEMS)] = ()


class Resent(msgspec.Struct, frozen=True):
    """How many were taken, and the letters that are dead still."""

    sent: int
    letters: list[DeadLetter]
