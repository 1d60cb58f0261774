"""The sandbox of one runtime, and the handle on it that each call gets.

`Sandbox` lives as long as the runtime: it knows how strong the sandbox is, and refuses to build one below
the configured minimum. `SessionProcesses` is what a tool sees of it (the `Processes` of its context): the
programs of one session, on its workspace, for one call.

**What was allowed is what runs.** A person decides about the programs that a command names as they
were when they were shown (`bind`). They are looked at again just before the start, without a checkpoint in
between. A program that runs beside could still put another one in its place behind that look, since no mount
holds a name against a rename in another sandbox: so nothing that was bound starts while another program
can write in its workspace.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import trio

from ...config.sections import SandboxSettings
from ...runtime.changes.version_log import CallVersions
from ...runtime.definitions import Capability, ErrorType, ToolDefinition, ToolFailure
from ...runtime.processes import (
    BackgroundProcess,
    ChangedFiles,
    Command,
    CommandBinding,
    ProcessOutput,
    Ran,
    Written,
)
from ..processes.threads import run_read, run_write
from ..processes.unreaped import unreaped
from ..workspace.paths import is_below, root_names, shown, split_path
from .background import BackgroundPrograms
from .box.recipe import Recipe
from .box.start_gate import FolderIdentity, identity_of
from .changes.change_tracker import Observation, conclude, observe
from .changes.scan import written_since
from .changes.snapshot import CopyCache
from .named_programs import NamedFile, named_files, shown_files
from .network.proxy import Connector
from .network.sockets import sockets_of
from .running.process import Order
from .running.program import Program, run_program
from .selftest.self_test import SandboxStatus, strength_test
from .stale_stubs import StaleStubs

MAX_PROGRAMS = 64
"""Programs that calls wait for at once. Each holds some 25 descriptors of a process's 1,024. Further
calls wait, under their own deadline."""

MAX_WORD_BYTES = 128 * 1024
"""One word of a command, or one variable: the kernel takes no longer one."""
MAX_COMMAND_BYTES = 1024 * 1024
"""All words and variables together: half of what the kernel takes."""

SLICE_SECONDS = 0.01
"""How long Trio's thread waits for the test at a time."""

SECONDS_PER_HOUR = 3600.0

STATUS_LINK = "Run `callboard doctor` to see what is wrong."

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

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
        copies: What repositories hold before programs change them.
        running: The programs that run, in the order of their start.
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
        self.copies = CopyCache()
        self.running: dict[Program, None] = {}
        self._stale_stubs = StaleStubs(data)
        self._environ = dict(os.environ if environ is None else environ)
        self._test = strength_test(settings, self._environ)
        self._tests = 1
        self._forbidden = tuple(os.path.realpath(path) for path in forbidden)
        self._limiter: trio.CapacityLimiter | None = None

    async def ready(self) -> None:
        """Wait for the end of the test, so that `status` does not block."""
        # In slices, between which other tasks run: it mostly ends within the first ones.
        while not self._test.has_ended(SLICE_SECONDS):  # noqa: ASYNC110  a thread sets it
            await trio.lowlevel.checkpoint()

    async def end_session(self, session_id: str) -> None:
        """End what a session has started; return when nothing of it is left."""
        await self.background.end_session(session_id)

    def status(self) -> SandboxStatus:
        """Return what the test found. Blocks the thread until it has ended: `await ready` first."""
        return self._test.status()

    @property
    def version(self) -> int:
        """Grows with each test, after which an earlier `status` may not hold any more."""
        return self._tests

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Remove what a killed runtime left, and test again every few hours, until cancelled."""
        await self._clear_stale_stubs()
        task_status.started()
        try:
            while True:
                await trio.sleep(self.settings.self_test_hours * SECONDS_PER_HOUR)
                await self.test_again()
        finally:
            with trio.CancelScope(shield=True):  # some folders to look into
                await self._clear_stale_stubs()

    async def _clear_stale_stubs(self) -> None:
        if not self._stale_stubs.has_any:
            return
        found = await trio.to_thread.run_sync(self._stale_stubs.clear)
        if found:
            logger.info("removed what a killed runtime left: %s", ", ".join(found))

    async def test_again(self) -> None:
        """Test it now; one that has become weaker is not used any more."""
        before = self.status()
        test = strength_test(self.settings, self._environ, is_new=True)
        await trio.to_thread.run_sync(test.status, limiter=trio.CapacityLimiter(1))
        self._test = test
        self._tests += 1
        now = test.status()
        if now.strength is not before.strength:
            weaker = now.strength.rank < before.strength.rank
            level = logging.WARNING if weaker else logging.INFO
            why = now.reason or "its test found nothing."
            logger.log(
                level, "the sandbox was %s and is %s: %s", before.strength, now.strength, why
            )

    def problem(self) -> str | None:
        """Return why programs can't be run; `None` when they can."""
        found = self.status()
        if found.strength.rank >= self.settings.minimum.rank:
            return None
        is_weak = f"the sandbox is {found.strength}, and must be {self.settings.minimum}"
        return f"{is_weak}: {found.reason} {STATUS_LINK}"

    def why_not(self, definition: ToolDefinition) -> str | None:
        """Return why a tool is not offered; `None` when the sandbox has nothing against it."""
        return self.problem() if Capability.PROCESSES in definition.needs else None

    def processes(
        self,
        workspace: str,
        session_id: str,
        turn_id: str = "",
        call_id: str = "",
        connector: Connector | None = None,
        versions: CallVersions | None = None,
        identity: FolderIdentity | None = None,
    ) -> SessionProcesses:
        """Return the handle on the programs of one session, on its workspace, for one of its calls.

        Args:
            workspace: The folder that they may change.
            session_id: Whose background programs they see.
            turn_id: Whose turn it is.
            call_id: Whose call it is.
            connector: Makes their connections; without it they reach no hosts.
            versions: Where their changes of a git repository are kept, so that they can be undone.
            identity: The folder that the workspace must be; the one that is there now, if not given.
        """
        workspace = os.path.realpath(workspace)
        self._stale_stubs.note(workspace)
        identity = identity or identity_of(workspace)
        base = Order(
            argv=(),
            workspace=workspace,
            cwd=workspace,
            environment={},
            files={},
            turn_id=turn_id,
            identity=identity,
        )
        return SessionProcesses(self, base, session_id, call_id, connector, versions)

    def recipe(self) -> Recipe:
        """Return how sandboxes are built; raise `ToolFailure` when they don't hold enough."""
        problem = self.problem()
        recipe = self.status().recipe
        if problem is not None or recipe is None:
            raise ToolFailure(
                ErrorType.SANDBOX_UNAVAILABLE,
                f"Nothing was run: {problem or 'there is no sandbox.'}",
                reason=problem,
            )
        return msgspec.structs.replace(recipe, settings=self.settings, forbidden=self._forbidden)

    def running_in(self, workspace: str) -> tuple[str, ...]:
        """Return the names of programs that can write there: in it, around it or within it."""
        places = ((program.order.workspace, program.order.name) for program in self.running)
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


class SessionProcesses:
    """A `Processes`, for one call; made by `Sandbox.processes`."""

    def __init__(
        self,
        sandbox: Sandbox,
        base: Order,
        session_id: str,
        call_id: str,
        connector: Connector | None,
        versions: CallVersions | None,
    ) -> None:
        self._sandbox = sandbox
        self._base = base
        self._workspace = base.workspace
        self._ends = sandbox.background.ends_of(session_id)
        self._session_id = session_id
        self._call_id = call_id
        self._connector = connector
        self._versions = versions
        self._bound: _Bound | None = None

    def bind(self, commands: Sequence[str | Sequence[str]], cwd: str) -> CommandBinding:
        """See `Processes`; what was found first is what counts."""
        if self._bound is None:
            found = self._named(commands, cwd)
            status = self._sandbox.status()
            view = status.recipe.view if status.recipe is not None else None
            variables = None if view is None else (view.path, dict(view.environment))
            depends_on = [status.strength, variables, [(f.path, f.digest) for f in found]]
            digest = hashlib.sha256(msgspec.json.encode(depends_on, order="sorted")).hexdigest()
            others = self._sandbox.running_in(self._workspace) if found else ()
            binding = CommandBinding(digest, shown_files(found, commands, others))
            self._bound = _Bound(commands, cwd, found, binding)
        return self._bound.binding

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """See `Processes`."""
        recipe, order = self._sandbox.recipe(), self._order(command)
        async with self._sandbox.limiter:
            observation = None
            if command.lists_changes:
                copies, versions = self._sandbox.copies, self._versions
                observation = await run_read(observe, self._workspace, copies, versions)
            program = self._program(recipe, order, on_line)
            try:
                ran = await run_program(program, command.seconds)
            except BaseException:  # cancelled, perhaps within a group
                unreaped().add_killed(self._base.turn_id, self._call_id, program.killed)
                if observation is not None and observation.snapshot is not None:
                    with trio.CancelScope(shield=True):  # what it changed is there all the same
                        await self._conclude(observation)
                raise
            if observation is None:
                return ran
            # The call's time may be up, and its result is wanted all the same; bounded itself.
            changed = ChangedFiles()
            with trio.CancelScope(shield=True):
                changed = await self._conclude(observation)
            return msgspec.structs.replace(ran, changed=changed)

    async def _conclude(self, observation: Observation) -> ChangedFiles:
        return await run_write(conclude, self._workspace, observation, self._versions)

    def _program(
        self,
        recipe: Recipe,
        order: Order,
        on_line: Callable[[str], None] | None = None,
        on_chunk: Callable[[bytes], None] | None = None,
    ) -> Program:
        """Look once more at what was allowed, and start it: without a checkpoint between."""
        self._check_bound()
        strength, running = str(self._sandbox.status().strength), self._sandbox.running
        return Program(recipe, order, on_line, on_chunk, sandbox=strength, running=running)

    async def start(self, command: Command) -> BackgroundProcess:
        """See `Processes`."""
        recipe, order = self._sandbox.recipe(), self._order(command, is_fed=True)
        return await self._sandbox.background.start(
            self._session_id,
            command.title,
            command.seconds,
            lambda on_chunk: self._program(recipe, order, on_chunk=on_chunk),
            ends=self._ends,
        )

    def list(self) -> tuple[BackgroundProcess, ...]:
        """See `Processes`."""
        return self._sandbox.background.list(self._session_id)

    async def output(self, process_id: str) -> ProcessOutput:
        """See `Processes`."""
        await trio.lowlevel.checkpoint()
        return self._sandbox.background.output(self._session_id, process_id)

    async def write(self, process_id: str, text: str) -> None:
        """See `Processes`."""
        await self._sandbox.background.write(self._session_id, process_id, text.encode())

    async def close_input(self, process_id: str) -> None:
        """See `Processes`."""
        await self._sandbox.background.close_input(self._session_id, process_id)

    async def kill(self, process_id: str) -> BackgroundProcess:
        """See `Processes`."""
        return await self._sandbox.background.kill(self._session_id, process_id)

    async def wait(self, process_id: str) -> BackgroundProcess:
        """See `Processes`."""
        return await self._sandbox.background.wait(self._session_id, process_id)

    async def written(self, since_ns: int) -> Written | None:
        """See `Processes`."""
        return await run_read(written_since, self._workspace, since_ns)

    def background_since(self, now_ns: int) -> int | None:
        """See `Processes`."""
        return self._sandbox.background.unseen_since(self._session_id, now_ns)

    @property
    def offers_network(self) -> bool:
        """See `Processes`."""
        return self._sandbox.settings.network

    def _named(self, commands: Sequence[str | Sequence[str]], cwd: str) -> tuple[NamedFile, ...]:
        try:
            folder = self._folder(cwd)
        except ToolFailure:
            return ()  # nothing can be run there, and the call is going to say so
        return tuple(named_files(self._workspace, folder, commands))

    def _check_bound(self) -> None:
        """Raise `ToolFailure` when something else would run than what was allowed."""
        bound = self._bound
        if bound is None:
            return
        if bound.files and (others := self._sandbox.running_in(self._workspace)):
            raise ToolFailure(
                ErrorType.PERMISSION_DENIED,
                f"Not run: {shown(bound.files[0].path)} may run only as it was when it was allowed, and "
                f"{others[0]!r}, which runs in the workspace, could change it at any moment. Wait until "
                "that has ended, or end it with process(action='kill'), and call again.",
                reason="a program runs in the workspace beside what was allowed",
            )
        if self._named(bound.commands, bound.cwd) != bound.files:
            raise ToolFailure(
                ErrorType.PERMISSION_DENIED,
                "Not run: a program in the workspace that the command names has changed since it was "
                "allowed. Ask again, so that it can be decided about as it is now.",
                reason="a program that the command names has changed",
            )

    def _order(self, command: Command, *, is_fed: bool = False) -> Order:
        _check_words("command", command.argv)
        if not command.argv or not command.argv[0]:
            raise _invalid("command", "there is no program in it")
        for name in command.env:
            if not _VARIABLE.fullmatch(name):
                raise _invalid("env", f"{shown(name[:64])!r} can't be the name of a variable")
        _check_words("env", [f"{name}={value}" for name, value in command.env.items()])
        words = sum(map(len, command.argv)) + sum(map(len, command.env.values()))
        if words > MAX_COMMAND_BYTES:
            raise _invalid("command", f"it is longer than {MAX_COMMAND_BYTES} characters")
        return msgspec.structs.replace(
            self._base,
            argv=command.argv,
            cwd=self._folder(command.cwd),
            environment=dict(command.env),
            files=dict(command.files),
            is_fed=is_fed,
            name=shown(command.title[:80]),
            sockets=sockets_of(command, self._connector, self._sandbox.settings),
        )

    def _folder(self, cwd: str) -> str:
        """Return where the program starts; raise `ToolFailure` when that is not in the workspace."""
        names = split_path(cwd, (root_names(self._workspace),))
        folder = os.path.join(self._workspace, *names)
        # Where a link leads outside, nobody learns whether anything is there.
        real = os.path.realpath(folder)
        is_inside = real == self._workspace or is_below(real, self._workspace)
        if not is_inside or not os.path.isdir(real):
            raise ToolFailure(
                ErrorType.NOT_A_DIRECTORY, f"{shown(cwd)}: there is no such folder to run in."
            )
        return folder


class _Bound(msgspec.Struct, frozen=True):
    """What a binding was made from, and what was found."""

    commands: Sequence[str | Sequence[str]]
    cwd: str
    files: tuple[NamedFile, ...]
    binding: CommandBinding


def _check_words(field: str, words: Sequence[str]) -> None:
    for word in words:
        try:
            data = word.encode()
        except UnicodeEncodeError:
            raise _invalid(field, "it holds a lone surrogate, which is no character") from None
        if b"\0" in data:
            raise _invalid(field, "it holds a NUL character")
        if len(data) >= MAX_WORD_BYTES:
            raise _invalid(field, f"a word in it is longer than {MAX_WORD_BYTES - 1} bytes")


def _invalid(field: str, problem: str) -> ToolFailure:
    return ToolFailure(ErrorType.VALIDATION_ERROR, f"{field}: {problem}.", field=field)
