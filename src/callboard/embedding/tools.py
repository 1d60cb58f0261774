"""The tools of a runtime: which there are, what providers get of them, and calls without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec
import trio

from ..actors.people.lineage import known_agent
from ..providers.provider import ModelRequest
from ..runtime.budget import Budget, checked_budget
from ..runtime.definitions import Agent, SessionKind, ToolDefinition
from ..runtime.history import Input, Round
from ..runtime.identity import RequestKey
from ..runtime.kernel.delivery import Subscription
from ..runtime.messages import SubmitInput
from ..runtime.turn_options import GivenCall, TurnOptions
from ..tools.plugins import Plugin
from ..tools.registry import ToolRegistry
from ..tools.tool import Tool
from .host import Host
from .options import check_app, checked_tools
from .session import Session
from .turn import Turn

if TYPE_CHECKING:  # imported where a program calls tools itself
    from ..runtime.turns.called_tool import CalledTool

WireFormatWord: TypeAlias = Literal[
    "openai", "responses", "openai_chat", "openai_responses", "anthropic", "gemini"
]
"""A wire format, by its name or by a shorter one."""

SHORT = {"openai": "openai_chat", "responses": "openai_responses"}


class SessionHandle(Protocol):
    """A session, as a Trio program or a portal holds it."""

    session_id: str


class RuntimeTools:
    """The part of `Runtime` about tools."""

    _host: Host

    async def create_session(
        self,
        *,
        agent: str = "general",
        workspace: str | Path | None = None,
        title: str = "",
        request: RequestKey | None = None,
    ) -> Session:
        """See `Runtime.create_session`."""
        raise NotImplementedError

    async def get_session(self, session_id: str) -> Session:
        """See `Runtime.get_session`."""
        raise NotImplementedError

    def tools(self) -> tuple[ToolDefinition, ...]:
        """All tools, in the order in which models see them."""
        return self._host.plan.registry.all_definitions()

    def definitions_for(
        self, wire_format: WireFormatWord, *, agent: str = "general"
    ) -> list[dict[str, Any]]:
        """Return the tools of an agent's main session as a request in this wire format has them.

        Args:
            wire_format: `openai` (Chat Completions), `responses`, `anthropic` or `gemini`; the names of
                `dialect` are known, too.
            agent: The name of the agent.

        Raises:
            NotFoundError: There is no such format or agent.

        Example:
            async with callboard.open_runtime(model="rehearsal") as runtime:
                for definition in runtime.definitions_for("openai"):
                    print(definition["function"]["name"])
        """
        return definitions_of(
            self._host.plan.registry, known_agent(self._host.agents, agent), wire_format
        )

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        session: SessionHandle | str | None = None,
        agent: str = "general",
        budget: Budget | None = None,
    ) -> CalledTool:
        """Call a tool without a model, and return how that ended; a failure is no exception.

        It is a turn of the session: policy, approvals, taint, budget and limits hold as for a model's call,
        and it is on record and can be undone. Cancelling it cancels the call.

        Args:
            name: The tool's name.
            arguments: Its arguments, as JSON values.
            session: The session, or its id; by default a new one.
            agent: The agent of a new session.
            budget: What the turn may use.

        Raises:
            NotFoundError: There is no such session or agent.
            CallboardError: The call has no outcome; the error's type says why.

        Example:
            called = await runtime.call_tool("list_directory", {"path": "."})
            print(called.status, called.output)
        """
        calls = [(name, arguments or {})]
        [called] = await self.call_tools(calls, session=session, agent=agent, budget=budget)
        return called

    async def call_tools(
        self,
        calls: Iterable[tuple[str, Mapping[str, Any]]],
        *,
        session: SessionHandle | str | None = None,
        agent: str = "general",
        budget: Budget | None = None,
    ) -> list[CalledTool]:
        """Call tools side by side, as `call_tool` does; the outcomes come in the order of the calls.

        Example:
            calls = [("read_file", {"path": name}) for name in ("a.txt", "b.txt")]
            for called in await runtime.call_tools(calls):
                print(called.status, called.display)
        """
        from ..runtime.turns.called_tool import given_calls, text_of_calls

        given = given_calls(calls)
        if session is None:
            session = await self.create_session(agent=agent, title=text_of_calls(given))
        elif isinstance(session, str):
            session = await self.get_session(session)
        return await _called(self._host, session.session_id, given, budget)

    async def register(self, tool: Tool) -> None:
        """Add a tool: sessions whose agents may use it are offered it from their next turn on.

        Raises:
            ConflictError: There is a tool of its name.
            ValidationError: It is not a tool, or takes another `app`.

        Example:
            @callboard.tool(tier="read_only", effect="read")
            def double(number: int) -> int:
                '''Doubles a number.'''
                return 2 * number

            await runtime.register(double)
            await runtime.unregister("double")
        """
        check_app(checked_tools([tool]), self._host.plan.app)
        await trio.lowlevel.checkpoint()
        self._host.plan.registry.add(tool)
        _tell_changed(self._host)

    async def unregister(self, name: str) -> None:
        """Remove a tool that the program brought. Calls of it that run go on; others get `tool_not_found`.

        Raises:
            NotFoundError: There is no such tool.
            ConflictError: It is built in, or a plugin's.
        """
        await trio.lowlevel.checkpoint()
        self._host.plan.registry.remove(name)
        _tell_changed(self._host)

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the plugins that the configuration enables, loaded or failed."""
        return self._host.plan.plugins


def _tell_changed(host: Host) -> None:
    from ..runtime.kernel.live_lists import ListName  # here: few programs follow lists

    host.lists.changed(ListName.TOOLS, ListName.AGENTS)


async def _called(
    host: Host, session_id: str, calls: tuple[GivenCall, ...], budget: Budget | None
) -> list[CalledTool]:
    from ..runtime.turns.called_tool import CalledTools

    called = CalledTools(session_id)
    async with turn_of_calls(host, session_id, calls, budget) as turn:
        async for event in turn:
            called.see(event)
    if called.ended is None and turn.ended is not None:  # it was cancelled while it waited
        called.ended = turn.ended
    return called.result()


def turn_of_calls(
    host: Host,
    session_id: str,
    calls: tuple[GivenCall, ...],
    budget: Budget | None,
    command: str = "",
) -> Turn:
    """Return a turn that makes these calls, to be entered like that of a prompt."""
    from ..runtime.turns.called_tool import text_of_calls

    message = SubmitInput(
        session_id=session_id,
        text=text_of_calls(calls),
        budget=checked_budget(budget),
        options=TurnOptions(calls=calls),
        subscription=Subscription(),
        command=command,
    )
    return Turn(host, message)


def host_of(runtime: RuntimeTools) -> Host:
    """Return the host of a runtime: its actors, and the settings that they have."""
    return runtime._host


def definitions_of(registry: ToolRegistry, agent: Agent, wire_format: str) -> list[dict[str, Any]]:
    """Return an agent's tools as the JSON of a request has them; raises `NotFoundError` for another format."""
    from ..providers.dialects import dialect_named

    dialect = dialect_named(SHORT.get(wire_format, wire_format))
    request = ModelRequest(
        model="any",
        rounds=(Round((Input("any"),)),),
        tools=registry.definitions(agent.tools, SessionKind.MAIN),
    )
    body = msgspec.json.decode(dialect.build(request).body, type=dict[str, Any])
    found: list[dict[str, Any]] = body.get("tools", [])
    return found
