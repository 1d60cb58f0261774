"""The handle of a call on its session's programs: they run in the sandbox, on the session's workspace.

**What was allowed is what runs.** A person decides about the programs that a command names as they
were when they were shown (`bind`). They are looked at again just before the start, without a checkpoint in
between. A program that runs beside could still put another one in its place behind that look, since no mount
holds a name against a rename in another sandbox: so nothing that was bound starts while another program
can write in its workspace.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from ...config.sections import Strength
from ...runtime.changes.version_log import CallVersions
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.identity import TraceContext
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
from .box.recipe import Recipe, why_no_room
from .box.start_gate import FolderIdentity, identity_of
from .box.user import ordinary_owner
from .changes.change_tracker import Observation, conclude, observe
from .changes.scan import written_since
from .named_programs import MAX_NAMED_FILES, NamedFile, leads_on, named_files, shown_files
from .network.proxy import Connector
from .network.sockets import sockets_of
from .running.process import Order
from .running.program import Program, run_program
from .sandbox import Sandbox

MAX_WORD_BYTES = 128 * 1024
"""One word of a command, or one variable: the kernel takes no longer one."""
MAX_COMMAND_BYTES = 1024 * 1024
"""All words and variables together: half of what the kernel takes."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class SessionProcesses:
    """A `Processes`: the programs of one session, on its workspace, for one of its calls.

    Args:
        sandbox: Where they run.
        workspace: The folder that they may change.
        session_id: Whose background programs they see.
        turn_id: Whose turn it is.
        call_id: Whose call it is.
        connector: Makes their connections; without it they reach no hosts.
        versions: Where their changes of a git repository are kept, so that they can be undone.
        identity: The folder that the workspace must be; the one that is there now, if not given.
        trace: Where the call stands in a trace, which its programs are told.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        workspace: str,
        session_id: str,
        turn_id: str = "",
        call_id: str = "",
        connector: Connector | None = None,
        versions: CallVersions | None = None,
        identity: FolderIdentity | None = None,
        trace: TraceContext | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._workspace = os.path.realpath(workspace)
        self._base = Order(
            argv=(),
            workspace=self._workspace,
            cwd=self._workspace,
            environment={} if trace is None else trace.environment,
            files={},
            turn_id=turn_id,
            identity=identity or identity_of(self._workspace),
        )
        self._ends = sandbox.background.ends_of(session_id)
        self._session_id = session_id
        self._call_id = call_id
        self._connector = connector
        self._versions = versions
        self._bound: dict[bool, _Bound] = {}

    def bind(
        self, commands: Sequence[str | Sequence[str]], cwd: str, *, is_remembered: bool = False
    ) -> CommandBinding:
        """See `Processes`; what was found first is what counts."""
        if (bound := self._bound.get(is_remembered)) is None:
            found = self._named(commands, cwd, is_whole=is_remembered)
            status = self._sandbox.status()
            view = status.recipe.view if status.recipe is not None else None
            variables = None if view is None else (view.path, dict(view.environment))
            depends_on: list[object] = [
                status.strength,
                variables,
                [(f.path, f.digest) for f in found],
            ]
            if owner := ordinary_owner(self._sandbox.settings.run_as, self._workspace):
                depends_on.append(owner)  # of the tools, only those count that this one can read
            digest = hashlib.sha256(msgspec.json.encode(depends_on, order="sorted")).hexdigest()
            if is_remembered:
                is_told = len(found) < MAX_NAMED_FILES and not any(map(leads_on, commands))
                binding = CommandBinding(digest if is_told else "")
            else:
                others = self._sandbox.running_in(self._workspace) if found else ()
                binding = CommandBinding(digest, shown_files(found, commands, others))
            bound = self._bound[is_remembered] = _Bound(
                commands, cwd, found, binding, is_remembered
            )
        return bound.binding

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """See `Processes`."""
        recipe, strength = await self._sandbox.recipe_in(self._workspace)
        order = self._order(command)
        async with self._sandbox.limiter:
            order = await self._sandbox.prepared(recipe, order)
            observation = None
            if command.lists_changes:
                copies, versions = self._sandbox.copies, self._versions
                observation = await run_read(observe, self._workspace, copies, versions)
            program = self._program(recipe, strength, order, on_line)
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
        strength: Strength,
        order: Order,
        on_line: Callable[[str], None] | None = None,
        on_chunk: Callable[[bytes], None] | None = None,
    ) -> Program:
        """Look once more at what was allowed, and start it: without a checkpoint between."""
        self._check_bound()
        return Program(
            recipe,
            order,
            on_line,
            on_chunk,
            sandbox=str(strength),
            running=self._sandbox.running,
            watchdog=self._sandbox.watchdog,
        )

    async def start(
        self, command: Command, on_end: Callable[[], Awaitable[None]] | None = None
    ) -> BackgroundProcess:
        """See `Processes`."""
        recipe, strength = await self._sandbox.recipe_in(self._workspace)
        order = await self._sandbox.prepared(recipe, self._order(command, is_fed=True))
        return await self._sandbox.background.start(
            self._session_id,
            command.title,
            command.seconds,
            lambda on_chunk: self._program(recipe, strength, order, on_chunk=on_chunk),
            ends=self._ends,
            on_end=on_end,
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

    def _named(
        self, commands: Sequence[str | Sequence[str]], cwd: str, *, is_whole: bool
    ) -> tuple[NamedFile, ...]:
        try:
            folder = self._folder(cwd)
        except ToolFailure:
            return ()  # nothing can be run there, and the call is going to say so
        recipe = self._sandbox.status().recipe
        path = "" if recipe is None or recipe.view is None else recipe.view.path
        return tuple(
            named_files(self._workspace, folder, commands, path=path.split(":"), is_whole=is_whole)
        )

    def _check_bound(self) -> None:
        """Raise `ToolFailure` when something else would run than what was allowed."""
        for bound in self._bound.values():
            self._check_same(bound)

    def _check_same(self, bound: _Bound) -> None:
        if bound.files and (others := self._sandbox.running_in(self._workspace)):
            raise ToolFailure(
                ErrorType.PERMISSION_DENIED,
                f"Not run: {shown(bound.files[0].path)} may run only as it was when it was allowed, and "
                f"{others[0]!r}, which runs in the workspace, could change it at any moment. Wait until "
                "that has ended, or end it with process(action='kill'), and call again.",
                reason="a program runs in the workspace beside what was allowed",
            )
        if self._named(bound.commands, bound.cwd, is_whole=bound.is_remembered) != bound.files:
            raise ToolFailure(
                ErrorType.PERMISSION_DENIED,
                "Not run: a program in the workspace that the command names has changed since it was "
                "allowed. Ask again, so that it can be decided about as it is now.",
                reason="a program that the command names has changed",
            )

    def _order(self, command: Command, *, is_fed: bool = False) -> Order:
        _check_words("command", command.argv)
        if why := why_no_room(self._workspace):
            text = f"Nothing was run: {why}. Work in another folder."
            raise ToolFailure(ErrorType.SANDBOX_UNAVAILABLE, text, reason=why)
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
            environment={**self._base.environment, **command.env},
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
    is_remembered: bool


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
