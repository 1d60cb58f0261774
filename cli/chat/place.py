"""Where a chat works: before the first prompt, since a folder that is refused would eat each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...runtime.errors import ValidationError
from ...tools.workspace.roots import why_no_root
from ..terminal.escaping import safe_line, short_path

OWN_FOLDER = "callboard"
"""The folder in the home where a chat works that was begun in the home itself."""


def fit_folder(folder: Path, own: Sequence[Path]) -> Path | None:
    """Return where a chat works: this folder, or another that the person takes; `None` when they leave.

    Blocks on the person.

    Args:
        folder: The real path of the one that was meant.
        own: callboard's folders of data and configuration.

    Raises:
        ValidationError: No session works there, and nobody is at a terminal or another is no better.
    """
    if not (why := why_no_root(str(folder), own)):
        return folder
    other = Path.home() / OWN_FOLDER
    refusal = f"No session works in {short_path(str(folder), 70)}: {safe_line(why)}."
    if not (os.isatty(0) and os.isatty(1)) or folder == other:
        raise ValidationError(
            f"{refusal} Go to the folder that the work is in, or name it with --workspace.",
            field="workspace",
        )
    sys.stdout.write(f"{refusal}\nWork in {short_path(str(other))}, a folder of its own? [Y/n] ")
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer or answer.strip().casefold() not in {"", "y", "yes"}:  # Ctrl-D is no yes
        sys.stdout.write("Go to the folder that the work is in, or name it with --workspace.\n")
        return None
    other.mkdir(exist_ok=True)
    return fit_folder(other.resolve(), own)
