"""The programs of one session, on its workspace: the handle that its calls get."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import trio

from ...config.sections import SandboxSettings
from ...runtime.changes.version_log import CallVersions
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.processes import (
    BackgroundProcess,
    Binding,
    ChangedFiles,
    Command,
    Output,
    Ran,
    Written,
)
from ..processes.left_running import reaped
from ..processes.threads import run_read, run_write
from ..workspace.paths import is_below, root_names, shown, split_path
from .background import BackgroundPrograms
from .box.recipe import Recipe
from .box.workspace_pin import Identity
from .changes.change_tracker import Observation, concluded, observe
from .changes.named_files import NamedFile, named_files, shown_files
from .changes.snapshot import KeptTrees
from .changes.written_files import written_since
from .exclusive_runs import Neighbours
from .network.proxy import WayOut
from .network.sockets import Doors, doors_of
from .running.process import Order
from .running.program import Program, run_program
from .selftest.self_test import SandboxStatus

MAX_WORDS_BYTES = 128 * 1024
"""Of one word of a command, or one variable: the kernel takes no longer one."""
MAX_COMMAND_BYTES = 1024 * 1024
"""Of all words and variables together: half of what the kernel takes."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class SandboxOfHandle(Protocol):
    """What the handle needs of the runtime's sandbox."""

    background: BackgroundPrograms
    kept_trees: KeptTrees
    neighbours: Neighbours
    settings: SandboxSettings

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """The slots of programs that calls wait for."""
        ...

    def status(self) -> SandboxStatus:
        """How strong it is."""
        ...

    def recipe(self) -> Recipe:
        """How sandboxes are built; raises `ToolFailure`."""
        ...


class SessionProcesses:
    """A `Processes`, for one call."""

    def __init__(
        self,
        sandbox: SandboxOfHandle,
        workspace: str,
        session_id: str,
        turn_id: str,
        call_id: str = "",
        way_out: WayOut | None = None,
        versions: CallVersions | None = None,
        identity: Identity | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._identity = identity
        self._ends = sandbox.background.ends_of(session_id)
        self._workspace = workspace
        self._session_id = session_id
        self._turn_id = turn_id
        self._call_id = call_id
        self._way_out = way_out
        self._versions = versions
        self._bound: _Bound | None = None

    def bind(self, commands: Sequence[str | Sequence[str]], cwd: str) -> Binding:
        """See `Processes`; what was found first is what counts."""
        if self._bound is None:
            found = self._named(commands, cwd)
            status = self._sandbox.status()
            view = status.recipe.view if status.recipe is not None else None
            variables = None if view is None else (view.path, dict(view.environment))
            depends_on = [status.strength, variables, [(f.path, f.digest) for f in found]]
            digest = hashlib.sha256(msgspec.json.encode(depends_on, order="sorted")).hexdigest()
            others = self._sandbox.neighbours.of(self._workspace) if found else ()
            binding = Binding(digest, shown_files(found, commands, others))
            self._bound = _Bound(commands, cwd, found, binding)
        return self._bound.binding

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """See `Processes`."""
        recipe, order = self._sandbox.recipe(), self._order(command)
        async with self._sandbox.limiter:
            observation = await self._observe(command)
            program = self._program(recipe, order, on_line)
            try:
                ran = await run_program(program, command.seconds)
            except BaseException:  # cancelled, perhaps within a group
                reaped().add(self._turn_id, self._call_id, program.killed)
                if observation is not None and observation.snapshot is not None:
                    with trio.CancelScope(shield=True):  # what it changed is there all the same
                        await self._concluded(observation)
                raise
            if observation is None:
                return ran
            # Its time may be up, and what it said is to be told all the same; bounded itself.
            changed = ChangedFiles()
            with trio.CancelScope(shield=True):
                changed = await self._concluded(observation)
            return msgspec.structs.replace(ran, changed=changed)

    def _program(
        self,
        recipe: Recipe,
        order: Order,
        on_line: Callable[[str], None] | None = None,
        on_chunk: Callable[[bytes], None] | None = None,
    ) -> Program:
        """Looks once more at what was allowed, and starts it: without a checkpoint between."""
        self._check_bound()
        return Program(
            recipe,
            order,
            on_line,
            on_chunk,
            sandbox=self._strength,
            neighbours=self._sandbox.neighbours,
        )

    async def _observe(self, command: Command) -> Observation | None:
        if not command.lists_changes:
            return None
        trees = self._sandbox.kept_trees
        return await run_read(observe, self._workspace, trees, self._versions)

    async def _concluded(self, observation: Observation) -> ChangedFiles:
        return await run_write(concluded, self._workspace, observation, self._versions)

    async def start(self, command: Command) -> BackgroundProcess:
        """See `Processes`."""
        recipe, order = self._sandbox.recipe(), self._order(command, is_fed=True)
        background = self._sandbox.background
        return await background.start(
            self._session_id,
            command.title,
            command.seconds,
            lambda on_chunk: self._program(recipe, order, on_chunk=on_chunk),
            ends=self._ends,
        )

    def list(self) -> tuple[BackgroundProcess, ...]:
        """See `Processes`."""
        return self._sandbox.background.list(self._session_id)

    async def output(self, process_id: str) -> Output:
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
        return self._sandbox.background.looked_at(self._session_id, now_ns)

    def _named(self, commands: Sequence[str | Sequence[str]], cwd: str) -> tuple[NamedFile, ...]:
        try:
            folder = self._folder(cwd)
        except ToolFailure:
            return ()  # nothing can be run there, and the call is going to say so
        return tuple(named_files(self._workspace, folder, commands))

    def _check_bound(self) -> None:
        """Refuses to start what somebody allowed who saw other programs in the workspace."""
        bound = self._bound
        if bound is None:
            return
        if bound.files and (others := self._sandbox.neighbours.of(self._workspace)):
            raise _disturbed(bound.files[0].path, others[0])
        if self._named(bound.commands, bound.cwd) != bound.files:
            raise ToolFailure(
                ErrorType.PERMISSION_DENIED,
                "Not run: a program in the workspace that the command names has changed since it was "
                "allowed. Ask again, so that it can be decided about as it is now.",
                reason="a program that the command names has changed",
            )

    @property
    def offers_network(self) -> bool:
        """See `Processes`."""
        return self._sandbox.settings.network

    @property
    def _strength(self) -> str:
        return str(self._sandbox.status().strength)

    def _order(self, command: Command, *, is_fed: bool = False) -> Order:
        _check_words("command", command.argv)
        if not command.argv or not command.argv[0]:
            raise _invalid("command", "there is no program in it")
        for name in command.env:
            if not _VARIABLE.fullmatch(name):
                raise _invalid("env", f"{shown(name[:64])!r} is no name of a variable")
        _check_words("env", [f"{name}={value}" for name, value in command.env.items()])
        words = sum(map(len, command.argv)) + sum(map(len, command.env.values()))
        if words > MAX_COMMAND_BYTES:
            raise _invalid("command", f"it is longer than {MAX_COMMAND_BYTES} characters")
        return Order(
            argv=command.argv,
            workspace=self._workspace,
            cwd=self._folder(command.cwd),
            environment=dict(command.env),
            files=dict(command.files),
            is_fed=is_fed,
            turn_id=self._turn_id,
            name=shown(command.title[:80]),
            doors=self._doors(command),
            identity=self._identity,
        )

    def _doors(self, command: Command) -> Doors | None:
        return doors_of(command, self._way_out, self._sandbox.settings)

    def _folder(self, cwd: str) -> str:
        """Where the program starts; a link that leads out of the workspace leads nowhere."""
        names = split_path(cwd, (root_names(self._workspace),))
        folder = os.path.join(self._workspace, *names)
        # Where a link leads outside, it is not told whether anything is there.
        real = os.path.realpath(folder)
        is_inside = real == self._workspace or is_below(real, self._workspace)
        if not is_inside or not os.path.isdir(real):
            raise ToolFailure(
                ErrorType.NOT_A_DIRECTORY, f"{shown(cwd)}: there is no such folder to run in."
            )
        return folder


class _Bound(msgspec.Struct, frozen=True):
    """What was looked at for a binding, and what was found."""

    commands: Sequence[str | Sequence[str]]
    cwd: str
    files: tuple[NamedFile, ...]
    binding: Binding


def _disturbed(path: str, other: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.PERMISSION_DENIED,
        f"Not run: {shown(path)} may run only as it was when it was allowed, and {other!r}, which runs "
        "in the workspace, could change it at any moment. Wait until that has ended, or end it "
        "with process(action='kill'), and call again.",
        reason="a program runs in the workspace beside what was allowed",
    )


def _check_words(field: str, words: tuple[str, ...] | list[str]) -> None:
    for word in words:
        try:
            data = word.encode()
        except UnicodeEncodeError:
            raise _invalid(field, "it holds a lone surrogate, which is no character") from None
        if b"\0" in data:
            raise _invalid(field, "it holds a NUL character")
        if len(data) >= MAX_WORDS_BYTES:
            raise _invalid(field, f"a word in it is longer than {MAX_WORDS_BYTES - 1} bytes")


def _invalid(field: str, problem: str) -> ToolFailure:
    return ToolFailure(ErrorType.VALIDATION_ERROR, f"{field}: {problem}.", field=field)
