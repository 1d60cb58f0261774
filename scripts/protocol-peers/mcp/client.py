"""callboard's connections to MCP servers, as the client that the conformance suite tests; see `ask`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import trio

from callboard.config.mcp.settings import McpSettings
from callboard.runtime.errors import ToolError
from callboard.runtime.http.address_guard import AddressGuard
from callboard.runtime.http.client import open_http_client
from callboard.tools.mcp.asking.questions import ServerAnswer, ServerQuestion
from callboard.tools.mcp.server import run_server
from callboard.tools.mcp.state import McpPlaces

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
from support.mcp.stage import Agreeing

DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""Whom callboard is known as where an issuer takes the URL of a document."""
SCENARIO_SECONDS = 25.0
# An issuer has a port of its own, which only its server knows.
GUARD = AddressGuard([("localhost", port) for port in range(1, 65536)])
SAMPLES: dict[str, Any] = {
    "text": "a",
    "yes_no": True,
    "string": "a",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


async def serve(place: str) -> None:
    """Run scenarios for who asks at a place, until killed."""
    importlib.import_module("callboard.tools.mcp.http")  # before a scenario waits for it
    listener = trio.socket.socket(trio.socket.AF_UNIX)
    with listener:
        await listener.bind(place)
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await trio.serve_listeners(answer, [trio.SocketListener(listener)])


async def answer(stream: trio.SocketStream) -> None:
    """Run a scenario, and say why it failed, or nothing."""
    async with stream:
        text = b"".join([piece async for piece in stream]).decode()
        name, url, context = text.split("\0")
        await stream.send_all((await run(name, url, json.loads(context))).encode())


async def run(scenario: str, url: str, context: dict[str, Any]) -> str:
    """Connect to a scenario's server, list its tools, and call them; return why that failed, or nothing."""
    has_listed = False

    async def speak(connection: Any, scope: trio.CancelScope) -> None:
        nonlocal has_listed
        listed, _ = await connection.list_tools()
        has_listed = True
        for name, arguments in calls(context, listed):
            try:
                await connection.call(name, arguments, None, Agreeable())
            except ToolError as error:  # some scenarios want one
                sys.stderr.write(f"{scenario}: {name}: {error}\n")

    secret = context.get("client_secret")
    server = McpSettings(
        name="suite",
        url=url,
        client_id=context.get("client_id"),
        client_secret=None if secret is None else "${env:SECRET}",
        start_seconds=SCENARIO_SECONDS,
    )
    async with open_http_client(connect=GUARD.connect) as http:
        places = McpPlaces(
            sandbox=None,
            http=http,
            environ={"SECRET": secret or ""},
            desk=Agreeing(),
            client_document=DOCUMENT,
        )
        end = await run_server(places, server, speak)
    return "" if has_listed else f"{scenario}: {end.problem}\n"


class Agreeable:
    """Asks a person who takes what a form proposes; in place of `CallAsker`."""

    async def people(self, question: ServerQuestion) -> ServerAnswer:
        """See `CallAsker`."""
        await trio.lowlevel.checkpoint()
        fields = question.form.fields
        content = {
            field.name: SAMPLES[field.kind] if field.default is None else field.default
            for field in fields
            if field.default is not None or field.required
        }
        return ServerAnswer("accept", content)


def calls(
    context: dict[str, Any], listed: list[dict[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that a scenario wants: those that it names, else one of each tool."""
    if named := context.get("toolCalls"):
        return [(call["name"], call.get("arguments") or {}) for call in named]
    return [(tool["name"], sample(tool["inputSchema"])) for tool in listed]


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a schema requires."""
    properties = schema.get("properties") or {}
    return {
        name: SAMPLES.get(properties.get(name, {}).get("type"), "a")
        for name in schema.get("required", ())
    }


if __name__ == "__main__":
    trio.run(serve, sys.argv[1])
