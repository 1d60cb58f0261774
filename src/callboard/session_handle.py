"""A session as a Trio program holds it: prompt it, and go on with what was left."""

from __future__ import annotations

from collections.abc import Iterable

from .config.usage_sums import UsageBy, UsageReport, UsageSums, read_usage
from .host import Host
from .runtime.history import Attachment
from .turn_handle import Turn, suspended_turn


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

    def prompt(self, text: str, attachments: Iterable[Attachment] = ()) -> Turn:
        """A turn for this input: enter it with `async with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.
        """
        return Turn(self._host, self.session_id, text, attachments)

    async def resume(self) -> Turn | None:
        """The turn that was suspended when the process ended, to be entered like a new one.

        It asks again what still waits for a person, runs what was allowed meanwhile, and goes on
        with the model. `None` when no turn of the session is suspended.

        Example:
            turn = await session.resume()
            if turn is not None:
                async with turn:
                    print(await turn.answer())
        """
        for turn in await self._host.plan.store.open_turns():
            if turn.session_id == self.session_id and turn.is_suspended:
                return suspended_turn(self._host, self.session_id)
        return None

    async def run(self, text: str, attachments: Iterable[Attachment] = ()) -> str:
        """Prompts and returns the final answer's text. Cancelling it cancels the turn.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        async with self.prompt(text, attachments) as turn:
            return await turn.answer()

    async def usage(self, *, by: UsageBy = "turn") -> UsageReport:
        """What this session took, as `Runtime.usage` gives it for all."""
        sums = UsageSums(by, self._host.plan.prices)
        return await read_usage(self._host.plan.store, sums, session_id=self.session_id)
