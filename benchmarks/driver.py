"""callboard as one driver of the benchmark: the public API, as an application would use it.

Run by `compare.py`, or by any harness that has a `_common` of the same form on its path.
`CALLBOARD_STORE=disk` journals to a folder instead of to memory; `CALLBOARD_TRACED=1` sends traces and metrics to the
provider, which takes them.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import AsyncExitStack

from _common import Driver, main  # type: ignore[import-not-found]

IS_TRACED = os.environ.get("CALLBOARD_TRACED") == "1"


class Callboard(Driver):  # type: ignore[misc]
    """Opens one runtime for each set of tools, in the main task."""

    name = "callboard"
    runner = "trio"
    packages = ("callboard",)

    def load(self) -> None:
        global callboard, Settings, Limits, TelemetrySettings
        import callboard
        from callboard.config.sections import TelemetrySettings
        from callboard.config.settings import Limits, Settings

        self._stack = AsyncExitStack()
        self._folder = tempfile.TemporaryDirectory()
        self._runtimes = {}

    def make_steady(self) -> None:
        """Under valgrind a round takes longer than a result waits for company, and a run until the sandbox's test."""
        from callboard.actors import journal
        from callboard.tools.sandbox import sandbox

        journal.AHEAD_SECONDS = sandbox.VERIFY_SECONDS = 600
        if IS_TRACED:
            from callboard.runtime.telemetry import telemetry

            # One batch at the end: how many there are is a matter of time.
            telemetry.GATHER_SECONDS = telemetry.SEND_SECONDS = telemetry.FLUSH_SECONDS = 600

    async def open(self, base_url: str) -> None:
        self._base_url = base_url
        await self.runtime(None)

    async def runtime(self, tool):
        key = tool.__name__ if tool else ""
        if key not in self._runtimes:
            on_disk = os.environ.get("CALLBOARD_STORE") == "disk"
            self._runtimes[key] = await self._stack.enter_async_context(
                callboard.open_runtime(
                    model="text-5",
                    base_url=self._base_url,
                    workspace=self._folder.name,
                    data=f"{self._folder.name}-data{key}" if on_disk else None,
                    tools=[callboard.tool(tool)] if tool else [],
                    agents=[callboard.Agent(name="bench", tools=(key,) if key else ())],
                    policy="auto",
                    settings=self.settings(),
                    environ={},
                )
            )
        return self._runtimes[key]

    def settings(self):
        telemetry = TelemetrySettings(
            enabled=IS_TRACED, endpoint=self._base_url.removesuffix("/v1") if IS_TRACED else None
        )
        return Settings(limits=Limits(max_repeats=100_000), telemetry=telemetry)

    def session(self, model, tool=None, rounds=1):
        return BenchSession(self, model, tool)

    async def close(self) -> None:
        await self._stack.aclose()
        self._folder.cleanup()


class BenchSession:
    """One conversation."""

    def __init__(self, driver, model, tool) -> None:
        self._driver = driver
        self._model = model
        self._tool = tool
        self._session = None

    async def turn(self, prompt, on_delta):
        if self._session is None:
            runtime = await self._driver.runtime(self._tool)
            self._session = await runtime.create_session(agent="bench", model=self._model)
        text = []
        async with self._session.prompt(prompt) as turn:
            async for event in turn:
                if type(event) is callboard.TextDelta:
                    on_delta(event.text)
                    text.append(event.text)
        if turn.ended.outcome != "answered":
            raise RuntimeError(turn.ended.message)
        return "".join(text)


if __name__ == "__main__":
    main(Callboard())
