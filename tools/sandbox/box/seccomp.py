"""The filter of system calls: what a sandboxed program is denied, as a BPF program for the kernel.

Namespaces leave the whole interface of the kernel open, and some of it leads around them: sockets that
no network namespace covers, user namespaces with new rights, rings (io_uring) that make calls which no
filter sees. A denied call fails as on a kernel without it, so that programs fall back; only a call of
another architecture kills.

Namespaces also let a program lend its user's rights to whoever runs its files later, outside: what it leaves in
the workspace lies on the host's disk. So no mode with setuid or setgid passes, and no device. File capabilities
and other owners the kernel itself refuses to a program without capabilities.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator

LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_NOT_LESS = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_FAIL = 0x00050000

AT_NUMBER, _AT_ARCHITECTURE = 0, 4
AT_ARGUMENTS = 16
"""Six of eight bytes. Only lower halves are read, as the kernel does for these arguments."""

_X32 = 0x40000000
"""x86-64 has a second set of numbers for the same calls, which no comparison below would match."""

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET and TIME, as `clone` takes them."""

_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX type into the terminal that a program was started from."""

_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET and AF_INET6, which the namespaces cover. AF_VSOCK reaches the host of a virtual
machine; the others are ways into the kernel that hardly any program needs."""

_LENDING = 0o6000
"""setuid and setgid: who runs such a file has the rights of its owner or group."""
_LENDING_OR_DEVICE = _LENDING | 0o020000
"""For `mknod`: of the kinds that it makes, those of devices alone have this bit."""
_MAKES_FILE = 0o20000100
"""O_CREAT and O_TMPFILE: without them the mode is whatever lies in the register."""
_LEAVES_DEVICE = 4
"""RENAME_WHITEOUT."""

_MODES: dict[str, tuple[int | None, int | None, int, int]] = {
    "chmod": (90, None, 1, _LENDING),
    "creat": (85, None, 1, _LENDING),
    "fchmod": (91, 52, 1, _LENDING),
    "fchmodat": (268, 53, 2, _LENDING),
    "fchmodat2": (452, 452, 2, _LENDING),
    "mknod": (133, None, 1, _LENDING_OR_DEVICE),
    "mknodat": (259, 33, 2, _LENDING_OR_DEVICE),
    "renameat2": (316, 276, 4, _LEAVES_DEVICE),
}
"""Which argument is a mode (or flags), and the bits that it may not have."""

_OPENS: dict[str, tuple[int | None, int | None, int]] = {
    "open": (2, None, 1),
    "openat": (257, 56, 2),
}
"""Which argument are the flags; the mode is the next."""

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The kernel's name for each machine, and its column in the tables."""

_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
"""Denied with any arguments: numbers on x86-64 and on ARM64."""

_CLONE, _CLONE3, _OPENAT2, _SOCKET, _SOCKETPAIR, _IOCTL = (
    (56, 220),
    (435, 435),
    (437, 437),
    (41, 198),
    (53, 199),
    (16, 29),
)

Instruction = tuple[int, int, int, int]
"""An operation, how far to jump if it holds and if not, and its constant."""


def is_known(machine: str | None = None) -> bool:
    """Return whether there is a filter for this architecture; without one nothing is run."""
    return (machine or platform.machine()) in ARCHITECTURES


def seccomp_program(machine: str | None = None) -> bytes:
    """Return the filter, as `bwrap --seccomp` reads it; raise `KeyError` when there is none for this architecture."""
    audit, column = ARCHITECTURES[machine or platform.machine()]
    return b"".join(struct.pack("=HBBI", *step) for step in _instructions(audit, column))


def _instructions(audit: int, column: int) -> Iterator[Instruction]:
    yield (LOAD, 0, 0, _AT_ARCHITECTURE)
    yield (IF_EQUAL, 1, 0, audit)
    yield (_RETURN, 0, 0, _KILL)
    yield (LOAD, 0, 0, AT_NUMBER)
    if column == 0:
        yield (_IF_NOT_LESS, 0, 1, _X32)
        yield fail(errno.ENOSYS)
    for numbers in _NUMBERS.values():
        if (number := numbers[column]) is not None:
            yield (IF_EQUAL, 0, 1, number)
            yield fail(errno.EPERM)
    # Their flags and modes lie in memory, where no filter looks: programs go back to `clone` and `openat`.
    for number in (_CLONE3[column], _OPENAT2[column]):
        yield (IF_EQUAL, 0, 1, number)
        yield fail(errno.ENOSYS)
    yield from _no_lending(column)
    yield from judged(_CLONE[column], 0, [(_IF_ANY_BIT, 0, 1, _NEW_NAMESPACES), fail(errno.EPERM)])
    typing = [(IF_EQUAL, 0, 1, request) for request in _TERMINAL_INPUT]
    yield from judged(_IOCTL[column], 1, [s for t in typing for s in (t, fail(errno.EPERM))])
    for number in (_SOCKET[column], _SOCKETPAIR[column]):
        known = [(IF_EQUAL, len(_FAMILIES) - place, 0, f) for place, f in enumerate(_FAMILIES)]
        yield from judged(number, 0, [*known, fail(errno.EAFNOSUPPORT)])
    yield (_RETURN, 0, 0, _ALLOW)


def _no_lending(column: int) -> Iterator[Instruction]:
    """Yield the steps that deny files which lend rights, and devices."""
    for *numbers, argument, bits in _MODES.values():
        if (number := numbers[column]) is not None:
            yield from judged(number, argument, [(_IF_ANY_BIT, 0, 1, bits), fail(errno.EPERM)])
    for *numbers, argument in _OPENS.values():
        if (number := numbers[column]) is not None:
            mode = (LOAD, 0, 0, AT_ARGUMENTS + 8 * (argument + 1))
            denial = [(_IF_ANY_BIT, 0, 1, _LENDING), fail(errno.EPERM)]
            steps = [(_IF_ANY_BIT, 0, 1 + len(denial), _MAKES_FILE), mode, *denial]
            yield from judged(number, argument, steps)


def judged(number: int, argument: int, steps: list[Instruction]) -> Iterator[Instruction]:
    """Yield steps about one argument of one call; a call that passes them goes on to later steps."""
    yield (IF_EQUAL, 0, len(steps) + 2, number)
    yield (LOAD, 0, 0, AT_ARGUMENTS + 8 * argument)
    yield from steps
    yield (LOAD, 0, 0, AT_NUMBER)


def fail(error: int) -> Instruction:
    """Return the step that ends the call with an error."""
    return (_RETURN, 0, 0, _FAIL | error)
