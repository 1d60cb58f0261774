"""Notifies a person of a question: the terminal's bell, and the desktop where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

import trio

from ..terminal.escaping import safe_line
from ..terminal.style import is_dumb

NOTIFY_SECONDS = 5.0
"""Time for `notify-send`, which hands a line to the desktop and ends."""

BELL = "\a"

_OSC_9 = frozenset({"iTerm.app", "WezTerm", "ghostty", "kitty", "WarpTerminal"})
"""Values of TERM_PROGRAM whose terminals show the text of `OSC 9`; others might print it."""
_OSC_9_TERMS = ("xterm-kitty", "xterm-ghostty", "foot", "wezterm", "contour")
_OSC_777_TERMS = ("rxvt-unicode",)


def headline_of(tool: str) -> str:
    """Return one line about a question; of what a model wrote it holds only the name of the tool.

    Without a tool, the question is a model's own.
    """
    if not tool:
        return "callboard: the model has a question"
    return f"callboard asks: may {safe_line(tool)} run?"


def heard(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return what to send to a terminal so that it notifies a person."""
    term = environ.get("TERM", "")
    if is_dumb(environ):
        return ""
    line = safe_line(text).replace(";", ",")
    if term.startswith(_OSC_777_TERMS):
        return f"\x1b]777;notify;callboard;{line}\a{BELL}"
    if environ.get("TERM_PROGRAM") in _OSC_9 or term.startswith(_OSC_9_TERMS):
        return f"\x1b]9;{line}\a{BELL}"
    return BELL


async def tell_desktop(text: str, environ: Mapping[str, str] = os.environ) -> None:
    """Show a line on the person's desktop, if there is a program for that."""
    program = shutil.which("notify-send", path=environ.get("PATH"))
    has_desktop = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    if program is None or not has_desktop or environ.get("SSH_CONNECTION"):
        await trio.lowlevel.checkpoint()
        return
    with trio.move_on_after(NOTIFY_SECONDS), suppress(OSError):
        await trio.run_process(
            [program, "--app-name=callboard", "--", safe_line(text)],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
