"""Two Linux system calls that Python's `os` lacks: openat2 and renameat2.

Both raise `OSError`, as `os` does; ENOSYS where the system has no such call.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

RENAME_NOREPLACE = 1

_SYS_OPENAT2 = 437  # The same on every architecture: it came after the numbers were unified.
_MAX_EAGAIN = 128
"""A rename during a lookup of `..` gives EAGAIN (openat2(2)); a program that renames in a loop must
not hold us for ever."""


class _OpenHow(ctypes.Structure):
    _fields_ = [  # type: ignore[mutable-override]
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    ]


_libc = ctypes.CDLL(None, use_errno=True)
_is_linux = sys.platform == "linux"
_renameat2 = getattr(_libc, "renameat2", None) if _is_linux else None
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def openat2(dir_fd: int, path: str, flags: int, *, mode: int = 0, resolve: int) -> int:
    """Open a path with the kernel's own confinement; close-on-exec always."""
    if not _is_linux:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    for _ in range(_MAX_EAGAIN):
        fd: int = _syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(dir_fd),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in {errno.EAGAIN, errno.EINTR}:
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


def rename_exclusive(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Rename to a free name in one atomic step; EEXIST when it is taken."""
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), target)
    done: int = _renameat2(
        ctypes.c_int(source_fd),
        ctypes.c_char_p(os.fsencode(source)),
        ctypes.c_int(target_fd),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(RENAME_NOREPLACE),
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)
