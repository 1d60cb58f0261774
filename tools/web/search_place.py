"""Searches at the engine that the operator chose, over the call's own guarded network."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...config.base_url import may_carry_key
from ...config.settings import SearchEngine
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import CallboardError
from ...runtime.handles import Network, WebAnswer
from ...runtime.http_url import parse_url
from ...runtime.search import SearchHit
from ...runtime.secrets import Secret
from ..threads import run_read
from .search_engines import WIRES, hits_of

MAX_ANSWER_BYTES = 2 * 1024 * 1024
"""Of an engine: SearXNG gives a page of some dozen hits with all their details."""


class SearchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the operator has searches made.

    Attributes:
        engine: Which wire format it speaks.
        base_url: Where it is.
        key: Finds its key; blocks, and raises `CallboardError` when it can't be used.
        needs_key: Whether it answers nobody without one.
        missing: What to do when it has none, for a person.
    """

    engine: SearchEngine
    base_url: str
    key: Callable[[], Secret | None]
    needs_key: bool
    missing: str


class WebSearch:
    """A `Search` handle for one call.

    Args:
        place: The engine.
        network: The call's way out; where it leads counts as where the call has connected.
    """

    def __init__(self, place: SearchPlace, network: Network) -> None:
        self._place = place
        self._network = network

    async def search(self, query: str, *, limit: int) -> tuple[SearchHit, ...]:
        """See `Search`."""
        place = self._place
        wire = WIRES[place.engine]
        request = wire.request(place.base_url, query, limit, await self._key())
        answer = await self._network.request(request, max_bytes=MAX_ANSWER_BYTES)
        if answer.status != 200:
            raise self._refused(answer)
        try:
            hits = hits_of(wire, msgspec.json.decode(answer.body), limit)
        except (msgspec.DecodeError, RecursionError):
            hits = None
        if hits is None:
            raise ToolFailure(
                ErrorType.NETWORK_ERROR,
                f"{self._where(answer)} did not answer as {place.engine} does. Is it one? See "
                "[search] in callboard.toml.",
            )
        return hits

    async def _key(self) -> Secret | None:
        place = self._place
        try:
            key = await run_read(place.key)
        except CallboardError as error:
            raise ToolFailure(ErrorType.EXECUTION_ERROR, f"web_search: {error}") from error
        if key is None and place.needs_key:
            raise ToolFailure(ErrorType.EXECUTION_ERROR, f"web_search: {place.missing}")
        if key is not None and not may_carry_key(place.base_url):
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"web_search: the key of {place.engine} is not sent to {place.base_url}: http:// "
                "would show it to everybody on the way. Give [search] an https:// base_url.",
            )
        return key

    def _refused(self, answer: WebAnswer) -> ToolFailure:
        place, where, status = self._place, self._where(answer), answer.status
        if place.engine is SearchEngine.SEARXNG and status == 403:
            return ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"{where} gives no JSON (403). Its operator lists json under search.formats in "
                "settings.yml.",
            )
        if status in {401, 403}:
            return ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"{where} refused the key of {place.engine} ({status}). Set it again: callboard "
                f"keys set {place.engine}.",
            )
        advice = "It is asked too often: wait a while." if status in {429, 432, 433} else ""
        reason = answer.reason[:100]
        return ToolFailure(
            ErrorType.NETWORK_ERROR, f"{where} answered {status} {reason}. {advice}".rstrip()
        )

    def _where(self, answer: WebAnswer) -> str:
        return parse_url(answer.url).authority
