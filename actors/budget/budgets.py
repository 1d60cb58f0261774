"""Budgets: what turns and sessions may use, each within the turn and the session above it.

turn → its session → the turn that delegated it → that one's session → …

Each use is debited in all of them at once, without a wait in between: a model call by reservation
and corrected by what its provider counted, a tool call when it is about to run. `BudgetBook` has
the scopes of all that runs; what has run is read from the record when a limit asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

import trio

from ...config.prices import PriceTable
from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.budget import UNLIMITED, Budget, narrowed
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
from .charge import Charge
from .scope import Scope


class GivenBudgets:
    """What the session and its latest turn may use, before the agent's own limits.

    Attributes:
        session: Of the whole session.
        turn: Of the latest turn.
        parent_id: Who delegated to the session, and so lends to it.
    """

    def __init__(self) -> None:
        self.session: Budget | None = None
        self.turn: Budget | None = None
        self.parent_id: str | None = None
        self._of_inputs: dict[str, Budget] = {}

    def fold(self, event: DurableEvent) -> None:
        """Takes the next event into account; most say nothing of budgets."""
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
"""Without any of these a session could not even answer."""

OWN_SCOPES = 2
"""The turn's and its session's; those above have its time only when nobody there waits for it."""


class Account:
    """A session as far as budgets are concerned.

    Attributes:
        scope: Of the session.
        turns: Those of its turns that run, or below which others do.

    Args:
        session_id: The session.
        parent: The session above, if there is one.
        turn_above: The turn of that which delegated.
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
        """Its own and those above it."""
        above = self._parent.scopes() if self._parent is not None else []
        if self._turn_above is not None:
            above.insert(0, self._turn_above)
        return [self.scope, *above]


class BudgetBook:
    """The budgets of a runtime's sessions.

    Args:
        store: Where what was used is read.
        prices: What models cost.
        agents: Have budgets too.
    """

    def __init__(self, store: StoreReader, prices: PriceTable, agents: Mapping[str, Agent]) -> None:
        self.prices = prices
        self._store = store
        self._agents = agents
        # As long as a turn of theirs, or one below it, runs; the record knows the rest.
        self._accounts: WeakValueDictionary[str, Account] = WeakValueDictionary()

    def turn(self, session_id: str, turn_id: str, agent: Agent) -> TurnBudget:
        """The budget of a turn, which is opened when the turn runs."""
        return TurnBudget(self, session_id, turn_id, agent)

    def clip(self, place: CallPlace, wanted: Budget | None) -> Budget | None:
        """What a session may give to one below it: at most what is left to its turn and above.

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

    async def account(self, session_id: str, given: GivenBudgets, agent: Agent) -> Account:
        """The account of a session whose turn begins, up to date with the record."""
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
        """Reads what was used before, if a limit asks for that and nobody has yet.

        With `always` without a limit too: one that came later could not tell the past of a turn
        that goes on from what that has used since.
        """
        if not scope.is_read and (always or scope.is_limited):
            spending = await self._store.spending(scope.session_id, scope.turn_id or None)
            if spending is not None:
                scope.read(spending, self.prices)

    async def _load(self, session_id: str) -> Account:
        """The account of a session that runs below another, whether that is loaded or not."""
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
        """A turn that delegated, and may be over: what it was given binds what it has begun."""
        if not turn_id or (turn := account.turns.get(turn_id)) is not None:
            return account.turns.get(turn_id)
        given, session_id = GivenBudgets(), account.session_id
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
        is_spent: Why the turn ends, once a call of it was refused.
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
        self, given: GivenBudgets, *, is_resumed: bool, bound: trio.CancelScope | None = None
    ) -> float:
        """Begins to count; gives how many seconds the turn has, `math.inf` without a limit.

        Args:
            given: What the session was given to use.
            is_resumed: Whether it ran before.
            bound: Gets its deadline, which moves when others begin or end that use the same time.
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
        """The turn is over."""
        for scope in self._scopes:
            scope.end(self._retime)

    @property
    def _time_left(self) -> float:
        return min(scope.time_left for scope in self._scopes)

    def _retime(self) -> None:
        self._bound.deadline = trio.current_time() + self._time_left

    def out_of_time(self) -> str:
        """Whose time is over, in words."""
        scope = min(self._scopes, key=lambda each: each.time_left)
        return scope.used_up("seconds", self._session_id)

    # ── models ───────────────────────────────────────────────────────────────────────────────────

    def refusal(self, target: ModelTarget) -> str | None:
        """Why this model can't be asked at all: a cost is limited, and its price is unknown."""
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
        """Counts a model call that is about to be made.

        Raises:
            BudgetError: Nothing, or too little, is left for it.
        """
        charge = Charge(self._scopes, self._session_id, request)
        charge.reserve(self._book.prices, target)
        return charge

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def take(self, call_id: str) -> str | None:
        """See `CallQuota`."""
        call = (self._session_id, call_id)
        due = [scope for scope in self._scopes if not scope.has_counted(call)]
        for scope in due:
            if scope.tool_calls_left < 1:
                self.is_spent = scope.used_up("tool_calls", self._session_id)
                return f"Not run: {self.is_spent}"
        for scope in due:
            scope.count(call)
        self._debited.setdefault(call_id, due)
        return None

    def give_back(self, has_run: Callable[[str], bool]) -> None:
        """The calls of an answer are over; those that did not run after all cost nothing."""
        debited, self._debited = self._debited, {}
        for call_id, scopes in debited.items():
            if not has_run(call_id):
                for scope in scopes:
                    scope.discount((self._session_id, call_id))
