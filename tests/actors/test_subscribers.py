"""Who hears what of a commit: the consumers of its turn, in order, and the followers."""

from __future__ import annotations

import pytest

from callboard.actors.session.subscribers import MAX_FOLLOWER_UPDATES, Subscribers
from callboard.runtime.errors import OverloadedError
from callboard.runtime.events import (
    DurableEvent,
    InputDelivered,
    Stored,
    TitleSet,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.kernel.delivery import Subscription

TURNS: tuple[DurableEvent, ...] = (
    TitleSet(title="before"),
    TurnStarted(turn_id="t1", input_ids=("i1",), provider="p", model="m"),
    *(TitleSet(title=text) for text in ("one", "two")),
    InputDelivered(input_id="i2", turn_id="t1"),
    TitleSet(title="both hear it"),
    TurnEnded(turn_id="t1", outcome="answered"),
    TurnStarted(turn_id="t2", input_ids=("i3",), provider="p", model="m"),
    TitleSet(title="the next turn's"),
)


def stored(*events: DurableEvent) -> list[Stored]:
    return [Stored("s1", seq, 0, event) for seq, event in enumerate(events, start=1)]


@pytest.mark.parametrize("size", range(1, len(TURNS) + 1))
async def test_each_hears_its_own_turn_whatever_is_committed_together(size: int) -> None:
    subscribers = Subscribers("s1")
    heard = {name: Subscription() for name in ("i1", "i2", "i3", "all")}
    for name, subscription in heard.items():
        if name == "all":
            subscribers.follow(subscription)
        else:
            subscribers.add(name, subscription)
    events = stored(*TURNS)
    for at in range(0, len(events), size):
        subscribers.tell(events[at : at + size])
    seqs = {
        name: [e.seq for e in await s.take() if isinstance(e, Stored)] for name, s in heard.items()
    }
    assert seqs == {
        "i1": [2, 3, 4, 5, 6, 7],
        "i2": [5, 6, 7],
        "i3": [8, 9],
        "all": list(range(1, 10)),
    }
    assert [heard[name].is_closed for name in heard] == [True, True, False, False]


async def test_a_follower_that_a_commit_would_overfill_is_closed_and_one_that_reads_is_not() -> (
    None
):
    subscribers = Subscribers("s1")
    reads, lags = Subscription(), Subscription()
    subscribers.follow(reads)
    subscribers.follow(lags)
    subscribers.tell(stored(*[TitleSet(title="x")] * MAX_FOLLOWER_UPDATES))
    assert len(await reads.take()) == MAX_FOLLOWER_UPDATES
    subscribers.tell(stored(*[TitleSet(title="x")] * 2))
    assert len(await reads.take()) == 2
    assert len(await lags.take()) == MAX_FOLLOWER_UPDATES
    with pytest.raises(OverloadedError, match="fell behind"):
        await lags.take()
