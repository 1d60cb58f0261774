"""`[memory]` in callboard.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.files import parse_settings
from callboard.config.sections import MemoryPlace, MemorySearch, MemorySettings
from callboard.runtime.errors import ValidationError


def parsed(text: str) -> MemorySettings:
    return parse_settings(f"[memory]\n{text}", Path("callboard.toml")).memory


def test_words_are_the_default_and_vectors_have_two_places() -> None:
    assert parsed("") == MemorySettings()
    assert parsed("").search is MemorySearch.WORDS
    assert parsed('search = "vectors"').store is MemoryPlace.SQLITE
    assert parsed('search = "vectors"\nstore = "lancedb"').store is MemoryPlace.LANCEDB


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('store = "lancedb"', 'say search = "vectors" beside'),
        ('search = "feeling"', "search"),
        ('place = "sqlite"', "place"),
    ],
)
def test_what_can_not_be_is_said(text: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        parsed(text)
