"""Lists of models as providers gave them, kept in the data folder: a file for each provider.

It is a cache: a file that can't be read, or is of another base URL, is as good as none.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...config.private_file import make_private_folder, read_private, write_private
from ...runtime.errors import StorageError
from ...runtime.identity import now_ms
from ..provider import ListedModel
from .known import KnownProvider

FOLDER_NAME = "models"
"""Folder of the lists, in the data folder."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Largest file that is read; the longest list, ten thousand models, has half of it."""


class CachedList(msgspec.Struct, frozen=True, kw_only=True):
    """A list of models as it came.

    Attributes:
        base_url: Where it came from; a list of another place is not this provider's.
        dialect: The wire format in which it came.
        listed_at_ms: When, in Unix milliseconds.
        models: Its models.
    """

    base_url: str
    dialect: str
    listed_at_ms: int
    models: tuple[ListedModel, ...]


_decode = msgspec.json.Decoder(CachedList).decode


class ModelCache:
    """The last list of models of each provider.

    Args:
        data: The data folder; `None` keeps them in memory. Nothing is made in it before `save`.
    """

    def __init__(self, data: Path | None) -> None:
        self._data = data
        self._known: dict[str, CachedList] = {}

    def load(self, provider: KnownProvider) -> CachedList | None:
        """Return the last list of this provider at this base URL, if there is one. Blocks."""
        found = self._known.get(provider.name) or self._read(provider.name)
        if found is None:
            return None
        is_its = (found.base_url, found.dialect) == (provider.base_url, provider.dialect)
        return found if is_its else None

    def save(self, provider: KnownProvider, models: tuple[ListedModel, ...]) -> CachedList:
        """Keep a list that has just come. Blocks.

        Raises:
            StorageError: The file can't be written; the list is kept in memory.
        """
        fresh = self._known[provider.name] = CachedList(
            base_url=provider.base_url,
            dialect=provider.dialect,
            listed_at_ms=now_ms(),
            models=models,
        )
        if self._data is not None:
            make_private_folder(self._data)
            make_private_folder(self._data / FOLDER_NAME)
            write_private(self._path(self._data, provider.name), _encode(fresh), replace=True)
        return fresh

    def _read(self, name: str) -> CachedList | None:
        if self._data is None:
            return None
        try:
            content = read_private(self._path(self._data, name), MAX_FILE_BYTES)
            return _decode(content) if content is not None else None
        except (StorageError, msgspec.DecodeError, UnicodeDecodeError):
            return None  # the list is fetched again, and the file replaced

    @staticmethod
    def _path(data: Path, name: str) -> Path:
        return data / FOLDER_NAME / f"{name}.json"


_encode = msgspec.json.Encoder().encode
