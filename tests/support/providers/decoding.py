"""What the tests of every decoder ask: the events of a body that arrives cut, its calls, its end."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from callboard.providers.provider import Decoder, Dialect, ModelRequest
from callboard.providers.testing.scripted_server import ScriptedServer
from callboard.runtime.history import Input, Round
from callboard.runtime.http.client import HttpClient
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    StreamError,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)


def decode_with(decoder: Decoder, data: bytes, *cuts: int) -> list[AnyStreamEvent]:
    """Return the events of a body that arrives cut at these places; none may follow its end."""
    edges = [0, *sorted(cuts), len(data)]
    events = [e for a, b in itertools.pairwise(edges) for e in decoder.feed(data[a:b])]
    events += decoder.finish()
    assert decoder.feed(data) == decoder.finish() == []
    return events


def calls_of(events: list[AnyStreamEvent]) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of each call; each must begin once, and end once."""
    calls: list[list[str]] = []
    ended: list[int] = []
    for event in events:
        match event:
            case ToolCallStart():
                assert event.index == len(calls)
                calls.append([event.call_id, event.name, ""])
            case ToolCallDelta():
                assert event.index not in ended
                calls[event.index][2] += event.arguments
            case ToolCallEnd():
                ended.append(event.index)
            case _:
                pass
    assert sorted(ended) == list(range(len(calls)))
    return [(call_id, name, arguments) for call_id, name, arguments in calls]


def error_of(events: list[AnyStreamEvent]) -> StreamError:
    """Return the error that ends the events, the only terminal one."""
    *before, last = events
    assert isinstance(last, StreamError)
    assert not any(isinstance(event, Done | StreamError) for event in before)
    return last


def plain(events: list[AnyStreamEvent]) -> list[Any]:
    """Return the events with opaque parts as their kind and value, which compare by what they say."""
    return [(e.kind, json.loads(bytes(e.data))) if isinstance(e, OpaquePart) else e for e in events]


def check_any_body(
    decode: Callable[..., list[AnyStreamEvent]], body: bytes, data: st.DataObject
) -> None:
    """Check that a body of any kind ends once, and is read the same however it is cut."""
    events = decode(body, *data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    assert sum(isinstance(event, Done | StreamError) for event in events) == 1
    assert isinstance(events[-1], Done | StreamError)
    if isinstance(events[-1], Done):
        calls_of(events)
    assert plain(decode(body)) == plain(events)


async def ask(client: HttpClient, server: ScriptedServer, dialect: Dialect) -> list[AnyStreamEvent]:
    """Return the events of one model call, made as the model stream makes it."""
    built = dialect.build(ModelRequest(model="m", rounds=[Round([Input("hi")])]))
    headers = {**built.headers, **dialect.auth_headers("k")}
    async with client.stream_post(server.base_url + built.path, headers, built.body) as body:
        if body.status != 200:
            content = await body.read_all(10_000)
            return [dialect.read_error(body.status, body.headers, content)]
        decoder = dialect.decoder()
        events: list[AnyStreamEvent] = []
        while data := await body.read_some():
            events += decoder.feed(data)
        return events + decoder.finish()
