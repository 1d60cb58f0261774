"""A program that says one line when it is where it should be killed, and is killed there."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

WATCHDOG_SECONDS = 60.0
"""A program that never says it is ready fails its test, and does not hang it."""


def say_ready(word: str) -> None:
    """In the program: from here on it may be killed; `word` is what the test gets."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def killed_when_ready(file: str, *arguments: object) -> str:
    """Runs a file as a program, kills it (kill -9) when it is ready, and gives its word."""
    program = [sys.executable, file, *map(str, arguments)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(WATCHDOG_SECONDS, process.kill)
        watchdog.start()
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        process.kill()
        watchdog.cancel()
    assert process.returncode == -signal.SIGKILL
    assert said
    return said
