"""A session as a Trio program holds it: prompt it, and go on with what was left."""

from __future__ import annotations

from collections.abc import Iterable

from .config.usage_sums import UsageBy, UsageReport, UsageSums, read_usage
from .following import Following
from .host import Host
from .runtime.budget import Budget, checked_budget
from .runtime.definitions import InputSource
from .runtime.events import SessionBudgetSet
from .runtime.history import Attachment
from .runtime.messages import AppendEvents
from .turn_handle import Turn, left_turn


class Session:
    """One conversation; made by `Runtime`. A handle: dropping it ends nothing.

    Example:
        print(await session.run("Write 'buy milk' to list.txt."))
        async with session.prompt("Read it back.") as turn:
            print(await turn.answer())
    """

    def __init__(self, host: Host, session_id: str) -> None:
        self._host = host
        self.session_id = session_id

    def prompt(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> Turn:
        """A turn for this input: enter it with `async with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.

        Args:
            text: What is asked.
            attachments: Images and files beside it.
            budget: What the turn may use, at most; its agent's and its session's hold too.
        """
        return Turn(self._host, self.session_id, text, attachments, budget)

    def follow(self) -> Following:
        """All that happens in the session from here on, whoever prompted: enter it, then iterate.

        Example:
            async with session.follow() as events:
                await session.run("What time is it in Tokyo?")
                async for event in events:
                    if isinstance(event, callboard.TurnEnded):
                        break
        """
        return Following(self._host, self.session_id)

    async def resume(self) -> Turn | None:
        """The turn that was suspended when the process ended, to be entered like a new one.

        It asks again what still waits for a person, runs what was allowed meanwhile, and goes on
        with the model. Without one, the turn of the first input that waits on record, or that the
        runtime itself began: the late result of a deferred call. `None` when nothing goes on.

        Example:
            turn = await session.resume()
            if turn is not None:
                async with turn:
                    print(await turn.answer())
        """
        for turn in await self._host.plan.store.open_turns():
            if turn.session_id == self.session_id and turn.is_suspended:
                return left_turn(self._host, self.session_id)
        for row in await self._host.plan.store.open_inputs(self.session_id):
            if row.turn_id is None or row.source is not InputSource.PERSON:
                return left_turn(self._host, self.session_id)
        return None

    async def run(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> str:
        """Prompts and returns the final answer's text. Cancelling it cancels the turn.

        Arguments are those of `prompt`.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        async with self.prompt(text, attachments, budget=budget) as turn:
            return await turn.answer()

    async def set_budget(self, budget: Budget | None) -> None:
        """Gives the session another budget of its own, from its next turn on; `None` is no limit.

        Those of its agent, and of the session that delegated to it, hold all the same.

        Example:
            await session.set_budget(callboard.Budget(tokens=200_000))
            print(await session.run("What time is it in Tokyo?"))
        """
        event = SessionBudgetSet(budget=checked_budget(budget))
        await self._host.journal.ask(AppendEvents(session_id=self.session_id, events=(event,)))

    async def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """What this session took, as `Runtime.usage` gives it for all."""
        sums = UsageSums(by, self._host.plan.prices)
        return await read_usage(self._host.plan.store, sums, session_id=self.session_id)
