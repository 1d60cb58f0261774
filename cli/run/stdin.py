"""What is piped into a run: its prompt, or a file that goes with it."""

from __future__ import annotations

import os
import select
import stat
import sys

from ...runtime.errors import ValidationError
from ..terminal.complaint import complain

MAX_PROMPT_BYTES = 4 * 1024 * 1024
"""The longest prompt on stdin: more than any model's window."""
QUIET_SECONDS = 1.0
"""After this time a run that still waits for its stdin says so."""
_CHUNK_BYTES = 1024 * 1024


def is_piped() -> bool:
    """Return whether stdin is a pipe, a socket or a file: not a terminal, and not /dev/null."""
    try:
        mode = os.fstat(0).st_mode if sys.stdin is not None else 0
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)


def read_stdin(most: int, what: str) -> bytes:
    """Return all of stdin; it blocks until its end.

    Raises:
        ValidationError: It is longer than that; `what` names it in the error.
    """
    data = bytearray()
    if is_piped() and not select.select([0], [], [], QUIET_SECONDS)[0]:
        complain("waiting for stdin to end, as it is no terminal; `< /dev/null` gives a run none")
    while chunk := os.read(0, _CHUNK_BYTES):
        data += chunk
        if len(data) > most:
            raise ValidationError(f"{what} on stdin is longer than {most} bytes; nothing was sent")
    return bytes(data)


def read_prompt() -> str:
    """Return the prompt on stdin; raise `ValidationError` when it is too long, or not UTF-8."""
    data = read_stdin(MAX_PROMPT_BYTES, "the prompt")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValidationError(f"the prompt on stdin is not UTF-8: {error}") from error
