"""Single tables of callboard.toml: agents, memory and search, and what is said about a mistake there."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.files import parse_settings
from callboard.config.search_engines import KnownEngine, engine_of, engines_of
from callboard.config.sections import MemoryPlace, MemorySearch, MemorySettings
from callboard.config.settings import SearchEngine, SearchSettings
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
        ('fallbacks = ["openai"]', "fallbacks", "'openai' is not PROVIDER/MODEL"),
        ('fallbacks = ["a/b", "/m"]', "fallbacks", "'/m' is not PROVIDER/MODEL"),
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


def memory_of(text: str) -> MemorySettings:
    return parse_settings(f"[memory]\n{text}", Path("callboard.toml")).memory


def test_words_are_the_default_and_vectors_have_two_places() -> None:
    assert memory_of("") == MemorySettings()
    assert memory_of("").search is MemorySearch.WORDS
    assert memory_of('search = "vectors"').store is MemoryPlace.SQLITE
    assert memory_of('search = "vectors"\nstore = "lancedb"').store is MemoryPlace.LANCEDB


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('store = "lancedb"', 'say search = "vectors" beside'),
        ('search = "feeling"', "search"),
        ('place = "sqlite"', "place"),
    ],
)
def test_a_wrong_memory_setting_is_named(text: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        memory_of(text)


def search_of(text: str) -> SearchSettings:
    return parse_settings(text, Path("callboard.toml")).search


def engine(text: str) -> KnownEngine | None:
    return engine_of(search_of(f"[search]\n{text}"))


def test_no_engine_is_configured_by_default() -> None:
    assert engine_of(search_of("")) is None
    assert list(engines_of(SearchSettings())) == ["brave", "tavily"]


@pytest.mark.parametrize(
    ("text", "name", "place", "needs_key"),
    [
        (
            'engine = "searxng"\nbase_url = "http://127.0.0.1:8888/"',
            "searxng",
            "http://127.0.0.1:8888",
            False,
        ),
        ('engine = "brave"', "brave", "https://api.search.brave.com", True),
        ('engine = "tavily"', "tavily", "https://api.tavily.com", True),
        ('engine = "brave"\nbase_url = "https://p.test/b"', "brave", "https://p.test/b", True),
    ],
)
def test_an_engine_is_where_the_settings_say(
    text: str, name: str, place: str, needs_key: bool
) -> None:
    found = engine(text)
    assert found is not None
    assert (found.name, found.base_url, found.needs_key) == (SearchEngine(name), place, needs_key)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('engine = "searxng"', "SearXNG is hosted by oneself"),
        ('engine = "google"', "choices: searxng, brave, tavily"),
        ('base_url = "https://a.test"', "engine says what is there"),
        ('engine = "searxng"\nbase_url = "a.test"', "begins with http"),
        ('engine = "brave"\nbase_url = "https://me:pw@a.test"', "no user name or password"),
        ('engine = "brave"\nkey = "x"', "there is no such setting"),
    ],
)
def test_a_wrong_search_setting_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint) as caught:
        engine(text)
    assert "search" in str(caught.value)
    assert "pw" not in str(caught.value)
