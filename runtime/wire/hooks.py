"""Hooks on the wire: what other systems begin here, and what they are told."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ..budget import Budget
from ..definitions import GENERAL_AGENT
from ..errors import ValidationError
from ..hooks.hook import MAX_PER_MINUTE, MAX_PROMPT_CHARS, Hook, SignatureForm
from ..text import WireInteger
from ..turn_options import SessionChoice, Unattended
from .fields import MAX_ITEMS, Line, Word

HookDirection = Literal["in", "out"]
HookSource = Literal["callboard.toml", "managed"]
"""Where a hook comes from, and so where it is changed: managed ones by programs and commands."""


class HookRow(msgspec.Struct, frozen=True, kw_only=True):
    """A hook, or a webhook, in a list; never its secret.

    Attributes:
        direction: `in` for one of `[hooks]`, `out` for one of `[webhooks]`.
        place: The path that deliveries are posted to, or host and port of a webhook: its URL may be a secret.
        has_secret: Whether one is stored. Without it a hook lets nothing in, and a webhook is not signed.
        signature, agent, session, max_per_minute, prompt, workspace, unattended, budget: Of a hook.
        events: What a webhook is told of.
        waiting, dead: Notices to a webhook that are under way, and that nobody took.
        problem: Why nothing is let in, or told, if that is so; of a webhook also why it did not take the last one.
        source: Where it comes from.
        created_at_ms, updated_at_ms: When a program or command made and last changed it.
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
    prompt: str = ""
    workspace: str | None = None
    unattended: Unattended | None = None
    budget: Budget | None = None
    source: HookSource = "callboard.toml"
    created_at_ms: int | None = None
    updated_at_ms: int | None = None


class HookList(msgspec.Struct, frozen=True):
    """The hooks, then the webhooks, by name."""

    hooks: list[HookRow]


class OneHook(msgspec.Struct, frozen=True):
    """A hook or a webhook by its name."""

    name: Word


class HookDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook to make, or what one becomes; `callboard.Hook` explains the fields.

    An `updated_at_ms` says which state was changed: when there is a later one by now, nothing is.
    """

    name: Word
    prompt: Annotated[str, msgspec.Meta(max_length=MAX_PROMPT_CHARS)]
    signature: SignatureForm = "bearer"
    agent: Word = GENERAL_AGENT
    workspace: Line | None = None
    session: SessionChoice = "new"
    unattended: Unattended | None = None
    budget: Budget | None = None
    max_per_minute: Annotated[int, msgspec.Meta(ge=1, le=MAX_PER_MINUTE)] = 30
    paused: bool = False
    updated_at_ms: WireInteger | None = None

    def hook(self) -> Hook:
        """Return the hook; raise `ValidationError`, which names the field."""
        try:
            return Hook(**{field: getattr(self, field) for field in self.__struct_fields__})
        except ValueError as error:  # the check of a field, which it names
            problem = str(error)
            raise ValidationError(
                f"hook.{problem}.", field=f"hook.{problem.partition(':')[0]}"
            ) from None


class NewHook(msgspec.Struct, frozen=True):
    """A hook to make."""

    hook: HookDraft


class ChangedHook(msgspec.Struct, frozen=True):
    """What a hook becomes; its name says which."""

    hook: HookDraft


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
    """What became of dead letters.

    Attributes:
        sent: How many were taken.
        letters: Those that are dead still.
        hurried: How many others waited for their next attempt, and have it now.
    """

    sent: int
    letters: list[DeadLetter]
    hurried: int = 0


def hook_of_row(row: HookRow) -> Hook:
    """Return the hook of a row."""
    return msgspec.convert({name: getattr(row, name) for name in Hook.__struct_fields__}, Hook)


def hook_draft(hook: Hook) -> HookDraft:
    """Return a hook as a client sends it."""
    return HookDraft(**{name: getattr(hook, name) for name in HookDraft.__struct_fields__})
