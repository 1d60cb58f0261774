"""A process that has imported callboard once, and forks a command's process in a tenth of the time.

The imports are most of what a command costs, and the tests run a thousand of them. What is forked
is a process of its own with the arguments, environment, folder, descriptors and terminal that it
was given; instead of the command it can run a file, as `python FILE` does. How a process starts by
itself is for the tests that start one.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import signal
import socket
import sys
import termios
import traceback
from pathlib import Path
from typing import Any, NoReturn

import callboard
from callboard.__main__ import main

LONGEST_REQUEST = 1 << 17
"""Of one message: the arguments and the environment."""


def serve(requests: socket.socket) -> NoReturn:
    """Answers requests until the other side is gone."""
    _import_all()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those between
    while True:
        data, descriptors, _flags, _address = socket.recv_fds(requests, LONGEST_REQUEST, 4)
        if not data:
            os._exit(0)  # at once: nothing of what it holds is to be saved
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _import_all() -> None:
    for module in pkgutil.walk_packages(callboard.__path__, "callboard."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _watch(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Forks the command and tells its number, then how it ended."""
    *standard, told = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    number = os.fork()
    if number == 0:
        os.close(told)
        _become(request, standard)
    for descriptor in (0, 1, 2, *standard):
        os.close(descriptor)
    os.write(told, f"{number}\n".encode())
    _number, status = os.waitpid(number, 0)
    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], standard: list[int]) -> NoReturn:
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    os.closerange(3, max(standard) + 1)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(2, termios.TIOCSCTTY)  # stdin may be a pipe
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
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
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _run_file(program: str) -> int:
    sys.argv[0] = program
    sys.path[0] = str(Path(program).parent)
    try:
        runpy.run_path(program, run_name="__main__")
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
