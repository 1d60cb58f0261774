"""Asks whoever sits at the terminal: about a call, or what a model wants to know.

`Asker` is the one way there, for `run`, `attach` and `chat`. A question about a call is a `Dialogue`:
its person may allow, deny, remember and edit until an answer is taken. Nothing but a yes is a yes, and
what was typed before the question stood there answers nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from ...runtime.channel import UserQuestion
from ...runtime.errors import CallboardError, ValidationError
from ...runtime.handles import PersonAnswer
from ...runtime.messages import ApprovalAnswer, ApprovalRequest
from ..show.question_text import ANSWERED_BY, binding_asked, block, changed_question, coverage
from ..show.question_text import question as question_text
from ..terminal.escaping import exact, safe_line
from ..terminal.keyboard import Keyboard
from ..terminal.style import Style
from .edit_form import EditProblem, is_same
from .editing import Editor

SCOPES = {
    "t": ("turn", "for this turn"),
    "s": ("session", "this session"),
    "g": ("agent", "this agent"),
    "a": ("always", "always"),
}
"""How long an answer may be remembered, by key."""

PROMPT = "your answer: "

Consider = Callable[[str], Awaitable[ApprovalRequest]]
"""Returns the question as it is with other arguments; raises when they are not possible."""


Submit = Callable[[ApprovalAnswer], Awaitable[None]]
"""Sends an answer; raises `ValidationError` when it can't be taken."""


class Asker:
    """Puts questions at a terminal.

    Args:
        keyboard: Where the person is.
        folder: Where arguments are edited; see `Editor`.
        style: What the screen can show.
    """

    def __init__(self, keyboard: Keyboard, folder: Path, style: Style) -> None:
        self.keyboard = keyboard
        self._editor = Editor(keyboard, folder)
        self._style = style

    def abandon(self) -> None:
        """Leave the terminal as it was found, before an exit on the spot."""
        self._editor.abandon()

    async def approve(
        self, request: ApprovalRequest, consider: Consider, submit: Submit
    ) -> ApprovalAnswer:
        """Ask about a call until an answer is submitted; return that."""
        self.keyboard.write(question_text(request, self._style))
        await self.keyboard.settle()
        dialogue = Dialogue(self.keyboard, self._editor, request, self._style, consider)
        while True:
            answer = await dialogue.answer()
            try:
                await submit(answer)
            except ValidationError as problem:
                dialogue.refuse(str(problem))
                continue
            return answer

    async def ask(self, question: UserQuestion) -> PersonAnswer | None:
        """Ask what a model wants to know; return `None` when the input ends.

        The number of an option is an answer, and so is any text.
        """
        who = f" ({safe_line(question.origin)})" if question.origin else ""
        options = question.options
        lines = ["", f"the model asks you{who}:", *block(question.question)]
        lines += (f"  [{number}] {exact(text)}" for number, text in enumerate(options, 1))
        self.keyboard.write("\n".join(lines) + "\n")
        await self.keyboard.settle()
        prompt = "a number, or your own answer: " if options else PROMPT
        while (typed := await self.keyboard.line(prompt)) is not None:
            if typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(options):
                typed = options[int(typed) - 1]
            if typed:
                option = options.index(typed) if typed in options else None
                return PersonAnswer(text=typed, answered_by=ANSWERED_BY, option=option)
        return None


class Dialogue:
    """The answers of a person to one question, until one is taken.

    Args:
        keyboard: Where the person is.
        editor: Changes the arguments.
        request: The question, which is printed already.
        style: What the screen can show.
        consider: Judges changed arguments, before they can be sent.
    """

    def __init__(
        self,
        keyboard: Keyboard,
        editor: Editor,
        request: ApprovalRequest,
        style: Style,
        consider: Consider,
    ) -> None:
        self._keyboard = keyboard
        self._editor = editor
        self._request = request
        self._style = style
        self._consider = consider
        self._changed: ApprovalRequest | None = None
        self._draft: str | None = None
        self._refused: str | None = None

    async def answer(self) -> ApprovalAnswer:
        """Return the next valid answer; ask again until there is one."""
        self._keyboard.write(self._choices())
        while True:
            key = await self._keyboard.choice(PROMPT)
            match key:
                case "y" | "yes" if not self._is_stuck:
                    return self._allow()
                case "n" | "no":
                    return _deny()
                case "r":
                    return _deny(await self._keyboard.line("Why not? ") or "")
                case "e":
                    await self._edit()
                case "u" if self._has_changes:
                    self._changed = self._draft = self._refused = None
                case "d" if self._may_last:
                    if (denial := await self._lasting_denial()) is not None:
                        return denial
                case None:
                    self._keyboard.write("\n")
                    return _deny("the input ended")
                case _ if key in self._scopes:
                    scope = self._scopes[key][0]
                    return self._allow(scope, await self._pattern(scope))
                case _:
                    self._keyboard.write(f"Please answer with one of {', '.join(self._keys())}.\n")
                    continue
            self._keyboard.write(self._choices())

    def refuse(self, why: str) -> None:
        """Say that the last answer was not taken; the question stays."""
        self._keyboard.write(f"That can't be: {safe_line(why)}\n")

    # ── what is offered ──────────────────────────────────────────────────────────────────────────

    @property
    def _asked(self) -> ApprovalRequest:
        """The question as it stands, with the changes that could be sent."""
        return self._request if self._changed is None else self._changed

    @property
    def _is_stuck(self) -> bool:
        """Whether the last thing they wrote can't be sent: they correct it, or undo it."""
        return self._draft is not None or self._refused is not None

    @property
    def _has_changes(self) -> bool:
        return self._changed is not None or self._is_stuck

    @property
    def _scopes(self) -> dict[str, tuple[str, str]]:
        """How long this answer may be remembered, by key; nothing while an edit can't be sent."""
        scopes = () if self._is_stuck else self._asked.scopes
        return {key: said for key, said in SCOPES.items() if said[0] in scopes}

    @property
    def _may_last(self) -> bool:
        """Whether a denial may last: it is about the arguments as the model gave them."""
        return bool(self._scopes) and self._changed is None

    def _keys(self) -> list[str]:
        lasting = ["d"] if self._may_last else []
        undo = ["u"] if self._has_changes else []
        allow = [] if self._is_stuck else ["y"]
        return [*allow, *self._scopes, "n", "r", *lasting, "e", *undo]

    def _choices(self) -> str:
        how = " as changed" if self._changed is not None else ""
        scopes = "".join(f"  [{key}] {words}" for key, (_, words) in self._scopes.items())
        lasting = "  [d] deny and don't ask again" if self._may_last else ""
        undo = "  [u] undo your changes" if self._has_changes else ""
        lines = [f"  [n] deny  [r] deny and say why{lasting}", f"  [e] edit the arguments{undo}"]
        # What they wrote can't be sent, and an allowance would run what they did not want.
        if not self._is_stuck:
            lines.insert(0, f"  [y] allow{how}{scopes}")
        if self._scopes:
            asked = self._asked
            covered = exact(coverage(asked.tool, binding_asked(asked, asked.arguments)))
            lines.insert(0, f"  if remembered, the answer covers {covered}")
        return "\n".join(lines) + "\n"

    # ── what is answered ─────────────────────────────────────────────────────────────────────────

    def _allow(self, remember: str | None = None, pattern: str | None = None) -> ApprovalAnswer:
        return ApprovalAnswer(
            decision="allow",
            arguments=self._changed.arguments if self._changed is not None else None,
            remember=remember,
            pattern=pattern,
            answered_by=ANSWERED_BY,
        )

    async def _pattern(self, scope: str) -> str | None:
        """Ask for a pattern of paths that a lasting answer is about; `None` keeps to the path of the call."""
        paths = binding_asked(self._asked, self._asked.arguments).paths
        if scope not in {"agent", "always"} or len(paths) != 1:
            return None
        (path,) = paths.values()
        prompt = f"For which paths? (Enter: {exact(path)} alone; or a pattern such as notes/**) "
        return await self._keyboard.line(prompt) or None

    async def _lasting_denial(self) -> ApprovalAnswer | None:
        scopes = "  ".join(f"[{key}] {words}" for key, (_, words) in self._scopes.items())
        key = await self._keyboard.choice(f"Don't ask again {scopes}: ")
        if key not in self._scopes:
            return None
        scope = self._scopes[key][0]
        pattern = await self._pattern(scope)
        reason = await self._keyboard.line("Why not? (Enter: without a reason) ") or ""
        return _deny(reason, scope, pattern)

    async def _edit(self) -> None:
        """Have the person change the arguments, and show the result; nothing is sent yet."""
        before = self._asked.arguments if self._refused is None else self._refused
        try:
            edited = await self._editor.edit(self._request.tool, before, self._draft)
        except EditProblem as problem:
            self._draft = problem.draft
            kept = "; [e] goes on from what you wrote" if problem.draft is not None else ""
            self._keyboard.write(f"Nothing is changed: {safe_line(str(problem))}{kept}.\n")
            return
        self._draft = self._refused = self._changed = None
        if is_same(edited, self._request.arguments):
            self._keyboard.write("The arguments are again what they were.\n")
            return
        try:
            changed = await self._consider(edited)
        except CallboardError as problem:
            self._refused = edited
            said = safe_line(str(problem)).rstrip(".")
            self._keyboard.write(f"That can't be: {said}; [e] goes on from what you wrote.\n")
            return
        if is_same(changed.arguments, self._request.arguments):
            self._keyboard.write("Nothing is changed: it means what was there.\n")
            return
        self._changed = changed
        self._keyboard.write(changed_question(self._request, changed, self._style))


def _deny(
    reason: str = "", remember: str | None = None, pattern: str | None = None
) -> ApprovalAnswer:
    return ApprovalAnswer(
        decision="deny", reason=reason, remember=remember, pattern=pattern, answered_by=ANSWERED_BY
    )
