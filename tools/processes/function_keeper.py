"""Stays beside the process of a tool's function, and ends whatever that leaves behind.

What a function starts may leave its process group (`setsid`) or lose its parent: it becomes a child
of this process then (a subreaper), which ends it too before it ends itself: when the function has
returned, when it is told to (SIGTERM), and when the runtime dies.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from .process_tree import descendants

FIRST_LOOK_SECONDS = 0.002
"""Between two looks at what is left: what is killed takes about as long to be gone."""
LAST_LOOK_SECONDS = 0.25
"""What is not gone soon waits for a disk, or is another user's, and can't be killed from here: the
looks grow as rare as this, and the runtime lists this process as left running meanwhile."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_HEARD = (signal.SIGCHLD, signal.SIGTERM)


def keep(parent_pid: int, run: Callable[[], NoReturn]) -> NoReturn:
    """Runs a function in a child, ends all that is left after it, and ends as the child did.

    Args:
        parent_pid: The runtime's process: with it this one and the child end too.
        run: It ends its process itself.
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
    """How the child ended; as if it was killed when this process is told to end."""
    while signal.sigwait(_HEARD) == signal.SIGCHLD:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    return ended[1]
    return signal.SIGKILL


def _end_all() -> None:
    """Kills all that is left, until nothing is; what that orphans becomes a child of this one."""
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
    """Asks the kernel for this signal when the parent is gone, which may be at any time."""
    _control(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent_pid:
        os._exit(1)


def _control(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
