"""What the self-test runs inside a sandbox: it tries what must not work, and says what did.

It is started as a file of its own, with the standard library alone, and puts out one line of JSON:
the names of the attempts that succeeded, and the controls, which must.
"""

import ctypes
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

GET_SECCOMP, GET_NO_NEW_PRIVILEGES = 21, 39
"""What `prctl` is asked for: /proc is not there in each kind of sandbox."""

SETTINGS = (
    "sys/kernel/core_pattern",
    "sys/kernel/modprobe",
    "sys/kernel/hotplug",
    "sys/kernel/randomize_va_space",
    "sys/vm/overcommit_memory",
    "sys/fs/suid_dumpable",
    "sysrq-trigger",
    "irq/default_smp_affinity",
    "mtrr",
)
"""What runs a program outside, ends the machine or concerns all of it; below /proc."""

LINGER_SECONDS = 15
"""Longer than the test, and soon over where it finds that nothing holds."""


def attempts(told: dict[str, str]) -> dict[str, Callable[[], object]]:
    """By name, what must raise inside."""
    return {
        "read outside the workspace": lambda: open(told["outside"], "rb").close(),
        "write outside the workspace": lambda: open(told["outside"] + ".new", "wb").close(),
        "connect to a port of this machine": lambda: socket.create_connection(
            ("127.0.0.1", int(told["port"])), timeout=2
        ).close(),
        "open a socket to the virtual machine's host": lambda: socket.socket(40).close(),
        "put .git aside": lambda: os.rename(".git", "aside"),
        "write a git hook": lambda: open(".git/hooks/pre-commit", "wb").close(),
        "see the environment of callboard": lambda: seen(b"=", "/proc/1/environ"),
        "see processes of the machine": lambda: os.stat(f"/proc/{told['pid']}/{told['mark']}"),
        "share a namespace with the machine": lambda: shared(told),
        "change a setting of the kernel": writable_setting,
        "have capabilities": lambda: status("CapEff", 0),
        "make system calls unfiltered": lambda: controlled(GET_SECCOMP, 2),
        "gain rights by a program's file": lambda: controlled(GET_NO_NEW_PRIVILEGES, 1),
        "limit a process of the machine": lambda: unlimited_elsewhere(told),
        "run beyond its limits": lambda: unlimited(json.loads(told["limits"])),
    }


def writable_setting() -> None:
    """Raises unless one of the machine's settings can be opened for writing; writes nothing."""
    for name in SETTINGS:
        try:
            os.close(os.open(f"/proc/{name}", os.O_WRONLY))
        except OSError:  # this one is not there, or is as it must be
            continue
        return
    raise OSError("none of them")


def seen(part: bytes, path: str) -> None:
    """Raises unless a file holds this."""
    if part not in Path(path).read_bytes():
        raise OSError("not there")


def shared(told: dict[str, str]) -> None:
    """Raises unless one of the namespaces is the machine's."""
    for name in ("ipc", "mnt", "net", "pid", "user", "uts"):
        if os.readlink(f"/proc/self/ns/{name}") == told[name]:
            return
    raise OSError("all are its own")


def status(name: str, wanted: int) -> None:
    """Raises when the process is marked as wanted."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        values = [line.split()[1] for line in file if line.startswith(name + ":")]
    if values and int(values[0], 16) == wanted:
        raise OSError("as it must be")


def unlimited(limits: dict[str, list[int]]) -> None:
    """Raises unless one of the limits is another one."""
    if all(list(resource.getrlimit(int(kind))) == bound for kind, bound in limits.items()):
        raise OSError("they are as set")


def controlled(option: int, wanted: int) -> None:
    """Raises when the kernel says of this process what is wanted."""
    if ctypes.CDLL(None).prctl(option, 0, 0, 0, 0) == wanted:
        raise OSError("as it must be")


def unlimited_elsewhere(told: dict[str, str]) -> None:
    """Raises unless callboard's own process can be limited; asks for its limits alone."""
    os.stat(f"/proc/{told['pid']}/{told['mark']}")  # else that number is somebody's inside
    resource.prlimit(int(told["pid"]), resource.RLIMIT_CORE)
    os.kill(int(told["pid"]), 0)


def linger() -> None:
    """Leaves a process that has left the group, holds the output, and lives long."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(LINGER_SECONDS)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    """Tries all, says what worked, and waits to be killed."""
    told = json.loads(sys.argv[1])
    worked = []
    for name, attempt in attempts(told).items():
        try:
            attempt()
        except OSError:  # what does not work is what is hoped for
            continue
        worked.append(name)
    open(told["control"], "wb").close()
    linger()
    sys.stdout.write(json.dumps({"nonce": told["nonce"], "worked": worked}) + "\n")
    sys.stdout.flush()
    time.sleep(LINGER_SECONDS)


if __name__ == "__main__":
    main()
