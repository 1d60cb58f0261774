"""Where a runtime's searches are made, and with which key."""

from __future__ import annotations

from .config.search_engines import KnownEngine, engine_of
from .config.settings import Settings
from .providers.catalog import Wish
from .providers.provider_keys import find_key
from .runtime.secrets import Secret
from .tools.web.search_place import SearchPlace


def search_place(settings: Settings, wish: Wish) -> SearchPlace | None:
    """The configured engine with its key; `None` when none is configured.

    Args:
        settings: Names the engine.
        wish: Knows the environment and the stored keys.
    """
    engine = engine_of(settings.search)
    if engine is None:
        return None

    def key() -> Secret | None:
        return find_key(engine.name, engine.base_url, engine.key_env, wish.environ, wish.stored)

    return SearchPlace(
        engine=engine.name,
        base_url=engine.base_url,
        key=key,
        needs_key=engine.needs_key,
        missing=_missing(engine),
    )


def _missing(engine: KnownEngine) -> str:
    return (
        f"{engine.name} wants a key, and none is there for {engine.base_url}. The operator stores "
        f"one with `callboard keys set {engine.name}`, or sets {engine.key_env}."
    )
