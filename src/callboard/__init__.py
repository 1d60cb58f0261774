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

if TYPE_CHECKING:
    from .client.client import Client as Client
    from .client.client import connect as connect
    from .config.files import load_settings as load_settings
    from .config.sections import SandboxSettings as SandboxSettings
    from .config.settings import Limits as Limits
    from .config.settings import NetworkSettings as NetworkSettings
    from .config.settings import ProviderSettings as ProviderSettings
    from .config.settings import Settings as Settings
    from .config.usage_sums import UsageReport as UsageReport
    from .config.usage_sums import UsageSum as UsageSum
    from .embedding.runtime import Runtime as Runtime
    from .embedding.runtime import open_runtime as open_runtime
    from .embedding.session import Session as Session
    from .embedding.turn import Turn as Turn
    from .embedding.turn import TurnEvent as TurnEvent
    from .portals import aio as aio
    from .portals.plain import start_in_thread as start_in_thread
    from .providers.replay import ReplayProvider as ReplayProvider
    from .providers.testing.script import reply as reply
    from .providers.testing.scripted import ScriptedModel as ScriptedModel
    from .runtime.approval import ApprovalAnswer as ApprovalAnswer
    from .runtime.approval import ApprovalRequest as ApprovalRequest
    from .runtime.budget import Budget as Budget
    from .runtime.channel import Channel as Channel
    from .runtime.channel import ChannelMessage as ChannelMessage
    from .runtime.channel import UserQuestion as UserQuestion
    from .runtime.definitions import Agent as Agent
    from .runtime.definitions import Attachment as Attachment
    from .runtime.definitions import ErrorType as ErrorType
    from .runtime.definitions import Image as Image
    from .runtime.definitions import Preset as Preset
    from .runtime.definitions import Resource as Resource
    from .runtime.definitions import Tier as Tier
    from .runtime.definitions import ToolFailure as ToolFailure
    from .runtime.definitions import ToolResult as ToolResult
    from .runtime.errors import ActorStopped as ActorStopped
    from .runtime.errors import AuthError as AuthError
    from .runtime.errors import BudgetError as BudgetError
    from .runtime.errors import CallboardError as CallboardError
    from .runtime.errors import ConflictError as ConflictError
    from .runtime.errors import ContextOverflow as ContextOverflow
    from .runtime.errors import DeadlineError as DeadlineError
    from .runtime.errors import InternalError as InternalError
    from .runtime.errors import NetworkError as NetworkError
    from .runtime.errors import NotFoundError as NotFoundError
    from .runtime.errors import OverloadedError as OverloadedError
    from .runtime.errors import PermissionRefused as PermissionRefused
    from .runtime.errors import ProviderError as ProviderError
    from .runtime.errors import QuotaError as QuotaError
    from .runtime.errors import StorageError as StorageError
    from .runtime.errors import StorageFull as StorageFull
    from .runtime.errors import ToolError as ToolError
    from .runtime.errors import ValidationError as ValidationError
    from .runtime.event_types.calls import CallDeferred as CallDeferred
    from .runtime.event_types.calls import CallFinished as CallFinished
    from .runtime.event_types.calls import CallProposed as CallProposed
    from .runtime.event_types.calls import CallStarted as CallStarted
    from .runtime.event_types.calls import ToolGivenUp as ToolGivenUp
    from .runtime.event_types.inputs import InputDelivered as InputDelivered
    from .runtime.event_types.plan import PlanSet as PlanSet
    from .runtime.event_types.turns import AnswerRejected as AnswerRejected
    from .runtime.event_types.turns import MessagesDeleted as MessagesDeleted
    from .runtime.event_types.turns import TurnSetAside as TurnSetAside
    from .runtime.events import AttemptFailed as AttemptFailed
    from .runtime.events import CallProgress as CallProgress
    from .runtime.events import ChildCall as ChildCall
    from .runtime.events import HistoryCompacted as HistoryCompacted
    from .runtime.events import MessageCompleted as MessageCompleted
    from .runtime.events import MessageDiscarded as MessageDiscarded
    from .runtime.events import ModelSwitched as ModelSwitched
    from .runtime.events import ProviderSetAside as ProviderSetAside
    from .runtime.events import TurnEnded as TurnEnded
    from .runtime.handles import PersonAnswer as PersonAnswer
    from .runtime.hooks.hook import Hook as Hook
    from .runtime.identity import TraceContext as TraceContext
    from .runtime.schedules.schedule import Schedule as Schedule
    from .runtime.stream import TextDelta as TextDelta
    from .runtime.stream import ThinkingDelta as ThinkingDelta
    from .runtime.turn_options import TurnOptions as TurnOptions
    from .runtime.turns.activity import RuntimeStatus as RuntimeStatus
    from .runtime.turns.called_tool import CalledTool as CalledTool
    from .tools.context import ToolContext as ToolContext
    from .tools.tool import tool as tool
else:
    # Each name is imported when it is first used: the commands start and fail without the runtime,
    # and a Trio program never pays for asyncio.
    _MODULES = {
        ".client.client": "Client connect",
        ".config.files": "load_settings",
        ".config.sections": "SandboxSettings",
        ".config.settings": "Limits NetworkSettings ProviderSettings Settings",
        ".config.usage_sums": "UsageReport UsageSum",
        ".embedding.runtime": "Runtime open_runtime",
        ".portals.plain": "start_in_thread",
        ".providers.replay": "ReplayProvider",
        ".providers.testing.script": "reply",
        ".providers.testing.scripted": "ScriptedModel",
        ".runtime.budget": "Budget",
        ".runtime.approval": "ApprovalAnswer ApprovalRequest",
        ".runtime.turns.called_tool": "CalledTool",
        ".runtime.event_types.calls": "CallDeferred CallFinished CallProposed CallStarted ToolGivenUp",
        ".runtime.channel": "Channel ChannelMessage UserQuestion",
        ".runtime.definitions": "Agent Attachment ErrorType Image Preset Resource Tier ToolFailure ToolResult",
        ".runtime.hooks.hook": "Hook",
        ".runtime.identity": "TraceContext",
        ".runtime.schedules.schedule": "Schedule",
        ".runtime.errors": "ActorStopped AuthError BudgetError CallboardError ConflictError ContextOverflow DeadlineError InternalError NetworkError NotFoundError OverloadedError PermissionRefused ProviderError QuotaError StorageError StorageFull ToolError ValidationError",
        ".runtime.events": "AttemptFailed CallProgress ChildCall HistoryCompacted MessageCompleted MessageDiscarded ModelSwitched ProviderSetAside TurnEnded",
        ".runtime.handles": "PersonAnswer",
        ".runtime.event_types.inputs": "InputDelivered",
        ".runtime.event_types.plan": "PlanSet",
        ".runtime.turn_options": "TurnOptions",
        ".runtime.turns.activity": "RuntimeStatus",
        ".runtime.stream": "TextDelta ThinkingDelta",
        ".runtime.event_types.turns": "AnswerRejected MessagesDeleted TurnSetAside",
        ".embedding.session": "Session",
        ".tools.context": "ToolContext",
        ".tools.tool": "tool",
        ".embedding.turn": "Turn TurnEvent",
    }
    _WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "aio":
            return import_module(".portals.aio", __name__)
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_WHERE[name], __name__), name)
        return found

    def __dir__() -> list[str]:
        return sorted([*globals(), "aio", *_WHERE])
