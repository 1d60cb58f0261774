"""What the tests of web_fetch and web_search share: the tools in front of a server on this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callboard.runtime.definitions import Agent, SessionKind, ToolFailure, ToolResult
from callboard.runtime.handles import SearchHandle
from callboard.runtime.http.address_guard import AddressGuard
from callboard.runtime.http.client import open_http_client
from callboard.tools.tool import FunctionTool, ToolContext
from callboard.tools.web.client import WebClient
from support.web.web_server import Answer, WebServer, open_web_server


def context(network: WebClient | None, search: SearchHandle | None = None) -> ToolContext:
    return ToolContext(
        session_id="session",
        turn_id="turn",
        call_id="call",
        session_kind=SessionKind.WORKER,
        agent=Agent(),
        network=network,
        search=search,
    )


async def run(tool: FunctionTool, given: ToolContext, **arguments: Any) -> ToolResult:
    return await tool.execute(tool.decode(json.dumps(arguments)), given)


async def failure_of(tool: FunctionTool, given: ToolContext, **arguments: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        await run(tool, given, **arguments)
    return caught.value


@asynccontextmanager
async def open_network(
    answers: Mapping[str, Answer],
) -> AsyncGenerator[tuple[WebServer, WebClient]]:
    """A server, and a way out that may reach it and nothing else inside."""
    async with open_web_server(answers) as server:
        guard = AddressGuard([("127.0.0.1", server.port)])
        async with open_http_client(connect=guard.connect) as http:
            yield server, WebClient(http)


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with a line of ASCII on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources "
            f"<< /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    objects.append(f"<< /Title ({title}) >>")
    data = b"%PDF-1.4\n"
    places: list[int] = []
    for number, text in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n".encode()
    start = len(data)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects)
    data += f"xref\n0 {count + 1}\n0000000000 65535 f \n{table}".encode()
    tail = f"trailer << /Size {count + 1} /Root 1 0 R /Info {count} 0 R >>"
    return data + f"{tail}\nstartxref\n{start}\n%%EOF".encode()
