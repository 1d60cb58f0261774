"""The handle through which tools search the web."""

from __future__ import annotations

from typing import Protocol

import msgspec


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a search engine found: all of it is written by strangers.

    Attributes:
        title: In one line.
        url: Of the web.
        snippet: Some words of it, in one line; it may be empty.
    """

    title: str
    url: str
    snippet: str


class Search(Protocol):
    """The operator's search engine."""

    async def search(self, query: str, *, limit: int) -> tuple[SearchHit, ...]:
        """The best hits, at most `limit`.

        Raises `ToolFailure`: `url_not_allowed` or `network_error` when it can't be reached,
        `execution_error` for what the operator has to mend.
        """
        ...
