"""`[search]` in callboard.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.files import parse_settings
from callboard.config.search_engines import KnownEngine, engine_of, engines_of
from callboard.config.settings import SearchEngine, SearchSettings
from callboard.runtime.errors import ValidationError


def parsed(text: str) -> SearchSettings:
    return parse_settings(text, Path("callboard.toml")).search


def engine(text: str) -> KnownEngine | None:
    return engine_of(parsed(f"[search]\n{text}"))


def test_none_is_configured_by_default() -> None:
    assert engine_of(parsed("")) is None
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
def test_what_can_not_be_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint) as caught:
        engine(text)
    assert "search" in str(caught.value)
    assert "pw" not in str(caught.value)
