"""The programs of one session, on its workspace: the handle that its calls get."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Protocol

import trio

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.processes import BackgroundProcess, Command, Output, Ran
from ..paths import root_names, shown, split_path
from .background import BackgroundPrograms
from .program import Program, run_program
from .recipe import Recipe
from .started import Order
from .strength import SandboxStatus

MAX_WORDS_BYTES = 128 * 1024
"""Of one word of a command, or one variable: the kernel takes no longer one."""
MAX_COMMAND_BYTES = 1024 * 1024
"""Of all words and variables together: half of what the kernel takes."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class SandboxOfHandle(Protocol):
    """What the handle needs of the runtime's sandbox."""

    background: BackgroundPrograms

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
    """A `Processes`."""

    def __init__(
        self, sandbox: SandboxOfHandle, workspace: str, session_id: str, turn_id: str
    ) -> None:
        self._sandbox = sandbox
        self._workspace = workspace
        self._session_id = session_id
        self._turn_id = turn_id

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """See `Processes`."""
        recipe, order = self._sandbox.recipe(), self._order(command)
        async with self._sandbox.limiter:
            program = Program(recipe, order, on_line, sandbox=self._strength)
            return await run_program(program, command.seconds)

    async def start(self, command: Command) -> BackgroundProcess:
        """See `Processes`."""
        recipe, order = self._sandbox.recipe(), self._order(command, is_fed=True)
        background = self._sandbox.background
        return await background.start(
            self._session_id,
            command.title,
            command.seconds,
            lambda on_chunk: Program(recipe, order, on_chunk=on_chunk, sandbox=self._strength),
        )

    def list(self) -> tuple[BackgroundProcess, ...]:
        """See `Processes`."""
        return self._sandbox.background.list(self._session_id)

    def output(self, process_id: str) -> Output:
        """See `Processes`."""
        return self._sandbox.background.output(self._session_id, process_id)

    async def write(self, process_id: str, text: str) -> None:
        """See `Processes`."""
        await self._sandbox.background.write(self._session_id, process_id, text.encode())

    async def kill(self, process_id: str) -> BackgroundProcess:
        """See `Processes`."""
        return await self._sandbox.background.kill(self._session_id, process_id)

    async def wait(self, process_id: str) -> BackgroundProcess:
        """See `Processes`."""
        return await self._sandbox.background.wait(self._session_id, process_id)

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
        )

    def _folder(self, cwd: str) -> str:
        """Where the program starts: below the workspace by its text; inside, links lead no further."""
        names = split_path(cwd, (root_names(self._workspace),))
        folder = os.path.join(self._workspace, *names)
        if not os.path.isdir(folder):
            raise ToolFailure(
                ErrorType.NOT_A_DIRECTORY, f"{shown(cwd)}: there is no such folder to run in."
            )
        return folder


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
