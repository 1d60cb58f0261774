"""What an ordinary user, who runs programs for root, sees of what would be shown."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from .roots import View
from .user import User, readable

MAX_NAMED = 4
"""Places in a sentence of advice."""


def seen_by(user: User, view: View) -> View:
    """What of it that user can read; bubblewrap fails with what it can't."""
    folders = view.path.split(os.pathsep)
    pythons = [os.path.join(folder, "python3") for folder in folders]
    pythons = [path for path in pythons if os.path.exists(path)]
    wanted = [*view.shown, *folders, *pythons]
    can = readable(user, wanted)
    return msgspec.structs.replace(
        view,
        shown=tuple(path for path in view.shown if path in can),
        masked=tuple(path for path in view.masked if _is_below(path, can)),
        path=os.pathsep.join(folder for folder in folders if folder in can),
        unread=tuple(dict.fromkeys(path for path in wanted if path not in can)),
    )


def unread_advice(user: User, view: View) -> str:
    """What that user has not, for people."""
    if not view.unread:
        return ""
    some = ", ".join(view.unread[:MAX_NAMED])
    more = len(view.unread) - MAX_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"{user.name}, who runs programs here (sandbox.run_as), can't read {some}{rest}. Programs take "
        "what comes next on PATH; install tools where that user can read them, as in /usr/local."
    )


def _is_below(path: str, roots: frozenset[str]) -> bool:
    return any(str(parent) in roots for parent in Path(path).parents)
