"""The route of `/ag-ui/`; all behind it is imported with the first request."""

from __future__ import annotations

from ..connection.method_table import MethodTable
from ..door.exchange import Route
from ..http_turns import HttpTurns
from ..openai.routes import Api, late_route
from ..shared.state import DaemonState

PATH = "/ag-ui/"


def agui_routes(daemon: DaemonState, table: MethodTable, turns: HttpTurns) -> dict[str, Route]:
    """Return the routes by path."""

    def make() -> Api:
        from .api import AgUiApi

        return AgUiApi(daemon, table, turns)

    return {PATH: late_route(make, ("POST",))}
