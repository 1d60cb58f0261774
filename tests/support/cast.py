"""A model that plays several parts: each session has a script of its own, by its first input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import callboard
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptedModel, ScriptStep
from callboard.runtime.history import Input
from callboard.runtime.store.rows import SessionRow
from support.stage import open_in

Call = tuple[str, dict[str, Any]]


class Cast:
    """The parts, by the text of a session's first input.

    Attributes:
        parts: Each part's model, which knows what it was asked.
    """

    def __init__(self, parts: Mapping[str, Sequence[ScriptStep]]) -> None:
        self.parts = {text: ScriptedModel(steps) for text, steps in parts.items()}

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        first = request.rounds[0].items[0]
        assert isinstance(first, Input)
        await self.parts[first.text].run(request, emit)

    def offered(self, text: str) -> list[str]:
        """The tools that a part was offered at last."""
        return [tool.name for tool in self.parts[text].requests[-1].tools]


def task(text: str, kind: str = "branch", **more: Any) -> Call:
    """A call that gives this task to a session below."""
    return ("delegate", {"kind": kind, "task": text, **more})


def part(*calls: Call, last: str = "Done.") -> list[ScriptStep]:
    """A part with one answer that calls, and one that says it is done."""
    return [reply(calls=list(calls)), reply(last)]


def open_cast(
    folder: Path, cast: Cast, **options: Any
) -> AbstractAsyncContextManager[callboard.Runtime]:
    """A runtime with these parts, on the folder's own data when `data` is true."""
    data = folder / "data" if options.pop("data", False) else None
    return open_in(folder, cast, data=data, **options)


async def below(runtime: callboard.Runtime, session: callboard.Session) -> list[SessionRow]:
    """The sessions below this one, in the order in which they began."""
    return await runtime.store.children(session.session_id)
