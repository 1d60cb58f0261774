"""What the flows share: a runtime before a scripted server, and what must hold when it closes.

Whatever a flow does, at its end every session's record is sound and every request that was sent
holds a history that providers accept; `open_stage` checks both. What a model in the process was
asked is checked as each wire format would have sent it (tests/conftest.py checks what is sent).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard.config.settings import DialectName, Limits, Settings
from callboard.providers.dialects import dialect_named
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.provider import LocalModel, ModelRequest
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptedModel, ScriptStep
from callboard.providers.testing.scripted_server import (
    ScriptedServer,
    ServerStep,
    open_scripted_server,
)
from callboard.runtime.events import (
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    MessageCompleted,
    Stored,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Refusal, Text

on_both_stores = pytest.mark.parametrize("store", ["memory", "disk"])

NO_RETRIES = Settings(limits=Limits(model_retries=0))

DIALECTS = tuple(DialectName)

Messages = list[dict[str, Any]]


class Stage(msgspec.Struct, frozen=True):
    """A runtime and the server that its model is on."""

    runtime: callboard.Runtime
    server: ScriptedServer
    workspace: Path

    @property
    def sent(self) -> list[Messages]:
        """The messages of every request so far."""
        return [request.body["messages"] for request in self.server.requests]

    async def record(self, session: callboard.Session) -> list[Stored]:
        """The whole journal of a session."""
        return await self.runtime.store.events(session.session_id)


@asynccontextmanager
async def open_stage(
    folder: Path,
    steps: Sequence[ServerStep],
    *,
    store: str = "memory",
    complete: bool = True,
    **options: Any,
) -> AsyncGenerator[Stage]:
    """A stage whose server plays these steps; `complete` wants all of them played.

    A failed model call is not made again, unless `settings` say so.
    """
    options.setdefault("settings", NO_RETRIES)
    options.setdefault("environ", {})
    workspace = make_workspace(folder)
    async with open_scripted_server(steps) as server:
        async with callboard.open_runtime(
            model="scripted",
            base_url=server.base_url,
            workspace=workspace,
            data=folder / "data" if store == "disk" else None,
            strict=True,
            **options,
        ) as runtime:
            stage = Stage(runtime, server, workspace)
            yield stage  # ruff: ignore[fallible-context-manager] a flow that failed needs no more
            await check_records(runtime)
        for messages in stage.sent:
            check_messages(messages)
        if complete:
            server.assert_complete()


def open_in(
    folder: Path,
    model: LocalModel | Sequence[ScriptStep] | str,
    store: str = "memory",
    **options: Any,
) -> AbstractAsyncContextManager[callboard.Runtime]:
    """A runtime on a workspace, and with `disk` on data, in this folder; a script is its model's."""
    options.setdefault("workspace", make_workspace(folder))
    options.setdefault("data", folder / "data" if store == "disk" else None)
    if isinstance(model, Sequence) and not isinstance(model, str):
        model = ScriptedModel(model)
    return callboard.open_runtime(model=model, **{"environ": {}, "strict": True, **options})


@asynccontextmanager
async def open_local_stage(
    folder: Path, steps: Sequence[ScriptStep], **options: Any
) -> AsyncGenerator[tuple[callboard.Runtime, ScriptedModel]]:
    """A runtime with a scripted model in the process: no socket, so that a clock may be mocked."""
    model = ScriptedModel(steps)
    async with open_in(folder, model, **options) as runtime:
        yield runtime, model  # ruff: ignore[fallible-context-manager] as above
        await check_records(runtime)
    for request in model.requests:
        check_messages(messages_of(request))
        check_in_each_format(request)


def make_workspace(folder: Path) -> Path:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    return workspace


def messages_of(request: ModelRequest) -> Messages:
    """The messages of a request as Chat Completions has them."""
    messages: Messages = json.loads(OPENAI_CHAT.build(request).body)["messages"]
    return messages


class Played(msgspec.Struct, frozen=True):
    """A turn that was read to its end."""

    events: list[callboard.TurnEvent]

    @property
    def ended(self) -> TurnEnded:
        [ended] = [event for event in self.events if isinstance(event, TurnEnded)]
        return ended

    @property
    def results(self) -> list[CallFinished]:
        """The calls' results, as they came."""
        return [event for event in self.events if isinstance(event, CallFinished)]

    @property
    def statuses(self) -> list[tuple[str, str]]:
        """Tool and status of each call, by name."""
        return sorted((result.name, result.status.value) for result in self.results)

    @property
    def text(self) -> str:
        """The text of all answers on record."""
        return "".join(text_of(e) for e in self.events if isinstance(e, MessageCompleted))


async def play(session: callboard.Session, text: str) -> Played:
    """Prompts and reads the turn to its end."""
    async with session.prompt(text) as turn:
        return Played([event async for event in turn])


async def play_in(
    runtime: callboard.Runtime, text: str, **options: Any
) -> tuple[callboard.Session, Played]:
    """A new session, and its first turn."""
    session = await runtime.create_session(**options)
    return session, await play(session, text)


async def run_in(runtime: callboard.Runtime, text: str, **options: Any) -> callboard.Session:
    """A new session whose first turn was answered."""
    session = await runtime.create_session(**options)
    await session.run(text)
    return session


async def heard(turn: callboard.Turn, kind: Any) -> None:
    """Reads up to the first event of a kind."""
    async for event in turn:
        if isinstance(event, kind):
            return


async def results(folder: Path, *calls: tuple[str, Any], **options: Any) -> list[dict[str, Any]]:
    """What the model gets of calls that it makes one after another."""
    steps = [*(reply(calls=[call]) for call in calls), reply("Done.")]
    async with open_local_stage(folder, steps, **options) as (runtime, _):
        _, played = await play_in(runtime, "Go.")
        return [read_result(result) for result in played.results]


async def events_of(runtime: callboard.Runtime, session_id: str) -> list[DurableEvent]:
    """A session's record."""
    return [stored.event for stored in await runtime.store.events(session_id)]


async def finished(runtime: callboard.Runtime, session: callboard.Session) -> list[CallFinished]:
    """The results on a session's record."""
    events = await events_of(runtime, session.session_id)
    return [event for event in events if isinstance(event, CallFinished)]


def text_of(message: MessageCompleted) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text | Refusal))


def read_result(result: CallFinished) -> dict[str, Any]:
    """What the model gets."""
    decoded: dict[str, Any] = json.loads(result.result)
    return decoded


def tool_contents(messages: Messages) -> list[Any]:
    """The contents of all tool messages, decoded, in their order."""
    return [json.loads(m["content"]) for m in messages if m["role"] == "tool"]


async def check_records(runtime: callboard.Runtime) -> None:
    """Every session's record is sound, and no turn is open."""
    for row in await runtime.sessions(limit=1000):
        check_record(await runtime.store.events(row.session_id))
    assert await runtime.store.open_turns() == []


def check_record(record: Iterable[Stored]) -> None:
    """No gap; turns end once; each call is proposed, starts at most once, has one result."""
    record = list(record)
    assert [stored.seq for stored in record] == list(range(1, len(record) + 1))
    open_turn: str | None = None
    calls: dict[str, str] = {}
    for event in (stored.event for stored in record):
        match event:
            case TurnStarted(turn_id=turn_id):
                assert open_turn is None
                open_turn = turn_id
            case CallProposed(call_id=call_id):
                assert open_turn == event.turn_id
                assert call_id not in calls
                calls[call_id] = "proposed"
            case CallStarted(call_id=call_id):
                assert open_turn == event.turn_id
                assert calls[call_id] in {"proposed", "deferred"}
                calls[call_id] = "started"
            case CallDeferred(call_id=call_id):
                assert open_turn == event.turn_id
                assert calls[call_id] in {"proposed", "deferred"}
                calls[call_id] = "deferred"
            case CallFinished(call_id=call_id):
                # A deferred call may end while no turn runs it: its input was cancelled.
                assert open_turn == event.turn_id or calls[call_id] == "deferred"
                assert calls[call_id] in {"proposed", "started", "deferred"}
                calls[call_id] = "finished"
            case TurnEnded(turn_id=turn_id):
                assert open_turn == turn_id
                assert set(calls.values()) <= {"finished", "deferred"}
                # Nothing can stop a thread of an own tool: such a one may run on, and is named.
                assert [name for name in event.unreaped if not name.startswith("thread of ")] == []
                open_turn = None
            case _:
                pass
    assert open_turn is None


def check_in_each_format(request: ModelRequest) -> None:
    """Whichever wire format it had been sent in, its provider would accept it."""
    from support.providers.request_rules import (
        check_request,  # here: processes that tests kill know no such folder
    )

    for name in DIALECTS:
        check_request(name, json.loads(dialect_named(name).build(request).body))


def check_messages(messages: Messages) -> None:
    """Each call has one result, in order, directly behind its message; as providers demand."""
    assert messages[0]["role"] == "system"
    assert messages[-1]["role"] in {"user", "tool"}
    seen: set[str] = set()
    at = 1
    while at < len(messages):
        message = messages[at]
        at += 1
        assert message["role"] in {"user", "assistant"}
        if message["role"] == "user":
            assert messages[at - 2]["role"] != "user"
        calls = message.get("tool_calls", [])
        for call in calls:
            assert call["id"]
            assert call["id"] not in seen
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            seen.add(call["id"])
        results = messages[at : at + len(calls)]
        assert [result["role"] for result in results] == ["tool"] * len(calls)
        assert [result["tool_call_id"] for result in results] == [call["id"] for call in calls]
        at += len(calls)
