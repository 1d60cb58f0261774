"""Where a person can be asked, beside what is printed."""

from __future__ import annotations

import os

from .output import Output


def asking_screen(output: Output, *, is_json: bool) -> Output | None:
    """Where a person can be asked, if there is one: it takes a terminal to read and one to show."""
    if not os.isatty(0):
        return None
    if os.isatty(1) and not is_json:
        return output
    return Output(2) if os.isatty(2) else None
