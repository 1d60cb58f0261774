"""What happens in a world: who does what and when, and what fails. All of it is drawn from the seed."""

from __future__ import annotations

from typing import Literal

import msgspec

from simulation.edges import chance

Kind = Literal[
    "create", "prompt", "steer", "interrupt", "cancel", "cancel_call", "retry", "delete", "restore",
    "purge", "switch_agent", "budget", "revoke", "copy", "list", "undo", "reload", "leave", "cut", "stop",
    "full", "break", "drain", "kill", "kill_at_commit",
]  # fmt: skip
WEIGHTS: dict[Kind, float] = {
    "prompt": 20, "steer": 4, "interrupt": 3, "cancel": 3, "cancel_call": 2, "retry": 2,
    "delete": 1, "restore": 1, "purge": 0.5, "switch_agent": 1, "budget": 1, "revoke": 1, "copy": 0.5,
    "list": 1, "undo": 1.5, "reload": 1.5, "leave": 1, "cut": 3, "stop": 1, "full": 1, "break": 0.7, "drain": 1.5,
    "kill": 1.5, "kill_at_commit": 2.5,
}  # fmt: skip

MAX_SESSIONS = 4
MAX_CLIENTS = 3
MAX_ACTIONS = 20
GAPS = (0.0, 0.0, 0.01, 0.2, 1.0, 5.0, 30.0)
"""Seconds between one action and the next."""
KILLED_BEHIND = (
    "ApprovalAsked", "ApprovalAnswered", "CallStarted", "CallFinished", "CallDeferred", "TurnSuspended",
    "TurnEnded",
)  # fmt: skip
"""A kill waits for a commit with an event of this kind, or for the n-th from now."""
OUTBOXES = (4096, 16 * 1024, 4 * 1024 * 1024)
AGENTS = ("general", "careful", "free", "patient", "bounded")


class Action(msgspec.Struct, frozen=True):
    """One thing that somebody does, or that fails.

    Attributes:
        at: Seconds since the world began.
        client: Who does it.
        session: To which session; they are counted from 0 in the order of the plan.
        text: The input, or the agent, or the event behind which somebody dies.
        number: How long, or which.
    """

    at: float
    kind: Kind
    client: int = 0
    session: int = 0
    text: str = ""
    number: float = 0.0


class Plan(msgspec.Struct, frozen=True):
    """One world.

    Attributes:
        roughness: How often the network delays and splits.
        outbox_bytes: What the daemon holds for a client before it has fallen behind.
    """

    seed: int
    clients: int
    roughness: float
    outbox_bytes: int
    actions: tuple[Action, ...]


def draw_plan(seed: int) -> Plan:
    """Draw the world of a seed."""
    random = chance(seed, "plan")
    clients = random.randint(1, MAX_CLIENTS)
    sessions = random.randint(1, MAX_SESSIONS)
    actions = [
        Action(
            0.0,
            "create",
            random.randrange(clients),
            each,
            random.choice(AGENTS),
            number=random.choice((0, 1, 1)),  # a workspace of its own, or that of all
        )
        for each in range(sessions)
    ]
    at = 0.0
    for number in range(random.randint(5, MAX_ACTIONS)):
        at += random.choice(GAPS)
        [kind] = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        client, session = random.randrange(clients), random.randrange(sessions)
        size = random.choice((0.5, 5.0, 40.0))
        if kind in {"kill_at_commit", "break"}:
            size = random.randint(1, 12) + random.choice((0.0, 0.5))
        text = random.choice(AGENTS) if kind == "switch_agent" else f"p{number}"
        if kind == "kill_at_commit":
            text = random.choice(("", *KILLED_BEHIND))
        actions.append(Action(at, kind, client, session, text, size))
    roughness, outbox_bytes = random.choice((0.0, 0.1, 0.5)), random.choice(OUTBOXES)
    return Plan(seed, clients, roughness, outbox_bytes, tuple(actions))
