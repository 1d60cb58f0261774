"""Check what the policy would decide about a call, without making it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from ..actors.calls.call import find_tool
from ..config.policy.policy import Policy, PolicyBook, PolicyQuestion
from ..config.policy.preset import Ruling
from ..runtime.definitions import (
    Agent,
    Capability,
    SessionKind,
    Tier,
    ToolDefinition,
    ToolFailure,
    Verdict,
)
from ..runtime.errors import ValidationError
from ..runtime.wire.approvals import PolicyAnswer
from ..tools.registry import ToolRegistry
from ..tools.schema.validation import without_advice
from ..tools.tool import Tool, ToolContext
from ..tools.workspace.workspace import open_workspace


class CheckedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call to check, in a session that has connected nowhere so far.

    Attributes:
        tier: The tier of a tool that is not known here; `None` counts as elevated.
    """

    tool: str
    arguments: str
    agent: str = "general"
    kind: str = "main"
    channel: str | None = None
    preset: str | None = None
    workspace: Path | None = None
    is_tainted: bool = False
    has_private: bool = False
    tier: Tier | None = None


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """Judges calls of an agent; no workspace may hold one of the `forbidden` folders.

    `above` is the policy of the sessions that delegated to the agent's.
    """

    agent: Agent
    policies: PolicyBook
    registry: ToolRegistry
    forbidden: Sequence[Path]
    above: Policy | None = None

    def answer(self, call: CheckedCall) -> PolicyAnswer:
        """Return the verdict about one call. Blocks, since a tool may look at files.

        Raises:
            ValidationError: The arguments are wrong, or the folder can't be a workspace.
        """
        kind = SessionKind(call.kind)
        policy = self.policies.policy(
            self.agent, kind=kind, channel=call.channel, parent=self.above
        )
        tool = self.registry.get(call.tool)
        question = _unknown(call) if tool is None else _question(call, tool, self, kind)
        is_exposed = call.is_tainted and call.has_private
        ruling = policy.ruling(msgspec.structs.replace(question, is_exposed=is_exposed))
        if tool is not None:
            ruling = _if_available(self.registry, call.tool, self.agent, kind) or ruling
        return PolicyAnswer(
            verdict=ruling.verdict,
            reason=ruling.reason,
            rule=ruling.rule,
            tool=call.tool,
            tier=question.final_tier,
            arguments=question.arguments,
            agent=self.agent.name,
            kind=kind,
            policy=policy.version,
        )


def _if_available(
    registry: ToolRegistry, name: str, agent: Agent, kind: SessionKind
) -> Ruling | None:
    """Return the denial of a tool that such a session does not have; no rule outweighs it."""
    try:
        find_tool(registry, name, agent, kind)
    except ToolFailure as failure:
        has = agent.tools is None or name in agent.tools
        rule = f"{kind} sessions" if has else f"tools of agent {agent.name}"
        return Ruling(Verdict.DENY, str(failure), rule)
    return None


def _unknown(call: CheckedCall) -> PolicyQuestion:
    try:
        given = msgspec.json.decode(call.arguments, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise ValidationError(f"the arguments are no JSON object: {error}") from error
    canonical = msgspec.json.encode(given, order="deterministic").decode()
    definition = None
    if call.tier is not None:
        definition = ToolDefinition(name=call.tool, description="", parameters={}, tier=call.tier)
    return PolicyQuestion(
        tool=call.tool, definition=definition, tier=call.tier, arguments=canonical
    )


def _question(call: CheckedCall, tool: Tool, judge: Judge, kind: SessionKind) -> PolicyQuestion:
    with ExitStack() as resources:
        context = ToolContext(
            session_id="check",
            turn_id="check",
            call_id="check",
            session_kind=kind,
            agent=judge.agent,
        )
        if {Capability.FILES_READ, Capability.FILES_WRITE}.intersection(tool.definition.needs):
            workspace = open_workspace(call.workspace or Path.cwd(), forbidden=judge.forbidden)
            resources.callback(workspace.close)
            context.files_read = workspace.read_only()
            context.files_write = None if kind is SessionKind.WORKER else workspace
        try:
            arguments = tool.decode(call.arguments)
            reason = tool.approval_reason(arguments, context)
        except ToolFailure as failure:
            said = without_advice(str(failure))
            raise ValidationError(f"{call.tool} refuses this call itself: {said}") from failure
        return PolicyQuestion(
            tool=call.tool,
            definition=msgspec.structs.replace(tool.definition, needs=tool.needs(arguments)),
            tier=tool.tier(arguments),
            arguments=arguments.canonical,
            approval_reason=reason,
        )
