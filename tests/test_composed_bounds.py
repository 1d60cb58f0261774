"""Bounds that meet other bounds, each at its edge: what fits the one must still fit the other.

`PAIRS` are those of which numbers decide. Where one text is written inside another (a page in a result, a
result in an event), the texts that grow most are tried.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from callboard.actors import journal
from callboard.actors.calls import outcome
from callboard.actors.model import answer
from callboard.actors.people import user_questions
from callboard.cli.chat import screen
from callboard.cli.run import stdin
from callboard.client import files as client_files
from callboard.client import link
from callboard.config import files, skill_approvals
from callboard.config.keys import tokens
from callboard.config.managed import load_managed, save_agent
from callboard.config.mcp import pins
from callboard.config.mcp.settings import PINS_NAME, PinnedTool
from callboard.config.sections import SandboxSettings, ServerSettings
from callboard.config.settings import MAX_BYTES, Limits
from callboard.embedding.unattended import settled
from callboard.gateway.connection import frame_budget
from callboard.gateway.feeds import dead_letters
from callboard.gateway.methods import session_files
from callboard.gateway.shared import idempotency, pages, uploads
from callboard.providers.anthropic import blocks
from callboard.providers.gemini import decoder
from callboard.providers.openai import models as openai_models
from callboard.providers.openai_chat import extras
from callboard.providers.openai_responses import items
from callboard.runtime import definitions, history, identity, stream
from callboard.runtime.backup import session_file
from callboard.runtime.changes import file_versions
from callboard.runtime.definitions import Agent, Artifact, ErrorType, ToolFailure, ToolResult
from callboard.runtime.errors import CallboardError
from callboard.runtime.history import Call
from callboard.runtime.hooks import hook
from callboard.runtime.schedules import schedule, times
from callboard.runtime.schedules.schedule import MAX_SCHEDULES, Schedule
from callboard.runtime.store import codec
from callboard.runtime.turns import live_state
from callboard.runtime.wire import fields
from callboard.runtime.wire.fields import Role
from callboard.tools.agent import delegate, people, plan
from callboard.tools.files import file_edit, file_pages, preview
from callboard.tools.git import commit, reading
from callboard.tools.mcp import definition, http, result, streams
from callboard.tools.processes import function_process
from callboard.tools.sandbox import background
from callboard.tools.skills import front_matter, instructions, shelf
from callboard.tools.web import http_request, page_text
from callboard.tools.workspace.workspace import Workspace, open_workspace
from support.tools.workbench import Caller

SERVER, LIMITS, SANDBOX = ServerSettings(), Limits(), SandboxSettings()
ESCAPED = 6
"""Bytes of JSON for one character at most, as a control character."""
QUOTED = 2
"""Bytes of JSON in JSON for one byte of JSON at most: it has no control characters."""
BASE64 = 4 / 3
AROUND = 64 * 1024
"""What stands around a text: names, ids, numbers."""
OPAQUE = max(m.MAX_OPAQUE_BYTES for m in (blocks, decoder, extras, items))

PAIRS: dict[str, tuple[float, float]] = {
    "an answer in its event": (
        ESCAPED * answer.MAX_ANSWER_CHARS + OPAQUE + AROUND,
        codec.MAX_EVENT_BYTES,
    ),
    "a result, its whole, its files and a person's arguments in their event": (
        QUOTED * (MAX_BYTES + outcome.MAX_KEPT_OUTPUT_BYTES + stream.MAX_ARGUMENT_BYTES)
        + ESCAPED * (outcome.MAX_DISPLAY_CHARS + outcome.MAX_ARTIFACT_CHARS)
        + BASE64 * outcome.MAX_RESULT_FILE_BYTES
        + AROUND,
        codec.MAX_EVENT_BYTES,
    ),
    "an input's files in their event": (
        BASE64 * history.MAX_ATTACHED_BYTES + AROUND,
        codec.MAX_EVENT_BYTES,
    ),
    "a client's input in its event": (SERVER.max_frame_bytes, codec.MAX_EVENT_BYTES),
    "an event in a line of an export": (codec.MAX_EVENT_BYTES, session_file.MAX_LINE_BYTES),
    "an input's files in a frame": (
        BASE64 * history.MAX_ATTACHED_BYTES + AROUND,
        SERVER.max_frame_bytes,
    ),
    "a frame cut by a proxy into pieces of 32 KiB": (
        SERVER.max_frame_bytes / 32 / 1024,
        frame_budget.MAX_FRAGMENTS,
    ),
    "a frame in its token's part": (SERVER.max_frame_bytes, SERVER.max_buffered_bytes // 2),
    "an outbox in its token's part": (SERVER.max_outbox_bytes, SERVER.max_buffered_bytes // 2),
    "pings between two pieces of a message": (
        frame_budget.MAX_CONTROLS * 139,
        frame_budget.SEND_SIZE,
    ),
    "a page of rows in an outbox": (pages.PAGE_BYTES, SERVER.max_outbox_bytes),
    "a page of an export in a frame of 1 MiB": (
        ESCAPED * session_files.PAGE_CHARS,
        1024 * 1024,
    ),
    "an export's file in an upload": (uploads.MAX_UPLOAD_BYTES, fields.MAX_PART_CHARS),
    "an answer that is kept for a repeat in an outbox": (
        idempotency.MAX_ANSWER_BYTES,
        SERVER.max_outbox_bytes,
    ),
    "a file that write_file can write in what read_file reads": (
        LIMITS.max_arguments_bytes,
        file_pages.MAX_READ_BYTES,
    ),
    "arguments that a person changed in a frame": (
        ESCAPED * stream.MAX_ARGUMENT_BYTES,
        SERVER.max_frame_bytes,
    ),
    "a question of ask_user in a call's arguments": (
        ESCAPED * people.MAX_QUESTION_CHARACTERS,
        LIMITS.max_arguments_bytes,
    ),
    "a person's answer in a kept whole": (
        ESCAPED * user_questions.MAX_ANSWER_CHARACTERS,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "a skill in a kept whole": (ESCAPED * shelf.MAX_TEXT_BYTES, outcome.MAX_KEPT_OUTPUT_BYTES),
    "a web answer in a kept whole": (
        ESCAPED * http_request.MAX_SHOWN_BYTES,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "a file read at once in a kept whole": (
        ESCAPED * file_pages.MAX_READ_BYTES,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "an answer of a tool's process in a kept whole": (
        function_process.MAX_ANSWER_BYTES,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "a page's text in the answer of its reader": (
        ESCAPED * page_text.MAX_TEXT_CHARS,
        page_text.MAX_ANSWER_BYTES,
    ),
    "a page's text in a kept whole": (
        ESCAPED * page_text.MAX_TEXT_CHARS,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "a diff in a kept whole": (
        ESCAPED * reading.MAX_DIFF_CHARACTERS,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "what a program wrote in a kept whole": (
        2 * ESCAPED * SANDBOX.output_bytes,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "what a program in the background wrote in a kept whole": (
        2 * ESCAPED * background.MAX_UNREAD_BYTES,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "a message of an MCP server in a kept whole": (
        QUOTED * streams.MAX_LINE_BYTES,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "an answer of an MCP server over HTTP in a kept whole": (
        QUOTED * http.MAX_MESSAGE_BYTES,
        outcome.MAX_KEPT_OUTPUT_BYTES,
    ),
    "files of an MCP server in those of a result": (
        result.MAX_FILES_BYTES,
        outcome.MAX_RESULT_FILE_BYTES,
    ),
    "arguments in what waits for an MCP server": (
        ESCAPED * LIMITS.max_arguments_bytes,
        streams.MAX_UNSENT_BYTES,
    ),
    "a tool's definition in a message of an MCP server": (
        definition.MAX_DEFINITION_BYTES,
        streams.MAX_LINE_BYTES,
    ),
    "a hook's prompt and body in their event": (
        ESCAPED * (hook.MAX_BODY_BYTES + hook.MAX_PROMPT_CHARS) + AROUND,
        codec.MAX_EVENT_BYTES,
    ),
    "a hook's body in the files of an input": (hook.MAX_BODY_BYTES, history.MAX_ATTACHED_BYTES),
    "a schedule's prompt in a file of settings": (
        ESCAPED * schedule.MAX_PROMPT_CHARS,
        files.MAX_FILE_BYTES,
    ),
    "an AGENTS.md in all of a workspace": (
        instructions.MAX_INSTRUCTIONS_BYTES,
        instructions.MAX_WHOLE_BYTES,
    ),
    "a list of skills in a page": (
        shelf.MAX_SKILLS * (ESCAPED * front_matter.MAX_DESCRIPTION_CHARS + 1024),
        pages.PAGE_BYTES,
    ),
    "a plan in a call's arguments": (
        plan.MAX_ITEMS * ESCAPED * plan.MAX_ITEM_CHARS,
        LIMITS.max_arguments_bytes,
    ),
    "a task for another session in a call's arguments": (
        ESCAPED * delegate.MAX_TASK_CHARS,
        LIMITS.max_arguments_bytes,
    ),
    "a message to a person in a call's arguments": (
        ESCAPED * people.MAX_MESSAGE_CHARACTERS,
        LIMITS.max_arguments_bytes,
    ),
    "a message of a commit in a call's arguments": (
        ESCAPED * commit.MAX_MESSAGE_CHARACTERS,
        LIMITS.max_arguments_bytes,
    ),
    "a question with its preview in its event": (
        ESCAPED * preview.MAX_PREVIEW_BYTES + QUOTED * stream.MAX_ARGUMENT_BYTES + AROUND,
        codec.MAX_EVENT_BYTES,
    ),
    "an event in a message to a client": (
        codec.MAX_EVENT_BYTES + AROUND,
        link.MAX_MESSAGE_BYTES,
    ),
    "an answer that is being written, and its calls, in a message to a client": (
        ESCAPED * (answer.MAX_ANSWER_CHARS + LIMITS.max_calls_per_session * live_state.MAX_OUTPUT),
        link.MAX_MESSAGE_BYTES,
    ),
    "a part of an import in a frame": (
        ESCAPED * client_files.PART_CHARS + AROUND,
        SERVER.max_frame_bytes,
    ),
    "a prompt on stdin in a frame": (
        ESCAPED * stdin.MAX_PROMPT_BYTES + AROUND,
        SERVER.max_frame_bytes,
    ),
    "a prompt on a chat's pipe in a frame": (
        ESCAPED * screen.MAX_PIPE_LINE_BYTES + AROUND,
        SERVER.max_frame_bytes,
    ),
    "a file that a tool edits in what can be undone": (
        file_edit.MAX_EDITED_BYTES,
        file_versions.MAX_KEPT_FILE_BYTES,
    ),
    "a provider's id of a model in a choice": (
        64 + len("/") + openai_models.MAX_ID_CHARS,
        definitions.MAX_MODEL_CHARS,
    ),
    "a choice of a model in a request": (definitions.MAX_MODEL_CHARS, fields.MAX_WORD_CHARS),
    "a key against repeats in a request": (identity.MAX_KEY_LENGTH, fields.MAX_WORD_CHARS),
    "as many tokens as there may be in their file": (
        tokens.MAX_CREDENTIALS * 256,
        tokens.MAX_FILE_BYTES,
    ),
    "dead letters in their file": (
        dead_letters.MAX_DEAD * 8 * 1024,
        dead_letters.MAX_FILE_BYTES,
    ),
    "calls of a runtime, twice, in what waits to be recorded": (
        2 * LIMITS.max_calls_per_runtime,
        journal.MAILBOX_CAPACITY,
    ),
    "calls of a response in what an answer holds": (
        LIMITS.max_calls_per_response,
        answer.MAX_CALLS,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_fits_one_bound_fits_the_other(name: str) -> None:
    inner, outer = PAIRS[name]
    assert inner <= outer


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    with open_workspace(folder) as opened:
        yield opened


# ── pages in results ─────────────────────────────────────────────────────────────────────────────

TEXTS = {
    "letters": "abcdefghij\n",
    "quotes": '"\\"',
    "controls": "\x01\x1f",
    "beyond ASCII": "é€😀",
}
ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32-be": "utf-32-be", "base64": "utf-8"}


def shown(output: Any, max_bytes: int) -> dict[str, Any]:
    """What the model gets of an output; its page must be whole."""
    result = outcome.success(ToolResult(output=output), CALL, max_bytes)
    assert result.full_output is None
    page: dict[str, Any] = json.loads(result.content)["result"]
    return page


CALL = Call("call_1", "read_file", "{}")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("limit", [65_536, None])
async def test_read_files_advice_leads_to_the_end_of_a_large_file(
    caller: Caller, folder: Path, text: str, encoding: str, limit: int | None
) -> None:
    whole = TEXTS[text] * 30_000
    data = whole.encode(ENCODINGS[encoding])
    (folder / "f").write_bytes(data)
    caller.max_result_bytes = LIMITS.max_result_bytes
    read: list[str] = []
    asked: dict[str, Any] = {"offset": 0}
    while True:
        if limit is not None:
            asked["limit"] = limit
        output = await caller.output("read_file", path="f", encoding=encoding, **asked)
        page = shown(output, LIMITS.max_result_bytes)
        read.append(page["content"])
        if "next_offset" not in page:
            break
        assert page["next_offset"] > asked["offset"]
        asked["offset"] = page["next_offset"]
        assert len(read) < 100
    if encoding == "base64":
        assert b"".join(map(base64.b64decode, read)) == data
    else:
        assert "".join(read) == whole
    assert 1 < len(read) <= 2 + 3 * ESCAPED * len(data) // LIMITS.max_result_bytes


@pytest.mark.parametrize("max_bytes", [1024, 65_536])
async def test_a_page_is_as_large_as_a_result_may_be(
    caller: Caller, folder: Path, max_bytes: int
) -> None:
    caller.max_result_bytes = max_bytes
    (folder / "f").write_bytes(b"x" * (max_bytes - 200))
    output = await caller.output("read_file", path="f")
    assert "next_offset" not in output
    (folder / "f").write_bytes(b"x" * max_bytes)
    output = await caller.output("read_file", path="f")
    assert max_bytes - 64 <= len(msgspec.json.encode(output)) <= max_bytes
    assert output["next_offset"] == len(output["content"])


async def test_an_encoding_without_pages_is_whole_and_cut_as_other_results_are(
    caller: Caller, folder: Path
) -> None:
    caller.max_result_bytes = 1024
    (folder / "f").write_bytes(("日本語" * 1000).encode("iso2022_jp"))
    output = await caller.output("read_file", path="f", encoding="iso2022_jp")
    assert output["content"] == "日本語" * 1000
    assert outcome.success(ToolResult(output=output), CALL, 1024).full_output is not None


# ── cut results ──────────────────────────────────────────────────────────────────────────────────


class Kept:
    """The whole of one result."""

    def __init__(self, whole: str) -> None:
        self.whole = whole.encode()

    async def read_artifact(self, artifact_id: str) -> bytes | None:
        return self.whole if artifact_id == CALL.call_id else None


def outputs(size: int) -> dict[str, Any]:
    """Outputs a few times as large as that."""
    return {
        "a text": '"\\\x01' * size,
        "a list": [{"name": 'é"' * 10, "size": number} for number in range(size // 20)],
        "a field among others": {"n": 1, "body": "\n" * 2 * size},
        "a failure": ToolFailure(ErrorType.EXECUTION_ERROR, '"' * size, output="\\" * size),
    }


@pytest.mark.parametrize("max_bytes", [1024, 65_536])
@pytest.mark.parametrize("name", outputs(0))
async def test_a_cut_results_advice_leads_to_all_of_it(
    caller: Caller, name: str, max_bytes: int
) -> None:
    output = outputs(max_bytes)[name]
    if isinstance(output, ToolFailure):
        result = outcome.bounded_failure(output, CALL, max_bytes)
    else:
        both_ends = ("body",) if isinstance(output, dict) else ()
        result = outcome.success(ToolResult(output=output, both_ends=both_ends), CALL, max_bytes)
    content = json.loads(result.content)
    assert len(result.content.encode()) <= max_bytes + 400
    assert result.full_output is not None
    advice = re.search(r'path="artifact:call_1", offset=(\d+)', content["truncated"])
    assert advice is not None
    offset = int(advice[1])
    read = content["result"] if offset else ""
    caller.artifacts = Kept(result.full_output)
    caller.max_result_bytes = max_bytes
    while True:
        page = shown(
            await caller.output("read_file", path="artifact:call_1", offset=offset), max_bytes
        )
        read += page["content"]
        if "next_offset" not in page:
            break
        offset = page["next_offset"]
    assert read == result.full_output


def test_a_whole_that_no_event_could_hold_is_not_kept_and_the_result_says_so() -> None:
    most = outcome.MAX_KEPT_OUTPUT_BYTES
    for size, is_kept in ((most - 2, True), (most - 1, False)):
        result = outcome.success(ToolResult(output="x" * size), CALL, 1024)
        assert (result.full_output is not None) is is_kept
        assert bool(result.artifacts) is is_kept
        assert ("artifact:" in result.content) is is_kept
        assert ("not kept" in result.content) is not is_kept
    failure = ToolFailure(ErrorType.EXECUTION_ERROR, "x" * most)
    result = outcome.bounded_failure(failure, CALL, 1024)
    assert result.full_output is None
    assert "not kept" in result.content


@pytest.mark.parametrize("long", [1, 50_000])
def test_of_a_tools_artifacts_those_are_kept_that_an_event_holds(long: int) -> None:
    def kept(count: int) -> int:
        artifacts = tuple(
            Artifact(kind="file", id=f"{number:0{long}}", size_bytes=1) for number in range(count)
        )
        result = outcome.success(ToolResult(output="done", artifacts=artifacts), CALL, 1024)
        assert result.artifacts == artifacts[: len(result.artifacts)]
        assert sum(len(each.id) for each in result.artifacts) <= outcome.MAX_ARTIFACT_CHARS
        return len(result.artifacts)

    assert kept(5) == 5
    assert 5 < kept(20_000 // min(long, 500)) < 20_000


# ── files that are written, and read back ────────────────────────────────────────────────────────


class Written(NamedTuple):
    """A file that grows with what is put in, and is read whole."""

    name: str
    most: int
    put: Callable[[Path, int], object]
    """Put in something with a text of so many characters."""
    read: Callable[[Path], object]


def put_token(folder: Path, size: int) -> None:
    tokens.Credentials(folder).create("another", Role.ADMIN, sessions=("s" * size,))


def put_tool(folder: Path, size: int) -> None:
    pins.save_pins(folder, "server", [PinnedTool(name="a", original="a", description="d" * size)])


SMALL = 1024 * 1024
"""In place of 32 MiB, which take a second."""

WRITTEN = (
    Written(
        files.MANAGED_NAME,
        files.MAX_FILE_BYTES,
        lambda folder, size: save_agent(folder, Agent(name="a", prompt="p" * size)),
        load_managed,
    ),
    Written(PINS_NAME, SMALL, put_tool, pins.read_pins),
    Written(
        skill_approvals.FILE_NAME,
        skill_approvals.MAX_FILE_BYTES,
        lambda folder, size: skill_approvals.SkillApprovals(folder).allow(
            Path("/w"), "f" * size, "digest"
        ),
        lambda folder: skill_approvals.SkillApprovals(folder).of(Path("/w")),
    ),
    Written(
        tokens.FILE_NAME,
        tokens.MAX_FILE_BYTES,
        put_token,
        lambda folder: tokens.Credentials(folder).list(),
    ),
)


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: file.name)
def test_a_file_is_never_written_larger_than_it_is_read(
    tmp_path: Path, file: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "MAX_PINS_BYTES", SMALL)
    around = tmp_path / "around"
    file.put(around, 1)
    least = (around / file.name).stat().st_size - 1
    full, folder = tmp_path / "full", tmp_path / "over"
    file.put(full, file.most - least)
    assert (full / file.name).stat().st_size == file.most
    file.read(full)
    with pytest.raises(CallboardError, match="would be larger than"):
        file.put(folder, file.most - least + 1)
    assert not (folder / file.name).exists()


async def test_the_longest_that_schedules_settle_is_read_back(tmp_path: Path) -> None:
    # Nobody is asked when it is written, so its bound must be out of reach.
    cron = "0" + ",0" * ((times.MAX_FIELD_CHARS - 10) // 2) + " 9 * * 1"
    zone = "America/Argentina/ComodRivadavia"
    longest = Schedule(name="n" * 64, prompt="?", cron=cron, zone=zone)
    written = settled.SettledTimes(tmp_path)
    for number in range(MAX_SCHEDULES):
        msgspec.structs.force_setattr(longest, "name", f"{number:064}")
        written.entry(longest, 2**53)
        written.skip(longest, 2**53, "\x1b" * settled.MAX_WHY_CHARS)
    await written.save()
    read = settled.SettledTimes(tmp_path)
    await read.load()
    assert read.known(longest.name) == written.known(longest.name) is not None
