from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.model.choice import (
    FIRST_WAIT_SECONDS,
    MAX_WAIT_SECONDS_PER_TURN,
    MOST_WAIT_SECONDS,
    Backoff,
)
from callboard.config.settings import Limits
from callboard.runtime.stream import StreamError


def error(
    error_type: str = "overloaded", *, retryable: bool = True, after: float | None = None
) -> StreamError:
    return StreamError(
        error_type=error_type, message="no", retryable=retryable, retry_after_seconds=after
    )


def waits(
    limits: Limits, fault: StreamError, *, was_shown: bool = False, calls: int = 30
) -> list[float]:
    """How long is waited, failure after failure, until it is given up."""
    attempts = Backoff(limits)
    found: list[float] = []
    for _ in range(calls):
        seconds = attempts.wait_before_next(fault, was_shown=was_shown)
        if seconds is None:
            break
        found.append(seconds)
    assert attempts.count == len(found)
    return found


@pytest.mark.parametrize("retries", [0, 1, 3, 20])
def test_it_is_made_again_so_often(retries: int) -> None:
    assert len(waits(Limits(model_retries=retries), error())) == retries


def test_what_the_next_attempt_meets_too_is_not_made_again() -> None:
    assert waits(Limits(), error("auth", retryable=False)) == []


@pytest.mark.parametrize("seed", range(20))
def test_waits_grow_and_spread(seed: int) -> None:
    found = waits(Limits(model_retries=7), error())
    for number, seconds in enumerate(found):
        most = min(FIRST_WAIT_SECONDS * 2**number, MOST_WAIT_SECONDS)
        assert most / 2 <= seconds <= most
    assert len(set(found)) == len(found)


def test_the_providers_own_figure_is_waited_out_and_little_more() -> None:
    found = waits(Limits(model_retries=20), error(after=7))
    assert all(7 <= seconds <= 7 + FIRST_WAIT_SECONDS for seconds in found)
    assert len(set(found)) > 1


@pytest.mark.parametrize(("after", "times"), [(59.9, 3), (60, 3), (60.1, 0), (86400, 0)])
def test_a_wait_that_is_too_long_is_none(after: float, times: int) -> None:
    found = waits(Limits(retry_wait_seconds=60), error(after=after))
    assert len(found) == times
    assert all(after <= seconds <= 60 for seconds in found)


def test_at_once_is_no_wait() -> None:
    found = waits(Limits(model_retries=20), error(after=0.0))
    assert len(found) == 20
    assert all(seconds >= FIRST_WAIT_SECONDS / 2 for seconds in found)


@pytest.mark.parametrize("longest", [0.01, 0.4, 3])
def test_a_short_bound_shortens_the_waits_and_not_their_number(longest: float) -> None:
    found = waits(Limits(retry_wait_seconds=longest, model_retries=6), error())
    assert len(found) == 6
    assert max(found) <= longest


def test_silence_is_borne_once_and_a_text_withdrawn_once() -> None:
    assert len(waits(Limits(), error("timeout"))) == 1
    assert len(waits(Limits(), error("network"), was_shown=True)) == 1
    assert waits(Limits(model_retries=0), error("network"), was_shown=True) == []


def test_a_break_behind_text_has_its_retry_whatever_failed_before() -> None:
    attempts = Backoff(Limits(model_retries=3))
    assert attempts.wait_before_next(error(), was_shown=False)
    assert attempts.wait_before_next(error("network"), was_shown=True)
    assert attempts.wait_before_next(error("network"), was_shown=True) is None
    assert attempts.wait_before_next(error(), was_shown=False)
    assert attempts.wait_before_next(error(), was_shown=False) is None


def test_each_answer_has_its_own_retries_and_the_turn_one_budget_of_time() -> None:
    attempts = Backoff(Limits(model_retries=1, retry_wait_seconds=60))
    waited = 0.0
    for _ in range(100):
        attempts.begin()
        seconds = attempts.wait_before_next(error(after=50), was_shown=False)
        if seconds is None:
            break
        waited += seconds
    assert MAX_WAIT_SECONDS_PER_TURN - 51 < waited <= MAX_WAIT_SECONDS_PER_TURN


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["overloaded", "network", "timeout", "provider"]),
            st.booleans(),
            st.booleans(),
            st.none() | st.floats(0, 1e6, allow_nan=False),
        ),
        max_size=60,
    ),
    st.integers(0, 20),
    st.floats(0.001, 1000),
)
def test_whatever_comes_the_bounds_hold(
    faults: list[tuple[str, bool, bool, float | None]], retries: int, longest: float
) -> None:
    attempts = Backoff(Limits(model_retries=retries, retry_wait_seconds=longest))
    found: list[float] = []
    for kind, retryable, was_shown, after in faults:
        seconds = attempts.wait_before_next(
            error(kind, retryable=retryable, after=after), was_shown=was_shown
        )
        if seconds is not None:
            found.append(seconds)
            assert 0 < seconds <= longest
            assert retryable
            assert seconds >= min(after or 0, longest)
    assert len(found) <= retries
    assert sum(found) <= MAX_WAIT_SECONDS_PER_TURN
