from __future__ import annotations

import pytest
import trio
import trio.testing

from callboard.actors.model.choice import FAILURES_BEFORE_SET_ASIDE, ProviderHealth
from callboard.runtime.stream import StreamError

DOWN = StreamError(error_type="overloaded", message="It is down.", retryable=True)
KEY = StreamError(error_type="auth", message="The key is wrong.")
QUOTA = StreamError(error_type="quota", message="Nothing left.")
BAD_REQUEST = StreamError(error_type="provider", message="No such model.")


async def test_a_provider_that_keeps_failing_is_set_aside_for_a_while(
    autojump_clock: trio.testing.MockClock,
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
    autojump_clock: trio.testing.MockClock,
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


@pytest.mark.parametrize("error", [KEY, QUOTA], ids=["auth", "quota"])
async def test_what_can_not_get_better_by_itself_is_enough_once(error: StreamError) -> None:
    assert ProviderHealth().failed("p", error) == 30


async def test_what_a_request_is_to_blame_for_says_nothing_about_its_provider() -> None:
    health = ProviderHealth()
    assert [health.failed("p", BAD_REQUEST) for _ in range(10)] == [None] * 10
    assert not health.is_set_aside("p")


async def test_failures_while_it_is_set_aside_don_t_prolong_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    health = ProviderHealth()
    assert health.failed("p", KEY) == 30
    await trio.sleep(20)
    assert health.failed("p", KEY) is None
    await trio.sleep(10)
    assert not health.is_set_aside("p")


async def test_what_one_request_may_not_is_no_fault_of_the_provider() -> None:
    stopped = StreamError(error_type="auth", message="Flagged by moderation.", status=403)
    refused = StreamError(error_type="auth", message="The key is wrong.", status=401)
    health = ProviderHealth()
    assert [health.failed("p", stopped) for _ in range(5)] == [None] * 5
    assert health.failed("p", refused) == 30
