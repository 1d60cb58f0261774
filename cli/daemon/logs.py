"""`callboard logs`: prints the end of the log file, and follows it."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Parameter

from ...runtime.errors import NotFoundError, StorageError, ValidationError
from ..exit_codes import ANSWERED
from ..log_file import LOG_NAME
from ..parameters import Data, data_path
from ..terminal.escaping import safe_line

LOOK_SECONDS = 0.2
"""Time between two looks for new lines: a person sees no difference."""
MAX_LINES = 100_000
"""More than a log file has room for."""

Follow = Annotated[
    bool, Parameter(name=("--follow", "-f"), help="Keep printing what is added.", negative=())
]
Lines = Annotated[int, Parameter(help="How many lines, the last ones.")]


def logs(*, follow: Follow = False, lines: Lines = 100, data: Data = None) -> int:
    """Print the end of the log."""
    if not 1 <= lines <= MAX_LINES:
        raise ValidationError(f"--lines is from 1 to {MAX_LINES}", field="lines")
    path = data_path(data) / LOG_NAME
    newest = _opened(path)
    if newest is None and not follow:
        raise NotFoundError(f"{path} is not there: nothing was logged yet.")
    last: deque[str] = deque(maxlen=lines)
    older = _opened(path.with_name(f"{LOG_NAME}.1"))  # the newer file may have fewer lines
    for file in (older, newest):
        if file is not None:
            last.extend(file)
    if older is not None:
        older.close()
    _print(last)
    if follow:
        _follow(path, newest)
    return ANSWERED


def _follow(path: Path, file: TextIO | None) -> None:
    """Print what is added, in the next file too when that takes the place of this one."""
    part = ""
    while True:
        if file is not None:
            while text := file.readline():
                part += text
                if part.endswith("\n"):
                    _print([part])
                    part = ""
        if file is None or _is_replaced(path, file):
            newer = _opened(path)
            if newer is not None:
                if file is not None:
                    file.close()
                file = newer
                continue
        time.sleep(LOOK_SECONDS)


def _is_replaced(path: Path, file: TextIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False  # it will be there again


def _opened(path: Path) -> TextIO | None:
    try:
        return path.open(encoding="utf-8", errors="replace", newline="\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror or error}.") from error


def _print(lines: deque[str] | list[str]) -> None:
    sys.stdout.writelines(f"{safe_line(line)}\n" for line in lines)
    sys.stdout.flush()
