"""Where `callboard run` works: a runtime of its own, or the daemon; one interface for both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol, Self

import msgspec

from ...runtime.approval import ApprovalAnswer, ApprovalRequest
from ...runtime.budget import Budget
from ...runtime.events import TurnEnded
from ...runtime.history import Attachment
from ...runtime.store.interface import StoreReader
from ..ask.terminal_channel import TerminalChannel
from ..show.transcript import TurnEvent


class Meeting(msgspec.Struct, frozen=True, kw_only=True):
    """How a run reaches whoever reads it.

    Attributes:
        channel: Where questions are put; `None` where nobody can be asked.
        notice: Says a word of callboard's own.
        confirm: Asks for a yes; `None` where nobody can be asked.
    """

    channel: TerminalChannel | None
    notice: Callable[[str], None]
    confirm: Callable[[str], Awaitable[bool]] | None


class RunTurn(Protocol):
    """A turn; see `Turn`."""

    @property
    def seq(self) -> int:
        """Of the last event on record that was seen."""
        ...

    @property
    def at_ms(self) -> int:
        """When that one was stored."""
        ...

    @property
    def ended(self) -> TurnEnded | None:
        """How it ended, once it has."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def __aiter__(self) -> AsyncIterator[TurnEvent]: ...

    async def cancel(self, reason: str) -> None:
        """Cancels it; returns when everything of it is gone."""
        ...


class RunSession(Protocol):
    """A session; see `Session`."""

    session_id: str

    def prompt(
        self, text: str, attachments: Iterable[Attachment] = (), *, budget: Budget | None = None
    ) -> RunTurn:
        """A turn for this input."""
        ...

    async def resume(self) -> RunTurn | None:
        """What was left: a turn that waits, or an input; `None` when nothing was."""
        ...

    def follow(self) -> AbstractAsyncContextManager[AsyncIterator[object]]:
        """All that happens from here on."""
        ...

    async def set_budget(self, budget: Budget | None) -> None:
        """What the whole session may use."""
        ...


class RunPlace(Protocol):
    """A runtime, as far as a run needs one; see `Runtime`."""

    @property
    def store(self) -> StoreReader:
        """What is on record."""
        ...

    @property
    def model(self) -> str:
        """Which model answers."""
        ...

    @property
    def model_reason(self) -> str:
        """Why that one."""
        ...

    async def create_session(self, *, agent: str, budget: Budget | None) -> RunSession:
        """Begins a session in the workspace of the run."""
        ...

    async def get_session(self, session_id: str) -> RunSession:
        """A session on record."""
        ...

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """A question that waits."""
        ...

    async def answer(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """Answers it; raises `ConflictError` when others were first."""
        ...
