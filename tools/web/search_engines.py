"""The wire formats of search engines: a request, and the list of hits in its answer.

A key travels in a header and never in a URL, since URLs are logged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from ...config.settings import SearchEngine
from ...runtime.definitions import ToolFailure
from ...runtime.handles import SearchHit, WebRequest
from ...runtime.http.url import parse_url
from ...runtime.redaction import Secret
from .text import one_line

MAX_TITLE_CHARS = 200
"""The longest title of a hit; engines cut titles near here themselves."""
MAX_SNIPPET_CHARS = 600
"""The longest excerpt of a hit: some lines to choose by."""

_EMPHASIS = re.compile(r"</?(?:strong|b|em|i|mark|span)\b[^<>]{0,200}>", re.IGNORECASE)

_JSON = {"accept": "application/json"}


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask one engine, the keys that lead to the hits in its answer, and the key of a hit's snippet."""

    request: Callable[[str, str, int, Secret | None], WebRequest]
    path: tuple[str, ...]
    snippet: str


def _ask_searxng(base_url: str, query: str, count: int, key: Secret | None) -> WebRequest:
    url = f"{base_url}/search?{urlencode({'q': query, 'format': 'json'})}"
    headers = {} if key is None else {"authorization": f"Bearer {key.reveal()}"}
    return WebRequest(method="GET", url=url, headers={**_JSON, **headers})


def _ask_brave(base_url: str, query: str, count: int, key: Secret | None) -> WebRequest:
    asked = {"q": query, "count": count, "text_decorations": "false", "result_filter": "web"}
    headers = {} if key is None else {"x-subscription-token": key.reveal()}
    url = f"{base_url}/res/v1/web/search?{urlencode(asked)}"
    return WebRequest(method="GET", url=url, headers={**_JSON, **headers})


def _ask_tavily(base_url: str, query: str, count: int, key: Secret | None) -> WebRequest:
    asked = {"query": query, "max_results": count, "search_depth": "basic"}
    headers = {} if key is None else {"authorization": f"Bearer {key.reveal()}"}
    return WebRequest(
        method="POST",
        url=f"{base_url}/search",
        headers={**_JSON, **headers, "content-type": "application/json"},
        body=msgspec.json.encode(asked),
    )


WIRES: Mapping[SearchEngine, Wire] = {
    SearchEngine.SEARXNG: Wire(request=_ask_searxng, path=("results",), snippet="content"),
    SearchEngine.BRAVE: Wire(request=_ask_brave, path=("web", "results"), snippet="description"),
    SearchEngine.TAVILY: Wire(request=_ask_tavily, path=("results",), snippet="content"),
}


def hits_of(wire: Wire, answer: object, most: int) -> tuple[SearchHit, ...] | None:
    """Return the hits of an answer, each address once; `None` for an answer of another format."""
    found: Any = answer
    for name in wire.path:
        if not isinstance(found, dict):
            return None
        # Brave leaves out `web` where it found nothing.
        found = found.get(name, {} if name != wire.path[-1] else [])
    if not isinstance(found, list) or not isinstance(answer, dict) or "error" in answer:
        return None
    hits: dict[str, SearchHit] = {}
    for entry in found:
        hit = _hit(entry, wire.snippet) if isinstance(entry, dict) else None
        if hit is not None and len(hits) < most:
            hits.setdefault(hit.url, hit)
    return tuple(hits.values())


def _hit(entry: dict[str, Any], snippet: str) -> SearchHit | None:
    try:
        url = parse_url(str(entry.get("url") or ""))
    except ToolFailure:
        return None
    return SearchHit(
        title=_plain(entry.get("title"), MAX_TITLE_CHARS) or url.authority,
        url=url.text,
        snippet=_plain(entry.get(snippet), MAX_SNIPPET_CHARS),
    )


def _plain(text: object, most: int) -> str:
    if not isinstance(text, str):
        return ""
    import html  # here, so that a start does not pay for its table

    # Cut first, with room for marks, to bound the cleaning.
    return one_line(html.unescape(_EMPHASIS.sub("", text[: 10 * most])), most)
