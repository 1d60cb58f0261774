"""Keeps what a process holds in memory from being written to disk or read by others."""

from __future__ import annotations

import resource
import sys

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """No core file of this process, whatever it dies of, and no debugger of the same user.

    For a program that holds keys. The commands call it when they start; a program that embeds
    callboard decides for itself, as it also keeps its own crashes from being examined. Programs that
    it starts can be examined again, but write no core files either.

    On Linux the kernel then also gives `/proc/PID/environ` and `mem` to root alone.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes  # here: only this needs it

        # It fails for nothing that a process may not do to itself.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
