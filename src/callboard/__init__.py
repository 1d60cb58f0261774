"""A runtime for AI agents, built as independent actors on Trio.

Example:
    import trio

    async def main():
        async with callboard.open_runtime(model="rehearsal") as runtime:
            session = await runtime.create_session()
            async with session.prompt("What time is it in Tokyo?") as turn:
                async for event in turn:
                    if isinstance(event, callboard.TextDelta):
                        print(event.text, end="")

    trio.run(main)
"""

from typing import TYPE_CHECKING

from .embedded import Runtime as Runtime
from .embedded import Session as Session
from .embedded import open_runtime as open_runtime
from .providers.script import reply as reply
from .providers.scripted import ScriptedModel as ScriptedModel
from .runtime.definitions import Agent as Agent
from .runtime.definitions import ErrorType as ErrorType
from .runtime.definitions import Preset as Preset
from .runtime.definitions import Tier as Tier
from .runtime.definitions import ToolFailure as ToolFailure
from .runtime.definitions import ToolResult as ToolResult
from .runtime.errors import CallboardError as CallboardError
from .runtime.events import CallFinished as CallFinished
from .runtime.events import CallProgress as CallProgress
from .runtime.events import CallProposed as CallProposed
from .runtime.events import CallStarted as CallStarted
from .runtime.events import MessageCompleted as MessageCompleted
from .runtime.events import MessageDiscarded as MessageDiscarded
from .runtime.events import TurnEnded as TurnEnded
from .runtime.messages import ApprovalAnswer as ApprovalAnswer
from .runtime.messages import ApprovalRequest as ApprovalRequest
from .runtime.stream import TextDelta as TextDelta
from .runtime.stream import ThinkingDelta as ThinkingDelta
from .tools.tool import ToolContext as ToolContext
from .tools.tool import tool as tool
from .turn_handle import Turn as Turn
from .turn_handle import TurnEvent as TurnEvent

if TYPE_CHECKING:
    from . import aio as aio
    from .plain import start_in_thread as start_in_thread
else:
    # A Trio program needs neither, and asyncio alone takes as long to import as all of this.
    _LATER = {"aio": (".aio", None), "start_in_thread": (".plain", "start_in_thread")}

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module, attribute = _LATER[name]
        found = import_module(module, __name__)
        found = globals()[name] = getattr(found, attribute) if attribute else found
        return found

    def __dir__() -> list[str]:
        return sorted([*globals(), *_LATER])
