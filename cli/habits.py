"""What other programs of this kind call things, said to who types it: the name that it has here."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ..runtime.text import MIN_LIKENESS, same_letters

_GOES_ON = "callboard chat --continue"
_NEVER_ASKS = "--policy auto"

COMMANDS = {
    "resume": _GOES_ON,
    "continue": _GOES_ON,
    "exec": "callboard run PROMPT",
    "ask": "callboard run PROMPT",
    "prompt": "callboard run PROMPT",
    "login": "callboard keys set PROVIDER",
    "auth": "callboard keys set PROVIDER",
    "logout": "callboard keys remove PROVIDER",
    "history": "callboard sessions",
    "ls": "callboard sessions",
    "list": "callboard sessions",
    "config": "callboard settings",
    "configure": "callboard settings",
    "update": "pip install --upgrade callboard",
}
"""Commands of Claude Code, Codex, goose and llm."""
OPTIONS = {
    "--resume": "--continue",
    "--cid": "--session ID",
    "-p": "callboard run PROMPT",
    "--print": "callboard run PROMPT",
    "-y": _NEVER_ASKS,
    "--yes": _NEVER_ASKS,
    "--yolo": _NEVER_ASKS,
    "--full-auto": _NEVER_ASKS,
    "--dangerously-skip-permissions": _NEVER_ASKS,
    "--dangerously-bypass-approvals-and-sandbox": _NEVER_ASKS,
    "--permission-mode": "--policy",
    "--image": "--attach FILE",
    "--file": "--attach FILE",
    "--cwd": "--workspace DIR",
    "--cd": "--workspace DIR",
    "-C": "--workspace DIR",
}
"""Options of theirs."""

_REPLACES = {"restore"}
"""What takes the place of all sessions is suggested to nobody who may have meant something else."""
_SURE_LIKENESS = 0.85


def unknown_command(name: str, known: Sequence[str]) -> str:
    """Return what to say to who typed a command that there is not."""
    message = f'Unknown command "{name}".'
    if (here := COMMANDS.get(name)) is not None:
        return f"{message} Here it is `{here}`."
    close_ones = difflib.get_close_matches(name, known, 3, MIN_LIKENESS)
    for close in close_ones or same_letters(name, known):
        likeness = difflib.SequenceMatcher(None, name, close).ratio()
        if close not in _REPLACES or likeness > _SURE_LIKENESS:
            return f'{message} Did you mean "{close}"?'
    return f"{message} The most used are chat, run, sessions, show, keys and models."
