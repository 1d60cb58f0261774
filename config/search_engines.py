"""The search engines that callboard speaks to: where they are, and where their keys are kept."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..runtime.http.url import parse_url
from .settings import SearchEngine, SearchSettings


class KnownEngine(msgspec.Struct, frozen=True, kw_only=True):
    """A search engine as it is configured; its key is kept like a provider's, under its name.

    Attributes:
        name: Which it is.
        base_url: Where it is; empty for one that everybody hosts for themselves.
        key_env: The environment variable of its key.
        needs_key: Whether it answers nobody without one.
    """

    name: SearchEngine
    base_url: str
    key_env: str
    needs_key: bool

    def variable(self, environ: Mapping[str, str]) -> str:
        """The environment variable that its key is in, whatever the environment holds."""
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
    """The engines that have a place, by name; the configured one where the settings say."""
    engines = {
        name: msgspec.structs.replace(known, base_url=settings.base_url)
        if name == settings.engine and settings.base_url is not None
        else known
        for name, known in KNOWN_ENGINES.items()
    }
    return {name: engine for name, engine in engines.items() if engine.base_url}


def engine_of(settings: SearchSettings) -> KnownEngine | None:
    """The engine that searches are made with; `None` when none is configured."""
    return None if settings.engine is None else engines_of(settings)[settings.engine]


def search_places(settings: SearchSettings) -> dict[str, str]:
    """By tool, the host that searches are made at: what the policy calls new is that one."""
    engine = engine_of(settings)
    return {} if engine is None else {"web_search": parse_url(engine.base_url).host}
