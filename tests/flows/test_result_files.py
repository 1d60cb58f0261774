"""Images and files in the results of tools: to a model that sees, on the record, in each wire format."""

from __future__ import annotations

import base64
import itertools
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard import reply
from callboard.runtime.events import CallFinished, CallProposed, Stored
from callboard.runtime.history import Input, Result
from support.flows.format_stage import FORMATS, open_formats
from support.replayed import differences
from support.stage import open_in, open_local_stage
from support.tools import process_tools


def png(width: int = 1, height: int = 1) -> bytes:
    """A black picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\0" * width) * height, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


PNG = png()
ENCODED = base64.b64encode(PNG).decode()
PDF = b"%PDF-1.4 not much of one"


@callboard.tool(tier="read_only", effect="read")
async def look() -> callboard.Image:
    """Looks."""
    return callboard.Image(PNG, "look.png")


@callboard.tool(tier="read_only", effect="read")
def describe() -> list[Any]:
    """Looks, and says what is there."""
    report = callboard.Attachment("text/plain", b"All black.", "report.txt")
    return ["It is black.", callboard.Image(PNG), report]


@callboard.tool(tier="read_only", effect="read")
def return_odd(size: int) -> callboard.ToolResult | callboard.Image:
    """Returns what can't be shown."""
    if not size:
        return callboard.Image(b"no image")
    file = callboard.Attachment("text/plain", b"a" * size)
    return callboard.ToolResult(output="It is large.", attachments=(file,))


TOOLS = [look, describe, process_tools.look_apart, return_odd]


def finished(events: list[Stored]) -> list[CallFinished]:
    """The results, in the order of the calls."""
    order = [each.event.call_id for each in events if isinstance(each.event, CallProposed)]
    done = [each.event for each in events if isinstance(each.event, CallFinished)]
    return sorted(done, key=lambda event: order.index(event.call_id))


# ── the wire formats ─────────────────────────────────────────────────────────────────────────────

SEES = {"openai_chat": "qwen3-vl"}
"""Models that see, where the usual one of the format does not."""


def places(dialect: str, body: dict[str, Any]) -> list[Any]:
    """Where the results of tools are, and what follows them, in the last request."""
    match dialect:
        case "openai_chat":
            return [message for message in body["messages"] if message["role"] != "system"][2:]
        case "openai_responses":
            return [i for i in body["input"] if i.get("type") == "function_call_output"]
        case "anthropic":
            content = body["messages"][-1]["content"]
            return [block for block in content if block["type"] == "tool_result"]
        case _:
            parts: list[Any] = body["contents"][-1]["parts"]
            return parts


WANTED: dict[str, Any] = {
    "openai_chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}},
    "openai_responses": {
        "type": "input_image",
        "image_url": f"data:image/png;base64,{ENCODED}",
        "detail": "auto",
    },
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": ENCODED},
    },
    "gemini": {"inlineData": {"mimeType": "image/png", "data": ENCODED}},
}


@pytest.mark.parametrize("dialect", FORMATS)
async def test_each_format_shows_what_a_tool_returned(tmp_path: Path, dialect: str) -> None:
    steps = [reply(calls=[("look", {}), ("describe", {})]), reply("Black."), reply("Still black.")]
    async with open_formats(tmp_path, {dialect: steps}, tools=TOOLS, thinking=None) as stage:
        session = await stage.session()
        if name := SEES.get(dialect):
            session = await stage.runtime.create_session(model=f"{dialect}/{name}")
        await session.run("What do you see?")
        assert await session.run("And now?") == "Still black."
        first, second = (request.body for request in stage.servers[dialect].requests[1:])
    sent = places(dialect, first)
    wanted = json.dumps(WANTED[dialect])
    assert json.dumps(sent).count(wanted) == 2
    assert json.dumps(second).count(wanted) == 2
    assert "All black." in json.dumps(sent)
    if dialect == "openai_chat":  # where a result holds no image, a person's message follows it
        assert [message["role"] for message in sent] == ["tool", "tool", "user"]
        assert sent[-1]["content"][0]["text"].startswith("(From the result of look:)")
        roles = [message["role"] for message in second["messages"]]
        assert not any(one == other == "user" for one, other in itertools.pairwise(roles))


@pytest.mark.parametrize(
    "choice", ["openai_chat/qwen3", "openai_responses/o3-mini", "anthropic/glm-4.6"]
)
async def test_a_model_that_does_not_see_is_told_so(tmp_path: Path, choice: str) -> None:
    dialect = choice.partition("/")[0]
    steps = [reply(calls=[("look", {})]), reply("I can't see.")]
    async with open_formats(tmp_path, {dialect: steps}, tools=TOOLS, thinking=None) as stage:
        session = await stage.runtime.create_session(model=choice)
        await session.run("What do you see?")
        sent = json.dumps(stage.servers[dialect].requests[-1].body)
    assert ENCODED not in sent
    assert (
        f"[File look.png (image/png, {len(PNG)} bytes) was attached, but this model can't" in sent
    )


# ── the record ───────────────────────────────────────────────────────────────────────────────────


async def test_it_is_there_after_a_restart_in_a_replay_and_in_an_imported_session(
    tmp_path: Path,
) -> None:
    steps = [reply(calls=[("look", {}), ("look_apart", {"data": ENCODED})]), reply("Black.")]
    async with open_in(tmp_path, steps, "disk", tools=TOOLS) as runtime:
        session = await runtime.create_session()
        await session.run("Look.")
        events = await runtime.store.events(session.session_id)
    assert [each.attachments for each in finished(events)] == [
        (callboard.Attachment("image/png", PNG, "look.png"),),
        (callboard.Attachment("image/png", PNG, "apart.png"),),
    ]
    shown = [each.display for each in finished(events)]
    assert shown[0] == f"look.png (image/png, {len(PNG)} bytes)"
    assert await differences([events]) == []
    model = callboard.ScriptedModel([reply("Still.")])
    async with open_in(tmp_path, model, "disk", tools=TOOLS) as runtime:
        await (await runtime.get_session(session.session_id)).run("And now?")
    [request] = model.requests
    results = [i for r in request.rounds for i in r.items if isinstance(i, Result)]
    assert [each.attachments[0].data for each in results] == [PNG, PNG]


async def test_what_no_provider_would_take_is_a_failed_call(tmp_path: Path) -> None:
    sizes = (0, 6 * 1024 * 1024, 10)
    steps = [reply(calls=[("return_odd", {"size": size}) for size in sizes]), reply("Hm.")]
    async with open_local_stage(tmp_path, steps, tools=TOOLS) as (runtime, _):
        session = await runtime.create_session()
        await session.run("Go.")
        no_image, large, right = finished(await runtime.store.events(session.session_id))
    assert "is none of PNG, JPEG, GIF and WebP" in no_image.result
    assert "have 6291456 bytes, and 5242880 are the most" in large.result
    assert (right.status, len(right.attachments)) == ("success", 1)  # the control


async def test_a_late_result_brings_its_files(tmp_path: Path) -> None:
    @callboard.tool(tier="workspace", approval="always")
    async def look_closer() -> callboard.Image:
        """Looks closer."""
        return callboard.Image(PNG)

    agents = [callboard.Agent(defer=True)]
    steps = [reply(calls=[("look_closer", {})]), reply("I wait."), reply("Black.")]
    options: dict[str, Any] = {"tools": [look_closer], "agents": agents, "on_approval": "wait"}
    async with open_local_stage(tmp_path, steps, **options) as (runtime, model):
        session = await runtime.create_session()
        await session.run("Look.")
        [question] = await runtime.approvals()
        async with session.follow() as events:
            await runtime.answer(question.approval_id, "allow")
            async for event in events:
                if isinstance(event, callboard.TurnEnded):
                    break
    [late] = [i for i in model.requests[-1].rounds[-1].items if isinstance(i, Input)]
    assert [file.data for file in late.attachments] == [PNG]


# ── read_file ────────────────────────────────────────────────────────────────────────────────────


async def test_read_file_shows_an_image_and_no_other_bytes(tmp_path: Path) -> None:
    names = ("small.png", "large.png", "huge.png", "false.png", "notes.txt")
    steps = [reply(calls=[("read_file", {"path": name}) for name in names]), reply("Seen.")]
    steps[0] = msgspec.structs.replace(
        steps[0],
        calls=(
            *steps[0].calls,
            *reply(calls=[("read_file", {"path": "small.png", "encoding": "base64"})]).calls,
        ),
    )
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        session = await runtime.create_session()
        folder = tmp_path / "work"
        (folder / "small.png").write_bytes(PNG)
        (folder / "large.png").write_bytes(large := png(1500, 1000))
        (folder / "huge.png").write_bytes(png(3000, 2000))
        (folder / "false.png").write_bytes(b"\xff\xfe no image")
        (folder / "notes.txt").write_text("Some words.")
        await session.run("Read them.")
        done = finished(await runtime.store.events(session.session_id))
    assert [[file.data for file in each.attachments] for each in done] == [
        [PNG],
        [large],
        [],
        [],
        [],
        [],
    ]
    assert [json.loads(each.result).get("error_type") for each in done] == [
        None, None, "file_too_large", "binary_file", None, None,
    ]  # fmt: skip
    assert done[0].attachments[0].name == "small.png"
    assert json.loads(done[-1].result)["result"]["content"] == ENCODED
