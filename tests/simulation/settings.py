"""The configuration of played daemons: deadlines that are short, and agents that ask more or less."""

from __future__ import annotations

from msgspec.structs import replace

from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.sections import ServerSettings, SessionSettings, TitleSource
from callboard.config.settings import Limits, Settings
from callboard.runtime.budget import Budget
from callboard.runtime.definitions import Agent, Preset, Verdict
from simulation.tools import TOOL_NAMES

DRAIN_SECONDS = 5.0

LIMITS = Limits(
    first_byte_seconds=20,
    idle_seconds=20,
    progress_seconds=30,
    model_call_seconds=90,
    retry_wait_seconds=5,
    max_tool_seconds=40,
    approval_seconds=20,
    deferred_seconds=300,
)
SETTINGS = Settings(limits=LIMITS, sessions=SessionSettings(titles=TitleSource.WORDS))
STRICTER = replace(
    SETTINGS, rules=(PlacedRule(Rule(verdict=Verdict.DENY, tool=("post",)), "rules[1]"),)
)
"""A configuration that denies what always asks."""
TOOL_CALLS, MODEL_CALLS = 3, 2
BOUND = Budget(tool_calls=TOOL_CALLS, model_calls=MODEL_CALLS)
AGENTS = (
    Agent(name="general", tools=TOOL_NAMES),
    Agent(name="careful", tools=TOOL_NAMES, policy=Preset.STRICT),
    Agent(name="free", tools=TOOL_NAMES, policy=Preset.AUTO),
    Agent(name="patient", tools=TOOL_NAMES, defer=True),
    Agent(name="bounded", tools=TOOL_NAMES, turn_budget=BOUND),
)
SERVER = ServerSettings(drain_seconds=DRAIN_SECONDS)
