"""Keep the memory of a process with keys from core files and debuggers."""

from __future__ import annotations

import resource
import sys

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """Forbid core files of this process and, on Linux, debuggers of the same user.

    For processes that hold keys. Commands call it when they start; a program that embeds callboard
    decides for itself, because its own crashes can't be examined then either. Programs that it starts
    can be debugged, but write no core files. On Linux, `/proc/PID/environ` and `mem` become readable
    by root alone.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes  # here: only this needs it

        # A process may always do this to itself, so the result is not checked.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
