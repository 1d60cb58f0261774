"""A run works in a child of the process that the shell waits for, so that it can go on for others when it has answered.

shell ──waits for──► first process ──fork──► the run
                         ──a signal that was sent to the first process alone──►
                         ◄──the exit code, when turns of others go on in the run's process──

Both are in one group: the keys of a terminal (Ctrl-C, Ctrl-Z), its size and its end reach the run itself, and the first
process passes none of them on. It stops when the run does, and ends as the run does. When the first process is killed,
the run learns of it, and ends its turn.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

import trio

from ..exit_codes import FAILED
from ..terminal.complaint import complain

KEYS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
"""What stops a process at the wish of its terminal. SIGSTOP is between the run's process and whoever sent it."""
AT_ONCE = frozenset({signal.SIGQUIT, signal.SIGTSTP})
"""What the run leaves to the system, so that it is passed on as it is."""
SAME_SECONDS = 0.5
"""Time in which a signal that comes twice is one: `timeout` sends it to the process, and to its group, and a busy
machine is late with the second. What a person types twice comes from the terminal, and to the run itself."""


def fork_run() -> Shell | None:
    """Go on in a new process, and return what that knows of this one, which waits for it and ends as it does.

    Return `None`, in this process, where that can't be: it has threads, which a fork does not copy, or the system
    refuses, or it does not tell whether a signal came from a terminal (macOS).
    """
    if threading.active_count() > 1 or sys.platform != "linux":
        return None
    passed = {signal.SIGINT, signal.SIGTERM, *AT_ONCE}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else nohup
        passed.add(signal.SIGHUP)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    inherited = [
        number for number in map(int, os.listdir("/proc/self/fd")) if _is_inherited(number)
    ]
    ours, theirs = socket.socketpair()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed, signal.SIGCHLD, signal.SIGIO})
    gc.freeze()  # a collection would write to each page that both share, and copy it
    try:
        process = os.fork()
    except OSError:
        process = -1
    if process > 0:
        theirs.close()
        _FirstProcess(process, ours, passed).wait()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    ours.close()
    if process < 0:
        theirs.close()
        return None
    theirs.setblocking(False)
    return Shell(theirs, inherited)


def _is_inherited(number: int) -> bool:
    """Return whether a file is the shell's, as that of `3>FILE` or `<(COMMAND)`; Python passes none of its own on."""
    try:
        return number > 2 and os.get_inheritable(number)
    except OSError:
        return False  # it was open for the list of open files


class _FirstProcess:
    """The process that the shell waits for: it passes signals on, and nothing else."""

    def __init__(self, process: int, line: socket.socket, passed: set[signal.Signals]) -> None:
        self._process = process
        self._line = line
        self._passed = passed
        self._last = (0, 0.0)

    def wait(self) -> NoReturn:
        """End as the run does, or with the code that it says."""
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._line.setblocking(False)
            descriptor = self._line.fileno()
            fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | fcntl.FASYNC)  # its news are a SIGIO
            for number in signal.sigpending() & self._passed:
                self._pass_on(number)  # it may have come before there were two
            while True:
                self._look()
                news = signal.sigwaitinfo({*self._passed, signal.SIGCHLD, signal.SIGIO})
                is_sent = news.si_code <= 0  # by a program; the terminal's reach the run itself
                if is_sent and news.si_signo in self._passed:
                    self._pass_on(news.si_signo)
        finally:
            os._exit(FAILED)

    def _look(self) -> None:
        """End if the run has ended, or said its code; stop if it was stopped, until somebody goes on with this process."""
        with suppress(BlockingIOError, ConnectionResetError):  # the run ended with a signal unread
            if said := self._line.recv(1):
                os._exit(said[0])
        number, status = os.waitpid(self._process, os.WNOHANG | os.WUNTRACED)
        if not number:
            return
        if not os.WIFSTOPPED(status):
            self._end_as(status)
        if (number := os.WSTOPSIG(status)) in KEYS:
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})  # here it stops, until it goes on
            signal.pthread_sigmask(signal.SIG_BLOCK, AT_ONCE)
            os.kill(self._process, signal.SIGCONT)

    def _end_as(self, status: int) -> NoReturn:
        if (code := os.waitstatus_to_exitcode(status)) >= 0:
            os._exit(code)
        if -code == signal.SIGKILL:
            complain(
                f"the process of this run ({self._process}) was killed, by somebody or for want of memory. What was "
                "acknowledged is stored; `callboard run --continue` says what was cut off."
            )
            os._exit(FAILED)
        with suppress(OSError):  # of some the handler can't be changed, which is theirs then
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
        os._exit(FAILED)

    def _pass_on(self, number: int) -> None:
        """Say the first one, which the run may know already; send each later one."""
        (last, at), now = self._last, time.monotonic()
        self._last = number, now
        if last == number and now - at < SAME_SECONDS:
            return
        with suppress(OSError):  # it has ended
            if last or number in AT_ONCE:
                os.kill(self._process, number)
            else:
                self._line.send(bytes([number]))


class Shell:
    """The process that the shell waits for, as the run knows it; made by `fork_run`.

    Attributes:
        has_prompt: Whether the shell has its prompt back.
    """

    def __init__(self, line: socket.socket, inherited: list[int]) -> None:
        self.has_prompt = False
        self._line = line
        self._inherited = inherited

    async def next_signal(self) -> int | None:
        """Wait for a signal that was sent to the first process alone; `None` when that has ended."""
        while True:
            await trio.lowlevel.wait_readable(self._line)
            try:
                return next(iter(self._line.recv(1)), None)
            except BlockingIOError:
                pass  # it was woken for nothing
            except OSError:
                return None

    @property
    def was_killed(self) -> bool:
        """Whether the first process has ended before the run. That is seen here before its terminal ends."""
        try:
            return not self.has_prompt and not self._line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def give_back(self, code: int, *terminals: int) -> None:
        """Have the first process end with this code; what was its terminal and its files is left before.

        Args:
            code: The exit code.
            terminals: Descriptors of the terminal that were opened since.
        """
        self.has_prompt = True
        os.setsid()  # what ends the terminal, or its group, ends nothing here
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number in (0, 1, 2, *self._inherited, *terminals):
            os.dup2(nothing, number, inheritable=number <= 2)
        os.close(nothing)
        with suppress(OSError):  # it was killed
            self._line.send(bytes([code]))

    def close(self) -> None:
        """Hear of the first process no more: the run is over."""
        self._line.close()
