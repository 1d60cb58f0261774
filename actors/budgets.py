"""Budgets: what turns and sessions may use, each within the turn and the session above it.

turn → its session → the turn that delegated it → that one's session → …

Each use is debited in all of them at once, without a wait in between: a model call by reservation
and corrected by what its provider counted, a tool call when it is about to run. `BudgetBook` has
the scopes of all that runs; what has run is read from the record when a limit asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from weakref import WeakValueDictionary

from ..config.prices import PriceTable
from ..providers.provider import ModelRequest, ModelTarget
from ..runtime.budget import UNLIMITED, Budget, narrowed
from ..runtime.definitions import Agent
from ..runtime.errors import BudgetError
from ..runtime.messages import CallPlace
from ..runtime.store import StoreReader
from .budget_charge import Charge
from .budget_scope import Scope
from .given_budgets import GivenBudgets

NEEDED = ("tokens", "cost_usd", "seconds", "model_calls")
"""Without any of these a session could not even answer."""


class Account:
    """A session as far as budgets are concerned."""

    def __init__(self, session_id: str, parent: Account | None, parent_turn_id: str) -> None:
        self.scope = Scope(session_id, is_turn=False)
        self.turns: WeakValueDictionary[str, Scope] = WeakValueDictionary()
        self.session_id = session_id
        self._parent = parent
        self._parent_turn_id = parent_turn_id
        self._turn_above: Scope | None = None

    def scopes(self) -> Iterator[Scope]:
        """Its own and those above it."""
        yield self.scope
        if (parent := self._parent) is None:
            return
        if self._turn_above is None:  # it may have been loaded ahead of its parent
            self._turn_above = parent.turns.get(self._parent_turn_id)
        if self._turn_above is not None:
            yield self._turn_above
        yield from parent.scopes()


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
        scopes = [*account.turns.values(), *account.scopes()]
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
                account = self._accounts.setdefault(session_id, Account(session_id, None, ""))
            else:
                account = await self._load(session_id)
        account.scope.limit = narrowed(agent.session_budget, given.session)
        await self.update(account.scope, session_id)
        return account

    async def update(self, scope: Scope, session_id: str, turn_id: str | None = None) -> None:
        """Reads what a scope has used, if a limit of it asks for that and nobody has yet."""
        if not scope.is_up_to_date:
            spending = await self._store.spending(session_id, turn_id)
            # Others may have read it meanwhile, and spent since.
            if spending is not None and not scope.is_up_to_date:
                scope.read(spending, self.prices)

    async def _load(self, session_id: str) -> Account:
        """The account of a session that runs below another, whether that is loaded or not."""
        spending = await self._store.spending(session_id)
        parent = None
        if spending is not None and (parent_id := spending.parent_id) is not None:
            parent = self._accounts.get(parent_id) or await self._load_above(parent_id)
        turn_id = spending.parent_turn_id if spending is not None else ""
        return self._accounts.setdefault(session_id, Account(session_id, parent, turn_id))

    async def _load_above(self, session_id: str) -> Account:
        account = await self._load(session_id)
        spending = await self._store.spending(session_id)
        if spending is not None and not account.scope.is_limited:
            agent = self._agents.get(spending.agent)
            own = agent.session_budget if agent is not None else None
            account.scope.limit = narrowed(own, spending.budget)
        await self.update(account.scope, session_id)
        return account


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
        self._turn = Scope(session_id, is_turn=True)
        self._account: Account | None = None
        self._taken: set[str] = set()

    async def open(self, given: GivenBudgets, *, is_resumed: bool) -> float:
        """Begins to count; gives how many seconds the turn has, `math.inf` without a limit."""
        self._turn.limit = narrowed(self._agent.turn_budget, given.turn)
        if is_resumed:
            await self._book.update(self._turn, self._session_id, self._turn_id)
        account = await self._book.account(self._session_id, given, self._agent)
        self._account = account
        account.turns[self._turn_id] = self._turn
        self._turn.begin()
        account.scope.begin()
        return min(scope.seconds_left for scope in self._scopes())

    def close(self) -> None:
        """The turn is over."""
        if self._account is not None:
            self._turn.end()
            self._account.scope.end()
            self._account.turns.pop(self._turn_id, None)

    def out_of_time(self) -> str:
        """Whose time is over, in words."""
        scope = min(self._scopes(), key=lambda each: each.seconds_left)
        return scope.used_up("seconds", self._session_id)

    def _scopes(self) -> list[Scope]:
        above = self._account.scopes() if self._account is not None else ()
        return [self._turn, *above]

    # ── models ───────────────────────────────────────────────────────────────────────────────────

    def refusal(self, target: ModelTarget) -> str | None:
        """Why this model can't be asked at all: a cost is limited, and its price is unknown."""
        limited = [scope for scope in self._scopes() if scope.limit.cost_usd is not None]
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
        charge = Charge(self._scopes(), self._session_id, request)
        charge.reserve(self._book.prices, target)
        return charge

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def take(self, call_id: str) -> str | None:
        """See `CallQuota`."""
        scopes = self._scopes()
        for scope in scopes:
            if scope.tool_calls_left < 1:
                self.is_spent = scope.used_up("tool_calls", self._session_id)
                return f"Not run: {self.is_spent}"
        if call_id not in self._taken:
            self._taken.add(call_id)
            for scope in scopes:
                scope.tool_calls += 1
        return None

    def give_back(self, has_run: Callable[[str], bool]) -> None:
        """The calls of an answer are over; those that did not run after all cost nothing."""
        unused = sum(not has_run(call_id) for call_id in self._taken)
        self._taken.clear()
        for scope in self._scopes():
            scope.tool_calls -= unused
