"""The smallest world that still breaks the same invariant."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from simulation.plan import Action, Plan
from simulation.world import Played, play


def shrink(played: Played) -> Played:
    """Drop actions, first many and then single ones, while the same invariant is broken."""
    if not played.broken:
        return played
    name = _name(played)
    size = max(1, len(played.plan.actions) // 2)
    while True:
        smaller = next(_smaller(played, size, name), None)
        if smaller is not None:
            played = smaller
        elif size == 1:
            return played
        else:
            size //= 2


def _smaller(played: Played, size: int, name: str) -> Iterator[Played]:
    actions = played.plan.actions
    for begin in range(0, len(actions), size):
        dropped = actions[begin : begin + size]
        left = tuple(
            each for each in actions if each not in dropped and _has_session(each, dropped)
        )
        if len(left) < len(actions):
            tried = play(_plan(played.plan, left))
            if tried.broken and _name(tried) == name:
                yield tried


def _has_session(action: Action, dropped: tuple[Action, ...]) -> bool:
    """Whether the session that an action is about is still made."""
    return not any(each.kind == "create" and each.session == action.session for each in dropped)


def _plan(plan: Plan, actions: tuple[Action, ...]) -> Plan:
    return replace(plan, actions=actions)


def _name(played: Played) -> str:
    return played.broken[0].partition(":")[0]
