"""Lets a person change the arguments of a question on record, at the command's terminal."""

from __future__ import annotations

import os
from pathlib import Path

import trio

from ...runtime.errors import ConflictError, ValidationError
from ...runtime.messages import ApprovalRequest
from ...runtime.store.rows import ApprovalRow
from ..ask.dialogue import Consider
from ..ask.edit_form import EditProblem, is_same
from ..ask.editing import Editor
from ..show.question_text import PLAIN, changed_question
from ..terminal.escaping import safe_line
from ..terminal.keyboard import Keyboard
from ..terminal.output import Output
from .list import described

UNCHANGED = {"e": "edit again", "n": "leave it open"}
CHANGED = {"y": "allow it so", **UNCHANGED}
"""What a person may do after an edit, by key."""


def needs_terminal() -> None:
    """Raise `ValidationError` where there is no terminal to edit at."""
    if not (os.isatty(0) and (os.isatty(1) or os.isatty(2))):
        raise ValidationError(
            "--edit needs a terminal, and this is not one: --arguments takes them as a JSON object."
        )


async def edited_at_terminal(
    row: ApprovalRow, request: ApprovalRequest, folder: Path, consider: Consider
) -> str:
    """Return the arguments as a person changed them, judged and shown to them again before they count.

    Args:
        row: The question on record.
        request: The question as it is put to a person.
        folder: Where the file to edit is made.
        consider: Judges the changed arguments.

    Raises:
        ConflictError: They left it as it is, or it has its answer by now.
    """
    screen = Output(1 if os.isatty(1) else 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.run, name="output")
        keyboard = Keyboard(0, screen)
        keyboard.write(described(row))
        changed = await _edited(request, keyboard, Editor(keyboard, folder), consider)
        await screen.drain()
        nursery.cancel_scope.cancel(reason="edited")
    if changed is None:
        raise ConflictError(f"Nothing was answered: {row.approval_id} still waits.")
    return changed


async def _edited(
    request: ApprovalRequest, keyboard: Keyboard, editor: Editor, consider: Consider
) -> str | None:
    current, draft = request.arguments, None
    while True:
        changed: ApprovalRequest | None = None
        try:
            current, draft = (
                await editor.edit(request.tool, current, draft, request.parameters),
                None,
            )
            changed = await consider(current)
        except EditProblem as problem:
            draft = problem.draft
            keyboard.write(f"Nothing is changed by that: {safe_line(str(problem))}.\n")
        except ValidationError as problem:
            keyboard.write(f"That can't be: {safe_line(str(problem))}\n")
        if changed is not None and is_same(changed.arguments, request.arguments):
            changed = None
            keyboard.write("The arguments are what they were.\n")
        if changed is not None:
            keyboard.write(changed_question(request, changed, PLAIN))
        match await _chosen(keyboard, UNCHANGED if changed is None else CHANGED):
            case "y" if changed is not None:
                return changed.arguments
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
