"""The answer of a run, and where it goes: stdout, a file, the last line of `--json`; and the exit code that its turns give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...runtime.definitions import CallStatus
from ...runtime.errors import CallboardError, ValidationError
from ...runtime.events import MessageCompleted, TurnEnded, TurnStarted
from ...runtime.history import text_of
from ..exit_codes import ANSWERED, FAILED, INTERRUPTED
from ..terminal.complaint import complain
from ..terminal.json_lines import json_line

if TYPE_CHECKING:
    from ...runtime.turns.called_tool import CalledTool, CalledTools

GIVEN = ("answered", "max_tokens")
"""The outcomes of which the text is an answer, whole or cut."""


_WHY = {
    "refused": "the model refused to answer",
    "max_tokens": "the answer was cut at the model's limit of tokens",
    "budget": "the budget is used up",
    "suspended": "the turn waits for an answer to a question",
}
"""Messages for outcomes that bring none."""


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="run_ended"):
    """The last line of `callboard run --json`: what came of all that it did.

    Attributes:
        outcome: That of the last turn, or `failed` or `cancelled` when there was none, or it has no end.
        answer: The text of the model's last answer, or `None`.
        message: What went wrong; empty when it was answered.
        exit_code: The exit code of the command.
    """

    outcome: str
    answer: str | None
    message: str
    exit_code: int


class RunAnswer:
    """The last answer among the events of a run; with a form, the last that has it.

    Attributes:
        called: The outcome of the call that the run is for, if it is for one: that is the answer.
    """

    called: CalledTools | None = None

    def __init__(self, *, has_form: bool = False) -> None:
        self._has_form = has_form
        self._text = ""
        self._formed: str | None = None
        self._outcome = ""

    def see(self, event: object) -> None:
        """Take an event."""
        if self.called is not None:
            self.called.see(event)
        match event:
            case TurnStarted():
                self._text = self._outcome = ""
            case MessageCompleted(parts=parts):
                self._text = text_of(parts)
            case TurnEnded(outcome=outcome, answer=answer):
                self._outcome, self._formed = outcome, answer or self._formed
            case _:
                pass

    @property
    def text(self) -> str | None:
        """The answer; `None` where there is none."""
        if self.called is not None:
            return None if self.outcome is None else json_line(self.outcome)
        if self._has_form:
            return self._formed
        return self._text if self._outcome in GIVEN else None

    @property
    def outcome(self) -> CalledTool | None:
        """What became of the call, once that is known."""
        return next(iter(self.called.outcomes.values()), None) if self.called is not None else None

    def verdict(self, code: int, message: str) -> tuple[int, str]:
        """Return the exit code and the complaint of the run: a call that failed is one."""
        called = self.outcome
        if code != ANSWERED or called is None or called.status is CallStatus.SUCCESS:
            return code, message
        why = called.error.get("message") or called.status
        return FAILED, f"{called.name}: {why}"

    def ended(self, code: int, message: str) -> RunEnded:
        """Return the last line for programs."""
        outcome = self._outcome
        if not outcome or (code != ANSWERED and outcome == "answered"):
            outcome = "cancelled" if code == INTERRUPTED else "failed"
        return RunEnded(outcome=outcome, answer=self.text, message=message, exit_code=code)


def verdict_of(ended: TurnEnded | None) -> tuple[int, str]:
    """Return the exit code for how a turn ended, and what to complain about."""
    if ended is None:
        return FAILED, "the turn has no end on record"
    if ended.outcome == "answered":
        return ANSWERED, ""
    code = INTERRUPTED if ended.outcome == "cancelled" else FAILED
    return code, ended.message or _WHY.get(ended.outcome, ended.outcome)


def worst(ended: list[TurnEnded | None]) -> tuple[int, str]:
    """Return the exit code and complaint of the first turn that was not answered."""
    verdicts = [verdict_of(each) for each in ended]
    return next((each for each in verdicts if each[0] != ANSWERED), (ANSWERED, ""))


def complain_of(code: int, error: str) -> None:
    """Print the complaint of a run, if its code is one that has one."""
    if error and code not in {ANSWERED, INTERRUPTED}:
        complain(error)


def check_output(path: Path) -> None:
    """Raise `ValidationError` when an answer can't be written there: before the model is asked."""
    folder = path.parent
    if path.is_dir():
        raise _refusal(f"{path} is a folder")
    if not folder.is_dir():
        raise _refusal(f"there is no folder {folder}")


def read_schema(path: Path) -> dict[str, Any]:
    """Return the JSON Schema in a file; raise `ValidationError` when no answer can fit it."""
    from ...tools.schema.answers import SchemaAnswer  # here: few runs have one

    try:
        schema = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise _refusal(f"{path} can't be read: {error.strerror}", "answer-schema") from error
    except ValueError as error:
        raise _refusal(f"{path} is not JSON ({error})", "answer-schema") from error
    if not isinstance(schema, dict):
        raise _refusal(f"{path} holds no JSON Schema, which is an object", "answer-schema")
    return SchemaAnswer(schema).schema


def write_answer(text: str, path: Path, session_id: str) -> None:
    """Write the answer to a file, in place of what it holds.

    Raises:
        CallboardError: The system refused.
    """
    try:
        path.write_text(whole_line(text), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CallboardError(
            f"the answer can't be written to {path}: {error.strerror}; it is on record, "
            f"`callboard show {session_id}` prints it"
        ) from error


def whole_line(text: str) -> str:
    """Return the text with the end of its last line."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def _refusal(why: str, option: str = "output") -> ValidationError:
    return ValidationError(f"--{option}: {why}; nothing was sent.", field=option)
