"""Turns the events of a session into the updates that an editor shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...runtime.events import (
    CallFinished,
    CallProgress,
    CallProposed,
    CallStarted,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    MessageDiscarded,
    ModelSwitched,
    PlanSet,
    Stored,
    TitleSet,
)
from ...runtime.identity import new_id
from ...runtime.stream import RefusalDelta, TextDelta, ThinkingDelta
from ..show.live_pieces import LivePieces
from ..show.transcript import TurnEvent
from . import wire
from .calls import MAX_SHOWN_CHARS, ShownCall, fenced, outcome_of, shown_call, text_content

if TYPE_CHECKING:
    from ...client.subscriptions import RemoteEvent

WITHDRAWN = "(withdrawn)"
"""Text that was sent can't be taken back; what follows is another message."""
PROGRESS_SHARE = 8
"""Output of a call is sent again, as a whole, when it has grown by this part: so all of it costs so many times its size."""
_PLAN_STATUS = {"done": "completed"}


class _RunningCall:
    """A call that has no result, with the end of its output."""

    def __init__(self, shown: ShownCall) -> None:
        self.shown = shown
        self.output = ""
        self._unsent = 0

    def add(self, text: str) -> bool:
        """Take lines of its output; return whether the editor is sent all of it now."""
        self.output = f"{self.output}{text}\n"[-MAX_SHOWN_CHARS:]
        self._unsent += len(text) + 1
        if self._unsent * PROGRESS_SHARE < len(self.output):
            return False
        self._unsent = 0
        return True


class Updates:
    """Makes the updates of one session; what was said before it was opened is among them.

    Args:
        folder: Its workspace.
        own_inputs: The keys of the inputs that the editor sent, which it shows by itself.

    Attributes:
        is_replay: Whether the events are of earlier days: files are not as they were then.
    """

    def __init__(self, folder: Path, own_inputs: set[str], *, is_replay: bool) -> None:
        self.is_replay = is_replay
        self._folder = folder
        self._own_inputs = own_inputs
        self._pieces = LivePieces()
        self._calls: dict[str, _RunningCall] = {}
        self._message_id = ""

    async def take(self, event: RemoteEvent) -> list[wire.SessionUpdate]:
        """Return what an event means for an editor, in order; it may read a file that is to be changed."""
        found: list[wire.SessionUpdate] = []
        for piece in self._pieces.take(event):
            if isinstance(piece, CallProposed):
                found.append(await self._proposed(piece))
            else:
                self._add(piece, found)
        if isinstance(event, Stored) and isinstance(event.event, MessageCompleted):
            self._message_id = ""
        return found

    def shown(self, call_id: str) -> ShownCall | None:
        """Return what is shown of a call that has no result."""
        call = self._calls.get(call_id)
        return None if call is None else call.shown

    def _add(self, piece: TurnEvent, found: list[wire.SessionUpdate]) -> None:
        match piece:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._say(text, found)
            case ThinkingDelta(text=text):
                self._think(text, found)
            case MessageDiscarded():
                found.append(message(f"\n\n{WITHDRAWN}\n\n", self._message()))
                self._message_id = ""
            case InputAccepted():
                found += self._input(piece)
            case CallStarted(call_id=call_id):
                update = wire.SessionUpdateToolCallUpdate
                found.append(update(tool_call_id=call_id, status="in_progress"))
            case CallProgress(call_id=call_id, text=text):
                found += self._progress(call_id, text)
            case CallFinished():
                found.append(self._finished(piece))
            case PlanSet(items=items):
                entries = [
                    wire.PlanEntry(
                        content=item.text,
                        priority="medium",
                        status=_PLAN_STATUS.get(item.status, item.status),
                    )
                    for item in items
                ]
                found.append(wire.SessionUpdatePlan(entries=tuple(entries)))
            case TitleSet(title=title):
                found.append(wire.SessionUpdateSessionInfoUpdate(title=title))
            case HistoryCompacted(rounds=rounds):
                found.append(thought(f"(a summary replaces the first {rounds} rounds)\n"))
            case ModelSwitched(provider=provider, model=model, reason=reason):
                found.append(thought(f"(goes on with {provider}/{model}: {reason})\n"))
            case _:
                pass

    def _message(self) -> str:
        self._message_id = self._message_id or new_id("message")
        return self._message_id

    def _say(self, text: str, found: list[wire.SessionUpdate]) -> None:
        """Add text; neighbours of one batch are one update."""
        if found and isinstance(last := found[-1], wire.SessionUpdateAgentMessageChunk):
            assert isinstance(last.content, wire.ContentBlockText)
            found.pop()
            text = last.content.text + text
        found.append(message(text, self._message()))

    def _think(self, text: str, found: list[wire.SessionUpdate]) -> None:
        if found and isinstance(last := found[-1], wire.SessionUpdateAgentThoughtChunk):
            assert isinstance(last.content, wire.ContentBlockText)
            found.pop()
            text = last.content.text + text
        found.append(thought(text, f"{self._message()}_thought"))

    def _input(self, event: InputAccepted) -> list[wire.SessionUpdate]:
        key = event.request.key if event.request is not None else ""
        if key in self._own_inputs:
            self._own_inputs.discard(key)
            return []
        if event.source != "person" or not event.text:
            return []
        block = wire.ContentBlockText(text=event.text)
        return [
            wire.SessionUpdateUserMessageChunk(content=block, message_id=event.input_id),
        ]

    async def _proposed(self, event: CallProposed) -> wire.SessionUpdate:
        folder = None if self.is_replay else self._folder
        look = partial(shown_call, event.name, event.arguments, self._folder, reads=folder)
        shown = await trio.to_thread.run_sync(look) if folder is not None else look()
        self._calls[event.call_id] = _RunningCall(shown)
        return wire.SessionUpdateToolCall(
            tool_call_id=event.call_id,
            title=shown.title,
            name=shown.name,
            kind=shown.kind,
            status="pending",
            content=shown.content or None,
            locations=shown.locations or None,
            raw_input=shown.raw_input,
        )

    def _progress(self, call_id: str, text: str) -> list[wire.SessionUpdate]:
        call = self._calls.get(call_id)
        if call is None or not call.add(text):
            return []
        content = (text_content(fenced(call.output)),)
        return [wire.SessionUpdateToolCallUpdate(tool_call_id=call_id, content=content)]

    def _finished(self, event: CallFinished) -> wire.SessionUpdate:
        call = self._calls.pop(event.call_id, None)
        shown = None if call is None else call.shown
        changed = None if shown is None else self._changed(event, shown)
        shown = changed or shown
        status, raw, said = outcome_of(event)
        content: list[wire.ToolCallContent] = []
        if shown is not None and shown.content and status == "completed":
            content += shown.content
        elif said:
            content.append(text_content(said))
        if call is not None and call.output:
            content.append(text_content(fenced(call.output)))
        return wire.SessionUpdateToolCallUpdate(
            tool_call_id=event.call_id,
            status=status,
            content=tuple(content),
            raw_output=raw,
            title=None if changed is None else changed.title,
            locations=None if changed is None else changed.locations,
            raw_input=None if changed is None else changed.raw_input,
        )

    def _changed(self, event: CallFinished, shown: ShownCall) -> ShownCall | None:
        """Return a call with the arguments with which it ran, where those are others than the editor shows."""
        if event.arguments is None or shown.has(event.arguments):
            return None
        return shown_call(event.name, event.arguments, self._folder, before=shown)


def message(text: str, message_id: str | None = None) -> wire.SessionUpdateAgentMessageChunk:
    """Return text of the agent."""
    block = wire.ContentBlockText(text=text)
    return wire.SessionUpdateAgentMessageChunk(content=block, message_id=message_id)


def thought(text: str, message_id: str | None = None) -> wire.SessionUpdateAgentThoughtChunk:
    """Return reasoning of the model, or a line of callboard's own."""
    block = wire.ContentBlockText(text=text)
    return wire.SessionUpdateAgentThoughtChunk(content=block, message_id=message_id)
