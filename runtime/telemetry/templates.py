"""Templates of spans: what all spans of one sort have in common in a turn.

A turn may have a thousand calls of one tool. What events don't say about them (an agent's settings, where a provider is,
what a tool does), where they are counted and how most of them is written is found once for all of them.
"""

from __future__ import annotations

from ..definitions import CallStatus
from ..event_types.calls import CalledServer
from ..turn_options import TurnOptions
from . import names
from .context import TurnTrace
from .metrics import MAX_LABEL, Metrics
from .span import Attributes, Facts, Template

MAX_TEMPLATES = 64
"""Sorts of spans of one turn that are known; then all are forgotten, and made again."""
MAX_DESCRIPTION = 256
"""Characters of a tool's description, which each of its spans repeats."""
_MCP = "mcp "
"""Begins the source of a tool that a server has."""


class Templates:
    """Those of one turn.

    Args:
        facts: What events don't say.
        metrics: Where spans are counted.
        trace: Where the turn stands.
        turn_id: The turn.
        since_ms: When it began.
        options: The options that came with its inputs.
    """

    __slots__ = ("_facts", "_known", "_metrics", "_options", "_since_ms", "_span_id", "_trace")

    def __init__(
        self,
        facts: Facts,
        metrics: Metrics,
        trace: TurnTrace,
        turn_id: str,
        since_ms: int,
        options: TurnOptions | None,
    ) -> None:
        self._facts = facts
        self._metrics = metrics
        self._trace = trace
        self._span_id = trace.span_id(turn_id)
        self._since_ms = since_ms
        self._options = options
        self._known: dict[tuple[object, ...], Template] = {}

    def of_turn(
        self, agent: str, turn_id: str, outcome: str, error: str, *, has_compacted: bool
    ) -> Template:
        """Return that of the turn itself."""
        found: Attributes = {
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT: agent,
            names.CONVERSATION: self._trace.session_id,
            names.SESSION: self._trace.session_id,
            names.TURN: turn_id,
            names.OUTCOME: outcome,
        }
        if has_compacted:
            found[names.COMPACTED] = True
        name = f"{names.INVOKE_AGENT} {agent}".rstrip()
        metric = (names.AGENT_DURATION, agent, outcome)
        return self._made(name, self._trace.parent_id, found, error, *metric)

    def of_model(self, agent: str, provider: str, model: str, error: str) -> Template:
        """Return that of calls of a model; its series are tokens read and written, and when its answers begin, too."""
        key = (agent, provider, model, error)
        return self._known.get(key) or self._keep(key, self._of_model(*key))

    def of_tool(
        self,
        agent: str,
        called: str,
        status: CallStatus,
        tier: str,
        error: str,
        server: CalledServer | None,
    ) -> Template:
        """Return that of calls of a tool; those of a server's tool have a second series."""
        key = (agent, called, status, tier, error, server)
        return self._known.get(key) or self._keep(key, self._of_tool(*key))

    def _keep(self, key: tuple[object, ...], made: Template) -> Template:
        if len(self._known) >= MAX_TEMPLATES:
            self._known.clear()
        self._known[key] = made
        return made

    def _made(
        self,
        name: str,
        parent_id: int,
        attributes: Attributes,
        error: str,
        *metric: str,
    ) -> Template:
        if error:
            attributes[names.ERROR] = error
            metric = (*metric, error)
        return Template(
            name=name,
            trace=self._trace,
            parent_id=parent_id,
            attributes=attributes,
            since_ms=self._since_ms,
            is_error=bool(error),
            series=(self._metrics.of(*metric),),
        )

    def _of_model(self, agent: str, provider: str, model: str, error: str) -> Template:
        its_name = names.PROVIDERS.get(provider, provider)
        found: Attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: its_name,
            names.REQUEST_MODEL: model,
            names.CONVERSATION: self._trace.session_id,
            names.SESSION: self._trace.session_id,
            names.STREAM: True,
        }
        for source in (self._facts.agent(agent), self._options):
            if source is None:
                continue
            if source.max_output_tokens is not None:
                found[names.MAX_TOKENS] = source.max_output_tokens
            if source.temperature is not None:
                found[names.TEMPERATURE] = source.temperature
            if source.thinking is not None:
                found[names.REASONING_LEVEL] = str(source.thinking)
        place = self._facts.provider(provider)
        if place.address:
            found[names.SERVER_ADDRESS] = place.address
        if place.port:
            found[names.SERVER_PORT] = place.port
        labels = (names.CHAT, its_name, model)
        name = f"{names.CHAT} {model}"
        made = self._made(name, self._span_id, found, error, names.OPERATION_DURATION, *labels)
        made.kind = "client"
        made.series += (
            self._metrics.of(names.TOKEN_USAGE, *labels, "input"),
            self._metrics.of(names.TOKEN_USAGE, *labels, "output"),
            self._metrics.of(names.FIRST_CHUNK_DURATION, *labels),
        )
        return made

    def _of_tool(
        self,
        agent: str,
        called: str,
        status: CallStatus,
        tier: str,
        error: str,
        server: CalledServer | None,
    ) -> Template:
        tool = self._facts.tool(called, self._trace.session_id)
        # A name that no tool has is the model's own words; a tool that a server ran may have gone with its client.
        is_known = tool is not None or server is not None
        name = called if is_known else names.OTHER
        is_foreign = server is not None or (tool is not None and tool.source.startswith(_MCP))
        found: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: name,
            names.TOOL_TYPE: names.EXTENSION if is_foreign else names.FUNCTION,
            names.AGENT: agent,
            names.CONVERSATION: self._trace.session_id,
            names.SESSION: self._trace.session_id,
            names.STATUS: str(status),
        }
        if tool is not None:
            found[names.TOOL_DESCRIPTION] = tool.description[:MAX_DESCRIPTION]
            tier = tier or str(tool.tier)
        if tier and is_known:
            found[names.TIER] = tier
        place: tuple[str, ...] = ("", "")
        code, method = "", names.METHODS.get(called, names.CALL_TOOL)
        if is_foreign:
            found[names.MCP_METHOD] = method
        if server is not None:
            place = server.protocol[:MAX_LABEL], server.transport
            code = "" if server.code is None else str(server.code)
            its = (names.MCP_VERSION, names.TRANSPORT, names.STATUS_CODE)
            found |= {name: text for name, text in zip(its, (*place, code), strict=True) if text}
        metric = (names.TOOL_DURATION, name, agent)
        span_name = f"{names.EXECUTE_TOOL} {name}"
        made = self._made(span_name, self._span_id, found, error, *metric)
        if is_foreign:
            labels = (name, method, *place, error, code)
            made.series += (self._metrics.of(names.MCP_DURATION, *labels),)
        return made
