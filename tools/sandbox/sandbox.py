"""The sandbox of one runtime: how strong it is, and the programs that run in it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import trio

from ...config.sections import SandboxSettings
from ...runtime.changes.version_log import CallVersions
from ...runtime.definitions import Capability, ErrorType, ToolDefinition, ToolFailure
from ...runtime.processes import Processes
from .background import BackgroundPrograms
from .box.recipe import Recipe
from .box.workspace_pin import Identity, identity_of
from .changes.snapshot import KeptTrees
from .exclusive_runs import Neighbours
from .left_stubs import LeftStubs
from .network.proxy import WayOut
from .selftest.self_test import SandboxStatus, strength_test
from .session_processes import SessionProcesses

MAX_PROGRAMS = 64
"""Programs that calls wait for, at once; each holds some 25 descriptors of a process's 1,024. More
calls wait, under their own deadline."""

SLICE_SECONDS = 0.01
"""For which Trio's thread waits for the test at a time."""

SECONDS_PER_HOUR = 3600.0

STATUS_LINK = "Run `callboard doctor` to see what is wrong."

logger = logging.getLogger(__name__)


class Sandbox:
    """The way to run programs; nothing of a model's ever runs outside of it.

    Args:
        settings: What it must hold, and what programs may use up.
        environ: Whose PATH says which tools there are.
        forbidden: Folders that programs never see.
        data: The data folder of whoever holds its lock, if there is one.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        environ: Mapping[str, str] | None = None,
        forbidden: Sequence[Path] = (),
        data: Path | None = None,
    ) -> None:
        self.settings = settings
        self.background = BackgroundPrograms()
        self.kept_trees = KeptTrees()
        self.neighbours = Neighbours()
        self._left_stubs = LeftStubs(data)
        self._environ = dict(os.environ if environ is None else environ)
        self._test = strength_test(settings, self._environ)
        self._tests = 1
        self._forbidden = tuple(os.path.realpath(path) for path in forbidden)
        self._limiter: trio.CapacityLimiter | None = None

    async def ready(self) -> None:
        """Waits for the end of the test, so that `status` does not block."""
        # In slices, between which others run: it mostly ends within the first ones.
        while not self._test.has_ended(SLICE_SECONDS):  # noqa: ASYNC110  a thread sets it
            await trio.lowlevel.checkpoint()

    async def end_session(self, session_id: str) -> None:
        """Ends what a session has started; returns when nothing of it is left."""
        await self.background.end_session(session_id)

    def status(self) -> SandboxStatus:
        """What its test found; waits for the end of the test, which began with the first runtime.

        It blocks its thread meanwhile: on Trio's, await `ready` first.
        """
        return self._test.status()

    @property
    def version(self) -> int:
        """Grows with each test: what was said before may not hold any more."""
        return self._tests

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Removes what a killed runtime left, and tests it again every few hours, until cancelled."""
        await self._clear_left_stubs()
        task_status.started()
        try:
            while True:
                await trio.sleep(self.settings.self_test_hours * SECONDS_PER_HOUR)
                await self.test_again()
        finally:
            with trio.CancelScope(shield=True):  # some folders to look into
                await self._clear_left_stubs()

    async def _clear_left_stubs(self) -> None:
        if not self._left_stubs.has_any:
            return
        found = await trio.to_thread.run_sync(self._left_stubs.clear)
        if found:
            logger.info("removed what a killed runtime left: %s", ", ".join(found))

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
        identity: Identity | None = None,
    ) -> Processes:
        """The programs of one session, on its workspace, for one of its calls.

        With `way_out`, they may reach hosts; with `versions`, what they change in a git repository
        can be undone; with `identity`, they run in that folder and in no other that took
        its place.
        """
        workspace = os.path.realpath(workspace)
        place = identity or identity_of(workspace)
        self._left_stubs.note(workspace)
        return SessionProcesses(
            self, workspace, session_id, turn_id, call_id, way_out, versions, place
        )

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
