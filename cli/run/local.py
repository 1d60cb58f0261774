"""`callboard run` in this process: a runtime that other commands may use meanwhile.

The runtime is nobody's: it has the configuration, and what the run was given, its people included, holds for its own
inputs and what comes of them. So it never holds for the turns of another command, in the same session either.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from ...actors.conversation.inputs import Given
from ...config.settings import Settings
from ...embedding.options import check_turn_options
from ...embedding.runtime import host_of, lend, wish_of
from ...embedding.session import Session
from ...embedding.tools import turn_of_calls
from ...embedding.turn import Turn
from ...providers.recording import RECORDINGS, open_recorder
from ...runtime.budget import Budget
from ...runtime.channel import Channel
from ...runtime.errors import CallboardError
from ...runtime.turn_options import GivenCall, TurnOptions
from ..sharing.door import Door, end_below
from ..sharing.own_runtime import OwnRuntime, open_own_runtime
from .choice import RunOptions, RunTarget, shown


@asynccontextmanager
async def open_local_place(
    data: Path,
    settings: Settings,
    options: RunOptions,
    choice: RunTarget,
    channel: Channel | None,
    stay: Callable[[Door, CallboardError | None], Awaitable[None]],
) -> AsyncGenerator[LocalPlace]:
    """Give a runtime of this process as the place of a run, around the block; other commands find it.

    At the end it stays as long as `stay` has it stay.

    Raises:
        DataInUse: A program has the data folder.
        CallboardError: No runtime can be opened.
    """
    flags = options.flags
    flags.apply(settings, choice.agent)  # what it can't be given is an error at the start
    own = OwnRuntime(
        data=data,
        settings=settings,
        command="run",
        workspace=flags.workspace,
        model=choice.model,
        base_url=flags.base_url,
        config=options.config,
    )
    async with open_own_runtime(own, only_own=stay) as door:
        runtime = door.runtime
        model, reason, given = runtime.model, choice.reason or runtime.model_reason, None
        if choice.model is not None or flags.base_url is not None or options.is_recorded:
            wish = msgspec.structs.replace(
                wish_of(runtime),
                choice=choice.model,
                base_url=flags.base_url,
                dialect=flags.dialect,
            )
            recorder = await open_recorder(data / RECORDINGS) if options.is_recorded else None
            given, why = await lend(runtime, wish, recorder)
            model, reason = shown(given), choice.reason or why
        wanted = flags.turn_options(given)
        check_turn_options(host_of(runtime), wanted)
        place = LocalPlace(door, model, reason, wanted, channel, has_input=options.has_input)
        try:
            yield place
        finally:
            place.leave()


class LocalPlace:
    """A runtime of this process, with the methods of `Runtime` that a run uses."""

    def __init__(
        self,
        door: Door,
        model: str,
        reason: str,
        options: TurnOptions,
        channel: Channel | None,
        *,
        has_input: bool,
    ) -> None:
        self.door = door
        self._runtime = runtime = door.runtime
        self.store = runtime.store
        self.model = model
        self.model_reason = reason
        self._options = options
        self._has_input = has_input
        self._session_id = ""
        self._commands: list[str] = []
        self.approval = runtime.approval
        self.answer = runtime.answer
        self._channel = channel

    @property
    def has_others(self) -> bool:
        """Whether another command uses this process."""
        return self.door.has_clients

    @property
    def ends_below(self) -> bool:
        """Whether sessions that nobody waits for end with the run."""
        return True

    async def end_below(self, session_id: str, reason: str) -> None:
        """End what runs below a session though no turn of it does; results are dropped, and wake nobody."""
        await end_below(self._runtime, session_id, reason)

    async def create_session(self, *, agent: str, budget: Budget | None) -> Session:
        """See `Runtime.create_session`."""
        return self._session(await self._runtime.create_session(agent=agent, budget=budget))

    async def get_session(self, session_id: str) -> Session:
        """See `Runtime.get_session`."""
        session = await self._runtime.get_session(session_id)
        await self.door.wait_free(session_id)
        mine = self._session(session)
        host, given = host_of(self._runtime), Given(self._options, self._channel, may_widen=False)
        left = [row.input_id for row in await self.store.open_inputs(session_id)]
        if self._has_input:
            self._commands.append(host.given.add(given))
        await host.given.take_up(self.store, session_id, left, self._commands[-1])
        return mine

    def call(
        self, session_id: str, calls: tuple[GivenCall, ...], budget: Budget | None
    ) -> Turn[str]:
        """Return a turn that makes these calls, to be entered like that of a prompt."""
        return turn_of_calls(host_of(self._runtime), session_id, calls, budget, self._commands[0])

    async def tool_names(self) -> list[str]:
        """Return the names of all tools."""
        await trio.lowlevel.checkpoint()
        return [tool.name for tool in self._runtime.tools()]

    def leave(self) -> None:
        """Note that nothing of the run goes on here: what does is of others."""
        given = host_of(self._runtime).given
        for command in self._commands:
            given.end_work(self._session_id, command)
            given.forget(command)

    def _session(self, session: Session) -> Session:
        """Return the session for the inputs of this run: they have its options and its people."""
        host, session_id = host_of(self._runtime), session.session_id
        self._commands = [host.given.begin(session_id, Given(self._options, self._channel))]
        self._session_id = session_id
        return Session(host, session_id, self._commands[0])
