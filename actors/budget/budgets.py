"""What turns and sessions may use, each within the turn and the session above it.

turn → its session → the turn that delegated it → that one's session → …

Each use is debited in all of these scopes at once, without a checkpoint in between, so that
sessions side by side can't both take the last of it. A model call is reserved before it, measured
while it streams, and corrected by what its provider counted. A tool call is counted when it is about
to run, and given back if it did not.

`BudgetBook` has the scopes of all that runs. What ran before is read from the record, once, when a
limit asks for it; so nothing is lost by a restart, and a runtime without limits reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakValueDictionary

import trio

from ...config.prices import Price, PriceTable
from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.budget import MAX_AMOUNT, UNLIMITED, Budget, narrowed
from ...runtime.definitions import Agent
from ...runtime.errors import BudgetError
from ...runtime.events import (
    DurableEvent,
    InputAccepted,
    SessionBudgetSet,
    SessionCreated,
    TurnSetAside,
    TurnStarted,
)
from ...runtime.messages import CallPlace
from ...runtime.store.interface import StoreReader
from ...runtime.stream import AnyStreamEvent, Done, StreamError, TextDelta, Usage
from ..model.answer import (
    BYTES_PER_TOKEN,
    AnswerBuilder,
    TokenCount,
    event_bytes,
    request_tokens,
    tokens_of_bytes,
    tokens_taken,
)
from .scope import NANOS, Scope, nanos

_PROBE_TOKENS = 1_000_000
"""Enough to see the price of one token: prices are for a million."""

MAX_TOKENS_AHEAD = 64
SHARE_AHEAD = 0.01
"""A stream reserves this much ahead, so that not every token is carried up through all scopes; a
small share of what is left, so that others get the rest."""


class SessionBudgets:
    """The budgets of a session and its latest turn, by its record; the agent's own come on top.

    Attributes:
        session: The budget of the whole session.
        turn: The budget of the latest turn.
        parent_id: The session that delegated to it, and so lends to it.
    """

    def __init__(self) -> None:
        self.session: Budget | None = None
        self.turn: Budget | None = None
        self.parent_id: str | None = None
        self._of_inputs: dict[str, Budget] = {}

    def fold(self, event: DurableEvent) -> None:
        """Take the next event into account; most say nothing about budgets."""
        match event:
            case InputAccepted(budget=budget):
                if budget is not None:
                    self._of_inputs[event.input_id] = budget
            case TurnStarted():
                given = [self._of_inputs.pop(name, None) for name in event.input_ids]
                self.turn = next(filter(None, given), None)
            case TurnSetAside():
                if self.turn is not None and event.input_ids:
                    self._of_inputs[event.input_ids[0]] = self.turn
            case SessionCreated():
                self.session, self.parent_id = event.budget, event.parent_id
            case SessionBudgetSet():
                self.session = event.budget


NEEDED = ("tokens", "cost_usd", "seconds", "model_calls")
"""Amounts without which a session could not even answer."""

OWN_SCOPES = 2
"""The turn's and its session's; scopes above count its time only if nobody there waits for it."""


class Account:
    """A session as far as budgets are concerned.

    Attributes:
        scope: The session's.
        turns: The scopes of its turns that run, or below which others run.

    Args:
        session_id: The session.
        parent: The session above, if there is one.
        turn_above: The turn of that session which delegated.
        runs_apart: Whether nobody waits for it.
    """

    def __init__(
        self,
        session_id: str,
        parent: Account | None = None,
        turn_above: Scope | None = None,
        *,
        runs_apart: bool = False,
    ) -> None:
        self.scope = Scope(session_id)
        self.turns: WeakValueDictionary[str, Scope] = WeakValueDictionary()
        self.session_id = session_id
        self.runs_apart = runs_apart
        self._parent = parent
        self._turn_above = turn_above

    def scopes(self) -> list[Scope]:
        """Return its own scope and those above it."""
        above = self._parent.scopes() if self._parent is not None else []
        if self._turn_above is not None:
            above.insert(0, self._turn_above)
        return [self.scope, *above]


class BudgetBook:
    """The budgets of a runtime's sessions.

    Args:
        store: Where past use is read.
        prices: What models cost.
        agents: The agents, which have budgets too.
    """

    def __init__(self, store: StoreReader, prices: PriceTable, agents: Mapping[str, Agent]) -> None:
        self.prices = prices
        self._store = store
        self._agents = agents
        # Kept while a turn of the session, or one below it, runs; the record knows the rest.
        self._accounts: WeakValueDictionary[str, Account] = WeakValueDictionary()

    def turn(self, session_id: str, turn_id: str, agent: Agent) -> TurnBudget:
        """Return the budget of a turn, to be opened when the turn runs."""
        return TurnBudget(self, session_id, turn_id, agent)

    def clip(self, place: CallPlace, wanted: Budget | None) -> Budget | None:
        """Return the budget for a session below this one: at most what is left here and above.

        `None` when nothing limits it.

        Raises:
            BudgetError: Nothing is left of something that every session needs.
        """
        account = self._accounts.get(place.session_id)
        if account is None:
            return wanted
        turn = account.turns.get(place.turn_id)
        scopes = [*([turn] if turn is not None else []), *account.scopes()]
        for scope in scopes:
            left = scope.left
            for what in NEEDED:
                if getattr(left, what) == 0:
                    raise BudgetError(scope.used_up(what, place.session_id))
        given = narrowed(wanted, *(scope.left for scope in scopes))
        return None if given == UNLIMITED else given

    async def account(self, session_id: str, given: SessionBudgets, agent: Agent) -> Account:
        """Return the account of a session whose turn begins, up to date with the record."""
        account = self._accounts.get(session_id)
        if account is None:
            if given.parent_id is None:
                account = self._accounts.setdefault(session_id, Account(session_id))
            else:
                account = await self._load(session_id)
        account.scope.limit = narrowed(agent.session_budget, given.session)
        await self.update(account.scope)
        return account

    async def update(self, scope: Scope, *, always: bool = False) -> None:
        """Read what was used before, if a limit asks for it and it was not read yet.

        With `always`, without a limit too: a limit that came later could not tell the past of a
        resumed turn from what it has used since.
        """
        if not scope.is_read and (always or scope.is_limited):
            spending = await self._store.spending(scope.session_id, scope.turn_id or None)
            if spending is not None:
                scope.read(spending, self.prices)

    async def _load(self, session_id: str) -> Account:
        """Return the account of a session below another, whether that is loaded or not."""
        spending = await self._store.spending(session_id)
        if spending is None or (parent_id := spending.parent_id) is None:
            return self._accounts.setdefault(session_id, Account(session_id))
        parent = self._accounts.get(parent_id) or await self._load_above(parent_id)
        turn = await self._turn_above(parent, spending.parent_turn_id)
        account = Account(session_id, parent, turn, runs_apart=spending.runs_apart)
        return self._accounts.setdefault(session_id, account)

    async def _load_above(self, session_id: str) -> Account:
        account = await self._load(session_id)
        spending = await self._store.spending(session_id)
        if spending is not None and not account.scope.is_limited:
            agent = self._agents.get(spending.agent)
            own = agent.session_budget if agent is not None else None
            account.scope.limit = narrowed(own, spending.budget)
        await self.update(account.scope)
        return account

    async def _turn_above(self, account: Account, turn_id: str) -> Scope | None:
        """Return the scope of a turn that delegated; if it is over, its budget still binds."""
        if not turn_id or (turn := account.turns.get(turn_id)) is not None:
            return account.turns.get(turn_id)
        given, session_id = SessionBudgets(), account.session_id
        for stored in await self._store.events(session_id):
            given.fold(stored.event)
            if isinstance(stored.event, TurnStarted) and stored.event.turn_id == turn_id:
                break
        spending = await self._store.spending(session_id)
        agent = self._agents.get(spending.agent) if spending is not None else None
        turn = account.turns.setdefault(turn_id, Scope(session_id, turn_id))
        turn.limit = narrowed(agent.turn_budget if agent is not None else None, given.turn)
        await self.update(turn)
        return turn


class TurnBudget:
    """What a running turn may use, by its own limits and all above it.

    Attributes:
        is_spent: Why the turn ends, once one of its calls was refused.
    """

    def __init__(self, book: BudgetBook, session_id: str, turn_id: str, agent: Agent) -> None:
        self.is_spent = ""
        self._book = book
        self._session_id = session_id
        self._turn_id = turn_id
        self._agent = agent
        self._account: Account | None = None
        self._scopes: list[Scope] = []
        self._bound = trio.CancelScope()
        self._debited: dict[str, list[Scope]] = {}

    async def open(
        self, given: SessionBudgets, *, is_resumed: bool, bound: trio.CancelScope | None = None
    ) -> float:
        """Begin to count; return how many seconds the turn has, `math.inf` without a limit.

        Args:
            given: The session's budgets.
            is_resumed: Whether the turn ran before.
            bound: Gets the deadline, which moves when turns that use the same time begin or end.
        """
        account = await self._book.account(self._session_id, given, self._agent)
        turn = account.turns.setdefault(self._turn_id, Scope(self._session_id, self._turn_id))
        turn.limit = narrowed(self._agent.turn_budget, given.turn)
        scopes = [turn, *account.scopes()]
        for scope in scopes if is_resumed else ():
            await self._book.update(scope, always=True)
        self._account, self._scopes = account, scopes
        self._bound = self._bound if bound is None else bound
        for place, scope in enumerate(scopes):
            has_time = place < OWN_SCOPES or account.runs_apart
            scope.begin(self._turn_id, self._retime, has_time=has_time)
        return self._time_left

    def close(self) -> None:
        """Stop counting: the turn is over."""
        for scope in self._scopes:
            scope.end(self._retime)

    @property
    def _time_left(self) -> float:
        return min(scope.time_left for scope in self._scopes)

    def _retime(self) -> None:
        self._bound.deadline = trio.current_time() + self._time_left

    def is_own_time_over(self, seconds: float) -> bool:
        """Whether the turn ends by this limit of its own."""
        own, *others = self._scopes
        is_first = all(own.time_left <= each.time_left for each in others)
        return own.limit.seconds == seconds and is_first

    def out_of_time(self) -> str:
        """Return whose time is over, in words."""
        scope = min(self._scopes, key=lambda each: each.time_left)
        return scope.used_up("seconds", self._session_id)

    # ── models ───────────────────────────────────────────────────────────────────────────────────

    def refusal(self, target: ModelTarget) -> str | None:
        """Return why this model can't be asked: the cost is limited, and its price is unknown."""
        limited = [scope for scope in self._scopes if scope.limit.cost_usd is not None]
        if not limited or self._book.prices.price(target.provider, target.model) is not None:
            return None
        name = f"{target.provider}/{target.model}"
        return (
            f"The price of {name} is unknown, and the budget of "
            f"{limited[0].title(self._session_id)} limits the cost: nothing was sent to it. Put its "
            f'price into callboard.toml ([prices."{name}"]), or limit tokens instead.'
        )

    def reserve(self, target: ModelTarget, request: ModelRequest) -> Charge:
        """Count a model call that is about to be made.

        Raises:
            BudgetError: Nothing, or too little, is left for it.
        """
        return Charge(self._scopes, self._session_id, request, target, self._book.prices)

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def take(self, call_id: str) -> str | None:
        """Count a tool call; return why there is no room for it, or `None`. See `CallQuota`."""
        call = (self._session_id, call_id)
        due = [scope for scope in self._scopes if call not in scope.tool_calls]
        for scope in due:
            if scope.limit.tool_calls is not None and scope.tool_calls_left < 1:
                self.is_spent = scope.used_up("tool_calls", self._session_id)
                return f"Not run: {self.is_spent}"
        for scope in due:
            scope.tool_calls[call] = None
        self._debited.setdefault(call_id, due)
        return None

    def give_back(self, has_run: Callable[[str], bool]) -> None:
        """Give calls back that did not run after all; called when those of an answer are over."""
        debited, self._debited = self._debited, {}
        for call_id, scopes in debited.items():
            if not has_run(call_id):
                for scope in scopes:
                    scope.tool_calls.pop((self._session_id, call_id), None)


class Charge:
    """What one model call is charged, in all scopes that it counts for; made before the call.

    Attributes:
        is_watched: Whether its stream must be measured: tokens or costs have a limit.

    Args:
        scopes: From the turn upwards.
        session_id: The session of the turn.
        request: What the model is asked.
        target: The model.
        prices: What models cost.

    Raises:
        BudgetError: Nothing, or too little, is left for the call; nothing was counted.
    """

    def __init__(
        self,
        scopes: Sequence[Scope],
        session_id: str,
        request: ModelRequest,
        target: ModelTarget,
        prices: PriceTable,
    ) -> None:
        self.is_watched = any(
            scope.limit.tokens is not None or scope.limit.cost_usd is not None for scope in scopes
        )
        self._scopes = scopes
        self._session_id = session_id
        self._request = request
        self._price: Price | None = None
        self._prices = prices
        self._target = target
        self._rate = 0.0
        self._input = self._output = self._granted = self._bytes = 0
        self._held_tokens = self._held_nanos = 0
        self._is_overdrawn = False
        for scope in scopes:
            if scope.model_calls_left < 1:
                raise BudgetError(scope.used_up("model_calls", self._session_id))
        if self.is_watched:
            if any(scope.limit.cost_usd is not None for scope in scopes):
                self._price = prices.price(target.provider, target.model)
                self._check_known_costs()
            self._input = request_tokens(request)
            cost = self._weigh_input()
            for scope in scopes:
                self._check_room(scope, cost)
            self._hold()
        for scope in scopes:
            scope.model_calls += 1

    def fit(self, events: list[AnyStreamEvent]) -> tuple[list[AnyStreamEvent], BudgetError | None]:
        """Return what of a batch is within the limits, and why the stream must end there, if so.

        A batch that ends the answer is taken whole: cutting it would save nothing. A provider's
        count that exceeds the limit often comes right before that end, so the end is waited for.
        """
        counted, size = 0, self._bytes
        for event in events:
            if type(event) is TextDelta and event.text.isascii():  # by far the most frequent
                size += len(event.text)
            elif type(event) is Usage:
                counted = self._note(event, counted)
            else:
                size += event_bytes(event)
        output = max(counted, tokens_of_bytes(size), self._output)
        if output > self._granted or self._is_overdrawn:
            return self._grow(events, size, output, counted)
        self._bytes, self._output = size, output
        return events, None

    def _grow(
        self, events: list[AnyStreamEvent], size: int, output: int, counted: int
    ) -> tuple[list[AnyStreamEvent], BudgetError | None]:
        """Reserve for an answer of this length and a little more, or cut it."""
        room = self._room()
        most = self._granted + int(min(room, MAX_AMOUNT))
        is_over = isinstance(events[-1], Done | StreamError) if events else False
        is_within = output <= most and not self._is_overdrawn
        is_told = size == self._bytes and not self._is_overdrawn
        if is_over or is_within or is_told:
            self._is_overdrawn = not is_within
            self._bytes, self._output = size, output
            ahead = int(min(room * SHARE_AHEAD, MAX_TOKENS_AHEAD))
            self._granted = max(output, min(output + ahead, most))
            self._hold()
            return events, None
        room_bytes = 0 if self._is_overdrawn else most * BYTES_PER_TOKEN - self._bytes
        kept = events if counted > most else _cut(events, room_bytes)
        self._output = self._granted = output if counted > most else most
        self._hold()
        return kept, self._spent()

    def settle(self, answer: AnswerBuilder) -> TokenCount:
        """Charge what the call took, and free what was reserved for it."""
        taken = tokens_taken(answer, self._request)
        usage, estimate = taken.usage or Usage(), taken.estimate or Usage()
        tokens_in = _first(usage.input_tokens, estimate.input_tokens)
        tokens_out = _first(usage.output_tokens, estimate.output_tokens)
        for scope in self._scopes:
            scope.hold(-self._held_tokens, -self._held_nanos)
            scope.spend(tokens_in + tokens_out)
        if not taken.is_nothing:
            cached, written = usage.cached_tokens, usage.cache_write_tokens
            whole = Usage(tokens_in, tokens_out, cached, None, written)
            # Without a limit of the cost too: one may come later.
            model = f"{self._target.provider}/{self._target.model}"
            cost = self._prices.cost(self._target.provider, self._target.model, whole)
            for scope in self._scopes:
                scope.spend_cost(cost, model)
        self._held_tokens = self._held_nanos = 0
        return taken

    # ── room ─────────────────────────────────────────────────────────────────────────────────────

    def _check_known_costs(self) -> None:
        for scope in self._scopes:
            if scope.limit.cost_usd is not None and scope.unknown_cost:
                raise BudgetError(
                    f"The budget of {scope.title(self._session_id)} limits the cost, and what it "
                    f"cost so far is unknown: {scope.unknown_cost} has no known price, or its "
                    f'tokens were not counted. Put a price into callboard.toml ([prices."'
                    f'{scope.unknown_cost}"]), or begin a new session.'
                )

    def _check_room(self, scope: Scope, cost: int) -> None:
        tokens_left, nanos_left = scope.tokens_left, scope.nanos_left
        is_free = self._price is not None and self._price.is_free
        if tokens_left < 1:
            raise BudgetError(scope.used_up("tokens", self._session_id))
        if nanos_left < 1 and not is_free:
            raise BudgetError(scope.used_up("cost_usd", self._session_id))
        if tokens_left <= self._input:
            raise BudgetError(scope.too_little("tokens", self._input, self._session_id))
        if nanos_left < cost:
            raise BudgetError(scope.too_little("cost_usd", self._input, self._session_id))

    def _room(self) -> float:
        """Return how many more tokens the answer may have."""
        room = math.inf
        for scope in self._scopes:
            room = min(room, scope.tokens_left)
            if self._rate:
                room = min(room, scope.nanos_left / self._rate)
        return room

    def _spent(self) -> BudgetError:
        """Return the error of the limit that has no room left."""
        by_tokens = min(self._scopes, key=lambda scope: scope.tokens_left)
        if by_tokens.tokens_left < 1:
            return BudgetError(by_tokens.used_up("tokens", self._session_id))
        by_cost = min(self._scopes, key=lambda scope: scope.nanos_left)
        return BudgetError(by_cost.used_up("cost_usd", self._session_id))

    def _note(self, usage: Usage, counted: int) -> int:
        """Take the provider's own count, as far as it goes; return that of the output."""
        # An input of zero is not a count: see `tokens_taken`.
        if usage.input_tokens and usage.input_tokens != self._input:
            self._input = usage.input_tokens
            self._weigh_input()
            self._hold()
        return max(usage.output_tokens or 0, counted)

    def _weigh_input(self) -> int:
        """Return what the input costs, and note what each token of the output does."""
        if self._price is None:
            return 0
        cost = self._price.cost(Usage(self._input, 0)) or 0.0
        with_output = self._price.cost(Usage(self._input, _PROBE_TOKENS)) or 0.0
        self._rate = (with_output - cost) * NANOS / _PROBE_TOKENS
        return nanos(cost)

    def _hold(self) -> None:
        tokens, cost = self._input + self._granted, 0
        if self._price is not None:
            cost = nanos(self._price.cost(Usage(self._input, self._granted)) or 0.0)
        for scope in self._scopes:
            scope.hold(tokens - self._held_tokens, cost - self._held_nanos)
        self._held_tokens, self._held_nanos = tokens, cost


def _cut(events: list[AnyStreamEvent], room: int) -> list[AnyStreamEvent]:
    """Return the events that fit into so many bytes; a text is cut where they end."""
    kept: list[AnyStreamEvent] = []
    for event in events:
        size = event_bytes(event)
        if size > room:
            if type(event) is TextDelta and room > 0:
                text = event.text.encode(errors="replace")[:room].decode(errors="ignore")
                kept.append(TextDelta(text))
            break
        room -= size
        kept.append(event)
    return kept


def _first(counted: int | None, estimated: int | None) -> int:
    return counted if counted is not None else estimated or 0
