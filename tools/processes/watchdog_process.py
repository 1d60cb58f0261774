"""The process that ends programs when a lease is over: the other end of `watchdog`.

It is started as a file of its own, with the standard library alone. Each message has the end of the lease, on a clock that
goes on while the machine is suspended, and may bring a process with the signal that ends it. When the lease is over, or
whoever started this process is gone, all of them get their signal.
"""

import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

MESSAGE = struct.Struct("=dI")
"""The end of the lease, in seconds; the signal of the process that comes with it, or 0 without one."""


def since_boot() -> float:
    """Return seconds that go on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def end(held: dict[int, int]) -> None:
    """Send each process its signal, and hold none any more."""
    while held:
        pidfd, number = held.popitem()
        for each in (number, signal.SIGCONT):  # one that was stopped gets SIGTERM when it goes on
            with suppress(OSError):  # it has ended by itself
                signal.pidfd_send_signal(pidfd, each)
        os.close(pidfd)


def watch(line: socket.socket) -> None:
    """Hold what comes over the line, until its other end is gone."""
    held: dict[int, int] = {}
    until = 0.0
    look = select.poll()
    look.register(line, select.POLLIN)
    try:
        while True:
            left = until - since_boot()
            if held and left <= 0:
                for pidfd in held:
                    look.unregister(pidfd)
                end(held)
            for ready, _ in look.poll(left * 1000 if held else None):
                if ready != line.fileno():
                    look.unregister(ready)
                    os.close(ready)
                    del held[ready]
                    continue
                said, came, flags, _ = socket.recv_fds(line, MESSAGE.size, 1)
                if len(said) < MESSAGE.size:
                    return
                until, number = MESSAGE.unpack(said)
                if number and (not came or flags & socket.MSG_CTRUNC):
                    return  # what can't be held must not run
                for pidfd in came:
                    held[pidfd] = number
                    look.register(pidfd, select.POLLIN)
    finally:
        end(held)


if __name__ == "__main__":
    for _number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(_number, signal.SIG_IGN)  # it ends with whoever started it, and not before
    with socket.socket(fileno=int(sys.argv[1])) as _line:
        watch(_line)
