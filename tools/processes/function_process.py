"""Runs a tool's function in a process of its own, which ends when the call does.

A thread can't be stopped, a process can. It is a fresh interpreter (`tools.function_worker`) that imports the
function by name; arguments and result cross as JSON. On every way out it gets SIGTERM, ends all that the
function started, then itself, and is reaped before the call has its result. Its environment holds no secrets:
only what `KEPT_ENVIRONMENT` names.
"""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from typing import Any

import msgspec
import trio

from ...runtime.definitions import (
    Agent,
    Artifact,
    Attachment,
    ErrorType,
    SessionKind,
    ToolDefinition,
    ToolFailure,
    ToolResult,
)
from ...runtime.errors import ValidationError
from ..failures import failed
from .run_local import RunLocal
from .unreaped import unreaped

MAX_FUNCTION_PROCESSES = 16
"""Each is an interpreter of some 50 MB; more calls wait, under their own deadline."""
MAX_LINE_BYTES = 4096
"""A longer line of output is shown in pieces, so that none has to be kept whole."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A result is cut at a fraction of this for the model; the whole is stored."""
MAX_LOG_BYTES = 4096
"""How much of the end of the process's stderr is kept, to say why it died."""
DRAIN_SECONDS = 1.0
"""How long output is read after the process ended. All of it is in the pipe by then, but another process may
hold the pipe open."""
REAP_SECONDS = 5.0
"""How long a process and all that it started may take to be gone. One that waits for a broken disk, or
belongs to another user, takes longer, and is listed as unreaped."""

KEPT_ENVIRONMENT = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"}
)
"""What a program needs to find files and speak the user's language; `LC_…` are kept too."""

_START = "from callboard.tools.function_worker import main; main()"


class FunctionPlace(msgspec.Struct, frozen=True):
    """Where a fresh interpreter finds a function: in a module, or in the file of a script."""

    module: str
    file: str | None
    name: str


class ContextFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a `ToolContext` that cross to the process."""

    session_id: str
    turn_id: str
    call_id: str
    session_kind: SessionKind
    agent: Agent


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process reads first."""

    parent_pid: int
    answer_fd: int
    tool_name: str
    place: FunctionPlace
    arguments: str
    context: ContextFields


class Returned(msgspec.Struct, frozen=True, kw_only=True, tag="returned"):
    """The function returned."""

    output: Any
    display: str
    artifacts: tuple[Artifact, ...]
    both_ends: tuple[str, ...]
    attachments: tuple[Attachment, ...]


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The function raised; `error_type` is its own choice, or `execution_error` for a crash."""

    error_type: ErrorType
    message: str
    details: dict[str, Any]


hold_of_call: ContextVar[Callable[[int, int], Callable[[], None]] | None] = ContextVar(
    "hold_of_call", default=None
)
"""Where nodes have leases: has a process get a signal when that of this node is over; see `Watchdog.hold`."""

_decode_answer = msgspec.json.Decoder(Returned | Failed).decode

_slots = RunLocal("function_processes", lambda: trio.CapacityLimiter(MAX_FUNCTION_PROCESSES))


def place_of(function: Callable[..., Any], definition: ToolDefinition) -> FunctionPlace:
    """Return where another interpreter finds a tool's function; raise `ValidationError` when it can't be used there."""
    where = f"tool {definition.name}: process=True"
    if inspect.iscoroutinefunction(function):
        raise ValidationError(
            f"{where} is for plain functions; an async one ends when it is cancelled. Leave "
            "process=True out."
        )
    if definition.needs:
        raise ValidationError(
            f"{where} does not go with needs={[str(need) for need in definition.needs]}: handles "
            "stay in the runtime's own process. Leave one of the two out."
        )
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not name.isidentifier() or module is None:
        raise ValidationError(
            f"{where} needs a function at the top level of a module, which a fresh interpreter can "
            f"import; this is {name or repr(function)}. Move it there, or leave process=True out."
        )
    if module.__name__ != "__main__":
        return FunctionPlace(module.__name__, None, name)
    spec, file = module.__spec__, getattr(module, "__file__", None)
    if spec is not None:  # started with `python -m`
        return FunctionPlace(spec.name, None, name)
    if file is None:
        raise ValidationError(
            f"{where} needs a file that a fresh interpreter can import, and {name} was typed in. "
            "Save it in a module, or leave process=True out."
        )
    return FunctionPlace("__callboard_main__", os.path.abspath(file), name)


async def run_in_process(
    tool_name: str,
    place: FunctionPlace,
    arguments: str,
    context: ContextFields,
    show: Callable[[str], None],
) -> ToolResult:
    """Run the function and show each line that it prints.

    Cancelled, it ends the process and all that it started, and returns when they are gone. Raises
    `ToolFailure` when the function failed, or its process died.
    """
    async with _slots():
        try:
            worker = _WorkerProcess(tool_name, place, arguments, context, show)
        except OSError as error:
            raise failed(f"{tool_name}: its process could not be started ({error}).") from error
        try:
            await worker.serve()
        finally:
            worker.kill()
            with trio.CancelScope(shield=True):
                await worker.reap()
        return worker.result()


class _WorkerProcess:
    """One process, from its start to its end."""

    def __init__(
        self,
        tool_name: str,
        place: FunctionPlace,
        arguments: str,
        context: ContextFields,
        show: Callable[[str], None],
    ) -> None:
        """Start it, on this thread: the worker dies with the thread that started it."""
        self._tool_name = tool_name
        self._turn_id = context.turn_id
        self._show = show
        self._answer = bytearray()
        self._log = bytearray()
        self._too_large = False
        with ExitStack() as undo:
            stdin, stdout, stderr, answer = (_pipe(undo) for _ in range(4))
            work = Work(
                parent_pid=os.getpid(),
                answer_fd=answer[1],
                tool_name=tool_name,
                place=place,
                arguments=arguments,
                context=context,
            )
            start = f"import sys; sys.path[:] = {sys.path}; {_START}"
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-I", "-c", start],
                stdin=stdin[0],
                stdout=stdout[1],
                stderr=stderr[1],
                pass_fds=(answer[1],),
                env={
                    name: value
                    for name, value in os.environ.items()
                    if name in KEPT_ENVIRONMENT or name.startswith("LC_")
                },
                start_new_session=True,
            )
            undo.callback(self._process.wait)
            undo.callback(self._process.kill)
            self._pidfd = os.pidfd_open(self._process.pid)
            undo.callback(os.close, self._pidfd)
            hold = hold_of_call.get()
            self._release = None if hold is None else hold(self._pidfd, signal.SIGTERM)
            undo.pop_all()
        for fd in (stdin[0], stdout[1], stderr[1], answer[1]):
            os.close(fd)
        self._work = msgspec.json.encode(work)
        self._stdin = trio.lowlevel.FdStream(stdin[1])
        self._outputs = [trio.lowlevel.FdStream(each[0]) for each in (stdout, stderr, answer)]

    async def serve(self) -> None:
        stdout, stderr, answer = self._outputs
        async with self._stdin, stdout, stderr, answer, trio.open_nursery() as nursery:
            nursery.start_soon(self._feed)
            nursery.start_soon(self._read_lines, stdout)
            nursery.start_soon(self._read_log, stderr)
            nursery.start_soon(self._read_answer, answer)
            await trio.lowlevel.wait_readable(self._pidfd)
            nursery.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS

    def kill(self) -> None:
        """Tell it to end all that it started and itself, even when somebody has stopped it."""
        if self._process.returncode is None:  # Not reaped, so that the number is still its own.
            for number in (signal.SIGTERM, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    os.kill(self._process.pid, number)

    async def reap(self) -> None:
        """Wait, bounded, until the killed process is gone; else it is listed as unreaped."""
        with trio.move_on_after(REAP_SECONDS):
            await trio.lowlevel.wait_readable(self._pidfd)
        if self._release is not None:
            self._release()
        if self._process.poll() is not None:
            os.close(self._pidfd)
        else:
            unreaped().watch(self._turn_id, self._process, self._pidfd, self._tool_name)

    def result(self) -> ToolResult:
        if self._too_large:
            raise failed(f"{self._tool_name} ran, but returned more than {MAX_ANSWER_BYTES} bytes.")
        try:
            answer = _decode_answer(self._answer)
        except msgspec.DecodeError:
            code = self._process.returncode
            ended = f"ended with exit code {code}"
            if code is not None and code < 0:
                ended = f"was ended by {signal.Signals(-code).name}"
            last = self._log.decode(errors="replace").strip().splitlines()[-1:]
            raise failed(
                f"{self._tool_name}: its process {ended} without a result. "
                f"{''.join(last)[:500]}".strip()
            ) from None
        if isinstance(answer, Failed):
            raise ToolFailure(answer.error_type, answer.message, **answer.details)
        return ToolResult(**msgspec.structs.asdict(answer))

    async def _feed(self) -> None:
        async with self._stdin:
            with suppress(trio.BrokenResourceError):  # It died before it read: its end says why.
                await self._stdin.send_all(self._work)

    async def _read_lines(self, stdout: trio.lowlevel.FdStream) -> None:
        rest = b""
        async for chunk in stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._show(line.decode(errors="replace"))
            while len(rest) > MAX_LINE_BYTES:
                self._show(rest[:MAX_LINE_BYTES].decode(errors="replace") + "…")
                rest = rest[MAX_LINE_BYTES:]
        if rest:
            self._show(rest.decode(errors="replace"))

    async def _read_log(self, stderr: trio.lowlevel.FdStream) -> None:
        async for chunk in stderr:
            self._log += chunk
            del self._log[:-MAX_LOG_BYTES]

    async def _read_answer(self, answer: trio.lowlevel.FdStream) -> None:
        async for chunk in answer:
            self._answer += chunk
            if len(self._answer) > MAX_ANSWER_BYTES:
                self._too_large = True
                self.kill()
                return


def _pipe(undo: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends
