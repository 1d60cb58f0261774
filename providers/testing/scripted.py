"""A model that follows a script, in the process: the test double for everything above providers.

model = ScriptedModel([reply("Hello."), fail("overloaded", retryable=True)])
...
model.assert_complete()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

import trio

from ...runtime.stream import AnyStreamEvent, StreamError, TextDelta
from ..provider import Emit, ModelRequest
from .script import (
    Answered,
    Broken,
    CutAfter,
    Drip,
    Events,
    Fail,
    ScriptedReply,
    Stall,
    Step,
    events_of,
)

ScriptStep = Step | Callable[[ModelRequest], Step]


class ScriptedModel:
    """A `LocalModel` that answers its n-th request with its n-th step.

    Attributes:
        requests: The requests in order, including those beyond the script.

    Example:
        model = callboard.ScriptedModel([callboard.reply("Hello."), callboard.reply("Bye.")])
        async with callboard.open_runtime(model=model) as runtime:
            session = await runtime.create_session()
            print(await session.run("Hi."), await session.run("I must go."))
        model.assert_complete()
    """

    def __init__(self, steps: Sequence[ScriptStep]) -> None:
        self._steps = tuple(steps)
        self._taken = 0
        self.requests: list[ModelRequest] = []

    def assert_complete(self) -> None:
        """Raise `AssertionError` unless every step was taken, and no further request came."""
        if len(self.requests) != len(self._steps):
            raise AssertionError(
                f"the script has {len(self._steps)} steps, and {len(self.requests)} requests came"
            )

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """Play the next step; one piece of text or one call is a batch."""
        self.requests.append(request)
        if self._taken == len(self._steps):
            await emit([exhausted(len(self._steps))])
            return
        step = self._steps[self._taken]
        self._taken += 1
        await _play(step if isinstance(step, Step) else step(request), emit)


def exhausted(count: int) -> StreamError:
    """The error for a request beyond the script."""
    return StreamError(
        error_type="provider",
        message=f"The script of this test model has {count} steps, and one more request came.",
    )


async def _play(step: Step, emit: Emit) -> None:
    await trio.lowlevel.checkpoint()
    match step:
        case ScriptedReply():
            await trio.sleep(step.delay_seconds)
            for event in events_of(step):
                await trio.sleep(step.piece_seconds)
                await emit([event])
        case Fail(error, text):
            await emit([*_text(text), error])
        case Stall(reply):
            await emit(events_of(reply))
            await trio.sleep_forever()
        case Events(events):
            await emit(list(events))
        case Answered() | Drip() | CutAfter() | Broken():
            raise ValueError(f"only a scripted server can play {type(step).__name__}")
        case _:
            assert_never(step)


def _text(text: str) -> list[AnyStreamEvent]:
    return [TextDelta(text)] if text else []
