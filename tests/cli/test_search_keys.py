"""Keys of search engines, kept like those of providers, by the same commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.__main__ import main
from callboard.config.files import load_settings
from callboard.embedding.access import search_place
from callboard.embedding.models import with_keys
from callboard.providers.catalog.catalog import ModelSelection
from callboard.runtime.errors import AuthError
from callboard.runtime.redaction import redact
from support.cli.in_process import fresh_home as fresh_home
from support.cli.in_process import pipe as pipe

KEY = "sesame-4711-searches"

Captured = pytest.CaptureFixture[str]
Put = Callable[[str], int]


@pytest.fixture
def home(fresh_home: Path) -> Path:
    (fresh_home / "config").mkdir()
    return fresh_home


def configure(home: Path, text: str) -> None:
    (home / "config" / "callboard.toml").write_text(f"[search]\n{text}\n")


@pytest.fixture
def put(pipe: Callable[[bytes], None]) -> Put:
    def store(name: str) -> int:
        pipe(KEY.encode())
        return main(["keys", "set", name])

    return store


def listed(capsys: Captured) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["keys", "list", "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def found(home: Path, **environ: str) -> str | None:
    """The key that searches are made with."""
    settings = load_settings()
    given = {"CALLBOARD_HOME": str(home), **environ}
    wish = with_keys(ModelSelection(settings=settings, environ=given), home / "data")
    place = search_place(settings, wish)
    assert place is not None
    key = place.key()
    return None if key is None else key.reveal()


def test_a_key_is_stored_listed_used_and_removed(home: Path, put: Put, capsys: Captured) -> None:
    configure(home, 'engine = "brave"')
    assert found(home) is None
    assert put("brave") == 0
    [row] = listed(capsys)
    assert (row["provider"], row["origin"]) == ("brave", "https://api.search.brave.com:443")
    assert (row["source"], row["used"]) == ("stored", True)
    assert found(home) == KEY
    assert KEY not in redact(f"a {KEY} b")
    # The environment wins, as for providers.
    assert found(home, BRAVE_API_KEY="another-key-12345") == "another-key-12345"
    assert main(["keys", "remove", "brave"]) == 0
    assert found(home) is None


def test_a_key_stays_with_its_origin(home: Path, put: Put) -> None:
    assert put("tavily") == 0
    configure(home, 'engine = "tavily"\nbase_url = "https://other.test"')
    assert found(home) is None
    configure(home, 'engine = "tavily"')
    assert found(home) == KEY


def test_a_key_of_the_environment_is_listed_and_masked(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-canary-12345")
    [row] = listed(capsys)
    assert (row["provider"], row["variable"]) == ("tavily", "TAVILY_API_KEY")
    assert "tvly-canary" not in redact("tvly-canary-12345")


def test_searxng_has_a_key_only_where_it_has_a_place(
    home: Path, put: Put, capsys: Captured
) -> None:
    assert put("searxng") != 0
    assert "does not say where" in capsys.readouterr().err
    configure(home, 'engine = "searxng"\nbase_url = "http://search.corp.test"')
    assert put("searxng") != 0
    assert "clear text" in capsys.readouterr().err
    configure(home, 'engine = "searxng"\nbase_url = "https://search.corp.test"')
    assert put("searxng") == 0
    assert found(home) == KEY


def test_a_broken_key_is_an_error_that_names_its_variable(home: Path) -> None:
    configure(home, 'engine = "brave"')
    with pytest.raises(AuthError, match="BRAVE_API_KEY"):
        found(home, BRAVE_API_KEY="a\nb")
