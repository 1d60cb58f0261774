"""What happens in a world: who does what and when, and what fails. All of it is drawn from the seed."""

from __future__ import annotations

from typing import Literal

import msgspec

from simulation.edges import chance

Kind = Literal[
    "create", "prompt", "steer", "interrupt", "cancel", "cut", "stop", "kill", "kill_at_commit",
]  # fmt: skip

MAX_SESSIONS = 4
MAX_CLIENTS = 3
MAX_ACTIONS = 20
GAPS = (0.0, 0.0, 0.01, 0.2, 1.0, 5.0, 30.0)
"""Seconds between one action and the next."""
AGENTS = ("general", "careful", "free", "patient")


class Action(msgspec.Struct, frozen=True):
    """One thing that somebody does.

    Attributes:
        at: Seconds since the world began.
        client: Who does it.
        session: To which session; they are counted from 0 in the order of the plan.
        text: The input, or the agent.
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
    """

    seed: int
    clients: int
    roughness: float
    actions: tuple[Action, ...]


def draw_plan(seed: int) -> Plan:
    """Draw the world of a seed."""
    random = chance(seed, "plan")
    clients = random.randint(1, MAX_CLIENTS)
    sessions = random.randint(1, MAX_SESSIONS)
    actions = [
        Action(0.0, "create", random.randrange(clients), each, random.choice(AGENTS))
        for each in range(sessions)
    ]
    at = 0.0
    kinds = _kinds(random)
    for number in range(random.randint(5, MAX_ACTIONS)):
        at += random.choice(GAPS)
        kind = random.choices(list(kinds), list(kinds.values()))[0]
        seconds = random.choice((0.5, 5.0, 40.0))
        client, session = random.randrange(clients), random.randrange(sessions)
        size = float(random.randint(1, 12)) if kind == "kill_at_commit" else seconds
        actions.append(Action(at, kind, client, session, f"p{number}", size))
    return Plan(seed, clients, random.choice((0.0, 0.1, 0.5)), tuple(actions))


def _kinds(random: object) -> dict[Kind, float]:
    return {
        "prompt": 10, "steer": 3, "interrupt": 2, "cancel": 2,
        "cut": 2, "stop": 1, "kill": 1, "kill_at_commit": 1,
    }  # fmt: skip
