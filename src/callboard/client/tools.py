"""Requests of a client about tools: which there are, what became of calls, and calls of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..runtime.events import InputCancelled, Stored, TurnStarted
from ..runtime.identity import new_id
from ..runtime.store.lists import CallPage
from ..runtime.store.rows import CallRow, SessionRow
from ..runtime.turn_options import TurnOptions
from ..runtime.turns.called_tool import CalledTool, CalledTools, given_calls, text_of_calls
from ..runtime.wire import sessions as wire
from ..runtime.wire.daemon import AskDefinitions, Definitions, ListCalls, ToolList
from ..runtime.wire.fields import Nothing
from .files import Asking

if TYPE_CHECKING:
    from .subscriptions import RemoteEvents


class ToolRequests(Asking):
    """The part of `Client` about tools."""

    def events(self, session_id: str) -> RemoteEvents:
        """See `Client.events`."""
        raise NotImplementedError

    async def tools(self) -> ToolList:
        """Return all tools."""
        return await self.request("tool/list", Nothing(), ToolList)

    async def definitions_for(
        self,
        wire_format: Literal["openai", "responses", "anthropic", "gemini"],
        *,
        agent: str = "general",
    ) -> list[dict[str, Any]]:
        """Return an agent's tools as a provider gets them; see `Runtime.definitions_for`."""
        params = AskDefinitions(format=wire_format, agent=agent)
        return (await self.request("tool/definitions", params, Definitions)).definitions

    async def calls(self, *, session_id: str | None = None, limit: int = 100) -> list[CallRow]:
        """Return stored tool calls, latest first."""
        params = ListCalls(session_id=session_id, limit=limit)
        return (await self.request("tool/history", params, CallPage)).calls

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
        agent: str = "general",
    ) -> CalledTool:
        """Call a tool without a model, and return how that ended; see `Runtime.call_tool`.

        Cancelling it leaves the call to go on: `cancel` ends it.
        """
        calls = [(name, arguments or {})]
        [called] = await self.call_tools(calls, session_id=session_id, agent=agent)
        return called

    async def call_tools(
        self,
        calls: Iterable[tuple[str, Mapping[str, Any]]],
        *,
        session_id: str | None = None,
        agent: str = "general",
    ) -> list[CalledTool]:
        """Call tools side by side; the outcomes come in the order of the calls.

        Raises:
            ConflictError: This client is subscribed to the session already.
            CallboardError: A call has no outcome; the error's type says why.
        """
        given = given_calls(calls)
        text = text_of_calls(given)
        if session_id is None:
            new = wire.NewSession(agent=agent, title=text)
            row = await self.request("session/new", new, SessionRow, key=new_id("request"))
            session_id = row.session_id
        options = TurnOptions(calls=given)
        params = wire.Prompt(session_id=session_id, content=text, options=options)
        called, turn_id = CalledTools(session_id), ""
        async with self.events(session_id) as events:
            ticket = await self.request(
                "session/prompt", params, wire.Ticket, key=new_id("request")
            )
            async for stored in events:
                event = stored.event if isinstance(stored, Stored) else None
                if isinstance(event, TurnStarted) and ticket.input_id in event.input_ids:
                    turn_id = event.turn_id
                if isinstance(event, InputCancelled) and event.input_id == ticket.input_id:
                    called.cancel(event.reason)
                elif turn_id and getattr(event, "turn_id", None) == turn_id:
                    called.see(event)
                if called.ended is not None:
                    break
        return called.result()
