"""The process that runs a tool's function: the other end of `processes.function_process`.

It is two processes. The first one stays beside the function's process, as a *subreaper*: what a function
starts may leave its process group (`setsid`) or lose its parent, and becomes a child of the subreaper then.
That one ends all of it before it ends itself: when the function has returned, when it gets SIGTERM, and
when the runtime dies. The second one, its child, finds the function, runs it, and writes its answer.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import NoReturn

import msgspec

from ..runtime.definitions import ErrorType, ToolFailure
from .processes.function_process import Failed, FunctionPlace, Returned, Work
from .processes.process_tree import descendants
from .schema.validation import result_of
from .tool import FunctionTool, ToolContext

FIRST_LOOK_SECONDS = 0.002
"""Between two looks at what is left: what is killed takes about as long to be gone."""
LAST_LOOK_SECONDS = 0.25
"""What is not gone soon waits for a disk, or is another user's, and can't be killed from here: the
looks grow as rare as this, and the runtime lists this process as left running meanwhile."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_HEARD = (signal.SIGCHLD, signal.SIGTERM)


def main() -> NoReturn:
    """Serve one call and end, with whatever the function has left running."""
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=Work)
    keep(work.parent_pid, partial(_serve, work))


def _serve(work: Work) -> NoReturn:
    os.set_inheritable(work.answer_fd, False)
    answer = msgspec.json.encode(_answer(work))
    stream = open(work.answer_fd, "wb")  # ruff: ignore[open-file-with-context-handler] the process ends
    stream.write(answer)
    stream.flush()
    sys.stdout.flush()
    os._exit(0)


def _answer(work: Work) -> Returned | Failed:
    try:
        found = getattr(_module(work.place), work.place.name)
        # Decorated, the name is the tool's; made with tool(…)(function), it is still the function's.
        is_tool = isinstance(found, FunctionTool)
        tool = found if is_tool else FunctionTool(found, name=work.tool_name)
        arguments = tool.decode(work.arguments)
        context = ToolContext(**msgspec.structs.asdict(work.context), on_progress=print)
        result = result_of(work.tool_name, tool.call(arguments, context), None)
    except ToolFailure as failure:
        details = msgspec.to_builtins(failure.details, enc_hook=repr, str_keys=True)
        return Failed(error_type=failure.error_type, message=str(failure), details=details)
    except (Exception, SystemExit) as crash:
        traceback.print_exc()
        text = " ".join(str(crash).split())[:500]
        said = f"{type(crash).__name__}: {text}" if text else type(crash).__name__
        return Failed(
            error_type=ErrorType.EXECUTION_ERROR,
            message=f"{work.tool_name} failed: {said}",
            details={},
        )
    return Returned(**msgspec.structs.asdict(result))


def _module(place: FunctionPlace) -> ModuleType:
    if place.file is None:
        return importlib.import_module(place.module)
    # A script: its `if __name__ == "__main__"` part must not run again.
    spec = importlib.util.spec_from_file_location(place.module, place.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[place.module] = module
    spec.loader.exec_module(module)
    return module


def keep(parent_pid: int, run: Callable[[], NoReturn]) -> NoReturn:
    """Run a function in a child, end all that is left after it, and end as the child did.

    With the runtime's process, `parent_pid`, this one and the child end too. `run` must end its process itself.
    """
    # Waited for one by one instead of handled: nothing is interrupted, so nothing is missed.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    _control(_PR_SET_CHILD_SUBREAPER, 1)
    _die_with(parent_pid, signal.SIGTERM)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        _die_with(keeper, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        run()
    status = _ended(child)
    _end_all()
    _end_as(status)


def _ended(child: int) -> int:
    """Wait for the child and return its status; that of a killed one when this process gets SIGTERM."""
    while signal.sigwait(_HEARD) == signal.SIGCHLD:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    return ended[1]
    return signal.SIGKILL


def _end_all() -> None:
    """Kill all that is left, until nothing is; orphans become children of this process."""
    pause = FIRST_LOOK_SECONDS
    with suppress(ChildProcessError):
        while True:
            # Stopped first, so that nobody forks while the others are killed.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in descendants(os.getpid()):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(pause)
            pause = min(2 * pause, LAST_LOOK_SECONDS)


def _end_as(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # The child has left its own, if any.
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _die_with(parent_pid: int, number: int) -> None:
    """Have the kernel send this signal when the parent is gone, which it may be already."""
    _control(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent_pid:
        os._exit(1)


def _control(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
