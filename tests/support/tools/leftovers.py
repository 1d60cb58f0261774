"""What a test of security must not leave behind: child processes and open files."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SECONDS = 5.0
"""For what ends by itself: a process that was killed is gone some milliseconds later."""


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    """Fails a module whose tests leave a child process or an open file; import it to use it."""
    before = children(), descriptors()
    yield
    gc.collect()
    deadline = time.monotonic() + SECONDS
    while (left := children() - before[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"still there: {sorted(left)}"
    more = descriptors() - before[1]
    # What the last test was given, pytest lets go of later: the root of its workspace.
    assert len({each for each in more if each.endswith("/workspace")}) <= 1
    more = {each for each in more if not each.endswith("/workspace")}
    assert not more, f"left open: {sorted(more)}"


def children() -> set[str]:
    """The numbers and command lines of this process's own children."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                words = Path(f"/proc/{entry}/cmdline").read_bytes()
                found.add(f"{entry} {words.decode(errors='replace')}")
        except OSError:
            continue  # It ended meanwhile.
    return found


def descriptors() -> set[str]:
    """What is open: of files their paths, of pipes and sockets their numbers."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return {each for each in found if not each.startswith(("/proc/", "anon_inode:"))}
