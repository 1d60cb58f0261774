"""`[agents.NAME]`: what it takes, and what is said about a mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.files import parse_settings
from callboard.runtime.budget import Budget
from callboard.runtime.definitions import Agent, Preset, ThinkingEffort
from callboard.runtime.errors import ValidationError


def agent_of(*lines: str) -> Agent:
    text = "\n".join(["[agents.reader]", 'prompt = "You read."', *lines])
    return parse_settings(text, Path("callboard.toml")).agents["reader"]


def test_an_agent_has_its_fallbacks_and_how_it_samples() -> None:
    agent = agent_of(
        'fallbacks = ["openai/gpt-5-mini", "openrouter/a/b"]',
        'thinking = "low"',
        "temperature = 0",
        "max_output_tokens = 100",
    )
    assert agent.fallbacks == ("openai/gpt-5-mini", "openrouter/a/b")
    assert agent.thinking is ThinkingEffort.LOW
    assert (agent.temperature, agent.max_output_tokens) == (0.0, 100)
    plain = agent_of()
    assert (plain.fallbacks, plain.thinking, plain.temperature) == ((), None, None)


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        ('fallbacks = "openai/gpt-5-mini"', "fallbacks", "expected array"),
        ('fallbacks = ["openai"]', "fallbacks", "'openai' is no PROVIDER/MODEL"),
        ('fallbacks = ["a/b", "/m"]', "fallbacks", "'/m' is no PROVIDER/MODEL"),
        ('fallbacks = ["a/b", 3]', "fallbacks", "expected string"),
        ('fallback = ["a/b"]', "fallback", "did you mean 'fallbacks'?"),
        ('thinking = "max"', "thinking", "choices: off, low, medium, high"),
        ("thinking = true", "thinking", "expected string"),
        ("temperature = 2.1", "temperature", "<= 2"),
        ("temperature = -1", "temperature", ">= 0"),
        ("temperature = nan", "temperature", "expected number"),
        ("max_output_tokens = 0", "max_output_tokens", ">= 1"),
        ("max_output_tokens = 1.5", "max_output_tokens", "expected integer"),
    ],
)
def test_a_mistake_is_named_with_its_line(line: str, field: str, words: str) -> None:
    with pytest.raises(ValidationError, match=r"callboard\.toml, line 3: ") as refused:
        agent_of(line)
    assert refused.value.field == f"agents.reader.{field}"
    assert words in str(refused.value)


def test_budgets_of_an_agent() -> None:
    agent = agent_of(
        "turn_budget = { tokens = 50000, seconds = 60.5 }", "session_budget.cost_usd = 0.5"
    )
    assert agent.turn_budget == Budget(tokens=50_000, seconds=60.5)
    assert agent.session_budget == Budget(cost_usd=0.5)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("turn_budget.token = 5", "turn_budget.token: there is no such setting"),
        ("turn_budget.tokens = -5", "agents.a.turn_budget.tokens"),
        ("session_budget.tokens = 1.5", "agents.a.session_budget.tokens"),
        ("session_budget = 5", "agents.a.session_budget"),
    ],
)
def test_a_wrong_budget_names_its_field(line: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        parse_settings(f"[agents.a]\n{line}\n", Path("callboard.toml"))


def test_a_preset_in_words_is_the_preset() -> None:
    assert Agent(policy="strict").policy is Preset.STRICT  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lenient"):
        Agent(policy="lenient")  # type: ignore[arg-type]
