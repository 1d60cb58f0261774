"""Processes of commands that were forked by one that is warm (`warm_server.py`)."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from support.environment import finds_support

READ_WHEN_PYTHON_STARTS = ("PYTHON", "LC_", "LANG", "LD_")
"""Variables that a process which runs already does not follow."""


class WarmProcess:
    """A command's process, with what tests use of `subprocess.Popen`.

    Attributes:
        pid: Its number.
        returncode: How it ended, as `Popen` has it; None until somebody has waited.
    """

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told, "r")
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def wait(self) -> int:
        """Blocks until it has ended."""
        if self.returncode is None:
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        """How it ended, or None while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, which is not told yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end, if it runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it, if it runs."""
        self.send_signal(signal.SIGKILL)


def start_warm(
    tokens: Sequence[str],
    standard: tuple[int, int, int],
    folder: Path,
    environ: Mapping[str, str],
    terminal: bool = False,
    program: str = "",
    session: bool = False,
) -> WarmProcess:
    """Starts `callboard` on three descriptors, which stay the caller's to close.

    Args:
        tokens: Its arguments.
        standard: Its input, output and errors.
        folder: Where it runs.
        environ: The whole of its environment.
        terminal: Whether `standard` is a terminal that is to be its own.
        program: A file of Python that is to run as the main program, and not `callboard`.
        session: Whether it leads a session and a group of its own, as at a terminal.
    """
    read, write = os.pipe()
    request = {
        "tokens": list(tokens),
        "folder": str(folder),
        "environ": dict(environ),
        "terminal": terminal,
        "session": session or terminal,
        "program": program,
    }
    try:
        socket.send_fds(_server().requests, [json.dumps(request).encode()], [*standard, write])
    finally:
        os.close(write)
    return WarmProcess(read)


class PipedProcess:
    """A command's process between pipes, with what tests use of `trio.Process`.

    Attributes:
        pid: Its number.
        stdout: What it prints.
        stderr: What it complains of.
    """

    def __init__(self, process: WarmProcess, stdout: int, stderr: int) -> None:
        self._process = process
        self.pid = process.pid
        self.stdout = trio.lowlevel.FdStream(stdout)
        self.stderr = trio.lowlevel.FdStream(stderr)
        self.send_signal = process.send_signal
        self.terminate = process.terminate
        self.kill = process.kill

    async def wait(self) -> int:
        """Waits until it has ended."""
        return await trio.to_thread.run_sync(self._process.wait)


def start_piped(
    tokens: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    program: str = "",
    typed: bytes = b"",
) -> PipedProcess:
    """Starts `callboard`, or a file of Python, in a session of its own.

    Args:
        tokens: Its arguments.
        folder: Where it runs.
        environ: The whole of its environment.
        program: A file of Python that is to run as the main program, and not `callboard`.
        typed: All of its input; less than a pipe holds.
    """
    (stdin, to_type), (out, to_print), (err, to_complain) = (os.pipe() for _ in range(3))
    theirs = (stdin, to_print, to_complain)
    try:
        os.write(to_type, typed)
        process = start_warm(tokens, theirs, folder, environ, program=program, session=True)
    finally:
        for descriptor in (*theirs, to_type):
            os.close(descriptor)
    return PipedProcess(process, out, err)


@contextmanager
def nowhere() -> Generator[int]:
    """A descriptor of which nothing comes, and which keeps nothing."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def run_warm(
    tokens: Sequence[str],
    stdin: bytes,
    folder: Path,
    environ: Mapping[str, str],
    program: str = "",
) -> tuple[int, bytes, bytes]:
    """Runs `callboard`, or a file of Python, to its end; gives its exit code, its output and its errors."""
    pipes = [os.pipe() for _ in range(3)]
    (typed, to_type), (out, to_print), (err, to_complain) = pipes
    theirs = (typed, to_print, to_complain)
    try:
        process = start_warm(tokens, theirs, folder, environ, program=program)
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    read: dict[int, list[bytes]] = {out: [], err: []}
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_type, to_type, stdin)
            nursery.start_soon(_read, out, read[out])
            nursery.start_soon(_read, err, read[err])
    except BaseException:
        process.kill()
        said = b"".join(read[out] + read[err])  # a test that was too slow shows it
        sys.stderr.write(f"{' '.join(tokens)} had said: {said!r}\n")
        raise
    return await trio.to_thread.run_sync(process.wait), b"".join(read[out]), b"".join(read[err])


async def _type(descriptor: int, data: bytes) -> None:
    async with trio.lowlevel.FdStream(descriptor) as stream:
        with contextlib.suppress(trio.BrokenResourceError):  # it has ended, or closed its input
            await stream.send_all(data)


async def _read(descriptor: int, read: list[bytes]) -> None:
    async with trio.lowlevel.FdStream(descriptor) as stream:
        async for chunk in stream:
            read.append(bytes(chunk))  # ruff: ignore[manual-list-comprehension]  what came until it is ended counts


def warm_line() -> tuple[str, int]:
    """What stands for `callboard` in a line of a shell, and the descriptor that the shell must have for it."""
    server = _server().requests.fileno()
    return f"{sys.executable} -IS {Path(__file__).with_name('warm_client.py')} {server}", server


def can_be_warm(environ: Mapping[str, str]) -> bool:
    """Whether a process that runs already behaves as one that starts with this environment."""
    return _of_start(environ) == _of_start(os.environ)


def _of_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k.startswith(READ_WHEN_PYTHON_STARTS)}


@functools.cache
def _server() -> WarmServer:
    return WarmServer()


class WarmServer:
    """The process that is warm, from the first command to the end of all tests."""

    def __init__(self) -> None:
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = Path(__file__).with_name("warm_server.py")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", str(program), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=finds_support(),  # for files that it runs
            )

    def close(self) -> None:
        """Ends it, and waits until it has."""
        self.requests.close()
        self._process.wait()


def end_warm() -> None:
    """Ends the process that is warm, if there is one."""
    if _server.cache_info().currsize:
        _server().close()
        _server.cache_clear()
