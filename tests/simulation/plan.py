"""What happens in a world: who does what and when, and what fails. All of it is drawn from the seed."""

from __future__ import annotations

from typing import Literal

import msgspec

from simulation.edges import chance

Kind = Literal[
    "create", "prompt", "steer", "interrupt", "cancel", "cancel_call", "retry", "delete", "restore",
    "purge", "switch_agent", "budget", "revoke", "copy", "list", "undo", "reload", "leave", "cut", "stop",
    "full", "break", "drain", "kill", "kill_at_commit", "fork", "delete_message", "call",
]  # fmt: skip
WEIGHTS: dict[Kind, float] = {
    "prompt": 20, "steer": 4, "interrupt": 3, "cancel": 3, "cancel_call": 2, "retry": 2,
    "delete": 1, "restore": 1, "purge": 0.5, "switch_agent": 1, "budget": 1, "revoke": 1, "copy": 0.5,
    "list": 1, "undo": 1.5, "reload": 1.5, "leave": 1, "cut": 3, "stop": 1, "full": 1, "break": 0.7, "drain": 1.5,
    "kill": 1.5, "kill_at_commit": 2.5,
}  # fmt: skip
IN_SMALL_WORLDS: dict[Kind, float] = {**WEIGHTS, "fork": 1.5, "delete_message": 2, "call": 2}


class Size(msgspec.Struct, frozen=True):
    """How much there is in a world, at most.

    Attributes:
        actions: At least, and at most.
        steps: Answers of a model to an input.
    """

    name: str
    sessions: int
    clients: int
    actions: tuple[int, int]
    steps: int


LARGE = Size("large", sessions=4, clients=3, actions=(5, 20), steps=4)
SMALL = Size("small", sessions=2, clients=2, actions=(2, 4), steps=2)
"""A prompt, a fault, and little else: five of these cost as much as a large one."""
LARGE_SHARE = 25
"""Of so many worlds that are checked each day one is large: a sixth of the time."""
FAULTS: tuple[Kind, ...] = ("kill_at_commit", "kill_at_commit", "kill", "drain", "cut", "full")
"""One in each small world, or most would have none."""
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
        size: `large`, or `small`: with the seed, the name of the world.
        steps: Answers of a model to an input, at most.
        roughness: How often the network delays and splits.
        outbox_bytes: What the daemon holds for a client before it has fallen behind.
    """

    seed: int
    clients: int
    roughness: float
    outbox_bytes: int
    actions: tuple[Action, ...]
    size: str = LARGE.name
    steps: int = LARGE.steps

    @property
    def words(self) -> str:
        """What names this world on the command line."""
        return f"{self.seed}" if self.size == LARGE.name else f"{self.size} {self.seed}"


def draw_plan(seed: int, size: Size = LARGE) -> Plan:
    """Draw the world of a seed."""
    random = chance(seed, "plan" if size is LARGE else f"{size.name} plan")
    clients = random.randint(1, size.clients)
    sessions = random.randint(1, size.sessions)
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
    weights = IN_SMALL_WORLDS if size is SMALL else WEIGHTS
    count = random.randint(*size.actions)
    certain: dict[int, Kind] = {}
    if size is SMALL:
        certain = {0: "prompt", random.randrange(1, count): random.choice(FAULTS)}
    for number in range(count):
        at += random.choice(GAPS)
        [kind] = random.choices(list(weights), list(weights.values()))
        kind = certain.get(number, kind)
        client, session = random.randrange(clients), random.randrange(sessions)
        amount = random.choice((0.5, 5.0, 40.0))
        if kind in {"kill_at_commit", "break"}:
            amount = random.randint(1, 12) + random.choice((0.0, 0.5))
        text = random.choice(AGENTS) if kind == "switch_agent" else f"p{number}"
        if kind == "kill_at_commit":
            text = random.choice(("", *KILLED_BEHIND))
        actions.append(Action(at, kind, client, session, text, amount))
    roughness, outbox_bytes = random.choice((0.0, 0.1, 0.5)), random.choice(OUTBOXES)
    return Plan(seed, clients, roughness, outbox_bytes, tuple(actions), size.name, steps=size.steps)


def draw_mixed(number: int) -> Plan:
    """Draw the n-th world of those that are checked each day: many small ones, and a few large ones."""
    seed, rest = divmod(number, LARGE_SHARE)
    return draw_plan(number, SMALL) if rest else draw_plan(seed)
