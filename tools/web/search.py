"""web_search: asks the operator's search engine."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ...runtime.definitions import Capability, Effect, ErrorType, Tier, ToolFailure, ToolResult
from ..argument_text import TRY_AGAIN
from ..tool import ToolContext, tool
from .fetch import UNTRUSTED
from .visible_text import one_line

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


@tool(
    tier=Tier.READ_ONLY,
    needs=[Capability.NETWORK],
    timeout_seconds=30,
    effect=Effect.READ,
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
        raise ToolFailure(
            ErrorType.VALIDATION_ERROR,
            f"web_search: query: it holds no words. {TRY_AGAIN}",
            field="query",
        )
    if context.search is None:
        raise ToolFailure(ErrorType.EXECUTION_ERROR, NOT_CONFIGURED)
    hits = await context.search.search(words, limit=num_results)
    results = [{"title": hit.title, "url": hit.url, "snippet": hit.snippet} for hit in hits]
    count = f"{len(hits)} result{'' if len(hits) == 1 else 's'}"
    return ToolResult(
        output={"source": UNTRUSTED, "results": results},
        display=f"{one_line(words, 80)}: {count}",
    )
