"""The sandbox of one runtime: how strong it is, and the programs that run in it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import trio

from ...config.sandbox_settings import SandboxSettings
from ...runtime.call_versions import CallVersions
from ...runtime.definitions import Capability, ErrorType, ToolDefinition, ToolFailure
from ...runtime.processes import Processes
from .background import BackgroundPrograms
from .egress import WayOut
from .kept_tree import KeptTrees
from .recipe import Recipe
from .session_processes import SessionProcesses
from .strength import SandboxStatus, strength_test

MAX_PROGRAMS = 64
"""Programs that calls wait for, at once; each holds some 25 descriptors of a process's 1,024. More
calls wait, under their own deadline."""

SECONDS_PER_HOUR = 3600.0

STATUS_LINK = "Run `callboard doctor` to see what is wrong."

logger = logging.getLogger(__name__)


class Sandbox:
    """The way to run programs; nothing of a model's ever runs outside of it.

    Args:
        settings: What it must hold, and what programs may use up.
        environ: Whose PATH says which tools there are.
        forbidden: Folders that programs never see.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        environ: Mapping[str, str] | None = None,
        forbidden: Sequence[Path] = (),
    ) -> None:
        self.settings = settings
        self.background = BackgroundPrograms()
        self.kept_trees = KeptTrees()
        self._environ = dict(os.environ if environ is None else environ)
        self._test = strength_test(settings, self._environ)
        self._tests = 1
        self._forbidden = tuple(os.path.realpath(path) for path in forbidden)
        self._limiter: trio.CapacityLimiter | None = None

    def status(self) -> SandboxStatus:
        """What its test found; waits for the end of the test, which began with the first runtime."""
        return self._test.status()

    @property
    def version(self) -> int:
        """Grows with each test: what was said before may not hold any more."""
        return self._tests

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Tests it again every few hours, until it is cancelled."""
        task_status.started()
        while True:
            await trio.sleep(self.settings.self_test_hours * SECONDS_PER_HOUR)
            await self.test_again()

    async def test_again(self) -> None:
        """Tests it now; one that has become weaker is not used any more."""
        before = self.status()
        test = strength_test(self.settings, self._environ, is_new=True)
        await trio.to_thread.run_sync(test.status, limiter=trio.CapacityLimiter(1))
        self._test = test
        self._tests += 1
        now = test.status()
        if now.strength is not before.strength:
            weaker = now.strength.rank < before.strength.rank
            level = logging.WARNING if weaker else logging.INFO
            told = now.reason or "its test found nothing."
            logger.log(
                level, "the sandbox was %s and is %s: %s", before.strength, now.strength, told
            )

    def problem(self) -> str | None:
        """Why programs can't be run; `None` when they can."""
        found = self.status()
        if found.strength.rank >= self.settings.minimum.rank:
            return None
        is_weak = f"the sandbox is {found.strength}, and must be {self.settings.minimum}"
        return f"{is_weak}: {found.reason} {STATUS_LINK}"

    def why_not(self, definition: ToolDefinition) -> str | None:
        """Why a tool is not offered; `None` when the sandbox has nothing against it."""
        return self.problem() if Capability.PROCESSES in definition.needs else None

    def processes(
        self,
        workspace: str,
        session_id: str,
        turn_id: str = "",
        call_id: str = "",
        way_out: WayOut | None = None,
        versions: CallVersions | None = None,
    ) -> Processes:
        """The programs of one session, on its workspace, for one of its calls.

        With `way_out`, they may reach hosts; with `versions`, what they change in a git repository
        can be undone.
        """
        workspace = os.path.realpath(workspace)
        return SessionProcesses(self, workspace, session_id, turn_id, call_id, way_out, versions)

    def recipe(self) -> Recipe:
        """How sandboxes are built; raises `ToolFailure` when they don't hold enough."""
        problem = self.problem()
        recipe = self.status().recipe
        if problem is not None or recipe is None:
            raise ToolFailure(
                ErrorType.SANDBOX_UNAVAILABLE,
                f"Nothing was run: {problem or 'there is no sandbox.'}",
                reason=problem,
            )
        return msgspec.structs.replace(recipe, settings=self.settings, forbidden=self._forbidden)

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """The slots of programs that calls wait for."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(MAX_PROGRAMS)
        return self._limiter
