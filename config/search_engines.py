"""The search engines that callboard supports: where they are, and which key they need."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..runtime.http.url import parse_url
from .settings import SearchEngine, SearchSettings


class KnownEngine(msgspec.Struct, frozen=True, kw_only=True):
    """A search engine; its key is stored like a provider's, under its name.

    Attributes:
        base_url: Where it is; empty for one that people host themselves.
        key_env: The environment variable of its key.
        needs_key: Whether it refuses requests without one.
    """

    name: SearchEngine
    base_url: str
    key_env: str
    needs_key: bool

    def variable(self, environ: Mapping[str, str]) -> str:
        """Return the environment variable of its key; the environment does not matter here."""
        return self.key_env


KNOWN_ENGINES: Mapping[str, KnownEngine] = {
    known.name: known
    for known in (
        KnownEngine(
            name=SearchEngine.SEARXNG, base_url="", key_env="SEARXNG_API_KEY", needs_key=False
        ),
        KnownEngine(
            name=SearchEngine.BRAVE,
            base_url="https://api.search.brave.com",
            key_env="BRAVE_API_KEY",
            needs_key=True,
        ),
        KnownEngine(
            name=SearchEngine.TAVILY,
            base_url="https://api.tavily.com",
            key_env="TAVILY_API_KEY",
            needs_key=True,
        ),
    )
}


def engines_of(settings: SearchSettings) -> dict[str, KnownEngine]:
    """Return the engines that have a URL, by name; the configured one with its own."""
    engines = {
        name: msgspec.structs.replace(known, base_url=settings.base_url)
        if name == settings.engine and settings.base_url is not None
        else known
        for name, known in KNOWN_ENGINES.items()
    }
    return {name: engine for name, engine in engines.items() if engine.base_url}


def engine_of(settings: SearchSettings) -> KnownEngine | None:
    """Return the configured engine, or `None`."""
    return None if settings.engine is None else engines_of(settings)[settings.engine]


def search_places(settings: SearchSettings) -> dict[str, str]:
    """Return by tool the host that it connects to, which the policy looks at."""
    engine = engine_of(settings)
    return {} if engine is None else {"web_search": parse_url(engine.base_url).host}
