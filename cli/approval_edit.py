"""A person changes the arguments of a question on record, at the terminal of the command."""

from __future__ import annotations

import os
from pathlib import Path

import trio

from ..runtime.errors import ConflictError, ValidationError
from ..runtime.store import ApprovalRow
from .approval_list import described
from .approvals import change_lines
from .edit_form import EditProblem, is_same
from .editing import Editor
from .escaping import safe_line
from .keyboard import Keyboard
from .output import Output

UNCHANGED = {"e": "edit again", "n": "leave it open"}
CHANGED = {"y": "allow it so", **UNCHANGED}
"""What a person may do behind an edit, by key."""


def needs_terminal() -> None:
    """Raises `ValidationError` where there is no terminal to edit at."""
    if not (os.isatty(0) and (os.isatty(1) or os.isatty(2))):
        raise ValidationError(
            "--edit needs a terminal, and this is none: --arguments takes them as a JSON object."
        )


async def edited_at_terminal(row: ApprovalRow, folder: Path) -> str:
    """What a person makes of the arguments, shown to them again before it counts.

    Raises:
        ConflictError: They left it as it is.
    """
    screen = Output(1 if os.isatty(1) else 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.run, name="output")
        keyboard = Keyboard(0, screen)
        changed = await _edited(row, keyboard, Editor(keyboard, folder))
        await screen.drain()
        nursery.cancel_scope.cancel(reason="edited")
    if changed is None:
        raise ConflictError(f"Nothing was answered: {row.approval_id} still waits.")
    return changed


async def _edited(row: ApprovalRow, keyboard: Keyboard, editor: Editor) -> str | None:
    keyboard.write(described(row))
    current, draft = row.arguments, None
    while True:
        try:
            current, draft = await editor.edit(row.tool, current, draft), None
        except EditProblem as problem:
            draft = problem.draft
            keyboard.write(f"Nothing is changed by that: {safe_line(str(problem))}.\n")
        is_changed = not is_same(current, row.arguments)
        if is_changed:
            lines = change_lines(row.arguments, current)
            keyboard.write("\n".join(["It would run with:", *lines, ""]))
        match await _chosen(keyboard, CHANGED if is_changed else UNCHANGED):
            case "y":
                return current
            case "e":
                pass
            case _:
                return None


async def _chosen(keyboard: Keyboard, choices: dict[str, str]) -> str | None:
    prompt = "  ".join(f"[{key}] {words}" for key, words in choices.items())
    while True:
        answer = await keyboard.choice(f"{prompt}: ")
        if answer is None or answer in choices:
            return answer
        keyboard.write(f"Please answer with one of {', '.join(choices)}.\n")
