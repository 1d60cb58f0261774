"""What a chat begins with: its command line, and a folder that is fit to work in, since another would eat each prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...config.settings import DialectWord
from ...runtime.budget import Budget
from ...runtime.errors import ValidationError
from ...runtime.history import Attachment
from ...runtime.turn_options import TurnOptions
from ...tools.workspace.roots import why_no_root
from ..run.flags import TurnFlags
from ..terminal.escaping import safe_line, short_path
from ..terminal.folding import columns_of, folded

OWN_FOLDER = "callboard"
"""The folder in the home where a chat works that was begun in the home itself."""


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `callboard chat`.

    Attributes:
        flags: What it says of turns, as it was typed.
        workspace: Where new sessions work.
        model: The one that new sessions are begun with.
        session: An id, the beginning of one, or `last`.
        resumes_by: The option that says so.
        config: The file that the settings were read from; `None` is the usual one.
        turn: What each prompt changes of the agent.
        budget: What each turn may use.
        session_budget: What a session may use, from now on.
        prompt: What is sent at once.
        attachments: The files that go with the first prompt.
        base_url, dialect: Where the model is, for a daemon of the chat's own.
    """

    workspace: Path
    flags: TurnFlags = TurnFlags()
    agent: str = "general"
    model: str | None = None
    session: str | None = None
    resumes_by: str = "--session"
    config: Path | None = None
    turn: TurnOptions = TurnOptions()
    budget: Budget | None = None
    session_budget: Budget | None = None
    prompt: str | None = None
    attachments: tuple[Attachment, ...] = ()
    base_url: str | None = None
    dialect: DialectWord | None = None


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
    sys.stdout.write(
        f"{folded(refusal, columns_of(1))}\nWork in {short_path(str(other))}, a folder of its own? [Y/n] "
    )
    while (answer := _typed()) not in {"", "y", "yes"}:
        if answer in {None, "n", "no"}:
            sys.stdout.write("Go to the folder that the work is in, or name it with --workspace.\n")
            return None
        sys.stdout.write(
            "Nothing was sent. Enter goes on there, n leaves: [Y/n] "
        )  # it may be a prompt
    other.mkdir(exist_ok=True)
    return fit_folder(other.resolve(), own)


def _typed() -> str | None:
    """Return the next answer in small letters; `None` at the end of the input, which is no yes."""
    sys.stdout.flush()
    answer = sys.stdin.readline()
    return answer.strip().casefold() if answer else None
