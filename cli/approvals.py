"""Asks the person at the terminal about a call, and takes nothing for a yes but a yes."""

from __future__ import annotations

import json
import os
import termios
from collections.abc import Iterator
from typing import Any

import trio

from ..runtime.messages import ApprovalAnswer, ApprovalRequest
from .escaping import exact, safe_line
from .output import Output

ANSWERED_BY = "terminal"
"""Who answered, on record."""

CHOICES = "[y] allow  [n] deny  [r] deny with a reason: "

MAX_INPUT_BYTES = 4096
"""A terminal hands over at most a line of this length."""


class TerminalApprover:
    """An `on_approval` that asks at a terminal, one question after another.

    What else there is to print waits while a question is open, so that an answer stands behind its
    own question. A question that is withdrawn (the turn was cancelled, nobody answered in time)
    ends where it is. Other calls of the turn run on meanwhile.

    Args:
        descriptor: The terminal to read from.
        screen: Where questions are printed; its terminal is the same.
    """

    def __init__(self, descriptor: int, screen: Output) -> None:
        self._descriptor = descriptor
        self._screen = screen
        self._asking = trio.Lock()
        self._shown: dict[str, trio.Event] = {}

    def reach(self, approval_id: str) -> None:
        """The transcript has come to this question: all that happened before it is printed."""
        self._shown.setdefault(approval_id, trio.Event()).set()

    async def wait_quiet(self) -> None:
        """Waits while a question is open."""
        if self._asking.locked():
            async with self._asking:
                pass

    async def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Asks; the answer holds for this call."""
        try:
            await self._shown.setdefault(request.approval_id, trio.Event()).wait()
        finally:
            del self._shown[request.approval_id]
        async with self._asking:
            self._screen.write(question(request))
            await self._screen.drain()
            # What was typed before the question stood there answers something else.
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            try:
                return await self._answer()
            except trio.Cancelled:
                self._screen.write("\n(no longer asked)\n")
                raise

    async def _answer(self) -> ApprovalAnswer:
        while True:
            match await self._ask(CHOICES):
                case "y" | "yes":
                    return ApprovalAnswer(decision="allow", answered_by=ANSWERED_BY)
                case "n" | "no":
                    return ApprovalAnswer(decision="deny", answered_by=ANSWERED_BY)
                case "r":
                    reason = await self._ask("Why not? ", lower=False) or ""
                    return ApprovalAnswer(decision="deny", reason=reason, answered_by=ANSWERED_BY)
                case None:
                    self._screen.write("\n")
                    return ApprovalAnswer(
                        decision="deny", reason="the input ended", answered_by=ANSWERED_BY
                    )
                case _:
                    self._screen.write("Please answer y, n or r.\n")

    async def _ask(self, prompt: str, *, lower: bool = True) -> str | None:
        """A line, or `None` at the end of the input."""
        self._screen.write(prompt)
        await self._screen.drain()
        # Not a thread that reads: one that is left behind would swallow the next answer.
        await trio.lowlevel.wait_readable(self._descriptor)
        data = os.read(self._descriptor, MAX_INPUT_BYTES)
        if not data:
            return None
        text = data.decode(errors="replace").strip()
        return text.lower() if lower else text


def question(request: ApprovalRequest) -> str:
    """The question as text: the tool, its tier, why it asks, and every argument in full."""
    lines = [
        "",
        f"callboard asks: may {safe_line(request.tool)} run? (tier: {request.tier})",
        f"  reason: {safe_line(request.reason)}",
        *_arguments(request.arguments),
    ]
    if request.preview:
        lines += ["  preview:", *_block(request.preview)]
    return "\n".join(lines) + "\n"


def _arguments(arguments: str) -> Iterator[str]:
    values = json.loads(arguments)
    if not values:
        yield "  no arguments"
    for name, value in values.items():
        if isinstance(value, str) and "\n" in value.rstrip("\n"):
            yield f"  {_json(name)}: text of {len(value)} characters"
            yield from _block(value)
        else:
            yield f"  {_json(name)}: {_json(value)}"


def _block(text: str) -> Iterator[str]:
    """Lines behind a bar that no text can forge; tabs stay, code is full of them."""
    is_escaped = False
    for line in text.split("\n"):
        shown = "\t".join(map(exact, line.split("\t")))
        is_escaped = is_escaped or shown != line
        yield f"    | {shown}"
    if is_escaped:
        yield "    (what a terminal would obey or hide is shown as \\u escapes)"


def _json(value: Any) -> str:
    return exact(json.dumps(value, ensure_ascii=False))
