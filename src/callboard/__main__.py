"""The command `callboard`, and `python -m callboard`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

INTERRUPTED = 130
"""As in `cli.exit_codes`, which an interrupt of the imports leaves unread."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; raise nothing but `SystemExit`."""
    try:
        return _main(sys.argv[1:] if tokens is None else tokens)
    except KeyboardInterrupt:
        return INTERRUPTED


def _main(tokens: Sequence[str]) -> int:
    # Here: an interrupt of these imports must not print a traceback.
    from .cli.exit_codes import FAILED
    from .cli.terminal.complaint import complain
    from .runtime.errors import CallboardError

    _mend_standard_streams()
    try:
        code = _execute(tokens)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # The store's are mapped where they arise: mostly this is the output. Python would complain
        # once more when it flushes that at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(
            error, BrokenPipeError
        ):  # then nobody reads any more, which is not an error
            complain(f"the system refused: {error}")
        return FAILED
    except CallboardError as error:
        complain(str(error))
        return FAILED
    except Exception as error:
        return _report_bug(error)
    return code


def _execute(tokens: Sequence[str]) -> int:
    from .runtime.errors import CallboardError

    try:
        if tokens and tokens[0] == "acp":
            # An editor keeps it: with the parser it takes a tenth more memory.
            from .cli.acp.lean import without_metadata

            with without_metadata():
                from .cli.acp.run import serve_plainly

            if (code := serve_plainly(tokens[1:])) is not None:
                return code
        from .cli.app import execute

        return execute(tokens)
    except BaseExceptionGroup as group:
        # A task's error arrives in the groups of its nurseries; what is expected is one line.
        expected, others = group.split((CallboardError, KeyboardInterrupt, OSError))
        if expected is None or others is not None:
            raise
        raise _first(expected) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report_bug(error: Exception) -> int:
    from .cli.exit_codes import FAILED
    from .cli.terminal.complaint import complain

    if os.environ.get("CALLBOARD_DEBUG", "") not in {"", "0"}:
        import traceback

        from .runtime.redaction import redact

        sys.stderr.write(redact("".join(traceback.format_exception(error))))
    complain(
        f"{type(error).__name__}: {error}. This is a bug of callboard; CALLBOARD_DEBUG=1 shows where."
    )
    return FAILED


def _mend_standard_streams() -> None:
    """Make the three standard descriptors safe to use.

    One that is closed would be the number of the next file that is opened: the store, and what is
    printed would go into it; what is printed goes nowhere instead. A character that the terminal's encoding lacks is shown as an escape.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            break
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
