"""Which model is asked, how often again, and when its provider is left alone."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from callboard.actors.model.choice import (
    FAILURES_BEFORE_SET_ASIDE,
    FIRST_WAIT_SECONDS,
    MAX_WAIT_SECONDS_PER_TURN,
    MOST_WAIT_SECONDS,
    Backoff,
    ModelChoice,
    ProviderHealth,
)
from callboard.config.settings import Limits
from callboard.providers.provider import ModelTarget
from callboard.runtime.errors import AuthError
from callboard.runtime.stream import StreamError

DOWN = StreamError(error_type="overloaded", message="It is down.", retryable=True)

# ── the same model again ─────────────────────────────────────────────────────────────────────────


def fault(
    error_type: str = "overloaded", *, retryable: bool = True, after: float | None = None
) -> StreamError:
    return StreamError(
        error_type=error_type, message="no", retryable=retryable, retry_after_seconds=after
    )


def waits(
    limits: Limits, failure: StreamError, *, was_shown: bool = False, calls: int = 30
) -> list[float]:
    """How long is waited, failure after failure, until it is given up."""
    attempts = Backoff(limits)
    found: list[float] = []
    for _ in range(calls):
        seconds = attempts.wait_before_next(failure, was_shown=was_shown)
        if seconds is None:
            break
        found.append(seconds)
    assert attempts.count == len(found)
    return found


@pytest.mark.parametrize("retries", [0, 1, 3, 20])
def test_it_is_made_again_so_often(retries: int) -> None:
    assert len(waits(Limits(model_retries=retries), fault())) == retries


def test_what_the_next_attempt_meets_too_is_not_made_again() -> None:
    assert waits(Limits(), fault("auth", retryable=False)) == []


@pytest.mark.parametrize("seed", range(20))
def test_waits_grow_and_spread(seed: int) -> None:
    found = waits(Limits(model_retries=7), fault())
    for number, seconds in enumerate(found):
        most = min(FIRST_WAIT_SECONDS * 2**number, MOST_WAIT_SECONDS)
        assert most / 2 <= seconds <= most
    assert len(set(found)) == len(found)


def test_the_providers_own_figure_is_waited_out_and_who_is_refused_again_spreads_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = waits(Limits(model_retries=20), fault(after=7))
    assert all(seconds >= 7 for seconds in found)
    assert found[0] <= 7 + FIRST_WAIT_SECONDS
    assert len(set(found)) > 1
    monkeypatch.setattr(random, "uniform", lambda _, most: most)
    longest = waits(Limits(model_retries=7), fault(after=7))
    assert longest == [7.5, 8, 9, 11, 15, 15, 15]


@pytest.mark.parametrize(("after", "times"), [(59.9, 3), (60, 3), (60.1, 0), (86400, 0)])
def test_a_wait_that_is_too_long_is_none(after: float, times: int) -> None:
    found = waits(Limits(retry_wait_seconds=60), fault(after=after))
    assert len(found) == times
    assert all(after <= seconds <= 60 for seconds in found)


def test_at_once_is_no_wait() -> None:
    found = waits(Limits(model_retries=20), fault(after=0.0))
    assert len(found) == 20
    assert all(seconds >= FIRST_WAIT_SECONDS / 2 for seconds in found)


@pytest.mark.parametrize("longest", [0.01, 0.4, 3])
def test_a_short_bound_shortens_the_waits_and_not_their_number(longest: float) -> None:
    found = waits(Limits(retry_wait_seconds=longest, model_retries=6), fault())
    assert len(found) == 6
    assert max(found) <= longest


def test_silence_is_borne_once_and_a_text_withdrawn_once() -> None:
    assert len(waits(Limits(), fault("timeout"))) == 1
    assert len(waits(Limits(), fault("network"), was_shown=True)) == 1
    assert waits(Limits(model_retries=0), fault("network"), was_shown=True) == []


def test_a_break_behind_text_has_its_retry_whatever_failed_before() -> None:
    attempts = Backoff(Limits(model_retries=3))
    assert attempts.wait_before_next(fault(), was_shown=False)
    assert attempts.wait_before_next(fault("network"), was_shown=True)
    assert attempts.wait_before_next(fault("network"), was_shown=True) is None
    assert attempts.wait_before_next(fault(), was_shown=False)
    assert attempts.wait_before_next(fault(), was_shown=False) is None


def test_each_answer_has_its_own_retries_and_the_turn_one_budget_of_time() -> None:
    attempts = Backoff(Limits(model_retries=1, retry_wait_seconds=60))
    waited = 0.0
    for _ in range(100):
        attempts.begin()
        seconds = attempts.wait_before_next(fault(after=50), was_shown=False)
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
            fault(kind, retryable=retryable, after=after), was_shown=was_shown
        )
        if seconds is not None:
            found.append(seconds)
            assert 0 < seconds <= longest
            assert retryable
            assert seconds >= min(after or 0, longest)
    assert len(found) <= retries
    assert sum(found) <= MAX_WAIT_SECONDS_PER_TURN


# ── the next model ────────────────────────────────────────────────────────────────────────────

KEY = StreamError(error_type="auth", message="The key is wrong.")
FIRST = ModelTarget(provider="a", model="m")


def finder(name: str) -> Callable[[], ModelTarget]:
    provider, _, model = name.partition("/")
    return lambda: ModelTarget(provider=provider, model=model)


def no_key() -> ModelTarget:
    raise AuthError("c needs a key.")


def choice_of(*names: str, aside: str = "") -> ModelChoice:
    health = ProviderHealth()
    for provider in aside:
        health.failed(provider, KEY)
    finders = [no_key if name == "c/no-key" else finder(name) for name in names]
    return ModelChoice(FIRST, finders, health)


def all_of(choice: ModelChoice) -> list[str]:
    """The models in the order in which they are taken."""
    names = [f"{choice.target.provider}/{choice.target.model}"]
    while choice.take_next():
        names.append(f"{choice.target.provider}/{choice.target.model}")
    return names


async def test_each_is_taken_once_in_its_order() -> None:
    assert all_of(choice_of()) == ["a/m"]
    assert all_of(choice_of("b/1", "c/2")) == ["a/m", "b/1", "c/2"]
    assert all_of(choice_of("a/m", "b/1", "b/1", "a/n")) == ["a/m", "b/1", "a/n"]


async def test_one_that_can_not_be_asked_is_left_out_and_told() -> None:
    choice = choice_of("c/no-key", "b/1")
    assert all_of(choice) == ["a/m", "b/1"]
    assert choice.unusable == ["c needs a key."]


async def test_one_whose_provider_is_set_aside_waits_for_the_end() -> None:
    assert all_of(choice_of("b/1", "c/2", "b/3", "d/4", aside="b")) == [
        "a/m", "c/2", "d/4", "b/1", "b/3",
    ]  # fmt: skip


async def test_another_one_is_taken_first_when_the_first_is_set_aside() -> None:
    choice = choice_of("b/1", "c/2", aside="ab")
    assert choice.pass_over()
    assert all_of(choice) == ["c/2", "a/m", "b/1"]


async def test_who_has_no_other_model_asks_the_one_that_is_set_aside() -> None:
    for names in ((), ("b/1",), ("c/no-key",)):
        choice = choice_of(*names, aside="ab")
        assert not choice.pass_over()
        assert all_of(choice) == ["a/m", *(n for n in names if n == "b/1")]


async def test_one_that_works_is_not_passed_over() -> None:
    choice = choice_of("b/1")
    assert not choice.pass_over()
    assert all_of(choice) == ["a/m", "b/1"]


# ── a provider that is set aside ──────────────────────────────────────────────────────────────


async def test_a_provider_that_keeps_failing_is_set_aside_for_a_while(
    autojump_clock: MockClock,
) -> None:
    health = ProviderHealth()
    for _ in range(FAILURES_BEFORE_SET_ASIDE - 1):
        assert health.failed("p", DOWN) is None
        assert not health.is_set_aside("p")
    assert health.failed("p", DOWN) == 30
    assert health.is_set_aside("p")
    assert health.why_set_aside("p") == "p is set aside for 30 s: It is down."
    assert not health.is_set_aside("other")
    await trio.sleep(29.9)
    assert health.is_set_aside("p")
    await trio.sleep(0.2)
    assert not health.is_set_aside("p")


async def test_the_first_failure_after_the_time_doubles_it_and_there_is_an_end_to_that(
    autojump_clock: MockClock,
) -> None:
    health = ProviderHealth()
    times: list[float] = []
    while len(times) < 2000:  # of an outage of weeks
        if (seconds := health.failed("p", DOWN)) is not None:
            assert seconds <= 960
            times.append(seconds)
            await trio.sleep(seconds)
    assert times[:7] == [30, 60, 120, 240, 480, 960, 960]
    assert set(times[7:]) == {960}


async def test_a_call_that_works_forgives_everything() -> None:
    health = ProviderHealth()
    health.failed("p", KEY)
    assert health.is_set_aside("p")
    health.worked("p")
    assert not health.is_set_aside("p")
    assert [health.failed("p", DOWN) for _ in range(3)] == [None, None, 30]


@pytest.mark.parametrize(
    ("error_type", "status", "seconds"),
    [
        ("auth", None, 30),
        ("quota", None, 30),
        ("auth", 401, 30),
        ("auth", 403, None),
        ("provider", None, None),
    ],
)
async def test_one_failure_is_enough_or_says_nothing_about_the_provider(
    error_type: str, status: int | None, seconds: float | None
) -> None:
    health = ProviderHealth()
    failure = StreamError(error_type=error_type, message="No.", status=status)
    assert health.failed("p", failure) == seconds
    assert [health.failed("p", failure) for _ in range(5)] == [None] * 5


async def test_failures_while_it_is_set_aside_don_t_prolong_it(autojump_clock: MockClock) -> None:
    health = ProviderHealth()
    assert health.failed("p", KEY) == 30
    await trio.sleep(20)
    assert health.failed("p", KEY) is None
    await trio.sleep(10)
    assert not health.is_set_aside("p")
