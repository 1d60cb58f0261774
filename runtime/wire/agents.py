"""AgentList on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ..budget import Budget
from ..definitions import (
    GENERAL_AGENT,
    GENERAL_DESCRIPTION,
    GENERAL_PROMPT,
    MAX_AGENT_SKILLS,
    MAX_DESCRIPTION_CHARS,
    MAX_OUTPUT_TOKENS,
    MAX_TEMPERATURE,
    Agent,
    Fallbacks,
    ModelName,
    Preset,
    ThinkingEffort,
    Tier,
)
from ..errors import ValidationError
from ..text import WireInteger
from .fields import MAX_ITEMS, Line, LongText, Word, Words

AgentSource = Literal["built_in", "callboard.toml", "managed", "program"]
"""Where an agent comes from, and so where it is changed: managed ones by programs and commands."""


class OneAgent(msgspec.Struct, frozen=True):
    """An agent by its name."""

    name: Word


class AgentTool(msgspec.Struct, frozen=True):
    """A tool that an agent may use; without a tier, there is no such tool here."""

    name: str
    description: str = ""
    tier: Tier | None = None


class _Fields(msgspec.Struct, frozen=True, kw_only=True):
    name: Word
    description: Annotated[str, msgspec.Meta(max_length=MAX_DESCRIPTION_CHARS)] = ""
    prompt: LongText = GENERAL_PROMPT
    model: ModelName | None = None
    fallbacks: Fallbacks = ()
    policy: Preset | None = None
    auto_hosts: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_ITEMS)] = ()
    defer: bool = False
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    thinking: ThinkingEffort | None = None
    turn_budget: Budget | None = None
    session_budget: Budget | None = None
    skills: Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_AGENT_SKILLS)] | None = None
    updated_at_ms: WireInteger | None = None


class AgentDraft(_Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent to make, or what an agent becomes; `callboard.Agent` explains the fields.

    Without a policy it has the operator's default. An `updated_at_ms` says which state was changed:
    when there is a later one by now, nothing is.
    """

    tools: Words | None = None

    def agent(self, policy: Preset) -> Agent:
        """Return the agent; `policy` is the default preset. Raises `ValidationError`."""
        values = {field: getattr(self, field) for field in self.__struct_fields__}
        try:
            return Agent(**{**values, "policy": self.policy or policy})
        except ValueError as error:  # the check of a field, which it names
            problem = str(error)
            raise ValidationError(
                f"agent.{problem}", field=f"agent.{problem.partition(':')[0]}"
            ) from None


class AgentRow(_Fields, frozen=True, kw_only=True):
    """An agent in a list.

    Attributes:
        tools: Those that it may use.
        has_all_tools: Whether these are all that there are, and later ones too.
        built_in: Whether it can't be deleted.
        source: Where it comes from.
        place: The file and line, when it stands in the operator's file.
        created_at_ms: When it was made, if a program or command made it.
    """

    tools: tuple[AgentTool, ...] = ()
    has_all_tools: bool = False
    built_in: bool = False
    source: AgentSource = "managed"
    created_at_ms: int | None = None

    @property
    def tool_names(self) -> tuple[str, ...] | None:
        """The names of its tools; `None` for all."""
        return None if self.has_all_tools else tuple(tool.name for tool in self.tools)


class NewAgent(msgspec.Struct, frozen=True):
    """An agent to make."""

    agent: AgentDraft


class ChangedAgent(msgspec.Struct, frozen=True):
    """What an agent becomes; its name says which."""

    agent: AgentDraft


class CloneAgent(msgspec.Struct, frozen=True):
    """Which agent to copy, and the name of the copy."""

    name: Word
    new_name: Word


class PreviewAgent(msgspec.Struct, frozen=True, kw_only=True):
    """The agent whose prompt to return; in a workspace, with what its models are told of that."""

    name: Word
    workspace: Line | None = None


class PromptPart(msgspec.Struct, frozen=True):
    """A part of a prompt.

    Attributes:
        source: The agent's own prompt, what servers of MCP say of their tools, or skills and AGENTS.md of the workspace.
        text: What it says.
    """

    source: Literal["agent", "servers", "workspace"]
    text: str


class PromptPreview(msgspec.Struct, frozen=True):
    """What a model is told before anything is said: the whole text, and its parts in their order."""

    text: str
    parts: tuple[PromptPart, ...]


class AgentDeleted(msgspec.Struct, frozen=True):
    """How many sessions General Assistant has now."""

    moved_sessions: int


class AgentList(msgspec.Struct, frozen=True):
    """The agents, by name."""

    agents: list[AgentRow]


def draft_of(agent: Agent) -> AgentDraft:
    """Return an agent as a client sends it."""
    return AgentDraft(**{name: getattr(agent, name) for name in AgentDraft.__struct_fields__})


def agent_of_row(row: AgentRow) -> Agent:
    """Return the agent of a row."""
    values = {name: getattr(row, name) for name in _Fields.__struct_fields__}
    values |= {"tools": row.tool_names, "created_at_ms": row.created_at_ms}
    return Agent(**{name: value for name, value in values.items() if value is not None})


def row_of(
    agent: Agent, source: AgentSource, tools: dict[str, AgentTool], *, is_built_in: bool
) -> AgentRow:
    """Return an agent as a row; `tools` are all that there are."""
    names = tools if agent.tools is None else agent.tools
    values = {name: getattr(agent, name) for name in _Fields.__struct_fields__}
    if agent.name == GENERAL_AGENT:
        values["description"] = agent.description or GENERAL_DESCRIPTION
    return AgentRow(
        **values,
        tools=tuple(tools.get(name) or AgentTool(name) for name in names),
        has_all_tools=agent.tools is None,
        built_in=is_built_in,
        source=source,
        created_at_ms=agent.created_at_ms,
    )
