"""An editor that drives the real command over its stdin and stdout, and checks each line by the official schema."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import trio

from support.cli.command import PATIENCE_SECONDS, Command
from support.cli.warm_process import WarmProcess, start_warm

SCHEMA = json.loads(Path(__file__).with_name("schema.json").read_bytes())["$defs"]
RESULTS = {
    its["x-method"]: name
    for name, its in SCHEMA.items()
    if its.get("x-side") == "agent" and name.endswith("Response")
}
SAID = {
    its["x-method"]: name
    for name, its in SCHEMA.items()
    if its.get("x-side") in {"client", "protocol"} and not name.endswith("Response")
}
"""The types of what the agent says by itself."""

Message = dict[str, Any]


@cache
def validator(name: str) -> jsonschema_rs.Validator:
    """Checks a value by one definition of the schema."""
    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": SCHEMA})


class Editor:
    """The editor at the other end.

    Attributes:
        heard: What the agent has said, in order: each line is valid by the schema.
        answers: What the editor answers to requests of the agent, by method; what is missing is left unanswered.
        process: The command.
    """

    def __init__(self, process: WarmProcess, stdin: int, stdout: int) -> None:
        self.process = process
        self.heard: list[Message] = []
        self.answers: dict[str, Callable[[Message], Any]] = {}
        self._out = trio.lowlevel.FdStream(stdin)
        self._in = trio.lowlevel.FdStream(stdout)
        self._methods: dict[object, str] = {}
        self._count = 0
        self._news = trio.Event()

    # ── what it says ─────────────────────────────────────────────────────────────────────────────

    async def send(self, line: bytes) -> None:
        """Sends a line as it is."""
        await self._out.send_all(line + b"\n")

    async def begin(self, method: str, **params: Any) -> int:
        """Sends a request, and does not wait for its answer; returns its id."""
        self._count += 1
        self._methods[self._count] = method
        await self._say(id=self._count, method=method, params=params)
        return self._count

    async def begin_and_cancel(self, session: str, prompt: list[dict[str, str]]) -> int:
        """Sends a prompt and its cancel with one write; returns the prompt's id."""
        self._count += 1
        self._methods[self._count] = "session/prompt"
        params = {"sessionId": session, "prompt": prompt}
        prompted = {"id": self._count, "method": "session/prompt", "params": params}
        cancelled = {"method": "session/cancel", "params": {"sessionId": session}}
        lines = [json.dumps({"jsonrpc": "2.0", **each}) for each in (prompted, cancelled)]
        await self.send("\n".join(lines).encode())
        return self._count

    async def send_at_once(self, *requests: tuple[str, Message]) -> list[int]:
        """Sends requests with one write; returns their ids."""
        lines, numbers = list[str](), list[int]()
        for method, params in requests:
            self._count += 1
            self._methods[self._count] = method
            numbers.append(self._count)
            said = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
            lines.append(json.dumps(said))
        await self.send("\n".join(lines).encode())
        return numbers

    async def ask(self, method: str, **params: Any) -> Any:
        """Sends a request; returns its result."""
        answer = await self.answer(await self.begin(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, method: str, **params: Any) -> Any:
        """Sends a request that is refused; returns the error."""
        return (await self.answer(await self.begin(method, **params)))["error"]

    async def notify(self, method: str, **params: Any) -> None:
        await self._say(method=method, params=params)

    async def respond(self, number: object, result: Any) -> None:
        """Answers a request of the agent by itself."""
        await self._say(id=number, result=result)

    async def answer(self, number: object) -> Message:
        """Waits for the answer to a request."""
        return await self.hear(lambda message: "method" not in message and message["id"] == number)

    async def _say(self, **message: Any) -> None:
        await self.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def leave(self) -> int:
        """Closes its end, and waits for the end of the command; returns its exit code."""
        await self._out.aclose()
        with trio.fail_after(PATIENCE_SECONDS):
            return await trio.to_thread.run_sync(self.process.wait)

    # ── what it hears ────────────────────────────────────────────────────────────────────────────

    async def hear(self, is_meant: Callable[[Message], object], start: int = 0) -> Message:
        """Waits until something was said; returns the first such message from `start` on."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                for message in self.heard[start:]:
                    if is_meant(message):
                        return message
                start, news = len(self.heard), self._news
                await news.wait()

    async def asked(self, method: str, start: int = 0) -> Message:
        """Waits for a request or a notification of the agent."""
        return await self.hear(lambda message: message.get("method") == method, start)

    async def said(self, text: str) -> None:
        """Waits until the agent has said this, in one chunk or several."""
        await self.hear(lambda _: text in self.text)

    @property
    def updates(self) -> list[Message]:
        """All updates so far."""
        return [
            message["params"]["update"]
            for message in self.heard
            if message.get("method") == "session/update"
        ]

    def of(self, kind: str) -> list[Message]:
        """The updates of a kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        """What the agent said."""
        return "".join(each["content"]["text"] for each in self.of("agent_message_chunk"))

    async def listen(self) -> None:
        """Reads what the agent says, up to the end of its output."""
        rest = b""
        while data := await self._in.receive_some():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await self._take(json.loads(line))
        assert not rest, rest

    async def _take(self, message: Message) -> None:
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            validator(SAID[message["method"]]).validate(message["params"])
        elif "error" in message:
            validator("Error").validate(message["error"])
        else:
            validator(RESULTS[self._methods[message["id"]]]).validate(message["result"])
        self.heard.append(message)
        self._news.set()
        self._news = trio.Event()
        answer = self.answers.get(message.get("method", ""))
        if answer is not None and "id" in message:
            await self._say(id=message["id"], **answer(message))

    async def aclose(self) -> None:
        """Ends the command, if it still runs."""
        self.process.kill()
        with trio.CancelScope(shield=True):
            await self._out.aclose()
            await self._in.aclose()
            await trio.to_thread.run_sync(self.process.wait)


@asynccontextmanager
async def bare_editor(command: Command, *options: str) -> AsyncGenerator[Editor]:
    """An editor that has said nothing yet."""
    stdin, out = os.pipe()
    into, stdout = os.pipe()
    try:
        standard = (stdin, stdout, 2)
        process = start_warm(("acp", *options), standard, command.workspace, command.environ)
    finally:
        os.close(stdin)
        os.close(stdout)
    editor = Editor(process, out, into)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(editor.listen)
        try:
            yield editor
        finally:
            nursery.cancel_scope.cancel()
            await editor.aclose()


@asynccontextmanager
async def editing(
    command: Command, *options: str, **capabilities: Any
) -> AsyncGenerator[tuple[Editor, str]]:
    """An editor with a session in the command's workspace."""
    async with bare_editor(command, *options) as editor:
        await editor.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
        new = await editor.ask("session/new", cwd=str(command.workspace), mcpServers=[])
        yield editor, new["sessionId"]


def chosen(option: str) -> dict[str, Any]:
    """An answer to a question about a call."""
    return {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


def words(text: str) -> list[dict[str, str]]:
    """A prompt."""
    return [{"type": "text", "text": text}]
