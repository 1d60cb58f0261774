"""`/mcp` of the daemon: MCP over HTTP, for clients with a token.

The session manager of the package `mcp` decides which revision a client speaks: a request of 2026-07-28 is answered
by itself, clients of earlier ones have a session that belongs to their token. It runs in a task of the gateway,
from the first request on.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec
import trio

from ...embedding.runtime import host_of
from ...runtime.kernel.late_import import import_late
from ..asgi import answer_by
from ..connection.method_table import MethodTable
from ..door.exchange import Exchange, Route
from ..door.http import JSON, BadHead, HttpAnswer
from ..http_turns import HttpTurns
from ..shared.state import DaemonState

if TYPE_CHECKING:
    from .http_app import HttpApp

PATH = "/mcp"
MAX_BODY_BYTES = 4 * 1024 * 1024
"""A prompt with what belongs to it; files are for the workspace."""
MAX_VALUES = 100_000
"""Values of its JSON: the package decodes as many in some 40 ms, and nothing else happens meanwhile."""
START_SECONDS = 30.0
"""For the package to be imported, on a busy machine."""


class McpEndpoint:
    """The route of MCP, and what runs behind it.

    Args:
        daemon: Where requests are done.
        table: Its methods.
        turns: Those that were begun by HTTP.
    """

    def __init__(self, daemon: DaemonState, table: MethodTable, turns: HttpTurns) -> None:
        self._daemon = daemon
        self._table = table
        self._turns = turns
        self._is_wanted, self._is_there = trio.Event(), trio.Event()
        self._app: HttpApp | None = None
        self._problem = ""

    @property
    def routes(self) -> dict[str, Route]:
        """The routes by path."""
        methods = ("GET", "POST", "DELETE")
        return {PATH: Route(answer=self._answer, methods=methods, refuse=_refuse)}

    async def run(self) -> None:
        """Serve what the first request begins, until cancelled."""
        await self._is_wanted.wait()
        try:
            module = await import_late(partial(import_module, f"{__package__}.http_app"))
        except ImportError as error:
            self._problem = f"the package {error.name} is missing: pip install 'callboard[mcp]'"
            self._is_there.set()
            await trio.sleep_forever()
        served: HttpApp = module.HttpApp(MAX_BODY_BYTES)
        forget = host_of(self._daemon.runtime).inboxes.watch(served.changes.take)
        try:
            async with served.run():
                self._app = served
                self._is_there.set()
                await trio.sleep_forever()
        finally:
            forget()
            self._app, self._is_there = None, trio.Event()

    async def _answer(self, exchange: Exchange) -> HttpAnswer | None:
        if not host_of(self._daemon.runtime).settings.mcp_server.enabled:
            raise BadHead(404, "MCP is off here: set enabled = true in [mcp_server]")
        if self._daemon.is_stopping:
            raise BadHead(503, "the server is stopping", (("retry-after", "10"),))
        from .desk import LocalDesk  # here: most daemons serve no MCP

        assert exchange.credential is not None
        self._is_wanted.set()
        with trio.move_on_after(START_SECONDS):
            await self._is_there.wait()
        if self._app is None:
            problem = self._problem or "MCP does not answer just now; try again soon"
            raise BadHead(503, problem, (("retry-after", "1"),))
        app = self._app
        desk = LocalDesk(self._daemon, self._table, self._turns, exchange.credential, app.changes)
        return await answer_by(app.app, exchange, MAX_BODY_BYTES, MAX_VALUES, state={"desk": desk})


def _refuse(error: BadHead) -> HttpAnswer:
    """Return a refusal as an error of JSON-RPC, which belongs to no request."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": str(error)}}
    return HttpAnswer(error.status, msgspec.json.encode(body), JSON, error.headers)
