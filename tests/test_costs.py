"""What work costs, in counters that no other program and no faster machine changes.

Each bound is what a change brought it to. A change that raises one raises it here too, in the same
commit, and says why; one that lowers it lowers it here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

from callboard.actors import journal
from support.costs import Costs, House, Meeting, noop, open_house

ROUNDS = 10
DELTAS = 50
CALLS = 50
SESSIONS = 10

BOUNDS = {
    "tool round in memory": Costs(steps=8, scopes=5),
    "tool round on disk": Costs(steps=9.2, scopes=5, hops=1, commits=1, statements=9, pages=11),
    "delta that comes alone": Costs(steps=2.2, scopes=0.1),
    "session in memory": Costs(steps=17, scopes=6, statements=1),
    "call of many in memory": Costs(steps=2.1, scopes=1.1, calls=230),
    "call of many on disk": Costs(steps=2.1, scopes=1.1, statements=2.7, pages=0.6),
}
"""What each unit may cost at most; what is not named must cost nothing. Some calls of each call of many make the line that
people get of a plain value."""


@pytest.fixture(autouse=True)
def _in_one_order() -> Iterator[None]:
    """Trio shuffles the tasks that can run at once."""
    random = trio._core._run._r
    before = random.getstate()
    random.seed(0)
    yield
    random.setstate(before)


async def per_unit(units: int, work: Callable[[int], Awaitable[Costs]]) -> Costs:
    """What each of so many units adds."""
    few = await work(units)
    return (await work(2 * units)).less(few, units)


def check(name: str, costs: Costs) -> None:
    bound = BOUNDS[name]
    over = [
        f"{field}: {found}, and at most {allowed} are allowed"
        for field in costs.__struct_fields__
        if (found := getattr(costs, field)) > (allowed := getattr(bound, field))
    ]
    assert not over, f"a {name} costs more than it did: {over}"


async def rounds_in(house: House) -> Costs:
    return await per_unit(ROUNDS, lambda count: house.turn(f"tools-1-{count}"))


async def test_a_tool_round_in_memory(tmp_path: Path) -> None:
    async with open_house(tmp_path, noop) as house:
        check("tool round in memory", await rounds_in(house))


async def test_a_tool_round_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is, the next answer comes before a result is stored by itself.
    monkeypatch.setattr(journal, "AHEAD_SECONDS", 600)
    async with open_house(tmp_path, noop, store="disk") as house:
        check("tool round on disk", await rounds_in(house))


async def test_a_delta_that_comes_alone(tmp_path: Path) -> None:
    async with open_house(tmp_path, noop) as house:
        costs = await per_unit(DELTAS, lambda count: house.turn(f"text-{count}-p1"))
    check("delta that comes alone", costs)


async def test_a_session_among_others(tmp_path: Path) -> None:
    async with open_house(tmp_path, noop) as house:
        costs = await per_unit(SESSIONS, lambda count: house.sessions(count, "text-20"))
    check("session in memory", costs)


@pytest.mark.parametrize("store", ["memory", "disk"])
async def test_a_call_of_an_answer_with_many(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "AHEAD_SECONDS", 600)
    meeting = Meeting()
    async with open_house(tmp_path, meeting.tool, store=store) as house:

        async def turn(count: int) -> Costs:
            meeting.expect(count)
            return await house.turn(f"tools-{count}-1", calls=store == "memory")

        costs = await per_unit(CALLS, turn)
    check(f"call of many {'in memory' if store == 'memory' else 'on disk'}", costs)
