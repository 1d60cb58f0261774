from __future__ import annotations

import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import Resource
from callboard.runtime.kernel.locks import Claim, ResourceLocks


def read(path: str) -> Resource:
    return Resource(path, write=False)


def write(path: str) -> Resource:
    return Resource(path)


def overlap(one: Resource, other: Resource) -> bool:
    """The rule, said in another way: one names the other or a folder above it."""
    if not (one.write or other.write):
        return False
    a = one.path.split("/") if one.path else []
    b = other.path.split("/") if other.path else []
    return a[: len(b)] == b or b[: len(a)] == a


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        (write("a"), write("a"), True),
        (write("a"), read("a"), True),
        (read("a"), read("a"), False),
        (write("a"), write("b"), False),
        (write("a"), write("a/b"), True),
        (write("a/b"), read("a"), True),
        (write("a"), write("ab"), False),
        (write("a/b"), write("a/bc"), False),
        (write("a/b/c"), write("a/d"), False),
        (write(""), write("a"), True),
        (write(""), read("a/b"), True),
        (read(""), write("a/b"), True),
        (read(""), read("a"), False),
    ],
)
def test_what_overlaps(one: Resource, other: Resource, overlaps: bool) -> None:
    for first, second in ((one, other), (other, one)):
        locks = ResourceLocks()
        claim = locks.claim_nowait((first,))
        assert claim is not None
        assert (locks.claim_nowait((second,)) is None) is overlaps
        assert overlap(first, second) is overlaps
        locks.release(claim)
        assert locks.claim_nowait((second,)) is not None or not overlaps


def test_all_keys_are_taken_at_once_or_none() -> None:
    locks = ResourceLocks()
    held = locks.claim_nowait((write("a"),))
    assert held is not None
    assert locks.claim_nowait((write("b"), write("a"))) is None
    assert locks.claim_nowait((write("b"),)) is not None  # the refused claim left nothing


def is_held(claim: Claim) -> bool:
    return claim.event is None


def test_a_writer_is_not_overtaken_by_readers() -> None:
    locks = ResourceLocks()
    first = locks.enqueue((read("a"),))
    writer = locks.enqueue((write("a"),))
    second = locks.enqueue((read("a"),))
    assert locks.claim_nowait((read("a"),)) is None
    assert [is_held(claim) for claim in (first, writer, second)] == [True, False, False]
    locks.release(first)
    assert [is_held(claim) for claim in (writer, second)] == [True, False]
    locks.release(writer)
    assert is_held(second)


def test_who_gives_up_its_place_lets_others_by() -> None:
    locks = ResourceLocks()
    holder = locks.enqueue((read("a"),))
    writer = locks.enqueue((write("a"),))
    reader = locks.enqueue((read("a"),))
    locks.release(writer)
    assert is_held(reader)
    assert is_held(holder)


async def test_waiting_ends_when_the_keys_are_held() -> None:
    locks = ResourceLocks()
    holder = locks.enqueue((write("a"),))
    order: list[int] = []

    async def work(number: int, claim: Claim) -> None:
        await locks.wait(claim)
        order.append(number)
        locks.release(claim)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(work, number, locks.enqueue((write("a"),)))
        await trio.testing.wait_all_tasks_blocked()
        assert order == []
        locks.release(holder)
    assert order == [0, 1, 2, 3, 4]


async def test_a_claim_that_is_held_does_not_wait() -> None:
    locks = ResourceLocks()
    claim = locks.enqueue((write("a"),))
    with trio.move_on_after(0):
        await locks.wait(claim)
    assert is_held(claim)


resources = st.builds(
    Resource, st.sampled_from(["", "a", "a/b", "a/b/c", "a/d", "ab", "b"]), st.booleans()
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.lists(resources, min_size=1, max_size=3).map(tuple)),
        st.tuples(st.just("try"), st.lists(resources, min_size=1, max_size=3).map(tuple)),
        st.tuples(st.just("release"), st.integers(0, 20)),
    ),
    max_size=40,
)


@given(steps)
def test_no_two_holders_ever_overlap_and_nobody_waits_for_nothing(
    steps: list[tuple[str, object]],
) -> None:
    locks = ResourceLocks()
    claims: list[Claim] = []
    for step in steps:
        match step:
            case ("enqueue", tuple(keys)):
                claims.append(locks.enqueue(keys))
            case ("try", tuple(keys)):
                if (claim := locks.claim_nowait(keys)) is not None:
                    assert is_held(claim)
                    claims.append(claim)
            case ("release", int(number)) if claims:
                locks.release(claims.pop(number % len(claims)))
        for place, claim in enumerate(claims):
            before = [
                other
                for other in claims[:place]
                if any(overlap(a, b) for a in claim.resources for b in other.resources)
            ]
            # Held exactly when no overlapping claim came before.
            assert is_held(claim) is not bool(before)
