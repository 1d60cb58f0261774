"""A hook: what another system may begin here by a POST, or where a POST tells it what happened here."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from ..budget import Budget
from ..definitions import GENERAL_AGENT
from ..turn_options import SessionChoice, Unattended

MAX_PROMPT_CHARS = 64 * 1024
"""A prompt of a hook stands in a file of settings, which has room for a dozen such; more is for a file."""
MAX_PER_MINUTE = 6000
"""Each delivery is a turn of a model: more than a hundred a second is a typing mistake."""
MAX_BODY_BYTES = 1024 * 1024
"""The body of a delivery: those of GitHub and Stripe have some kilobytes, and a model reads the whole of it."""
SECRET_PLACE = "hooks"
"""The place of the secrets of hooks in the store of keys, where a provider's key has its origin."""

EVENT, DELIVERY = "{event}", "{delivery}"
"""What stands in a prompt for what a sender says."""

SignatureForm: TypeAlias = Literal["github", "stripe", "standard", "bearer"]


class Hook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What another system begins by `POST /hooks/NAME`, each delivery an input of a session.

    Its secret is in the store of keys: `callboard keys set hook:NAME`. Without one, nothing is let in.

    Attributes:
        name: Unique.
        prompt: What is asked. `{event}` and `{delivery}` stand for what the sender says of them; the body of
            the delivery is attached.
        signature: How a delivery proves where it comes from: as GitHub's, as Stripe's, by Standard
            Webhooks, or by the secret itself as a bearer token.
        agent: The agent whose tools, model and rules it has.
        workspace: The absolute path of the folder that its sessions work in; without it, as a new session's.
        session: Whether each delivery has a new session, or all have the same.
        unattended: What becomes of calls that need a person: they are denied, or wait for an answer while the
            turn goes on. `None` is as the agent: one with `defer` defers, any other denies.
        budget: The most that each delivery may use.
        max_per_minute: Deliveries that are let in within a minute. 30: a busy repository's.
        paused: Whether nothing is let in.
        created_at_ms, updated_at_ms: When a program or a command made and last changed it, in Unix
            milliseconds; `None` for one of callboard.toml.

    Example:
        hook = callboard.Hook(name="ci", prompt="The build {event} ended. Say what broke.")
        print(hook.text("failed", ""))
    """

    name: str
    prompt: Annotated[str, msgspec.Meta(max_length=MAX_PROMPT_CHARS)]
    signature: SignatureForm = "bearer"
    agent: str = GENERAL_AGENT
    workspace: str | None = None
    session: SessionChoice = "new"
    unattended: Unattended | None = None
    budget: Budget | None = None
    max_per_minute: Annotated[int, msgspec.Meta(ge=1, le=MAX_PER_MINUTE)] = 30
    paused: bool = False
    created_at_ms: int | None = None
    updated_at_ms: int | None = None

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("prompt: it is empty; say what is asked")
        if self.workspace is not None and not self.workspace.startswith("/"):
            raise ValueError(f"workspace: {self.workspace[:200]!r} is not an absolute path")

    def text(self, event: str, delivery: str) -> str:
        """Return the prompt of a delivery."""
        return self.prompt.replace(EVENT, event or "?").replace(DELIVERY, delivery or "?")


NOTIFY = "notify"
"""The name of the webhook of `[notify]`, which hears of questions."""


def webhook_key_name(name: str) -> str:
    """Return the name of the secret that signs what a webhook is sent."""
    return f"webhook:{name}"


def key_name(name: str) -> str:
    """Return the name of a hook's secret in the store of keys; no provider's name has a colon."""
    return f"hook:{name}"
