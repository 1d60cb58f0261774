from __future__ import annotations

import copy
import gc

from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import CallStatus
from callboard.runtime.history import (
    LOST,
    Answer,
    Call,
    Input,
    Item,
    Refusal,
    Result,
    Round,
    Text,
    Thinking,
    is_error,
    repair_history,
    rounds_of,
)


def call(name: str) -> Call:
    return Call(name, "tool", "{}")


def asks(*names: str) -> Answer:
    return Answer(tuple(map(call, names)))


def result(name: str, content: str = "real") -> Result:
    return Result(name, "tool", content)


def lost(name: str) -> Result:
    return Result(name, "tool", LOST, is_error=True)


SAID = Answer((Text("said"),))


def test_a_sound_history_stays_as_it_is() -> None:
    sound: list[Item] = [Input("a"), asks("1", "2"), result("1"), result("2"), SAID, Input("b")]
    assert repair_history(sound) == sound


def test_results_stand_behind_their_answer_in_its_order() -> None:
    mixed: list[Item] = [result("2"), Input("a"), asks("1", "2"), SAID, result("1")]
    assert repair_history(mixed) == [Input("a"), asks("1", "2"), result("1"), result("2"), SAID]


def test_a_missing_result_is_filled() -> None:
    assert repair_history([asks("1", "2"), result("2")]) == [
        asks("1", "2"), lost("1"), result("2"),
    ]  # fmt: skip


def test_results_of_unknown_calls_are_dropped() -> None:
    assert repair_history([Input("a"), result("9"), SAID]) == [Input("a"), SAID]


def test_a_real_result_wins_over_a_filled_one_and_the_first_over_later_ones() -> None:
    filled_first = [lost("1"), result("1"), result("1", "late")]
    for results in (filled_first, [result("1"), lost("1")]):
        assert repair_history([asks("1"), *results]) == [asks("1"), result("1")]


def test_a_call_that_comes_twice_keeps_its_first_place() -> None:
    twice: list[Item] = [asks("1"), result("1"), Answer((Text("x"), call("1"), call("2")))]
    assert repair_history(twice) == [
        asks("1"), result("1"), Answer((Text("x"), call("2"))), lost("2"),
    ]  # fmt: skip
    assert repair_history([asks("1", "1")]) == [asks("1"), lost("1")]
    assert repair_history([asks("1"), asks("1")]) == [asks("1"), lost("1")]


names = st.sampled_from("123456")
parts = st.one_of(
    st.builds(Text, st.text(max_size=3)),
    st.builds(Thinking, st.just("t")),
    st.builds(Refusal, st.just("r")),
    names.map(call),
)
items = st.lists(
    st.one_of(
        st.builds(Input, st.sampled_from("ab")),
        st.builds(Answer, st.lists(parts, max_size=4).map(tuple)),
        names.map(result),
        names.map(lost),
    ),
    max_size=12,
)


@given(items)
def test_repair_is_pure_idempotent_and_gives_each_call_one_result(history: list[Item]) -> None:
    before = copy.copy(history)
    repaired = repair_history(history)
    assert history == before
    assert repair_history(repaired) == repaired
    assert repair_history(iter(history)) == repaired
    asked: list[str] = []
    place = 0
    while place < len(repaired):
        item = repaired[place]
        place += 1
        assert not isinstance(item, Result)
        if isinstance(item, Answer):
            assert item.parts
            for each in item.calls:
                given_result = repaired[place]
                assert isinstance(given_result, Result)
                assert given_result.call_id == each.call_id
                asked.append(each.call_id)
                place += 1
    assert len(set(asked)) == len(asked)
    real = {i.call_id for i in history if isinstance(i, Result) and i.content != LOST}
    kept = {i.call_id for i in repaired if isinstance(i, Result) and i.content != LOST}
    assert kept == real & set(asked)
    inputs = [item for item in history if isinstance(item, Input)]
    assert [item for item in repaired if isinstance(item, Input)] == inputs


def test_what_an_answer_says_and_asks() -> None:
    answer = Answer((Thinking("hm"), Text("a"), call("1"), Refusal("b"), call("2")))
    assert answer.text == "ab"
    assert answer.calls == (call("1"), call("2"))


def test_only_success_is_no_error() -> None:
    assert [status for status in CallStatus if not is_error(status)] == [CallStatus.SUCCESS]


def test_a_long_history_holds_nothing_that_the_garbage_collector_looks_through() -> None:
    """Sessions of thousands of messages made each full collection stop the daemon for 60 ms."""
    given: list[Item] = []
    for name in map(str, range(10)):
        given += [Input("a"), asks(name), Result(name, "tool", "{}")]
        given += [Input("b"), Answer((Text("c"),))]
    rounds = rounds_of(given)
    assert len(rounds) == 20
    assert not any(map(gc.is_tracked, rounds))
    assert not any(gc.is_tracked(item) for each in rounds for item in each.items)
    gc.collect()  # a tuple is let go by the first look at it
    assert not any(gc.is_tracked(each.items) for each in rounds)
    assert gc.is_tracked([Round(given)])  # the control: a list is looked through
