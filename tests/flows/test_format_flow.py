"""A whole turn in each wire format, over a real socket: what was asked for, said, proven and kept."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard.actors.model import stream as model_stream
from callboard.providers.testing.script import ScriptedCall, ScriptedReply, Step, reply, stall
from callboard.providers.testing.scripted_server import ScriptedRequest
from callboard.runtime.events import MessageCompleted, TurnEnded
from callboard.runtime.stream import Usage
from callboard.tools.tool import FunctionTool
from support.flows.format_stage import FORMATS, open_formats
from support.flows.sent_parts import Part, answer_parts, conversation, offered_names
from support.stage import Played, play

each_format = pytest.mark.parametrize("dialect", FORMATS)

PROOFS = [base64.b64encode(b"proof %d" % n).decode() for n in range(4)]


@callboard.tool(tier="read_only", effect="read")
async def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


@callboard.tool(tier="read_only", effect="read")
async def refuse(number: int) -> int:
    """Never works."""
    raise callboard.ToolFailure(callboard.ErrorType.EXECUTION_ERROR, f"I don't like {number}.")


def named(name: str, tool: FunctionTool) -> FunctionTool:
    """The tool under a name that `@tool` does not take, and servers of tools have."""
    made = copy.copy(tool)
    made.definition = msgspec.structs.replace(tool.definition, name=name)
    return made


def values(kind: str, parts: list[Part]) -> list[Any]:
    return [part[1] for part in parts if part[0] == kind]


def completed(played: Played) -> list[MessageCompleted]:
    return [event for event in played.events if isinstance(event, MessageCompleted)]


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


@each_format
async def test_parallel_calls_with_mixed_results(tmp_path: Path, dialect: str) -> None:
    calls: list[tuple[str, Any]] = [
        ("double", {"number": 1}),
        ("refuse", {"number": 2}),
        ("double", {"number": 3}),
        ("double", {"number": "three"}),
        ("unheard_of", {}),
    ]
    # Gemini's format can't even write it.
    broken = ScriptedCall("double", '{"number": 4')
    asked_for: list[ScriptedCall | tuple[str, Any]] = [*calls]
    if dialect != "gemini":
        asked_for.append(broken)
    steps = [reply(["I a", "sk."], calls=asked_for), reply("Done.")]
    async with open_formats(tmp_path, {dialect: steps}, tools=[double, refuse]) as stage:
        played = await play(await stage.session(), "Go.")
        assert (played.ended.outcome, played.text) == ("answered", "I ask.Done.")
        first, second = map(conversation, stage.servers[dialect].requests)
    assert first == [("input", "Go.")]
    kinds = [part[0] for part in second]
    count = len(asked_for)
    assert kinds[-2 * count :] == ["call"] * count + ["result"] * count
    assert [part[1:] for part in second if part[0] == "call"][:5] == calls
    results = values("result", second)
    assert [result.get("result") for result in results[:3]] == [2, None, 6]
    assert [result.get("error_type") for result in results] == [
        None, "execution_error", None, "validation_error", "tool_not_found", "validation_error",
    ][:count]  # fmt: skip
    assert "I don't like 2." in results[1]["message"]


@each_format
async def test_refused_names_reach_the_right_tool(tmp_path: Path, dialect: str) -> None:
    tools = [named("mail.double", double), named("mail_double", refuse), named("2.double", double)]

    def ask(request: ScriptedRequest) -> Step:
        names = offered_names(request)[-3:]
        assert names[1] == "mail_double"
        return reply(calls=[(name, {"number": n}) for n, name in enumerate(names)])

    async with open_formats(tmp_path, {dialect: [ask, reply("Done.")]}, tools=tools) as stage:
        played = await play(await stage.session(), "Go.")
        assert played.statuses == [
            ("2.double", "success"), ("mail.double", "success"), ("mail_double", "error"),
        ]  # fmt: skip
        second = stage.servers[dialect].requests[1]
    sent = offered_names(second)[-3:]
    assert len(set(sent)) == 3
    assert values("call", conversation(second)) == sent
    assert [result.get("result") for result in values("result", conversation(second))] == [
        0, None, 4,
    ]  # fmt: skip


# ── reasoning ────────────────────────────────────────────────────────────────────────────────────


@each_format
async def test_proofs_of_reasoning_go_back_in_their_places(tmp_path: Path, dialect: str) -> None:
    calls = [[("double", {"number": 10 * n}), ("double", {"number": n})] for n in range(3)]
    steps = [
        reply(["So ", f"{n}."], thinking=["H", f"m {n}."], signature=PROOFS[n], calls=calls[n])
        for n in range(3)
    ]
    steps.append(reply("Done.", thinking="Hm 3.", signature=PROOFS[3]))
    async with open_formats(tmp_path, {dialect: [*steps, reply("Bye.")]}, tools=[double]) as stage:
        session = await stage.session()
        assert await session.run("Go.") == "Done."
        assert await session.run("And?") == "Bye."
        requests = stage.servers[dialect].requests
    expected: list[Part] = [("input", "Go.")]
    for n in range(3):
        assert plain_results(conversation(requests[n])) == expected
        expected += answer_parts(dialect, f"Hm {n}.", PROOFS[n], f"So {n}.", calls[n])
        expected += [("result", 20 * n), ("result", 2 * n)]
    assert plain_results(conversation(requests[3])) == expected
    expected += answer_parts(dialect, "Hm 3.", PROOFS[3], "Done.")
    assert plain_results(conversation(requests[4])) == [*expected, ("input", "And?")]


def plain_results(parts: list[Part]) -> list[Part]:
    return [("result", part[1]["result"]) if part[0] == "result" else part for part in parts]


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────

HALVES: dict[str, ScriptedReply] = {
    "in its text": ScriptedReply(thinking=("Hm.",), signature=PROOFS[0], text=("So ", "far")),
    "in its calls": ScriptedReply(
        text=("So ", "far"),
        calls=(
            ScriptedCall("double", '{"number": 1}'),
            ScriptedCall("write_file", '{"path": "ran.txt", "content": "it ran"}'),
        ),
    ),
}


@pytest.mark.parametrize("half", HALVES)
@each_format
async def test_a_cancel_in_mid_stream_keeps_the_text(
    tmp_path: Path, dialect: str, half: str
) -> None:
    steps: list[Step] = [stall(HALVES[half]), reply("Here I am.")]
    async with open_formats(tmp_path, {dialect: steps}) as stage:
        session = await stage.session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, callboard.TextDelta) and event.text == "far":
                    break
        assert stage.connections == 0
        [ended] = [s.event for s in await stage.record(session) if isinstance(s.event, TurnEnded)]
        assert (ended.outcome, list(stage.workspace.iterdir())) == ("cancelled", [])
        assert await session.run("Go on.") == "Here I am."
        assert stage.servers[dialect].connections == 2
        asked = conversation(stage.servers[dialect].requests[1])
    assert [part for part in asked if part[0] not in {"thinking", "proof"}] == [
        ("input", "Go."), ("text", "So far"), ("input", "Go on."),
    ]  # fmt: skip


@each_format
async def test_a_whole_answer_does_not_wait_for_the_end_of_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    monkeypatch.setattr(model_stream, "SETTLE_SECONDS", 0.05)
    steps = [stall(reply("I ask.", calls=[("double", {"number": 4})])), stall(reply("It is 8."))]
    async with open_formats(tmp_path, {dialect: steps}, tools=[double]) as stage:
        # Far below the minute after which a silent answer is given up.
        played = await play(await stage.session(), "Go.")
        assert (played.ended.outcome, played.text) == ("answered", "I ask.It is 8.")
        assert played.statuses == [("double", "success")]
        assert [message.usage is not None for message in completed(played)] == [True, True]
        assert stage.servers[dialect].connections == 2


# ── what else goes over the wire ─────────────────────────────────────────────────────────────────


@each_format
async def test_attachments_are_shown_or_named(tmp_path: Path, dialect: str) -> None:
    picture, paper = b"\x89PNG\r\n\x1a\n not much of an image", b"%PDF-1.7 not much of a paper"
    attached = [
        callboard.Attachment("image/png", picture, name="chart.png"),
        callboard.Attachment("application/pdf", paper, name="paper.pdf"),
        callboard.Attachment("text/csv", "näme,4\n".encode(), name="table.csv"),
        callboard.Attachment("image/tiff", b"II*\x00", name="scan.tiff"),
    ]
    steps = [reply("I see."), reply("Still.")]
    async with open_formats(tmp_path, {dialect: steps}) as stage:
        session = await stage.session()
        assert await session.run("Look.", attachments=attached) == "I see."
        assert await session.run("And now?") == "Still."
        requests = stage.servers[dialect].requests
    for request in requests:
        asked = conversation(request)
        files = "".join(values("file", asked))
        texts = files + "".join(values("input", asked))
        assert base64.b64encode(picture).decode() in files
        # A server of Chat Completions that nobody knows is shown no papers.
        assert (base64.b64encode(paper).decode() in files) == (dialect != "openai_chat")
        assert "paper.pdf" in texts or dialect == "gemini"
        assert "näme,4" in texts or json.dumps("näme,4")[1:-1] in texts
        assert "scan.tiff" in texts
        assert "Look." in texts


@each_format
async def test_usage_is_on_record(tmp_path: Path, dialect: str) -> None:
    usage = Usage(20, 9, 4, 3, 2)
    steps = [reply("I ask.", calls=[("double", {"number": 1})], usage=usage), reply("2.")]
    async with open_formats(tmp_path, {dialect: steps}, tools=[double]) as stage:
        session = await stage.session()
        played = await play(session, "Go.")
        first, second = completed(played)
        # Gemini does not count what is written to its cache.
        assert first.usage == (Usage(20, 9, 4, 3) if dialect == "gemini" else usage)
        rows = await stage.runtime.store.usage(session.session_id)
        assert [(row.provider, row.input_tokens, row.output_tokens) for row in rows] == [
            (dialect, 20, 9), (dialect, 10, 5),
        ]  # fmt: skip
        assert second.usage is not None
        assert [(m.dialect, m.provider) for m in (first, second)] == [(dialect, dialect)] * 2


@each_format
async def test_a_key_travels_in_its_header_alone(tmp_path: Path, dialect: str) -> None:
    async with open_formats(tmp_path, {dialect: [reply("Hi.")]}) as stage:
        assert await (await stage.session()).run("Go.") == "Hi."
        [request] = stage.servers[dialect].requests
    key = f"key-of-{dialect}"
    carriers = {
        "openai_chat": ("authorization", f"Bearer {key}"),
        "openai_responses": ("authorization", f"Bearer {key}"),
        "anthropic": ("x-api-key", key),
        "gemini": ("x-goog-api-key", key),
    }
    assert [item for item in request.headers.items() if key in item[1]] == [carriers[dialect]]
    assert key not in request.path
    assert key not in json.dumps(request.body)
