"""What becomes of sessions that a start wakes at once, at a provider that answers few requests a second.

    benchmarks/waking.py --rate 10 --retries 20

Each session has one prompt on record, whose turn makes one call. The provider is in this process: it answers so many
requests a second, and refuses the others with 429 and `retry-after`.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import trio

import callboard
from callboard.embedding.runtime import host_of
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Fail, ScriptedReply, reply
from callboard.runtime.errors import ProviderError
from callboard.runtime.events import InputAccepted, TurnEnded
from callboard.runtime.history import Result
from callboard.runtime.messages import AppendEvents
from callboard.runtime.stream import StreamError

MAX_REQUESTS = 1_000_000
LOOK_SECONDS = 0.2


class Provider:
    """A bucket that gets `rate` requests a second and holds those of one."""

    def __init__(self, rate: float, after: float) -> None:
        self._rate, self._after = rate, after
        self._left, self._at = rate, 0.0
        self._keys = itertools.count()
        self.asked = self.refused = 0

    def step(self, request: ModelRequest) -> ScriptedReply | Fail:
        """Answer a request, or refuse it."""
        now = trio.current_time()
        self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        self.asked += 1
        if self._left < 1:
            self.refused += 1
            busy = StreamError(
                error_type=ProviderError.type,
                message="429",
                retryable=True,
                retry_after_seconds=self._after,
            )
            return Fail(busy, "")
        self._left -= 1
        if isinstance(request.rounds[-1].items[-1], Result):
            return reply("Done.")
        return reply(calls=[("count", {"key": str(next(self._keys))})])


async def main(sessions: int, rate: float, after: float, retries: int) -> str:
    """Wake them, and say what became of them."""
    effects = Counter[str]()

    @callboard.tool(effect="once")
    async def count(key: str) -> str:
        """Has an effect that can be counted."""
        await trio.lowlevel.checkpoint()
        effects[key] += 1
        return key

    provider, names = Provider(rate, after), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        (work := Path(folder, "work")).mkdir()
        opened = partial(
            callboard.open_runtime,
            workspace=work,
            data=Path(folder, "data"),
            environ={},
            policy="auto",
            on_approval="allow",
            tools=[count],
            settings=callboard.Settings(limits=callboard.Limits(model_retries=retries)),
        )
        async with opened(model=callboard.ScriptedModel([reply("-")])) as runtime:
            for number in range(sessions):
                session = await runtime.create_session()
                names.append(session.session_id)
                waits = (InputAccepted(input_id=f"i{number}", text="Count."),)
                append = AppendEvents(session_id=session.session_id, events=waits)
                await host_of(runtime).journal.ask(append)
        async with opened(model=callboard.ScriptedModel([provider.step] * MAX_REQUESTS)) as runtime:
            began, store = trio.current_time(), runtime.store
            while await store.waking_sessions() or await store.open_turns():  # noqa: ASYNC110
                await trio.sleep(LOOK_SECONDS)
            seconds = trio.current_time() - began
            ends = [
                each.event.outcome
                for name in names
                for each in await store.events(name)
                if isinstance(each.event, TurnEnded)
            ]
    doubled = sum(times > 1 for times in effects.values())
    return (
        f"{len(ends)} turns of {sessions} prompts: {dict(Counter(ends))}; {provider.asked} requests, "
        f"{provider.refused} refused; {doubled} effects doubled; over after {seconds:.1f} s\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second")
    parser.add_argument(
        "--after", type=float, default=1.0, help="what retry-after says, in seconds"
    )
    parser.add_argument("--retries", type=int, default=3, help="limits.model_retries")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    sys.stdout.write(trio.run(main, given.sessions, given.rate, given.after, given.retries))
