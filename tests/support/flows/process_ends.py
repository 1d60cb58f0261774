"""Tools in processes of their own, and every way in which one ends."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

import callboard

FLOOD_BYTES = 24 * 1024 * 1024
ADDRESS_SPACE_BYTES = 512 * 1024 * 1024

Way = Literal["return", "raise", "killed", "exit", "hog", "too much", "flood", "hang"]


@callboard.tool(process=True, timeout_seconds=60)
def end(way: Way, folder: str, timeout: float = 60) -> Any:
    """Notes its number and that of a child, which leaves its group, and ends as it is told."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(folder, "pids").write_text(f"{os.getpid()} {child.pid}")
    sys.stdout.write("began\n")
    match way:
        case "raise":
            raise ZeroDivisionError("the moon has no mass")
        case "killed":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "hog":
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
            return len([bytearray(2**20) for _ in range(2**20)])
        case "too much":
            return "x" * (17 * 1024 * 1024)
        case "flood":
            for stream in (sys.stdout, sys.stderr):
                stream.write("x" * FLOOD_BYTES)
        case "hang":
            time.sleep(600)
        case "return":
            pass
    return "done"


class End(msgspec.Struct, frozen=True, kw_only=True):
    """A way to end and what is to be seen of it: `words` are in the message that the model gets."""

    way: Way
    status: str = "error"
    error_type: str = "execution_error"
    words: str = ""
    timeout: float = 60
    is_cancelled: bool = False


ENDS = {
    "returns": End(way="return", status="success"),
    "raises": End(way="raise", words="end failed: ZeroDivisionError: the moon has no mass"),
    "dies": End(way="killed", words="its process was ended by SIGSEGV without a result"),
    "exits": End(way="exit", words="its process ended with exit code 7 without a result"),
    "out_of_memory": End(way="hog", words="end failed: MemoryError"),
    "returns_too_much": End(way="too much", words="returned more than 16777216 bytes"),
    "floods": End(way="flood", status="success"),
    "times_out": End(
        way="hang", timeout=59, status="timeout", error_type="timeout", words="after 59 s"
    ),
    "cancelled": End(
        way="hang", is_cancelled=True, status="cancelled", error_type="cancelled", words="enough"
    ),
}
