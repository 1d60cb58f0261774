"""What a person may answer to the question about a call, and how that is taken."""

from __future__ import annotations

from ..runtime.messages import ApprovalAnswer, ApprovalRequest
from .approvals import ANSWERED_BY, binding_asked, change_lines, coverage
from .edit_form import EditProblem, is_same
from .editing import Editor
from .escaping import exact, safe_line
from .keyboard import Keyboard
from .style import Style

SCOPES = {
    "t": ("turn", "for this turn"),
    "s": ("session", "for this session"),
    "g": ("agent", "for this agent"),
    "a": ("always", "always"),
}
"""By key, for what an answer may be remembered."""

PROMPT = "your answer: "


class Dialogue:
    """One question's answers, until one is taken.

    Args:
        keyboard: Where the person is.
        editor: With what they change the arguments.
        request: The question, which stands on the screen already.
        style: What the screen can show.
    """

    def __init__(
        self, keyboard: Keyboard, editor: Editor, request: ApprovalRequest, style: Style
    ) -> None:
        self._keyboard = keyboard
        self._editor = editor
        self._request = request
        self._style = style
        self._changed: str | None = None
        self._draft: str | None = None
        self._scopes = {key: said for key, said in SCOPES.items() if said[0] in request.scopes}

    async def answer(self) -> ApprovalAnswer:
        """The next answer; what is none is asked about again."""
        self._keyboard.write(self._choices())
        while True:
            key = await self._keyboard.choice(PROMPT)
            match key:
                case "y" | "yes":
                    return self._allow()
                case "n" | "no":
                    return _deny()
                case "r":
                    return _deny(await self._keyboard.line("Why not? ") or "")
                case "e":
                    await self._edit()
                case "u" if self._changed is not None:
                    self._changed = self._draft = None
                case "d" if self._scopes:
                    if (denial := await self._lasting_denial()) is not None:
                        return denial
                case None:
                    self._keyboard.write("\n")
                    return _deny("the input ended")
                case _ if key in self._scopes:
                    return await self._remembered(self._scopes[key][0])
                case _:
                    self._keyboard.write(f"Please answer with one of {', '.join(self._keys())}.\n")
                    continue
            self._keyboard.write(self._choices())

    def refuse(self, why: str) -> None:
        """Says that the last answer was not taken; the question stays."""
        self._keyboard.write(f"That can't be: {safe_line(why)}\n")

    # ── what is offered ──────────────────────────────────────────────────────────────────────────

    @property
    def _arguments(self) -> str:
        return self._request.arguments if self._changed is None else self._changed

    def _keys(self) -> list[str]:
        lasting = ["d"] if self._scopes else []
        undo = ["u"] if self._changed is not None else []
        return ["y", *self._scopes, "n", "r", *lasting, "e", *undo]

    def _choices(self) -> str:
        is_changed = self._changed is not None
        scopes = "".join(f"  [{key}] {words}" for key, (_, words) in self._scopes.items())
        lasting = "  [d] deny and don't ask again" if self._scopes else ""
        undo = "  [u] undo your changes" if is_changed else ""
        lines = [
            f"  [y] allow{' as changed' if is_changed else ''}{scopes}",
            f"  [n] deny  [r] deny and say why{lasting}",
            f"  [e] edit the arguments{undo}",
        ]
        if self._scopes:
            binding = binding_asked(self._request, self._arguments)
            covered = exact(coverage(self._request.tool, binding))
            lines.insert(0, f"  remembered, it is about {covered}")
        return "\n".join(lines) + "\n"

    # ── what is answered ─────────────────────────────────────────────────────────────────────────

    def _allow(self, remember: str | None = None, pattern: str | None = None) -> ApprovalAnswer:
        return ApprovalAnswer(
            decision="allow",
            arguments=self._changed,
            remember=remember,
            pattern=pattern,
            answered_by=ANSWERED_BY,
        )

    async def _remembered(self, scope: str) -> ApprovalAnswer:
        return self._allow(scope, await self._pattern(scope))

    async def _pattern(self, scope: str) -> str | None:
        """For what is to last, the paths that it is about, when a person wants others."""
        paths = binding_asked(self._request, self._arguments).paths
        if scope not in {"agent", "always"} or len(paths) != 1:
            return None
        (path,) = paths.values()
        prompt = f"For which paths? (Enter: {exact(path)} alone; or a pattern such as notes/**) "
        return await self._keyboard.line(prompt) or None

    async def _lasting_denial(self) -> ApprovalAnswer | None:
        scopes = "  ".join(f"[{key}] {words}" for key, (_, words) in self._scopes.items())
        key = await self._keyboard.choice(f"Not to be asked again {scopes}: ")
        if key not in self._scopes:
            return None
        scope = self._scopes[key][0]
        pattern = await self._pattern(scope)
        reason = await self._keyboard.line("Why not? (Enter: without a reason) ") or ""
        return _deny(reason, scope, pattern)

    async def _edit(self) -> None:
        """The person changes the arguments; what came of it is shown, and not yet sent."""
        try:
            changed = await self._editor.edit(self._request.tool, self._arguments, self._draft)
        except EditProblem as problem:
            self._draft = problem.draft
            kept = "; [e] goes on from what you wrote" if problem.draft is not None else ""
            self._keyboard.write(f"Nothing is changed: {safe_line(str(problem))}{kept}.\n")
            return
        self._draft = None
        model = self._request.arguments
        self._changed = None if is_same(changed, model) else changed
        lines = ["your changes:", *change_lines(model, changed, self._style)]
        self._keyboard.write("\n".join(lines) + "\n")


def _deny(
    reason: str = "", remember: str | None = None, pattern: str | None = None
) -> ApprovalAnswer:
    return ApprovalAnswer(
        decision="deny",
        reason=reason,
        remember=remember,
        pattern=pattern,
        answered_by=ANSWERED_BY,
    )
