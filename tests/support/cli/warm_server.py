"""A process that has imported callboard once, and forks a command's process in a tenth of the time.

The imports are most of what a command costs, and the tests run a thousand of them. It has played a turn, too, has
looked into each type of messages and settings, which is done once, has measured the sandbox, and has read command lines. What is forked is a
process of its own with the arguments, environment, folder, descriptors and terminal that it was given; instead of
the command it can run a file, as `python FILE` does. How a process starts by itself is for the tests that start one.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import sys
import tempfile
import termios
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import trio
from trio._core import _thread_cache

import callboard
from callboard.__main__ import main
from callboard.cli.app import complete_parser
from callboard.config.sections import SandboxSettings
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.tools.sandbox.selftest import self_test
from support.cli.parsing import prepare, without_pydantic

LONGEST_REQUEST = 1 << 17
"""Of one message: the arguments and the environment."""


def serve(requests: socket.socket) -> NoReturn:
    """Answers requests until the other side is gone."""
    _import_all()
    _play_something()
    self_test.strength_test(SandboxSettings(), os.environ).status()
    _know_all_types()
    complete_parser().parse_args(["run", "Hello."])  # reads the options of most commands
    without_pydantic()
    prepare(("run", "serve"))
    gc.collect()
    gc.freeze()
    ended, ends = socket.socketpair()
    ends.setblocking(False)
    signal.set_wakeup_fd(ends.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        for ready in select.select([requests, ended], [], [])[0]:
            if ready is ended:
                ended.recv(LONGEST_REQUEST)
                _tell_ends(running)
                continue
            data, descriptors, _flags, _address = socket.recv_fds(requests, LONGEST_REQUEST, 4)
            if not data:
                os._exit(0)  # at once: nothing of what it holds is to be saved
            number = os.fork()
            if number == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _become(json.loads(data), descriptors[:3])
            *standard, told = descriptors
            for descriptor in standard:
                os.close(descriptor)
            running[number] = told
            os.write(told, f"{number}\n".encode())


def _tell_ends(running: dict[int, int]) -> None:
    """Says of each command that has ended how it did."""
    while running:
        number, status = os.waitpid(-1, os.WNOHANG)
        if number == 0:
            break
        told = running.pop(number)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(told)


def _import_all() -> None:
    for module in pkgutil.walk_packages(callboard.__path__, "callboard."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("rich.markdown", "encodings.ascii", "encodings.utf_8_sig"):  # late, and by others
        importlib.import_module(name)


def _know_all_types() -> None:
    """Have msgspec read the annotations of every struct, as it does when one is first decoded."""
    kinds = msgspec.Struct.__subclasses__()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        # Most want fields. NameError, TypeError: those that are never decoded name what is not imported, or no data.
        with contextlib.suppress(msgspec.ValidationError, NameError, TypeError):
            msgspec.convert({}, kind)


def _play_something() -> None:
    """Play a turn on a store, with a model behind HTTP; no thread is left, for a fork would not have it."""
    usual = _thread_cache.IDLE_TIMEOUT
    _thread_cache.IDLE_TIMEOUT = 0.01  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        trio.run(_play, Path(folder))
    while threading.active_count() > 1:
        time.sleep(0.01)
    _thread_cache.IDLE_TIMEOUT = usual


async def _play(folder: Path) -> None:
    (folder / "work").mkdir()
    read = reply(calls=[("read_file", {"path": "none"})])
    async with (
        open_scripted_server([read, reply("Hello.")]) as server,
        callboard.open_runtime(
            model="scripted",
            base_url=server.base_url,
            workspace=folder / "work",
            data=folder / "data",
            environ={},
            agents=[callboard.Agent(name="reader", tools=("read_file",))],  # no sandbox is measured
        ) as runtime,
    ):
        await (await runtime.create_session(agent="reader")).run("Hello.")


def _become(request: dict[str, Any], standard: list[int]) -> NoReturn:
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if request["session"]:
        os.setsid()
    if request["terminal"]:
        fcntl.ioctl(2, termios.TIOCSCTTY)  # stdin may be a pipe
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    # A process measures its sandbox for itself; this one was measured as what it was forked from.
    for key, test in [*self_test._tests.items()]:
        _, *machine = cast("tuple[object, ...]", key)
        self_test._tests[os.getpid(), *machine] = test
    random.seed()
    sys.argv[1:] = request["tokens"]
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = _output(1)
    sys.stderr = _output(2)
    code = 1
    try:
        code = _run_file(request["program"]) if request["program"] else _run(request["tokens"])
    finally:
        _exit(code)


def _output(descriptor: int) -> Any:
    buffering = 1 if os.isatty(descriptor) or descriptor == 2 else -1
    return os.fdopen(descriptor, "w", buffering, encoding="utf-8", closefd=False)


def _run(tokens: list[str]) -> int:
    try:
        return main(tokens)
    except SystemExit as end:
        return _code_of(end)


def _code_of(end: SystemExit) -> int:
    return end.code if isinstance(end.code, int) else int(end.code is not None)


def _run_file(program: str) -> int:
    sys.argv[0] = program
    sys.path[0] = str(Path(program).parent)
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        return _code_of(end)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _exit(code: int) -> NoReturn:
    """Ends as Python does, but for what it takes apart."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120  # as Python's own
    os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
