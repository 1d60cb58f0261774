"""A tool that the program which sent an input runs itself: its call waits for that program's result."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from ..runtime.definitions import Effect, Tier, ToolDefinition, ToolResult
from ..runtime.kernel.mailbox import Reply
from ..runtime.turn_options import GivenTool
from .schema.validation import WrongArguments, canonical, parse_arguments
from .tool import Arguments, Tool, ToolContext

CLIENT_SECONDS = 600.0
"""For which a call waits for the client: a person may sit there who answers it."""
MAX_EARLY = 1024
"""Results that are here before their calls wait for them, which is a moment later; the oldest go."""

BY_CLIENT = "by the client"
"""What people see of a result that a client brought."""


class ClientCalls:
    """The calls of clients' tools that wait in this process, and their results."""

    def __init__(self) -> None:
        self._waiting: dict[str, Reply[str]] = {}
        self._early: OrderedDict[str, str] = OrderedDict()

    def answer(self, call_id: str, text: str) -> None:
        """Give the result of a call, once."""
        waiting = self._waiting.pop(call_id, None)
        if waiting is not None:
            waiting.send(text)
            return
        self._early[call_id] = text
        if len(self._early) > MAX_EARLY:
            self._early.popitem(last=False)

    def tool(self, definition: ToolDefinition) -> ClientTool:
        """Return a tool whose calls wait here."""
        return ClientTool(definition, self)

    async def wait(self, call_id: str) -> str:
        """Wait for the result of a call."""
        if (early := self._early.pop(call_id, None)) is not None:
            return early
        reply = self._waiting[call_id] = Reply[str]()
        try:
            return await reply.wait()
        finally:
            self._waiting.pop(call_id, None)


class ClientTool(Tool):
    """A tool of a client. Nothing happens here, so nobody is asked about it; what it gives taints the session.

    The client checks the arguments, whose schema is only shown to the model.
    """

    waits = True
    is_trusted: bool | None = False

    def __init__(self, definition: ToolDefinition, calls: ClientCalls) -> None:
        self.definition = definition
        self._calls = calls

    def decode(self, arguments: str) -> Arguments:
        """See `Tool`."""
        try:
            value = parse_arguments(arguments)
        except WrongArguments as wrong:
            raise wrong.failure(self.name, self.definition.parameters) from None
        return Arguments(value, canonical(value))

    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """See `Tool`."""
        return ToolResult(output=await self._calls.wait(context.call_id), display=BY_CLIENT)


def definition_of(tool: GivenTool) -> ToolDefinition:
    """Return what the model and policies know of a client's tool."""
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters=msgspec.json.decode(tool.parameters),
        tier=Tier.READ_ONLY,
        effect=Effect.READ,
        timeout_seconds=CLIENT_SECONDS,
        source="client",
    )
