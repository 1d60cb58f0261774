"""The sandbox of one runtime: how strong it is, which tools may be offered for it, and what runs in it.

A test measures how much the sandbox of this machine holds (`selftest`). A turn that offers tools which run
programs waits for it, or for the kept result of an earlier test; a call that runs a program waits for a test
of this process in any case. Below the configured minimum such tools are not offered, and nothing runs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ...config.sections import SandboxSettings, Strength
from ...runtime.definitions import Capability, ErrorType, ToolDefinition, ToolFailure
from ..workspace.paths import is_below
from .background import BackgroundPrograms
from .selftest.kept_result import KeptResult

if TYPE_CHECKING:  # what runs programs is imported when the first one runs
    from ..processes.watchdog import Watchdog
    from .box.recipe import Recipe
    from .changes.snapshot import CopyCache
    from .running.process import Order
    from .running.program import Program
    from .selftest.self_test import SandboxStatus, StrengthTest
    from .stale_stubs import StaleStubs

MAX_PROGRAMS = 64
"""Programs that calls wait for at once. Each holds some 25 descriptors of a process's 1,024. Further
calls wait, under their own deadline."""

MAX_REMEMBERED = 1024
"""Workspaces of which a runtime of root remembers what it has found; then it looks again."""

SECONDS_PER_HOUR = 3600.0

VERIFY_SECONDS = 5.0
"""After this, a runtime tests the sandbox that nobody has needed yet: the first turns are over then."""

STATUS_LINK = "Run `callboard doctor` to see what is wrong."

logger = logging.getLogger(__name__)


class Sandbox:
    """The only way to run programs; nothing of a model's ever runs outside of it.

    Args:
        settings: What it must hold, and what programs may use up.
        environ: Whose PATH says which tools there are.
        forbidden: Folders that programs never see.
        data: The data folder, if this process holds its lock.

    Attributes:
        settings: As given.
        background: The programs that run beside calls.
        running: The programs that run, in the order of their start.
        watchdog: Ends them at the end of a node's lease; `None` where there is no cluster.
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
        self.running: dict[Program, None] = {}
        self.watchdog: Watchdog | None = None
        self._data = data
        self._environ = dict(os.environ if environ is None else environ)
        self._kept = KeptResult(data, settings, self._environ)
        self._offered: Strength | None = None
        self._test: StrengthTest | None = None
        self._is_measured = False
        self._tests = 1
        self._owners: dict[str, StrengthTest] = {}
        self._refused: dict[str, None] = {}
        self._lending: dict[str, tuple[str, ...]] = {}
        self._forbidden = tuple(os.path.realpath(path) for path in forbidden)
        self._limiter: trio.CapacityLimiter | None = None

    @cached_property
    def copies(self) -> CopyCache:
        """What repositories hold before programs change them."""
        from .changes.snapshot import CopyCache

        return CopyCache()

    @cached_property
    def stale_stubs(self) -> StaleStubs:
        """The workspaces in which a killed runtime may have left stubs."""
        from .stale_stubs import StaleStubs

        return StaleStubs(self._data)

    async def ready(self) -> None:
        """Wait until it is known whether tools that run programs may be offered."""
        if self._test is None and self._offered is None:
            self._offered = self._kept.read()
        if self._offered is None:
            await self.tested()

    async def tested(self) -> None:
        """Wait for the end of this process's own test, so that `status` and `recipe` do not block."""
        if self._is_measured:
            return
        test = self._begun_test()
        if not test.has_ended:
            await trio.to_thread.run_sync(
                test.status, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
            )
        if not self._is_measured:
            await self._use(test, self._offered)

    async def end_session(self, session_id: str) -> None:
        """End what a session has started; return when nothing of it is left."""
        await self.background.end_session(session_id)

    def knows(self, session_id: str, process_id: str) -> bool:
        """Whether a background process was started here, and the session has not ended since."""
        return self.background.knows(session_id, process_id)

    def status(self) -> SandboxStatus:
        """Return what the test found. Blocks the thread until it has ended: await `tested` first."""
        return self._begun_test().status()

    @property
    def known_status(self) -> SandboxStatus | None:
        """What the test found; `None` while it has not ended, or has not begun."""
        test = self._test
        return test.status() if test is not None and test.has_ended else None

    @property
    def version(self) -> int:
        """Grows with each test, after which an earlier `status` may not hold any more."""
        return self._tests

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run background programs, remove what a killed runtime left, and test every few hours, until cancelled."""
        await self._clear_stale_stubs()
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.background.serve, name="background programs")
                task_status.started()
                await trio.sleep(VERIFY_SECONDS)
                await self.tested()
                while True:
                    await trio.sleep(self.settings.self_test_hours * SECONDS_PER_HOUR)
                    await self.test_again()
        finally:
            with trio.CancelScope(shield=True):  # some folders to look into
                await self._clear_stale_stubs()

    async def test_again(self) -> None:
        """Test it now; one that has become weaker is not used any more."""
        from .selftest.self_test import strength_test

        before = self.status()
        test = strength_test(self.settings, self._environ, is_new=True)
        await trio.to_thread.run_sync(test.status, limiter=trio.CapacityLimiter(1))
        self._tests += 1
        self._owners.clear()
        self._refused.clear()
        await self._use(test, before.strength)

    def problem(self) -> str | None:
        """Return why programs can't be run; `None` when they can, or a kept result says so."""
        return None if self._offered is not None else self._weakness()

    def _weakness(self) -> str | None:
        """Return why this process's own test says that programs can't be run."""
        found = self.status()
        if found.strength.rank >= self.settings.minimum.rank:
            return None
        is_weak = f"the sandbox is {found.strength}, and must be {self.settings.minimum}"
        return f"{is_weak}: {found.reason} {STATUS_LINK}"

    def why_not(self, definition: ToolDefinition) -> str | None:
        """Return why a tool is not offered; `None` when the sandbox has nothing against it."""
        return self.problem() if Capability.PROCESSES in definition.needs else None

    def recipe(self) -> Recipe:
        """Return how sandboxes are built; raise `ToolFailure` when they don't hold enough.

        A kept result does not count here. Blocks like `status`.
        """
        problem, recipe = self._weakness(), self.status().recipe
        if problem is not None or recipe is None:
            raise ToolFailure(
                ErrorType.SANDBOX_UNAVAILABLE,
                f"Nothing was run: {problem or 'there is no sandbox.'}",
                reason=problem,
            )
        return self._for_programs(recipe)

    def _for_programs(self, recipe: Recipe) -> Recipe:
        return msgspec.structs.replace(recipe, settings=self.settings, forbidden=self._forbidden)

    async def recipe_in(self, workspace: str) -> tuple[Recipe, Strength]:
        """Return how the sandbox of a program in this workspace is built, and how strong it is.

        A runtime of root that was told nothing has the ordinary user that the workspace belongs to run it, where
        that works. Raises `ToolFailure` like `recipe`.
        """
        from .box.user import ordinary_owner

        await self.tested()
        owner = ordinary_owner(self.settings.run_as, workspace)
        if owner is not None and workspace not in self._refused:
            try:
                return await self._recipe_as(owner, workspace)
            except ToolFailure as failure:
                if len(self._refused) >= MAX_REMEMBERED:
                    self._refused.clear()
                self._refused[workspace] = None
                why = failure.details.get("reason") or failure
                logger.warning(
                    "programs in %s run as root and not as %s: %s", workspace, owner, why
                )
        return self.recipe(), self.status().strength

    async def prepared(self, recipe: Recipe, order: Order) -> Order:
        """Return the order of a program that may write in a workspace, ready to be started there.

        It is on the disk then that the sandbox may leave something there, and what lends root's rights is read-only.
        """
        if self.stale_stubs.needs(order.workspace):
            from ..processes.threads import run_write

            await run_write(self.stale_stubs.note, order.workspace)
        sealed = await self._lending_files(recipe, order.workspace)
        return msgspec.structs.replace(order, sealed=sealed) if sealed else order

    async def _lending_files(self, recipe: Recipe, workspace: str) -> tuple[str, ...]:
        """Return the files of a workspace that must be read-only, since programs of this recipe run as root."""
        if recipe.user is not None or os.geteuid() != 0:
            return ()
        if (found := self._lending.get(workspace)) is None:
            from ..processes.threads import run_read
            from .changes.scan import lending_files

            if len(self._lending) >= MAX_REMEMBERED:
                self._lending.clear()
            found = self._lending[workspace] = await run_read(lending_files, workspace)
        return found

    async def _recipe_as(self, owner: str, workspace: str) -> tuple[Recipe, Strength]:
        """Return the same for the owner of a workspace; raise `ToolFailure` when that can't be."""
        from .box.user import check_workspace
        from .selftest.self_test import strength_test

        test = self._owners.get(owner)
        if test is None:
            settings = msgspec.structs.replace(self.settings, run_as=owner)
            test = self._owners[owner] = strength_test(
                settings, self._environ, is_new=self._tests > 1
            )
        if not test.has_ended:
            await trio.to_thread.run_sync(
                test.status, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
            )
        found = test.status()
        recipe = found.recipe
        if recipe is None or found.strength.rank < self.settings.minimum.rank:
            why = f"the sandbox is {found.strength} then: {found.reason}"
            raise ToolFailure(ErrorType.SANDBOX_UNAVAILABLE, why, reason=why)
        limiter = trio.CapacityLimiter(1)
        await trio.to_thread.run_sync(check_workspace, recipe.user, workspace, limiter=limiter)
        return self._for_programs(recipe), found.strength

    def running_in(self, workspace: str) -> tuple[str, ...]:
        """Return the names of programs that can write there now: in it, around it or within it."""
        places = (
            (program.order.workspace, program.order.name)
            for program in self.running
            if not (program.order.is_read_only or program.is_paused)
        )
        return tuple(
            name
            for place, name in places
            if place == workspace or is_below(place, workspace) or is_below(workspace, place)
        )

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """The slots of programs that calls wait for."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(MAX_PROGRAMS)
        return self._limiter

    def _begun_test(self) -> StrengthTest:
        if self._test is None:
            from .selftest.self_test import strength_test

            self._test = strength_test(self.settings, self._environ)
        return self._test

    async def _use(self, test: StrengthTest, before: Strength | None) -> None:
        """Use from here on what a test found that has ended, and keep it for the next start."""
        now = test.status()
        self._test, self._offered, self._is_measured = test, None, True
        if before is not None and now.strength is not before:
            self._tests += 1
            weaker = now.strength.rank < before.rank
            level = logging.WARNING if weaker else logging.INFO
            why = now.reason or "its test found nothing."
            logger.log(level, "the sandbox was %s and is %s: %s", before, now.strength, why)
        if self._data is not None:
            await trio.to_thread.run_sync(self._kept.write, now.strength)

    async def _clear_stale_stubs(self) -> None:
        if self._data is None or not self.stale_stubs.has_any:
            return
        found = await trio.to_thread.run_sync(self.stale_stubs.clear)
        if found:
            logger.info("removed what a killed runtime left: %s", ", ".join(found))
