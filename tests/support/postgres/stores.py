"""A store in a database of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from callboard.runtime.store.interface import Store
from callboard.runtime.store.ledger import wall_clock_ms


@asynccontextmanager
async def opened_postgres(*, now_ms: Callable[[], int] = wall_clock_ms) -> AsyncGenerator[Store]:
    """Open a store in a new database; skip the test where PostgreSQL is not installed."""
    from callboard.runtime.store.postgres.store import open_postgres_store  # skipped without
    from support.postgres.databases import new_database

    with new_database() as url:
        store = await open_postgres_store(url, now_ms=now_ms)
        try:
            yield store
        finally:
            await store.aclose()
