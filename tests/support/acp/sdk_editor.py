"""An editor made with PyPI `agent-client-protocol`, which runs on asyncio; tests run it in a thread."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import acp
from acp.exceptions import RequestError
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallStart,
)

from support.cli.command import PATIENCE_SECONDS


class SdkEditor:
    """What the SDK calls, and what it was told.

    Attributes:
        updates: The updates, as the SDK's own models.
        asked: The titles of the calls that it was asked about; it allows each.
    """

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[str] = []
        self.text_came = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        """The SDK is connected."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        if isinstance(update, AgentMessageChunk):
            self.text_came.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call.title)
        [allowed] = [each.option_id for each in options if each.kind == "allow_once"]
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=allowed)
        )

    def text(self, session_id: str) -> str:
        """What the agent said in a session."""
        return "".join(
            update.content.text
            for its, update in self.updates
            if its == session_id and isinstance(update, AgentMessageChunk)
        )

    def calls(self) -> list[tuple[str, str | None]]:
        """The calls that began: title and kind."""
        return [
            (update.title, update.kind)
            for _, update in self.updates
            if isinstance(update, ToolCallStart)
        ]


def _file(descriptor: int, mode: str) -> Any:
    return os.fdopen(descriptor, mode)


async def drive(stdout: int, stdin: int, cwd: str) -> dict[str, Any]:
    """Does what an editor does, over the two ends of a command; returns what came of each step."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=2**20)
    into, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), _file(stdout, "rb")
    )
    out, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), _file(stdin, "wb")
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await _drive(reader, asyncio.StreamWriter(out, protocol, None, loop), cwd)
    finally:
        out.close()
        into.close()
        await asyncio.sleep(0)  # they close in the next step


async def _drive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cwd: str
) -> dict[str, Any]:
    editor = SdkEditor()
    agent = acp.connect_to_agent(editor, writer, reader)  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    try:
        begun = await agent.initialize(1, client_capabilities=ClientCapabilities())
        found["version"] = begun.protocol_version
        one, two = [(await agent.new_session(cwd, mcp_servers=[])).session_id for _ in range(2)]
        prompt = [TextContentBlock(type="text", text="Overwrite it.")]
        first = await agent.prompt(one, prompt)  # type: ignore[arg-type]
        found["first"], found["text"] = first.stop_reason, editor.text(one)
        found["asked"], found["calls"] = editor.asked, editor.calls()
        editor.text_came.clear()
        prompt = [TextContentBlock(type="text", text="Talk.")]
        talking = asyncio.create_task(agent.prompt(two, prompt))  # type: ignore[arg-type]
        await editor.text_came.wait()
        await agent.cancel(two)
        found["second"], found["cut"] = (await talking).stop_reason, editor.text(two)
        found["listed"] = {row.session_id for row in (await agent.list_sessions(cwd)).sessions}
        found["sessions"] = {one, two}
        await agent.set_session_mode(two, "strict")
        loaded = await agent.load_session(cwd, one, [])
        found["options"] = [each.id for each in loaded.config_options or []]
        try:
            await agent.ext_method("unknown", {})
        except RequestError as error:
            found["unknown"] = error.code
    finally:
        await agent.close()
    return found
