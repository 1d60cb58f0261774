"""A program that says one line when it is where it should be killed, and is killed there."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from support.cli.warm_process import WarmProcess, nowhere, start_warm

WATCHDOG_SECONDS = 60.0
"""A program that never says it is ready fails its test, and does not hang it."""


def say_ready(word: str) -> None:
    """In the program: from here on it may be killed; `word` is what the test gets."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


@contextmanager
def running(file: str, *arguments: object) -> Generator[tuple[WarmProcess, TextIO]]:
    """Runs a file as a program, and gives what it says; who enters the block kills the program."""
    read, write = os.pipe()
    with os.fdopen(read) as said:
        try:
            with nowhere() as null:
                tokens, standard = [*map(str, arguments)], (null, write, 2)
                process = start_warm(tokens, standard, Path.cwd(), os.environ, program=file)
        finally:
            os.close(write)
        watchdog = threading.Timer(WATCHDOG_SECONDS, process.kill)
        watchdog.start()
        try:
            yield process, said
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()


def killed_when_ready(file: str, *arguments: object) -> str:
    """Runs a file as a program, kills it (kill -9) when it is ready, and gives its word."""
    with running(file, *arguments) as (process, said):
        word = said.readline().strip()
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert word
    return word
