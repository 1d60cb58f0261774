"""Asks whoever sits at the terminal: about a call, or what a model wants to know.

`Asker` is the one way there, for `run`, `attach` and `chat`. A question about a call is a `Dialogue`:
its person may allow, deny, remember and edit until an answer is taken. Nothing but a yes is a yes, and
what was typed before the question stood there answers nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from ...runtime.channel import UserQuestion
from ...runtime.errors import CallboardError, ValidationError
from ...runtime.event_types.people import FormField
from ...runtime.handles import PersonAnswer
from ...runtime.messages import ApprovalAnswer, ApprovalRequest
from ..show.question_text import ANSWERED_BY, binding_asked, block, changed_question, coverage
from ..show.question_text import question as question_text
from ..terminal.escaping import exact, safe_line
from ..terminal.folding import folded, size_of
from ..terminal.keyboard import Keyboard
from ..terminal.style import Style, counted
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
BACK = "\x1b"
"""What Esc is in a line that the terminal edits; no pattern holds it."""
COMING_SECONDS = 2.0
"""For the other questions of an answer: each is on record before the next is asked."""
LOOK_SECONDS = 0.1
KEY_ROWS = 7
"""The rows of what may be answered, of what it covers, and of the answer, at 80 columns."""

Consider = Callable[[str | None], Awaitable[ApprovalRequest]]
"""Returns the question as it is with other arguments, or with its own and the schema of its tool; raises when they are
not possible."""


Others = Callable[[], Awaitable[list[ApprovalRequest]]]
"""Returns the questions that wait behind this one."""


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
        self._allowed: list[ApprovalRequest] = []

    def abandon(self) -> None:
        """Leave the terminal as it was found, before an exit on the spot."""
        self._editor.abandon()

    async def approve(
        self, request: ApprovalRequest, consider: Consider, submit: Submit, others: Others
    ) -> ApprovalAnswer:
        """Ask about a call until an answer is submitted; return that.

        One that was shown exactly so, and allowed with another of the same answer, is allowed.
        """
        dialogue = Dialogue(self.keyboard, self._editor, request, self._style, consider)
        is_allowed = request in self._allowed
        self._allowed = [each for each in self._allowed if _is_with(each, request)]
        if is_allowed:
            self.keyboard.write(f"\nallowed with the others: {safe_line(request.tool)}\n")
        else:
            self.keyboard.write(question_text(request, self._style))
            await self.keyboard.settle()
        answer = ALLOWED if is_allowed else await self._answer(dialogue, request, others)
        while True:
            try:
                await submit(answer)
            except ValidationError as problem:
                dialogue.refuse(str(problem))
            else:
                return answer
            answer = await self._answer(dialogue, request, others)

    async def _answer(
        self, dialogue: Dialogue, request: ApprovalRequest, others: Others
    ) -> ApprovalAnswer:
        while (answer := await dialogue.answer()) is None:
            if await self._allow_all(request, await _behind(request, others)):
                return ALLOWED
        return answer

    async def _allow_all(self, request: ApprovalRequest, others: list[ApprovalRequest]) -> bool:
        """Show the others, and return whether the person allows them too."""
        if not others:
            self.keyboard.write("No other question of this answer waits.\n")
            return False
        for each in others:
            self.keyboard.write(question_text(each, self._style))
        await self.keyboard.settle()
        which = f"this one and the {counted(len(others), 'other')} shown here"
        if await self.keyboard.choice(f"Allow {which}, once each? [y/N] ") not in {"y", "yes"}:
            # The last one that was shown is another: no answer may be taken for one to that.
            self.keyboard.write(question_text(request, self._style))
            await self.keyboard.settle()
            return False
        self._allowed = others
        return True

    async def ask(self, question: UserQuestion) -> PersonAnswer | None:
        """Ask what a model wants to know; return `None` when the input ends.

        The number of an option is an answer, and so is any text.
        """
        who = f" ({safe_line(question.origin)})" if question.origin else ""
        options, form = question.options, question.form
        if form is not None and form.fields:
            return await self._fill_in(question, form.fields, who)
        whose = "the model" if form is None else "the server of a tool"
        lines = ["", f"{whose} asks you{who}:", *block(question.question)]
        lines += (f"  [{number}] {exact(text)}" for number, text in enumerate(options, 1))
        self.keyboard.write("\n".join(lines) + "\n")
        await self.keyboard.settle()
        prompt = "a number, or your own answer: " if options else PROMPT
        if form is not None:
            prompt = "a number: "
        while (typed := await self.keyboard.line(prompt)) is not None:
            if typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(options):
                typed = options[int(typed) - 1]
            if typed and (form is None or typed in options):
                option = options.index(typed) if typed in options else None
                return PersonAnswer(text=typed, answered_by=ANSWERED_BY, option=option)
        return None

    async def _fill_in(
        self, question: UserQuestion, fields: tuple[FormField, ...], who: str
    ) -> PersonAnswer | None:
        """Ask for the fields of a form; nothing is sent before the person has seen it whole."""
        from .forms import fill_in  # seldom is any asked

        lines = ["", f"the server of a tool asks you{who}:", *block(question.question)]
        self.keyboard.write("\n".join(lines) + "\n")
        await self.keyboard.settle()
        key = None
        while key not in {"y", "yes", "d", "n", "no"}:
            if (key := await self.keyboard.choice("[y] answer  [d] decline: ")) is None:
                return None
        text = await fill_in(self.keyboard, fields) if key in {"y", "yes"} else ""
        if text is None:
            return None
        return PersonAnswer(text=text, answered_by=ANSWERED_BY, option=None if text else 0)


class Dialogue:
    """The answers of a person to one question, until one is taken.

    Args:
        keyboard: Where the person is.
        editor: Changes the arguments.
        request: The question, which is printed already; where that filled the screen, the keys say again what it is.
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
        self._is_tall = _fills(keyboard, question_text(request))
        self._changed: ApprovalRequest | None = None
        self._draft: str | None = None
        self._refused: str | None = None

    async def answer(self) -> ApprovalAnswer | None:
        """Return the next valid answer, `None` for all questions; ask again until there is one."""
        self._keyboard.write(self._choices())
        while True:
            key = await self._keyboard.choice(PROMPT)
            match key:
                case "y" | "yes" if not self._is_stuck:
                    return self._allow()
                case "all" if self._more:
                    return None
                case "n" | "no":
                    return _deny()
                case "r":
                    return _deny(await self._keyboard.line("Why not? ") or "")
                case "e":
                    await self._edit()
                case "u" if self._has_changes:
                    self._changed = self._draft = self._refused = None
                case None:
                    self._keyboard.write("\n")
                    return _deny("the input ended")
                case _ if key in self._scopes or (key == "d" and self._may_last):
                    if (lasting := await self._lasting(key)) is not None:
                        return lasting
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

    @property
    def _more(self) -> int:
        """How many questions of the same answer come after this one, if it may be allowed with them."""
        return 0 if self._has_changes else self._request.count - self._request.number

    def _keys(self) -> list[str]:
        lasting = ["d"] if self._may_last else []
        undo = ["u"] if self._has_changes else []
        allow = [] if self._is_stuck else ["y"]
        allow += ["all"] if self._more else []
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
        if more := self._more:
            rest = "the next" if more == 1 else f"the next {more}"
            lines.insert(1, f"  [all] show {rest} too, and allow all of these at once")
        if self._scopes:
            asked = self._asked
            covered = exact(coverage(asked.tool, binding_asked(asked, asked.arguments)))
            lines.insert(0, f"  if remembered, the answer covers {covered}")
        if self._is_tall:
            asked = self._asked
            head = f"may {safe_line(asked.tool)} run? (tier: {asked.tier}; all of the question is above)"
            lines[:0] = [self._style.paint(head, "bold"), f"  reason: {safe_line(asked.reason)}"]
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
        """Ask for a pattern of paths that a lasting answer is about.

        `None` keeps to the path of the call; `BACK` is that there is no answer yet.
        """
        paths = binding_asked(self._asked, self._asked.arguments).paths
        if scope not in {"agent", "always"} or len(paths) != 1:
            return None
        (path,) = paths.values()
        how = "or a pattern such as notes/**; Esc and Enter: back"
        line = await self._keyboard.line(f"For which paths? (Enter: {exact(path)} alone; {how}) ")
        return BACK if line is None or BACK in line else line or None

    async def _lasting(self, key: str) -> ApprovalAnswer | None:
        """Return the answer to remember that a key begins; `None` if the person went back."""
        if key not in self._scopes:
            return await self._lasting_denial()
        scope = self._scopes[key][0]
        pattern = await self._pattern(scope)
        return None if pattern == BACK else self._allow(scope, pattern)

    async def _lasting_denial(self) -> ApprovalAnswer | None:
        scopes = "  ".join(f"[{key}] {words}" for key, (_, words) in self._scopes.items())
        key = await self._keyboard.choice(f"Don't ask again {scopes}: ")
        if key not in self._scopes:
            return None
        scope = self._scopes[key][0]
        if (pattern := await self._pattern(scope)) == BACK:
            return None
        reason = await self._keyboard.line("Why not? (Enter: without a reason) ") or ""
        return _deny(reason, scope, pattern)

    async def _parameters(self) -> dict[str, Any] | None:
        """Return the schema of the tool's arguments, if there is one."""
        try:
            return (await self._consider(None)).parameters
        except CallboardError:  # the edit will say what is wrong
            return None

    async def _edit(self) -> None:
        """Have the person change the arguments, and show the result; nothing is sent yet."""
        before = self._asked.arguments if self._refused is None else self._refused
        try:
            edited = await self._editor.edit(
                self._request.tool, before, self._draft, await self._parameters()
            )
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


ALLOWED = ApprovalAnswer(decision="allow", answered_by=ANSWERED_BY)


async def _behind(request: ApprovalRequest, others: Others) -> list[ApprovalRequest]:
    """Return the questions of the same answer that come after one; a moment is left for them to come."""
    found: list[ApprovalRequest] = []
    with trio.move_on_after(COMING_SECONDS):
        while True:
            found = [each for each in await others() if _is_with(each, request)]
            if len(found) >= request.count - request.number:
                break
            await trio.sleep(LOOK_SECONDS)
    return found


def _is_with(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    """Return whether two questions are of one answer of a model, and `one` comes after the other."""
    is_after = one.number > other.number and one.count == other.count
    return is_after and one.turn_id == other.turn_id and one.session_id == other.session_id


def _deny(
    reason: str = "", remember: str | None = None, pattern: str | None = None
) -> ApprovalAnswer:
    return ApprovalAnswer(
        decision="deny", reason=reason, remember=remember, pattern=pattern, answered_by=ANSWERED_BY
    )


def _fills(keyboard: Keyboard, text: str) -> bool:
    """Return whether a question and its keys are higher than the screen, where its head has gone when it can be answered."""
    size = size_of(keyboard.descriptor)
    rows = folded(text, size.columns).count("\n")
    return rows + KEY_ROWS > size.lines
