"""The stricter filter of the second tier: it denies what namespaces would keep apart.

Without namespaces for network, System V memory and users, a program could reach what Landlock does not
cover: sockets, shared memory, rights and owners of files, limits and priorities of other processes of the
same user (callboard's among them), and times and watches of files that it can't open.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator

from ..box.seccomp import (
    ARCHITECTURES,
    AT_ARGUMENTS,
    AT_NUMBER,
    IF_EQUAL,
    LOAD,
    Instruction,
    fail,
    judged,
    seccomp_program,
)

_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "bind": (49, 200),
    "chmod": (90, None),
    "chown": (92, None),
    "connect": (42, 203),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "ioprio_set": (251, 30),
    "lchown": (94, None),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "futimesat": (261, None),
    "inotify_add_watch": (254, 27),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setpriority": (141, 140),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "utime": (132, None),
    "utimes": (235, None),
}
"""What is denied with any arguments: numbers on x86-64 and on ARM64."""

_SIGNALS: dict[str, tuple[int, int]] = {
    "kill": (62, 129),
    "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "tgkill": (234, 131),
    "tkill": (200, 130),
}

_SOCKETPAIR, _PRLIMIT = (53, 199), (302, 261)
_FCNTL, _IOCTL, _UTIMENSAT = (72, 25), (16, 29), (280, 88)
_OWNERS = {_FCNTL: (8, 10, 15, 1026), _IOCTL: (0x8901, 0x8902)}
"""F_SETOWN, F_SETSIG, F_SETOWN_EX and F_NOTIFY, FIOSETOWN and SIOCSPGRP: they have the kernel signal any
process when something can be read."""
_KINDS = (1, 5, 0x80001, 0x80005, 0x801, 0x805, 0x80801, 0x80805)
"""SOCK_STREAM and SOCK_SEQPACKET, alone and with CLOEXEC and NONBLOCK: such a pair talks to itself only,
while a datagram socket can send to any socket that has a name."""


def strict_program(*, denies_signals: bool, machine: str | None = None) -> bytes:
    """Return the filter for this or another architecture, as the kernel reads it.

    `denies_signals` denies all signals, where Landlock does not confine them. Raises `KeyError` when there is
    none for this architecture.
    """
    _, column = ARCHITECTURES[machine or platform.machine()]
    steps = _instructions(column, denies_signals)
    # A call of another architecture may match a number here or not: what follows kills its process.
    return b"".join(struct.pack("=HBBI", *step) for step in steps) + seccomp_program(machine)


def _instructions(column: int, denies_signals: bool) -> Iterator[Instruction]:
    yield (LOAD, 0, 0, AT_NUMBER)
    denied = {**_NUMBERS, **(_SIGNALS if denies_signals else {})}
    for numbers in denied.values():
        if (number := numbers[column]) is not None:
            yield (IF_EQUAL, 0, 1, number)
            yield fail(errno.EPERM)
    kinds: list[Instruction] = [
        (IF_EQUAL, len(_KINDS) - place, 0, kind) for place, kind in enumerate(_KINDS)
    ]
    yield from judged(_SOCKETPAIR[column], 1, [*kinds, fail(errno.EPERM)])
    for numbers, requests in _OWNERS.items():
        denials = [s for each in requests for s in ((IF_EQUAL, 0, 1, each), fail(errno.EPERM))]
        yield from judged(numbers[column], 1, denials)
    yield from _own_times(_UTIMENSAT[column])
    # Its own limits only: those of another process of the same user would end that.
    yield from judged(_PRLIMIT[column], 0, [(IF_EQUAL, 1, 0, 0), fail(errno.EPERM)])


def _own_times(number: int) -> Iterator[Instruction]:
    """Yield steps that let a program set the times of open files, but not of files by name.

    Both halves of the name's address must be null: an address whose lower half is zero can be made.
    """
    yield (IF_EQUAL, 0, 6, number)
    yield (LOAD, 0, 0, AT_ARGUMENTS + 8)
    yield (IF_EQUAL, 0, 2, 0)
    yield (LOAD, 0, 0, AT_ARGUMENTS + 12)
    yield (IF_EQUAL, 1, 0, 0)
    yield fail(errno.EPERM)
    yield (LOAD, 0, 0, AT_NUMBER)
