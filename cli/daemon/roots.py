"""Which folders are no roots of a daemon, and how one that can be becomes one."""

from __future__ import annotations

from pathlib import Path

from ...runtime.errors import ValidationError


def check_root(folder: Path) -> None:
    """Raises `ValidationError` for a folder with more in it than work."""
    if why := _too_wide(folder):
        raise ValidationError(
            f"{folder} is no root for sessions: {why}. Name a folder in it, in which the work is.",
            field="roots",
        )


def root_advice(folder: Path) -> str:
    """What to do to have sessions of a daemon work in a folder: the rest of a sentence."""
    if why := _too_wide(folder):
        return f"work in a folder below it: as a root it would be too wide, since {why}."
    return (
        f"start the daemon with `callboard serve --root {folder}`, or name the folder in roots of "
        "[server] in callboard.toml."
    )


def _too_wide(folder: Path) -> str:
    real = folder.resolve()
    if real == Path(real.anchor):
        return "the whole machine is below it"
    try:
        home = Path.home().resolve()
    except RuntimeError:  # a process without a home
        return ""
    if home.is_relative_to(real):
        return f"your home {home} is " + ("that folder" if home == real else "below it")
    return ""
