"""Legal variants of an answer: the same, as other servers of its wire format write it.

Servers differ in what a format leaves open: where places count from, or whether they are named at all;
how often the usage and the reason to stop are said; which summing-up events come; how events are written
as lines. An `Answer` is a body cut into its events, each `Variant` writes it in another of these ways.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from callboard.runtime.stream import (
    AnyStreamEvent,
    OpaquePart,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)


@dataclass
class Event:
    """One event: its name, if it has one, and its data, decoded if they are JSON."""

    name: str
    data: Any

    @property
    def kind(self) -> str:
        """The type that its data say."""
        kind: str = self.data.get("type", "") if isinstance(self.data, dict) else ""
        return kind

    def write(self, *, is_named: bool = True, space: str = " ", indent: int | None = None) -> bytes:
        """The event as lines, a blank one last."""
        text = self.data
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False, indent=indent)
        lines = [f"event:{space}{self.name}"] if self.name and is_named else []
        lines += [f"data:{space}{line}" for line in text.split("\n")]
        return "\n".join([*lines, "", ""]).encode()


Answer = list[Event]
Variant = Callable[[Answer], Answer]


def events_of(body: bytes) -> Answer:
    """The events of a body."""
    events: Answer = []
    name, data = "", list[str]()
    for line in [*body.decode("utf-8-sig").replace("\r\n", "\n").split("\n"), ""]:
        field, _, value = line.partition(":")
        if field == "event":
            name = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            text = "\n".join(data)
            try:
                events.append(Event(name, json.loads(text)))
            except ValueError:
                events.append(Event(name, text))
            name, data = "", []
    return events


def said(events: list[AnyStreamEvent]) -> list[Any]:
    """What an answer says, however it was cut: parts, calls, the last usage, and the end."""
    parts: list[list[Any]] = []
    calls: dict[int, list[Any]] = {}
    usage: list[AnyStreamEvent] = []
    kept: list[tuple[str, str]] = []
    for event in events:
        match event:
            case TextDelta(text) | RefusalDelta(text) | ThinkingDelta(text):
                if not parts or parts[-1][0] != type(event).__name__:
                    parts.append([type(event).__name__, ""])
                parts[-1][1] += text
            case ThinkingEnd(signature):
                parts.append(["end", signature])
            case ToolCallStart(index, call_id, name):
                assert index not in calls
                parts.append(calls.setdefault(index, [call_id, name, ""]))
            case ToolCallDelta(index, arguments):
                calls[index][2] += arguments
            case OpaquePart(_, kind, data):
                kept.append((kind, json.dumps(json.loads(bytes(data)), sort_keys=True)))
            case Usage():
                usage = [event]
            case _:
                pass
    for call in calls.values():
        with suppress(ValueError):  # cut off at a limit of tokens
            call[2] = json.loads(call[2] or "{}")
    return [parts, sorted(kept), usage, events[-1]]


# ── every format ─────────────────────────────────────────────────────────────────────────────────


def _each(change: Callable[[dict[str, Any]], object]) -> Variant:
    """A variant that changes the data of each event."""

    def vary(answer: Answer) -> Answer:
        answer = copy.deepcopy(answer)
        for event in answer:
            if isinstance(event.data, dict):
                change(event.data)
        return answer

    return vary


def _without(*kinds: str) -> Variant:
    return lambda answer: [event for event in answer if event.kind not in kinds]


def _between(made: Event) -> Variant:
    """A variant with one more event before each, but not behind the end."""
    return lambda answer: [each for event in answer for each in (copy.deepcopy(made), event)]


def _nested(value: Any, key: str) -> Iterator[dict[str, Any]]:
    """Each object within a value that has this key."""
    if isinstance(value, dict):
        if key in value:
            yield value
        for inner in list(value.values()):
            yield from _nested(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _nested(inner, key)


def _counted(key: str, count: Callable[[int], int | None]) -> Variant:
    """A variant that counts places otherwise; `None` leaves them out."""

    def change(data: dict[str, Any]) -> None:
        if (place := data.get(key)) is not None:
            data[key] = count(place)
            if data[key] is None:
                del data[key]

    return _each(change)


EVERY: dict[str, Variant] = {
    "as it is": lambda answer: answer,
    "unknown fields": _each(lambda data: data.update(x_new={"text": "x", "index": 3}, p="abc")),
    "unknown events": _between(Event("x.new", {"type": "x.new", "index": 0, "text": "x"})),
    "no names": lambda answer: [Event("", event.data) for event in answer],
    "fields in another order": lambda answer: [
        Event(e.name, dict(reversed(e.data.items())) if isinstance(e.data, dict) else e.data)
        for e in answer
    ],
}

# ── Chat Completions ─────────────────────────────────────────────────────────────────────────────


def _choices(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [choice for choice in data.get("choices") or [] if choice.get("index", 0) == 0]


def _pieces(data: dict[str, Any]) -> list[dict[str, Any]]:
    deltas = [choice.get("delta") or {} for choice in _choices(data)]
    return [piece for delta in deltas for piece in delta.get("tool_calls") or []]


def _last(answer: Answer, find: Callable[[dict[str, Any]], Any]) -> Any:
    found = [find(event.data) for event in answer if isinstance(event.data, dict)]
    return next(filter(None, reversed(found)), None)


def _follow_each_other(answer: Answer) -> bool:
    """Whether the calls of an answer come one after the other, each with an id of its own."""
    seen: list[Any] = []
    ids: list[str] = []
    for event in answer:
        for piece in _pieces(event.data) if isinstance(event.data, dict) else ():
            ids += [piece["id"]] if piece.get("id") and piece["id"] not in ids else []
            if piece.get("index") not in seen[-1:]:
                seen.append(piece.get("index"))
    return len(seen) == len(set(seen)) == len(ids)


def _call_index(count: Callable[[int], int | None], *, is_told: bool = True) -> Variant:
    def vary(answer: Answer) -> Answer:
        if not is_told and not _follow_each_other(answer):
            return answer
        answer = copy.deepcopy(answer)
        for event in answer:
            for piece in _pieces(event.data) if isinstance(event.data, dict) else ():
                if piece.get("index") is not None:
                    piece["index"] = count(piece["index"])
        return answer

    return vary


def _repeated_ids(answer: Answer) -> Answer:
    answer = copy.deepcopy(answer)
    ids: dict[Any, Any] = {}
    for event in answer:
        for piece in _pieces(event.data) if isinstance(event.data, dict) else ():
            piece["id"] = ids.setdefault(piece.get("index"), piece.get("id"))
        if isinstance(event.data, dict) and _reason_of(event.data, "choices", "finish_reason"):
            ids.clear()  # what follows is of another answer
    return answer


def _chat_reasons(answer: Answer) -> Answer:
    reason = _last(answer, lambda data: _reason_of(data, "choices", "finish_reason"))
    return _each(lambda data: [choice.update(finish_reason=reason) for choice in _choices(data)])(
        answer
    )


def _reason_of(data: dict[str, Any], items: str, key: str) -> Any:
    first = [item for item in data.get(items) or [] if item.get("index", 0) == 0]
    return first[0].get(key) if first else None


def _repeated_end(answer: Answer, items: str, key: str) -> Answer:
    """With the event that says the reason to stop once more, alone, behind it."""
    for at, event in enumerate(answer):
        if isinstance(event.data, dict) and (reason := _reason_of(event.data, items, key)):
            again = {**event.data, items: [{"index": 0, key: reason}]}
            return [*answer[: at + 1], Event(event.name, again), *answer[at + 1 :]]
    return answer


def _usage_everywhere(key: str, is_answer: Callable[[dict[str, Any]], Any]) -> Variant:
    def vary(answer: Answer) -> Answer:
        usage = _last(answer, lambda data: data.get(key))
        if usage is None:
            return answer
        return _each(lambda data: data.update({key: usage}) if is_answer(data) else None)(answer)

    return vary


CHAT: dict[str, Variant] = {
    "calls counted from 7": _call_index(lambda index: index + 7),
    "calls all at 0": _call_index(lambda _: 0, is_told=False),
    "calls not counted": _call_index(lambda _: None, is_told=False),
    "ids with each piece": _repeated_ids,
    "roles and empty texts": _each(
        lambda data: [
            choice["delta"].update(
                {"role": "assistant", "refusal": None, "tool_calls": None, "content": ""}
                | {k: v for k, v in choice["delta"].items() if v is not None}
            )
            for choice in _choices(data)
            if choice.get("delta")
        ]
    ),
    "choices not counted": _each(
        lambda data: [choice.pop("index", None) for choice in _choices(data)]
    ),
    "a reason to stop in each": _chat_reasons,
    "the end twice": lambda answer: _repeated_end(answer, "choices", "finish_reason"),
    "usage in each": _usage_everywhere("usage", lambda data: data.get("choices")),
    "events without choices": _between(Event("", {"id": "x", "choices": []})),
    "null where nothing is": _each(lambda data: data.update({"usage": None, "error": None} | data)),
    "the last word twice": lambda answer: [*answer, *answer[-1:]],
}

# ── Responses ────────────────────────────────────────────────────────────────────────────────────

_SUMS = {"output_text.done", "content_part.added", "content_part.done"} | {
    "function_call_arguments.done",
    "reasoning_summary_text.done",
    "reasoning_summary_part.added",
    "reasoning_summary_part.done",
}
_LAST = {"response.completed", "response.incomplete"}


def _final_output(keep: Callable[[Any], Any]) -> Variant:
    def change(data: dict[str, Any]) -> None:
        if data.get("type") in _LAST:
            data["response"]["output"] = keep(data["response"].get("output"))

    return _each(change)


def _joined_parts(data: dict[str, Any]) -> None:
    """One text where the parts of a message were, in what sums it up."""
    for holder in [data, *_nested(data, "item"), *_nested(data, "output")]:
        for item in [holder.get("item"), *(holder.get("output") or [])]:
            parts = item.get("content") if isinstance(item, dict) else None
            if parts and len(parts) > 1 and all(part.get("text") for part in parts):
                notes = [note for part in parts for note in part.get("annotations") or []]
                text = "".join(part["text"] for part in parts)
                item["content"] = [{**parts[0], "text": text, "annotations": notes}]


RESPONSES: dict[str, Variant] = {
    "items counted from 4": _counted("output_index", lambda place: place + 4),
    "items not counted": _counted("output_index", lambda _: None),
    "parts counted from 1": _counted("content_index", lambda place: place + 1),
    "parts all at 0": _counted("content_index", lambda _: 0),
    "parts not counted": _counted("content_index", lambda _: None),
    "parts joined in the end": _each(_joined_parts),
    "pieces count parts, sums do not": _each(
        lambda data: (
            None if str(data.get("type")).endswith(".delta") else data.pop("content_index", 0)
        )
    ),
    "sums count parts, pieces do not": _each(
        lambda data: (
            data.pop("content_index", 0) if str(data.get("type")).endswith(".delta") else None
        )
    ),
    "pieces count items, the rest does not": _each(
        lambda data: (
            None if str(data.get("type")).endswith(".delta") else data.pop("output_index", 0)
        )
    ),
    "no ids of items": _each(lambda data: data.pop("item_id", 0)),
    "no numbers": _each(lambda data: data.pop("sequence_number", 0)),
    "no sums": _without(*(f"response.{kind}" for kind in _SUMS)),
    "no beginning": _without("response.created", "response.in_progress", "response.queued"),
    "no output in the end": _final_output(lambda _: []),
    "the end twice": lambda answer: [*answer, *answer[-1:], Event("", "[DONE]")],
}

# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


def _restated(answer: Answer) -> Answer:
    """With each count and reason of the end said twice."""
    return [e for event in answer for e in [event] * (1 + (event.kind == "message_delta"))]


def is_spliced(answer: Answer) -> bool:
    """Whether the body holds several messages."""
    return sum(event.kind == "message_start" for event in answer) > 1


def _unless_spliced(vary: Variant) -> Variant:
    """In a body of several messages the places count blocks of the first one: left as it is."""
    return lambda answer: answer if is_spliced(answer) else vary(answer)


def _usage_updates(answer: Answer) -> Answer:
    usage = _last(answer, lambda data: data.get("usage"))
    made = Event("message_delta", {"type": "message_delta", "delta": {}, "usage": usage})
    return _after_start(answer, made) if usage else answer


def _after_start(answer: Answer, made: Event) -> Answer:
    """With one more event before each of the blocks'."""
    return [
        each
        for event in answer
        for each in ([copy.deepcopy(made)] if event.kind.startswith("content") else []) + [event]
    ]


MESSAGES: dict[str, Variant] = {
    "blocks counted from 1": _unless_spliced(_counted("index", lambda place: place + 1)),
    "blocks counted by 3": _unless_spliced(_counted("index", lambda place: 3 * place + 2)),
    "blocks not counted": _unless_spliced(_counted("index", lambda _: None)),
    "pings everywhere": _between(Event("ping", {"type": "ping"})),
    "the end said twice": _restated,
    "usage everywhere": _unless_spliced(_usage_updates),
    "no ends of texts": lambda answer: _without_text_ends(answer),
    "a last word of another format": lambda answer: [*answer, Event("", "[DONE]")],
}


def _without_text_ends(answer: Answer) -> Answer:
    if is_spliced(answer):
        return answer
    texts = {
        event.data["index"]
        for event in answer
        if event.kind == "content_block_start" and event.data["content_block"]["type"] == "text"
    }
    return [
        event
        for event in answer
        if event.kind != "content_block_stop" or event.data["index"] not in texts
    ]


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────


def _candidates(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in data.get("candidates") or [] if not each.get("index")]


def _gemini_reasons(answer: Answer) -> Answer:
    reason = _last(answer, lambda data: _reason_of(data, "candidates", "finishReason"))
    if not reason:
        return answer
    return _each(lambda data: [each.update(finishReason=reason) for each in _candidates(data)])(
        answer
    )


def _parts_alone(answer: Answer) -> Answer:
    """With an event for each part."""
    made: Answer = []
    for event in answer:
        first = _candidates(event.data)
        parts = ((first[0].get("content") or {}).get("parts") if first else None) or [None]
        for part in parts[:-1]:
            made.append(Event("", {"candidates": [{"content": {"parts": [part]}}]}))
        last = copy.deepcopy(event)
        if len(parts) > 1:
            _candidates(last.data)[0]["content"]["parts"] = parts[-1:]
        made.append(last)
    return made


GEMINI: dict[str, Variant] = {
    "candidates counted": _each(lambda data: [each.update(index=0) for each in _candidates(data)]),
    "candidates not counted": _each(
        lambda data: [each.pop("index", 0) for each in _candidates(data)]
    ),
    "a reason to stop in each": _gemini_reasons,
    "no reason yet in each": _each(
        lambda data: [
            each.setdefault("finishReason", "FINISH_REASON_UNSPECIFIED")
            for each in _candidates(data)
        ]
    ),
    "the end twice": lambda answer: _repeated_end(answer, "candidates", "finishReason"),
    "usage in each": _usage_everywhere("usageMetadata", lambda data: data.get("candidates")),
    "a feedback in each": _each(
        lambda data: data.setdefault("promptFeedback", {"safetyRatings": []})
    ),
    "a part an event": _parts_alone,
}

VARIANTS = {
    "openai_chat": EVERY | CHAT,
    "openai_responses": EVERY | RESPONSES,
    "anthropic": EVERY | MESSAGES,
    "gemini": EVERY | GEMINI,
}


# ── how events are written, and where a server breaks off ────────────────────────────────────────


def write(answer: Answer, chance: random.Random, line_end: bytes = b"") -> bytes:
    """The body of an answer, its events as lines in one of the ways in which they may be."""
    space, indent = chance.choice(["", " "]), chance.choice([None, None, None, 1])
    beside = chance.choice([b"", b": ping\n\n", b"id: 7\nretry: 10\n"])
    body = b"".join(beside + event.write(space=space, indent=indent) for event in answer)
    return body.replace(b"\n", line_end or chance.choice([b"\n", b"\n", b"\r\n", b"\r"]))


def ends_at(answer: Answer) -> int:
    """The place of the event that ends the answer; of the last one, if none says so."""
    for at, event in enumerate(answer):
        if event.data == "[DONE]" or event.kind in {"message_stop", *_LAST}:
            return at
        if isinstance(event.data, dict) and (
            _reason_of(event.data, "choices", "finish_reason")
            or _reason_of(event.data, "candidates", "finishReason")
            or event.kind in {"error", "response.failed"}
            or "error" in event.data
        ):
            return at
    return len(answer) - 1


WORDS = "the quota of cats is used up"
"""What an error says."""

_OBJECT = {"message": WORDS, "type": "invalid_request_error", "code": "no_cats"}
_JSON = json.dumps({"error": _OBJECT})

_ANY_ERROR = {
    "an object": f"data: {json.dumps({'error': _OBJECT})}\n\n",
    "a text": f"data: {json.dumps({'error': WORDS})}\n\n",
    "a named event": f"event: error\ndata: {_JSON}\n\n",
    "a named event of its own": f"event: error\ndata: {json.dumps(_OBJECT)}\n\n",
    "a named event of another form": f'event: error\ndata: {{"code": 400, "msg": "{WORDS}"}}\n\n',
    "a named text": f"event:error\ndata:{WORDS}\n\n",
    "a field": f"error: {json.dumps(_OBJECT)}\n\n",
    "a field of its own": f"error: {_JSON}\n\n",
    "a text in a field": f"error: {WORDS}\n\n",
}
ERRORS = {
    "openai_chat": _ANY_ERROR
    | {
        "the object itself": f"data: {json.dumps({'object': 'error', **_OBJECT})}\n\n",
        "a detail": f'data: {{"detail": "{WORDS}"}}\n\n',
        "in the choice": f'data: {{"choices": [{{"index": 0, "delta": {{}}, "error": {json.dumps(_OBJECT)}}}]}}\n\n',
        "beside the choice": f'data: {{"choices": [{{"delta": {{}}}}], "error": {json.dumps(_OBJECT)}}}\n\n',
        "aside": f'data: {{"choices": [{{"delta": {{}}}}], "x_groq": {{"error": "{WORDS}"}}}}\n\n',
    },
    "openai_responses": _ANY_ERROR
    | {
        "its own event": f"data: {json.dumps({**_OBJECT, 'type': 'error'})}\n\n",
        "a longer name": f"data: {json.dumps({'type': 'response.error', 'error': _OBJECT})}\n\n",
        "a failed response": f'data: {{"type": "response.failed", "response": {{"status": "failed", "error": {json.dumps(_OBJECT)}}}}}\n\n',
    },
    "anthropic": _ANY_ERROR
    | {"its own event": f"data: {json.dumps({'type': 'error', 'error': _OBJECT})}\n\n"},
    "gemini": _ANY_ERROR | {"a list": f"data: [{_JSON}]\n\n"},
}
"""Where servers put an error, as the lines that they write."""

BREAKS = {
    "an object": f"{_JSON}\n",
    "an object in lines": f"{json.dumps({'error': _OBJECT}, indent=2)}",
    "words": f"{WORDS}\n",
    "a page": f"<html><head><title>{WORDS}</title></head></html>",
}
"""What stands in a stream where a server or a proxy breaks it off, without the form of an event."""
