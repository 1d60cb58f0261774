"""The one line on stderr by which a command says what went wrong."""

from __future__ import annotations

import contextlib
import sys

from ..exit_codes import USAGE
from ..hints import runnable
from .escaping import safe_line


def complain(message: str) -> None:
    """Print `callboard: MESSAGE`, on one line whatever it holds, with keys masked; folded on a terminal."""
    if sys.stderr is None:
        return
    # Here: most commands have nothing to complain about.
    from ...runtime.redaction import redact
    from .folding import columns_of, folded

    line = folded(f"callboard: {safe_line(redact(runnable(message)))}", columns_of(2))
    with contextlib.suppress(OSError):  # there is no other place to say it
        print(line, file=sys.stderr, flush=True)


def wrong_usage(message: str, command: str) -> int:
    """Complain about a command line, point to the help of its command, and return the exit code."""
    end = "" if message.endswith(("?", ".")) else "."
    complain(f"{message}{end} See: {' '.join(filter(None, ('callboard', command, '--help')))}")
    return USAGE
