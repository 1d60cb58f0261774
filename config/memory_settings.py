"""How memories are found, and where what finds them is kept: the settings of memory."""

from __future__ import annotations

import enum

import msgspec


class MemorySearch(enum.StrEnum):
    """By what memories are found."""

    WORDS = "words"
    VECTORS = "vectors"


class MemoryPlace(enum.StrEnum):
    """Where vectors are kept."""

    SQLITE = "sqlite"
    LANCEDB = "lancedb"


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory_search` searches.

    Attributes:
        search: `words` is full text, and needs nothing to be installed; `vectors` is that and what
            texts mean, with the extra `vectors`.
        store: Where the vectors are: `sqlite`, a file in the data folder, or `lancedb`, a table
            there, with the extra `lancedb`. What is remembered is in the journal, whatever this says.
    """

    search: MemorySearch = MemorySearch.WORDS
    store: MemoryPlace = MemoryPlace.SQLITE

    def __post_init__(self) -> None:
        if self.store is MemoryPlace.LANCEDB and self.search is MemorySearch.WORDS:
            raise ValueError(
                'search: LanceDB keeps vectors: say search = "vectors" beside store = "lancedb"'
            )
