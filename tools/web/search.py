"""web_search: hits of the operator's search engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypedDict

import msgspec

from ...config.base_url import may_carry_key
from ...config.settings import SearchEngine
from ...runtime.definitions import Capability, Effect, ErrorType, Tier, ToolFailure, ToolResult
from ...runtime.errors import CallboardError
from ...runtime.handles import Network, SearchHit, WebAnswer
from ...runtime.http.url import parse_url
from ...runtime.redaction import Secret
from ...runtime.text import UNDECODABLE
from ..failures import failed, invalid
from ..processes.threads import run_read
from ..schema.validation import TRY_AGAIN
from ..tool import ToolContext, tool
from .fetch import UNTRUSTED
from .search_engines import WIRES, hits_of
from .text import one_line

MAX_QUERY_CHARS = 400
"""Brave's and Tavily's limit."""
MAX_RESULTS = 20
"""Brave's and Tavily's limit for one answer."""

NOT_CONFIGURED = (
    "web_search: no search engine is configured. The operator names one in callboard.toml, "
    '[search] engine = "searxng" with the base_url of an instance of their own (which [network] '
    'allow lists when it is not public), or engine = "brave" or "tavily" with a key: callboard '
    "keys set brave. Until then, use web_fetch with addresses that you know."
)


class HitOutput(TypedDict):
    """One result of a search."""

    title: str
    url: str
    snippet: str


class HitsOutput(TypedDict):
    """What web_search returns."""

    source: str
    results: list[HitOutput]


@tool(
    tier=Tier.READ_ONLY,
    needs=[Capability.NETWORK],
    timeout_seconds=30,
    effect=Effect.READ,
    output=HitsOutput,
)
async def web_search(
    context: ToolContext,
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_QUERY_CHARS)],
    num_results: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS)] = 5,
) -> ToolResult:
    """Searches the web and gives titles, addresses and snippets; web_fetch reads what they lead to.

    Args:
        query: What to look for, in the words of the pages that are wanted.
        num_results: How many results at most.
    """
    words = one_line(query, MAX_QUERY_CHARS)
    if not words:
        raise invalid("query", f"web_search: query: it has no words. {TRY_AGAIN}")
    if context.search is None:
        raise failed(NOT_CONFIGURED)
    hits = await context.search.search(words, limit=num_results)
    results = [{"title": hit.title, "url": hit.url, "snippet": hit.snippet} for hit in hits]
    count = f"{len(hits)} result{'' if len(hits) == 1 else 's'}"
    return ToolResult(
        output={"source": UNTRUSTED, "results": results}, display=f"{one_line(words, 80)}: {count}"
    )


MAX_ANSWER_BYTES = 2 * 1024 * 1024
"""The largest answer of an engine: SearXNG sends some dozen hits with all their details."""


class SearchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The search engine that the operator configured.

    `key` blocks, and raises `CallboardError` when the key can't be used. `missing` says to a person what to do
    when there is none.
    """

    engine: SearchEngine
    base_url: str
    key: Callable[[], Secret | None]
    needs_key: bool
    missing: str


class WebSearch:
    """A `Search` handle for one call, whose network handle notes the hosts that it reached."""

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
        except (*UNDECODABLE, RecursionError):
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
            raise failed(f"web_search: {error}") from error
        if key is None and place.needs_key:
            raise failed(f"web_search: {place.missing}")
        if key is not None and not may_carry_key(place.base_url):
            raise failed(
                f"web_search: the key of {place.engine} is not sent to {place.base_url}: http:// "
                "would show it to everybody on the way. Give [search] an https:// base_url."
            )
        return key

    def _refused(self, answer: WebAnswer) -> ToolFailure:
        place, where, status = self._place, self._where(answer), answer.status
        if place.engine is SearchEngine.SEARXNG and status == 403:
            return failed(
                f"{where} gives no JSON (403). Its operator lists json under search.formats in "
                "settings.yml."
            )
        if status in {401, 403}:
            return failed(
                f"{where} refused the key of {place.engine} ({status}). Set it again: callboard "
                f"keys set {place.engine}."
            )
        advice = "It is asked too often: wait a while." if status in {429, 432, 433} else ""
        reason = answer.reason[:100]
        return ToolFailure(
            ErrorType.NETWORK_ERROR, f"{where} answered {status} {reason}. {advice}".rstrip()
        )

    def _where(self, answer: WebAnswer) -> str:
        return parse_url(answer.url).authority
