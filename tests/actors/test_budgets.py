"""Budgets: nested scopes, debited at once; on no clock but the mocked one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from callboard.actors.budget.budgets import BudgetBook, Charge, SessionBudgets, TurnBudget
from callboard.actors.budget.scope import Scope
from callboard.actors.model.answer import AnswerBuilder, request_tokens, tokens_taken
from callboard.config.prices import Price, PriceTable
from callboard.providers.provider import ModelRequest, ModelTarget
from callboard.runtime.budget import Budget, checked_budget, narrowed
from callboard.runtime.definitions import Agent, CallStatus, SessionKind
from callboard.runtime.errors import BudgetError, ValidationError
from callboard.runtime.events import (
    AttemptCharged,
    AttemptFailed,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionBudgetSet,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Attachment, Input, Round
from callboard.runtime.store.rows import Append
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from support.scene import FakeStore, place_of

PRICES = PriceTable({"p/m": Price(input=1.0, output=10.0), "p/free": Price(input=0, output=0)})
PRICED = ModelTarget(provider="p", model="m")
FREE = ModelTarget(provider="p", model="free")
UNPRICED = ModelTarget(provider="p", model="unheard-of")
REQUEST = ModelRequest(model="m", rounds=[Round([Input("x" * 400)])])
"""100 tokens."""
DONE = Done(StopReason.END)


def book_of(store: FakeStore | None = None, *agents: Agent) -> BudgetBook:
    named = {agent.name: agent for agent in agents or (Agent(),)}
    return BudgetBook((store or FakeStore()).inner, PRICES, named)


def given_of(
    turn: Budget | None = None, session: Budget | None = None, parent_id: str | None = None
) -> SessionBudgets:
    budgets = SessionBudgets()
    budgets.turn, budgets.session, budgets.parent_id = turn, session, parent_id
    return budgets


async def opened(
    book: BudgetBook,
    turn: Budget | None = None,
    session: Budget | None = None,
    *,
    name: str = "s1",
    turn_id: str = "t",
    agent: Agent | None = None,
    parent_id: str | None = None,
) -> TurnBudget:
    budget = book.turn(name, turn_id, agent or Agent())
    await budget.open(given_of(turn, session, parent_id), is_resumed=False)
    return budget


def use(budget: TurnBudget, tokens: int, target: ModelTarget = PRICED) -> None:
    """A model call that its provider counts at so many tokens of output, and 100 of input."""
    charge = budget.reserve(target, REQUEST)
    answer = AnswerBuilder()
    answer.add([TextDelta("x"), Usage(100, tokens), DONE])
    charge.settle(answer)


async def keep(store: FakeStore, session_id: str, *events: DurableEvent) -> None:
    [stored] = await store.inner.commit([Append(session_id, events)])
    assert isinstance(stored, tuple)


# ── amounts ──────────────────────────────────────────────────────────────────────────────────────


AMOUNTS = st.none() | st.integers(0, 1000)
BUDGETS = st.builds(
    Budget, tokens=AMOUNTS, cost_usd=AMOUNTS, seconds=AMOUNTS, tool_calls=AMOUNTS,
    model_calls=AMOUNTS,
)  # fmt: skip


@given(st.lists(st.none() | BUDGETS))
def test_narrowing_takes_the_least_of_each(budgets: list[Budget | None]) -> None:
    least = narrowed(*budgets)
    for field in Budget.__struct_fields__:
        amounts = [getattr(each, field) for each in budgets if each is not None]
        known = [amount for amount in amounts if amount is not None]
        assert getattr(least, field) == (min(known) if known else None)


@pytest.mark.parametrize("wrong", [5, {"tokens": 5}, Budget(tokens=-1), Budget(tokens="5")])  # type: ignore[arg-type]
def test_what_is_no_budget_is_told(wrong: object) -> None:
    with pytest.raises(ValidationError) as caught:
        checked_budget(wrong)
    assert caught.value.field == "budget"
    assert checked_budget(Budget(tokens=5)) == Budget(tokens=5)


# ── estimates ────────────────────────────────────────────────────────────────────────────────────


def answer_of(*events: AnyStreamEvent) -> AnswerBuilder:
    answer = AnswerBuilder()
    answer.add(events)
    return answer


def test_four_bytes_are_a_token_and_an_attachment_weighs_what_models_count() -> None:
    assert request_tokens(REQUEST) == 100
    chinese = ModelRequest(model="m", rounds=[Round([Input("早" * 4)])])
    assert request_tokens(chinese) == 3
    image = Attachment("image/png", b"x" * 1_000_000)
    with_image = ModelRequest(model="m", rounds=[Round([Input("", (image,))])])
    assert request_tokens(with_image) == 1500


TAKEN: dict[str, tuple[list[AnyStreamEvent], Usage | None, Usage | None]] = {
    "counted": ([TextDelta("x" * 40), Usage(7, 9), DONE], Usage(7, 9), None),
    "whole, and nobody counted": ([TextDelta("x" * 40), DONE], None, Usage(100, 10)),
    "only the output counted": (
        [TextDelta("x"), Usage(None, 9), DONE], Usage(None, 9), Usage(100, None)
    ),
    "broken off": ([TextDelta("x" * 40)], None, Usage(100, 10)),
    "broken off, thinking": ([ThinkingDelta("x" * 40)], None, Usage(100, 10)),
    "broken off in arguments": (
        [ToolCallStart(0, "c", "tool"), ToolCallDelta(0, "x" * 36)], None, Usage(100, 10)
    ),
    "broken off, encrypted": (
        [OpaquePart("d", "k", msgspec.Raw(b"x" * 40))], None, Usage(100, 10)
    ),
    "broken off behind the count of its beginning": (
        [Usage(7, 1), TextDelta("x" * 40)], Usage(7), Usage(None, 10)
    ),
    "broken off behind a count of all": (
        [TextDelta("x" * 40), Usage(7, 12)], Usage(7, 12), None
    ),
    "refused": ([StreamError(error_type="auth", message="no")], None, None),
    "refused, and counted": (
        [Usage(7, 0), StreamError(error_type="provider", message="no")], Usage(7, 0), None
    ),
    "whole, and zero read": (
        [TextDelta("x" * 40), Usage(0, 9, 5, 3), DONE], Usage(None, 9, None, 3), Usage(100, None)
    ),
    "whole, and zero in all": ([TextDelta("x" * 40), Usage(0, 0), DONE], None, Usage(100, 10)),
    "whole, empty, and zero in all": ([Usage(0, 0), DONE], None, Usage(100, 0)),
    "whole, and zero written": (
        [TextDelta("x" * 40), Usage(None, 0), DONE], None, Usage(100, 10)
    ),
    "refused, and zero in all": (
        [Usage(0, 0), StreamError(error_type="provider", message="no")], None, None
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_an_attempt_took(name: str) -> None:
    events, usage, estimate = TAKEN[name]
    taken = tokens_taken(answer_of(*events), REQUEST)
    assert (taken.usage, taken.estimate) == (usage, estimate)
    assert taken.is_nothing == (name in {"refused", "refused, and zero in all"})


def test_a_request_of_nothing_reads_nothing() -> None:
    """The positive control: zero can be true."""
    nothing = ModelRequest(model="m", rounds=[])
    assert tokens_taken(answer_of(Usage(0, 5), DONE), nothing).usage == Usage(0, 5)


@pytest.mark.parametrize("is_sent", [True, False])
def test_what_was_sent_and_broken_off_at_once_was_read(is_sent: bool) -> None:
    answer = AnswerBuilder()
    answer.is_sent = is_sent
    taken = tokens_taken(answer, REQUEST)
    assert taken.estimate == (Usage(100, 0) if is_sent else None)


# ── reservation ──────────────────────────────────────────────────────────────────────────────────


async def test_a_request_that_has_no_room_is_not_made() -> None:
    budget = await opened(book_of(), Budget(tokens=100))
    with pytest.raises(BudgetError, match=r"100 of 100 tokens left.*takes about 100"):
        budget.reserve(PRICED, REQUEST)
    one_more = await opened(book_of(), Budget(tokens=101))
    one_more.reserve(PRICED, REQUEST)


async def test_a_second_request_hears_what_is_used() -> None:
    budget = await opened(book_of(), Budget(tokens=250))
    use(budget, 150)
    with pytest.raises(BudgetError) as caught:
        budget.reserve(PRICED, REQUEST)
    assert str(caught.value) == (
        "The budget of the turn is used up: 250 of 250 tokens. The next prompt has the whole of it again; a "
        "larger one is given with --budget, prompt(…, budget=…) or the agent's turn_budget."
    )


async def test_model_calls_are_counted_before_they_are_made() -> None:
    budget = await opened(book_of(), Budget(model_calls=2))
    use(budget, 1)
    budget.reserve(UNPRICED, REQUEST)  # it never ends, and counts
    with pytest.raises(BudgetError, match="2 of 2 calls of models"):
        budget.reserve(UNPRICED, REQUEST)


async def test_a_cost_is_that_of_the_price_table() -> None:
    # 100 tokens in at $1, 10 out at $10 for a million: $0.0002 a call.
    budget = await opened(book_of(), Budget(cost_usd=0.00045))
    use(budget, 10)
    use(budget, 10)
    with pytest.raises(BudgetError, match=r"\$0\.00005 of \$0\.00045 left"):
        budget.reserve(PRICED, REQUEST)


async def test_what_is_free_needs_no_money() -> None:
    budget = await opened(book_of(), Budget(cost_usd=0))
    assert budget.refusal(FREE) is None
    use(budget, 10_000, FREE)
    with pytest.raises(BudgetError):
        budget.reserve(PRICED, REQUEST)


async def test_an_unknown_price_is_unknown_and_never_zero() -> None:
    budget = await opened(book_of(), Budget(cost_usd=1))
    why = budget.refusal(UNPRICED)
    assert why is not None
    assert "price of p/unheard-of is unknown" in why
    assert '[prices."p/unheard-of"]' in why
    assert budget.refusal(PRICED) is None
    assert (await opened(book_of(), Budget(tokens=500))).refusal(UNPRICED) is None


# ── inside the stream ────────────────────────────────────────────────────────────────────────────


def said(events: list[AnyStreamEvent]) -> int:
    return sum(len(event.text) for event in events if isinstance(event, TextDelta))


@given(
    limit=st.integers(101, 5000),
    sizes=st.lists(st.lists(st.integers(1, 3000), min_size=1), min_size=1, max_size=30),
)
def test_a_stream_is_cut_at_the_limit(limit: int, sizes: list[list[int]]) -> None:
    scope = Scope("s1", "t")
    scope.limit = Budget(tokens=limit)
    charge = Charge([scope], "s1", REQUEST, UNPRICED, PRICES)
    kept: list[AnyStreamEvent] = []
    for batch in sizes:
        events, spent = charge.fit([TextDelta("x" * size) for size in batch])
        kept += events
        if spent is not None:
            assert said(kept) == (limit - 100) * 4
            assert scope.tokens == limit
            break
    else:
        assert said(kept) == sum(map(sum, sizes))
        assert scope.tokens <= limit
    charge.settle(answer_of(*kept))
    assert scope.tokens == 100 + -(-said(kept) // 4) <= limit


WATCHED: dict[str, list[AnyStreamEvent]] = {
    "text": [TextDelta("x" * 4)],
    "thinking": [ThinkingDelta("x" * 4)],
    "arguments": [ToolCallDelta(0, "x" * 4)],
    "what only the provider counts": [Usage(None, 1)],
}


@pytest.mark.parametrize("name", WATCHED)
async def test_whatever_streams_is_measured(name: str) -> None:
    budget = await opened(book_of(), Budget(tokens=200))
    charge = budget.reserve(UNPRICED, REQUEST)
    count, spent = 0, None
    while spent is None:
        count += 1
        assert count < 200
        events = WATCHED[name]
        if isinstance(events[0], Usage):
            events = [Usage(100, count)]
        _, spent = charge.fit(list(events))
    # A count comes before the end of an answer: the first that is too high is let pass.
    assert count == (102 if name == "what only the provider counts" else 101)


async def test_the_providers_own_count_holds_when_it_comes() -> None:
    budget = await opened(book_of(), Budget(tokens=200))
    charge = budget.reserve(UNPRICED, REQUEST)
    assert charge.fit([Usage(150, 1), TextDelta("x" * 200)])[1] is None
    kept, spent = charge.fit([TextDelta("x" * 4)])
    assert (kept, spent is not None) == ([], True)
    less = (await opened(book_of(), Budget(tokens=200))).reserve(UNPRICED, REQUEST)
    assert less.fit([Usage(10, 1), TextDelta("x" * 4 * 190)])[1] is None


async def test_a_count_of_zero_makes_no_room() -> None:
    budget = await opened(book_of(), Budget(tokens=200))
    charge = budget.reserve(UNPRICED, REQUEST)
    assert charge.fit([Usage(0, 0), TextDelta("x" * 4 * 100)])[1] is None
    assert charge.fit([TextDelta("x" * 4)])[1] is not None


async def test_a_count_that_comes_right_before_the_end_cuts_nothing() -> None:
    budget = await opened(book_of(), Budget(tokens=200))
    charge = budget.reserve(UNPRICED, REQUEST)
    for events in ([TextDelta("x" * 40)], [Usage(150, 90)], [DONE]):
        assert charge.fit(list(events)) == (events, None)
    more = (await opened(book_of(), Budget(tokens=200))).reserve(UNPRICED, REQUEST)
    assert more.fit([Usage(150, 90)])[1] is None
    kept, spent = more.fit([TextDelta("x")])
    assert (kept, spent is not None) == ([], True)


async def test_an_answer_that_is_whole_is_taken_whole() -> None:
    budget = await opened(book_of(), Budget(tokens=200))
    charge = budget.reserve(UNPRICED, REQUEST)
    events: list[AnyStreamEvent] = [TextDelta("x" * 4000), DONE]
    assert charge.fit(events) == (events, None)
    charge.settle(answer_of(*events))
    with pytest.raises(BudgetError, match="1,100 of 200 tokens"):
        budget.reserve(UNPRICED, REQUEST)


async def test_a_cost_cuts_the_stream_too() -> None:
    # $0.0001 for the request, and 50 tokens of answer for $0.0005.
    budget = await opened(book_of(), Budget(cost_usd=0.0006))
    charge = budget.reserve(PRICED, REQUEST)
    kept, spent = charge.fit([TextDelta("x") for _ in range(1000)])
    assert said(kept) == 200
    assert "$0.0006 of $0.0006" in str(spent)


async def test_without_a_limit_nothing_is_measured() -> None:
    budget = await opened(book_of(), Budget(seconds=5, tool_calls=5, model_calls=5))
    assert not budget.reserve(UNPRICED, REQUEST).is_watched


# ── scopes in scopes ─────────────────────────────────────────────────────────────────────────────


async def open_child(
    store: FakeStore,
    book: BudgetBook,
    name: str = "c1",
    budget: Budget | None = None,
    *,
    is_detached: bool = False,
) -> TurnBudget:
    """A session that a call of the running turn of s1 delegated to."""
    call = f"call-{name}"
    await keep(
        store, "s1",
        CallProposed(turn_id="t", message_id="m", call_id=call, index=0, name="d", arguments="{}"),
    )  # fmt: skip
    created = SessionCreated(
        agent="general", workspace="/w", kind=SessionKind.WORKER, parent_id="s1",
        parent_call_id=call, budget=book.clip(place_of("s1"), budget), is_detached=is_detached,
    )  # fmt: skip
    await keep(store, name, created)
    return await opened(book, None, created.budget, name=name, turn_id="tc", parent_id="s1")


async def open_family(
    *, turn: Budget | None = None, session: Budget | None = None
) -> tuple[FakeStore, BudgetBook, TurnBudget]:
    store = FakeStore()
    book = book_of(store)
    started = TurnStarted(turn_id="t", input_ids=(), provider="p", model="m")
    await keep(store, "s1", SessionCreated(agent="general", workspace="/w"), started)
    return store, book, await opened(book, turn, session)


async def test_a_session_outlives_its_turns() -> None:
    store, book, first = await open_family(turn=Budget(tokens=1000), session=Budget(tokens=500))
    use(first, 300)
    await keep(
        store, "s1",
        MessageCompleted(
            turn_id="t", message_id="m", parts=(), provider="p", model="m", usage=Usage(100, 300)
        ),
        TurnEnded(turn_id="t", outcome="answered"),
    )  # fmt: skip
    first.close()
    del first
    second = await opened(book, Budget(tokens=1000), Budget(tokens=500), turn_id="t2")
    with pytest.raises(BudgetError, match="budget of the session has 100 of 500 tokens left"):
        second.reserve(PRICED, REQUEST)
    second.close()
    raised = await opened(book, Budget(tokens=1000), Budget(tokens=502), turn_id="t3")
    raised.reserve(PRICED, REQUEST)


async def test_agents_sessions_and_prompts_narrow_each_other() -> None:
    agent = Agent(turn_budget=Budget(tokens=300, model_calls=9), session_budget=Budget(tokens=400))
    budget = await opened(book_of(), Budget(tokens=200), Budget(tokens=1000), agent=agent)
    use(budget, 50)
    with pytest.raises(BudgetError, match="of 200 tokens"):
        budget.reserve(PRICED, REQUEST)
    larger = await opened(book_of(), Budget(tokens=900), Budget(tokens=1000), agent=agent)
    use(larger, 150)
    with pytest.raises(BudgetError, match="of 300 tokens"):
        larger.reserve(PRICED, REQUEST)


async def test_what_a_child_uses_is_gone_for_its_parents_turn() -> None:
    store, book, parent = await open_family(turn=Budget(tokens=1000))
    child = await open_child(store, book)
    use(child, 850)
    with pytest.raises(BudgetError, match="budget of the turn has 50 of 1,000"):
        parent.reserve(PRICED, REQUEST)
    # Seen from the child it is somebody else's, and it can't be raised here.
    with pytest.raises(BudgetError) as caught:
        child.reserve(PRICED, REQUEST)
    assert "is given" in str(caught.value)


async def test_a_child_is_given_at_most_what_is_left(mock_clock: MockClock) -> None:
    _, book, parent = await open_family(
        turn=Budget(tokens=1000, tool_calls=3), session=Budget(tokens=900, seconds=60)
    )
    use(parent, 100)
    place = place_of("s1")
    assert book.clip(place, None) == Budget(tokens=700, seconds=60, tool_calls=3)
    wanted = Budget(tokens=5000, cost_usd=1, seconds=5)
    given = Budget(tokens=700, cost_usd=1, seconds=5, tool_calls=3)
    assert book.clip(place, wanted) == given
    use(parent, 600)
    with pytest.raises(BudgetError, match="used up"):
        book.clip(place, wanted)
    assert book.clip(place_of("unheard-of"), wanted) == wanted


async def test_children_side_by_side_debit_one_parent_at_once() -> None:
    store, book, _ = await open_family(turn=Budget(tokens=1000))
    children = [await open_child(store, book, f"c{number}") for number in range(3)]
    charges = [child.reserve(UNPRICED, REQUEST) for child in children]
    kept = [0, 0, 0]
    cut: set[int] = set()
    while len(cut) < 3:
        for number, charge in enumerate(charges):
            if number not in cut:
                events, spent = charge.fit([TextDelta("x" * 40)])
                kept[number] += said(events)
                if spent is not None:
                    cut.add(number)
    assert sum(kept) == (1000 - 300) * 4


@given(
    limit=st.integers(0, 2000),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["call", "stream", "end", "tool"])),
        max_size=60,
    ),
    told=st.none() | st.integers(0, 300),
)
def test_no_order_of_uses_lets_a_child_have_more_than_its_parent(
    limit: int, steps: list[tuple[int, str]], told: int | None
) -> None:
    """Scopes in scopes as the book nests them: two children, a grandchild, and the parent."""
    parent, *below = scopes = [Scope(f"s{n}") for n in range(4)]
    parent.limit = Budget(tokens=limit, tool_calls=5)
    below[0].limit = Budget(tokens=limit * 2)
    below[1].limit = Budget(tokens=limit // 2)
    chains = [
        [parent], [below[0], parent], [below[1], parent], [below[2], below[1], parent],
    ]  # fmt: skip
    running: dict[int, tuple[Charge, list[AnyStreamEvent]]] = {}
    for who, what in steps:
        if what == "call" and who not in running:
            try:
                charge = Charge(chains[who], f"s{who}", REQUEST, UNPRICED, PRICES)
            except BudgetError:
                assert min(scope.tokens_left for scope in chains[who]) <= 100
            else:
                running[who] = (charge, [])
        elif what == "stream" and who in running:
            charge, got = running[who]
            got += charge.fit([TextDelta("x" * 500), ThinkingDelta("y" * 300)])[0]
        elif what == "end" and who in running:
            charge, got = running.pop(who)
            charge.settle(answer_of(*got))
        for scope in scopes:
            assert scope.tokens >= 0
            assert scope.cost_nanos >= 0
            assert scope.tokens <= (scope.limit.tokens or limit)
        assert sum(scope.tokens for scope in below[:2]) <= parent.tokens
        assert below[2].tokens <= below[1].tokens
    for charge, got in running.values():
        answer = answer_of(*got)
        if told is not None:
            answer.add([Usage(told, told), DONE])
        charge.settle(answer)
    assert all(scope.tokens >= 0 for scope in scopes)
    assert sum(scope.tokens for scope in below[:2]) <= parent.tokens


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


async def test_calls_of_tools_are_taken_one_by_one() -> None:
    budget = await opened(book_of(), Budget(tool_calls=2))
    assert budget.take("a") is None
    assert budget.take("b") is None
    why = budget.take("c")
    assert why is not None
    assert "2 of 2 calls of tools" in why
    assert budget.is_spent in why
    budget.give_back(lambda call_id: call_id == "a")
    assert budget.take("d") is None
    assert budget.take("e") is not None


async def test_a_childs_calls_are_its_parents_too() -> None:
    store, book, parent = await open_family(turn=Budget(tool_calls=2))
    child = await open_child(store, book)
    assert child.take("a") is None
    assert parent.take("b") is None
    assert child.take("c") is not None


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


async def test_time_is_the_least_that_is_left(autojump_clock: MockClock) -> None:
    store, book, parent = await open_family(turn=Budget(seconds=100), session=Budget(seconds=60))
    await trio.sleep(20)
    child = await open_child(store, book, budget=Budget(seconds=1000))
    again = book.turn("c1", "tc2", Agent())
    assert await again.open(given_of(parent_id="s1"), is_resumed=False) == 40
    assert book.clip(place_of("s1"), None) == Budget(seconds=40)
    await trio.sleep(40)
    assert "The budget of the session is used up: 60.0 of 60 seconds." in parent.out_of_time()
    assert "above, of s1" in again.out_of_time()
    child.close()


async def test_what_nobody_waits_for_takes_time_of_its_own(autojump_clock: MockClock) -> None:
    """Side by side they share what is left above: the time of each goes as fast as there are."""
    store, book, parent = await open_family(session=Budget(seconds=60))
    apart = [await open_child(store, book, f"c{number}", is_detached=True) for number in range(2)]
    waited = await open_child(store, book, "w1")
    bound = trio.CancelScope()
    parent.close()
    again = await opened(book, None, Budget(seconds=60), turn_id="t2")
    again.close()
    apart.append(book.turn("c2", "tc", Agent()))
    await keep(store, "c2", SessionCreated(
        agent="general", workspace="/w", kind=SessionKind.BRANCH, parent_id="s1",
        parent_call_id="call-c1", is_detached=True,
    ))  # fmt: skip
    assert await apart[2].open(given_of(parent_id="s1"), is_resumed=False, bound=bound) == 20
    await trio.sleep(10)
    apart[0].close()
    apart[1].close()
    waited.close()
    # 30 of 60 seconds are used, and one of three goes on.
    assert bound.deadline == trio.current_time() + 30
    await trio.sleep(30)
    apart[2].close()
    with pytest.raises(BudgetError, match=r"60\.0 of 60 seconds"):
        book.clip(place_of("s1"), None)


@pytest.mark.parametrize("is_detached", [True, False])
async def test_the_time_of_what_nobody_waited_for_is_on_record(is_detached: bool) -> None:
    store, book, parent = await open_family()
    child = await open_child(store, book, is_detached=is_detached)
    child.close()
    parent.close()
    await keep(
        store, "c1",
        TurnStarted(turn_id="tc", input_ids=(), provider="p", model="m"),
        TurnEnded(turn_id="tc", outcome="answered", duration_ms=7000),
    )  # fmt: skip
    await keep(store, "s1", TurnEnded(turn_id="t", outcome="answered", duration_ms=2000))
    spending = await store.inner.spending("s1")
    assert spending is not None
    assert spending.seconds == (9 if is_detached else 2)
    of_turn = await store.inner.spending("s1", "t")
    assert of_turn is not None
    assert of_turn.seconds == spending.seconds


# ── from the record ──────────────────────────────────────────────────────────────────────────────


def told(**fields: Any) -> MessageCompleted:
    return MessageCompleted(turn_id="t", parts=(), provider="p", model="m", **fields)


async def on_record(store: FakeStore) -> None:
    """s1 has used 1,000 tokens: counted, estimated, failed, and by a child."""
    ids = {"turn_id": "t", "call_id": "call-c1"}
    await keep(
        store, "s1",
        SessionCreated(agent="general", workspace="/w", budget=Budget(tokens=5)),
        SessionBudgetSet(budget=Budget(tokens=2000)),
        TurnStarted(turn_id="t", input_ids=(), provider="p", model="m"),
        told(message_id="m1", usage=Usage(100, 200)),
        told(message_id="m2", usage=Usage(50), estimate=Usage(None, 50), incomplete=True),
        AttemptFailed(
            turn_id="t", provider="p", model="m", attempt=1, error_type="network", message="",
            wait_seconds=1, estimate=Usage(60, 40),
        ),
        AttemptFailed(
            turn_id="t", provider="p", model="m", attempt=2, error_type="network", message="",
            wait_seconds=1,
        ),
        AttemptCharged(turn_id="t", provider="p", model="m", usage=Usage(70, 30)),
        CallProposed(message_id="m1", index=0, name="d", arguments="{}", **ids),
        CallStarted(**ids),
    )  # fmt: skip
    await keep(
        store, "c1",
        SessionCreated(
            agent="general", workspace="/w", parent_id="s1", parent_call_id="call-c1",
            kind=SessionKind.WORKER,
        ),
        TurnStarted(turn_id="tc", input_ids=(), provider="p", model="m"),
        msgspec.structs.replace(told(message_id="mc", usage=Usage(100, 300)), turn_id="tc"),
        TurnEnded(turn_id="tc", outcome="answered", duration_ms=7000),
    )  # fmt: skip


async def test_what_was_used_is_read_from_the_record(mock_clock: MockClock) -> None:
    store = FakeStore()
    await on_record(store)
    finished = CallFinished(
        turn_id="t", call_id="call-c1", name="d", status=CallStatus.SUCCESS, result="1"
    )
    ended = TurnEnded(turn_id="t", outcome="answered", duration_ms=9000)
    await keep(store, "s1", finished, ended)
    spending = await store.inner.spending("s1")
    assert spending is not None
    assert (spending.failed_calls, spending.tool_calls, spending.seconds) == (1, 1, 9.0)
    assert len(spending.calls) == 5
    assert spending.budget == Budget(tokens=2000)
    limit = Budget(tokens=1001, tool_calls=2, model_calls=7, seconds=10)
    budget = await opened(book_of(store), None, limit, turn_id="t2")
    with pytest.raises(BudgetError, match="has 1 of 1,001 tokens left"):
        budget.reserve(PRICED, REQUEST)
    assert budget.take("x") is None
    assert budget.take("y") is not None
    [left] = [await book_of(store).turn("s1", "t3", Agent()).open(
        given_of(None, limit), is_resumed=False
    )]  # fmt: skip
    assert left == 1


async def test_the_time_without_a_process_does_not_count() -> None:
    store = FakeStore()
    await on_record(store)
    crashed = TurnEnded(turn_id="t", outcome="failed", error_type="internal", duration_ms=10**9)
    await keep(store, "s1", crashed)
    spending = await store.inner.spending("s1")
    assert spending is not None
    assert spending.seconds < 1000


async def test_a_child_is_bounded_by_a_parent_that_is_not_loaded() -> None:
    store = FakeStore()
    await on_record(store)
    await keep(store, "s1", SessionBudgetSet(budget=Budget(tokens=1099)))
    child = await opened(book_of(store), name="c1", turn_id="tc2", parent_id="s1")
    with pytest.raises(BudgetError) as caught:
        child.reserve(PRICED, REQUEST)
    assert "the session above, of s1, has 99 of 1,099 tokens left" in str(caught.value)
    await keep(store, "s1", SessionBudgetSet())
    free = await opened(book_of(store), name="c1", turn_id="tc3", parent_id="s1")
    free.reserve(PRICED, REQUEST)


async def test_costs_on_record_are_at_present_prices_and_an_unknown_one_is_told() -> None:
    store = FakeStore()
    await on_record(store)
    # 380 tokens in at $1, 620 out at $10 for a million: $0.00658.
    budget = await opened(book_of(store), None, Budget(cost_usd=0.00659), turn_id="t2")
    with pytest.raises(BudgetError, match=r"\$0\.00001 of \$0\.00659 left"):
        budget.reserve(PRICED, REQUEST)
    strange = msgspec.structs.replace(told(message_id="m9", usage=Usage(1, 1)), model="odd")
    await keep(store, "s1", strange)
    unknown = await opened(book_of(store), None, Budget(cost_usd=50), turn_id="t3")
    with pytest.raises(BudgetError, match=r"what it cost so far is unknown: p/odd"):
        unknown.reserve(PRICED, REQUEST)


async def test_what_runs_is_counted_once_whenever_the_record_is_read() -> None:
    """A limit comes while a child is at work: what it has used stays, on record or not."""
    store, book, parent = await open_family()
    child = await open_child(store, book)
    for call in ("kept", "unused"):
        assert child.take(call) is None
    use(child, 200)
    await keep(
        store, "c1",
        TurnStarted(turn_id="tc", input_ids=(), provider="p", model="m"),
        msgspec.structs.replace(told(message_id="mc", usage=Usage(100, 200)), turn_id="tc"),
        CallProposed(
            turn_id="tc", message_id="mc", call_id="kept", index=0, name="n", arguments="{}"
        ),
        CallStarted(turn_id="tc", call_id="kept"),
    )  # fmt: skip
    use(child, 50)  # 150 tokens that are not on record yet
    running = child.reserve(PRICED, REQUEST)
    await keep(store, "s1", TurnEnded(turn_id="t", outcome="answered"))
    parent.close()
    limit = Budget(tokens=700, tool_calls=2, model_calls=5, cost_usd=1)
    later = await opened(book, None, limit, turn_id="t2")
    # 450 tokens by two calls, and one that runs; two calls of tools, one of which did not run.
    assert book.clip(place_of("s1"), None) == Budget(
        tokens=250, tool_calls=0, model_calls=2, cost_usd=0.9973
    )
    child.give_back(lambda call_id: call_id == "kept")
    assert later.take("a") is None
    assert later.take("b") is not None
    running.settle(answer_of(Usage(100, 0), TextDelta("x"), DONE))
    use(later, 50)
    with pytest.raises(BudgetError, match="used up: 700 of 700 tokens"):
        later.reserve(PRICED, REQUEST)


class Interrupted:
    """A record of which the answer comes late."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.is_slow = True
        self.asked = trio.Event()
        self.go_on = trio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def spending(self, *names: Any) -> Any:
        spending = await self._inner.spending(*names)
        if self.is_slow:
            self.is_slow = False
            self.asked.set()
            await self.go_on.wait()
        return spending


async def test_what_is_settled_while_the_record_is_read_stays() -> None:
    store, _, _ = await open_family()
    record: Any = Interrupted(store.inner)
    record.is_slow = False
    book = BudgetBook(record, PRICES, {"general": Agent()})
    parent = await opened(book)
    child = await open_child(store, book)
    parent.close()
    record.is_slow = True
    async with trio.open_nursery() as nursery:
        later = book.turn("s1", "t2", Agent())
        given = given_of(None, Budget(tokens=1000))
        nursery.start_soon(lambda: later.open(given, is_resumed=False))
        await record.asked.wait()
        use(child, 500)
        record.go_on.set()
    assert book.clip(place_of("s1"), None) == Budget(tokens=400)


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_turn_binds_what_it_delegated_after_a_restart(is_over: bool) -> None:
    """And in later turns of that, with all that it delegated."""
    store = FakeStore()
    await keep(
        store, "s1",
        SessionCreated(agent="general", workspace="/w"),
        InputAccepted(input_id="i1", text="Go.", budget=Budget(tokens=1000)),
        TurnStarted(turn_id="t", input_ids=("i1",), provider="p", model="m"),
        told(message_id="m1", usage=Usage(100, 200)),
    )  # fmt: skip
    for name in ("c1", "c2"):
        await open_child(store, book_of(store), name, is_detached=True)
    if is_over:
        await keep(
            store, "s1",
            TurnEnded(turn_id="t", outcome="answered"),
            InputAccepted(input_id="i2", text="Go.", budget=Budget(tokens=5)),
            TurnStarted(turn_id="t2", input_ids=("i2",), provider="p", model="m"),
        )  # fmt: skip
    book = book_of(store)
    first = await opened(book, name="c1", turn_id="t3", parent_id="s1")
    second = await opened(book, name="c2", turn_id="t4", parent_id="s1")
    use(first, 300)
    with pytest.raises(BudgetError, match=r"turn above, of s1, has 300 of 1,000 tokens left"):
        second.reserve(PRICED, big(300))
    use(second, 200)
    with pytest.raises(BudgetError, match=r"used up: 1,000 of 1,000 tokens"):
        first.reserve(PRICED, REQUEST)


def big(tokens: int) -> ModelRequest:
    return ModelRequest(model="m", rounds=[Round([Input("x" * 4 * tokens)])])
