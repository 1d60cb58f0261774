"""The process that matches a costly pattern; see `search_process`.

It imports nothing of callboard, and so starts in some hundredths of a second. It first bounds its own
memory and time: a pattern may take both.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from contextlib import suppress

MAX_MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space: `re` takes some hundred bytes for each place to which it may backtrack."""
MAX_CPU_SECONDS = 20
"""More than a whole search has; the process ends by itself when nobody is left to kill it."""


def main() -> None:
    """Search files, each a line of JSON and its bytes, until the input ends."""
    _bound()
    stdin = sys.stdin.buffer
    head = json.loads(stdin.readline())
    warnings.simplefilter("ignore")
    regex = re.compile(head["pattern"])
    longest: int = head["line_length"]
    while line := stdin.readline():
        work = json.loads(line)
        _search(regex, longest, stdin.read(work["size"]), work["most"])
    os._exit(0)


def _search(regex: re.Pattern[str], longest: int, data: bytes, most: int) -> None:
    """Write the number of each line that matches, and a 0 after the last."""
    found = 0
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        if regex.search(line[:longest]) is not None:
            _say(number)
            found += 1
            if found == most:
                break
    _say(0)


def _say(number: int) -> None:
    os.write(1, b"%d\n" % number)


def _bound() -> None:
    import resource

    with suppress(ValueError, OSError):  # macOS has no such bound
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
