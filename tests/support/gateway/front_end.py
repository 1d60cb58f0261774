"""A front end that speaks AG-UI: every event is one of the official models, and comes in the order that clients enforce."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio
from ag_ui.core import Event, RunAgentInput
from pydantic import BaseModel, TypeAdapter

from support.gateway.daemon_scene import Daemon
from support.gateway.door_scene import request
from support.gateway.raw_door import PATIENCE, Answer, answer_to, open_stream, read_end

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)

_OPENS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
_GOES_ON = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
_CLOSES = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}


class FrontEnd:
    """One thread of a front end, which keeps messages and state as AG-UI's own client does.

    Attributes:
        messages, state: What it has, and sends with each run.
        events: Those of the last run.
        headers: Of its answer.
    """

    def __init__(
        self,
        daemon: Daemon,
        thread: str = "thread-1",
        *,
        token: str | None = None,
        agent: str = "general",
        tools: tuple[str, ...] = (),
    ) -> None:
        self.daemon = daemon
        self.thread = thread
        self.messages: list[dict[str, Any]] = []
        self.state: Any = {}
        self.events: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self._token = daemon.token if token is None else token
        self._target = f"/ag-ui/{agent}"
        self._tools = [
            {"name": name, "description": f"Does {name}.", "parameters": {}} for name in tools
        ]
        self._runs = 0

    def body(self, run: str | None = None, **fields: Any) -> bytes:
        """A request, as the official model has it."""
        self._runs += 1
        body = {
            "threadId": self.thread,
            "runId": run or f"run-{self._runs}",
            "protocolVersion": "1.0",
            "messages": self.messages,
            "tools": self._tools,
            "context": [],
            "state": self.state,
            "forwardedProps": {},
        } | fields
        RunAgentInput.model_validate(body)
        return msgspec.json.encode(body)

    def say(self, text: str) -> None:
        """A person's message, for the next run."""
        self.messages.append({"id": f"u-{len(self.messages)}", "role": "user", "content": text})

    def bring(self, call_id: str, text: str) -> None:
        """The result of a call of the front end's own tool."""
        self.messages.append(
            {"id": f"t-{call_id}", "role": "tool", "toolCallId": call_id, "content": text}
        )

    async def run(self, text: str = "", **fields: Any) -> list[str]:
        """Run, say this first; return the types of the events."""
        if text:
            self.say(text)
        async with self.streaming(**fields) as stream:
            self.take(await read_end(stream))
        return [event["type"] for event in self.events]

    async def refused(self, body: bytes | None = None, **fields: Any) -> Answer:
        """The answer to a run that is none."""
        return await answer_to(self.daemon, self._request(body or self.body(**fields)))

    @asynccontextmanager
    async def streaming(self, **fields: Any) -> AsyncGenerator[trio.SocketStream]:
        """A run of which the test reads what it wants."""
        with trio.fail_after(PATIENCE):
            async with open_stream(self.daemon) as stream:
                await stream.send_all(self._request(self.body(**fields)))
                yield stream

    def _request(self, body: bytes) -> bytes:
        bearer = f"Bearer {self._token}"
        return request(self.daemon, self._target, body, connection="close", authorization=bearer)

    def take(self, received: bytes) -> None:
        """Take an answer into account; it must be whole, and every event right."""
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), received
        lines = head.decode().split("\r\n")[1:]
        self.headers = {name.lower(): its for name, _, its in (x.partition(": ") for x in lines)}
        data = re.findall(r"^data: (.*)$", _unchunked(body).decode(), re.MULTILINE)
        self.events = [msgspec.json.decode(each) for each in data]
        check_events(self.events)
        for event in self.events:
            self._apply(event)

    def _apply(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "TEXT_MESSAGE_START", "messageId": name}:
                self.messages.append({"id": name, "role": "assistant", "content": ""})
            case {"type": "REASONING_MESSAGE_START", "messageId": name}:
                self.messages.append({"id": name, "role": "reasoning", "content": ""})
            case {
                "type": "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT",
                "messageId": name,
                "delta": delta,
            }:
                self._message(name)["content"] += delta
            case {"type": "TOOL_CALL_START", "toolCallId": call_id, "parentMessageId": name}:
                if not any(each["id"] == name for each in self.messages):
                    self.messages.append({"id": name, "role": "assistant"})
                function = {"name": event["toolCallName"], "arguments": ""}
                call = {"id": call_id, "type": "function", "function": function}
                self._message(name).setdefault("toolCalls", []).append(call)
            case {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta}:
                self.call(call_id)["function"]["arguments"] += delta
            case {"type": "TOOL_CALL_RESULT", "messageId": name, "toolCallId": call_id}:
                self.messages.append(
                    {
                        "id": name,
                        "role": "tool",
                        "toolCallId": call_id,
                        "content": event["content"],
                    }
                )
            case {"type": "STATE_SNAPSHOT", "snapshot": snapshot}:
                self.state = snapshot
            case _:
                pass

    def _message(self, name: str) -> dict[str, Any]:
        return next(each for each in self.messages if each["id"] == name)

    def call(self, call_id: str) -> dict[str, Any]:
        """A call that some message holds."""
        calls = (call for each in self.messages for call in each.get("toolCalls", ()))
        return next(call for call in calls if call["id"] == call_id)

    @property
    def last(self) -> dict[str, Any]:
        """The last event of the run."""
        return self.events[-1]

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        """What the run asks people."""
        outcome = self.last["outcome"]
        assert outcome["type"] == "interrupt"
        found: list[dict[str, Any]] = outcome["interrupts"]
        return found

    @property
    def said(self) -> list[str]:
        """What the agent said, message by message."""
        return [
            each["content"]
            for each in self.messages
            if each["role"] == "assistant" and "content" in each
        ]


def check_events(events: list[dict[str, Any]]) -> None:
    """Each is what the official models say, with nothing more, and they come in order."""
    opened: set[tuple[str, str]] = set()
    assert events[0]["type"] == "RUN_STARTED"
    assert [each["type"] for each in events if each["type"] in _ENDS] == [events[-1]["type"]]
    for event in events:
        assert None not in event.values()
        model = EVENTS.validate_python(event)
        assert _extra(model) == [], event
        kind = event["type"]
        if kind in _OPENS:
            name = _place(_OPENS, event)
            assert name not in opened, event
            opened.add(name)
        elif kind in _GOES_ON:
            assert _place(_GOES_ON, event) in opened, event
            assert event["delta"], event
        elif kind in _CLOSES:
            opened.remove(_place(_CLOSES, event))
    assert opened == set()


_ENDS = {"RUN_FINISHED", "RUN_ERROR"}


def _place(kinds: dict[str, tuple[str, str]], event: dict[str, Any]) -> tuple[str, str]:
    kind, field = kinds[event["type"]]
    return kind, event[field]


def _extra(model: object) -> list[str]:
    """Fields that the official models do not know, at any depth."""
    found: list[str] = []
    if isinstance(model, BaseModel):
        found += model.model_extra or {}
        for name in type(model).model_fields:
            found += _extra(getattr(model, name))
    elif isinstance(model, list | tuple):
        for each in model:
            found += _extra(each)
    return found


def _unchunked(body: bytes) -> bytes:
    pieces = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        body = rest[int(size, 16) + 2 :]
    return b"".join(pieces)
