"""A plugin of pytest: the flows that name no store run on PostgreSQL (`make flows-on-postgres`)."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from callboard.embedding import runtime
from callboard.runtime.store.file import DATABASE_NAME
from callboard.runtime.store.interface import Store

NAMES_A_STORE = (
    *("apsw", "callboard.db", "DATABASE_NAME", "open_disk_store", "open_memory_store"),
    *("_open_store", "disk_room", "serving(", "run_process", "start_warm", "open_reading"),
)
"""Whose module says one of these looks at a file, has a store of its own, or starts a process that has."""


SHARE = 1 if os.environ.get("CALLBOARD_SOAK") else 8
"""One test of so many, by its name, so that they take a minute; with CALLBOARD_SOAK all of them, which takes ten."""
OTHERWISE = (
    "test_results_lie_where_messages_lie",  # looks for words in the files of the data folder
    "test_so_many_run_at_once_below_one",  # drops a runtime without closing it, and opens its folder again
    # What they catch in the middle is over by then, if a commit is waited for.
    *("test_while_a_turn_runs_nothing_is_deleted", "test_a_restart_forgets_it_too"),
    *("test_inputs_that_wait_are_bounded", "test_progress_comes_before_the_result"),
)
"""Tests that name no store, and yet are about one, or about an instant."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what names a store, and what has a mocked clock, which does not wait for a thread."""
    kept, left = list[pytest.Item](), list[pytest.Item]()
    says: dict[Path, bool] = {}
    for item in items:
        if item.path not in says:
            text = item.path.read_text(encoding="utf-8")
            says[item.path] = any(words in text for words in NAMES_A_STORE)
        fixtures = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        is_named = says[item.path] or parameters.get("store") == "disk"
        is_named |= any(words in item.nodeid for words in OTHERWISE)
        is_named |= zlib.crc32(item.nodeid.encode()) % SHARE != 0
        is_left = is_named or not fixtures.isdisjoint({"autojump_clock", "mock_clock"})
        (left if is_left else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture(autouse=True)
def _store_of_the_flow() -> Iterator[None]:
    from callboard.runtime.store.postgres.store import open_postgres_store
    from support.postgres.databases import new_database

    databases: dict[Path, str] = {}
    open_store = runtime._open_store

    with ExitStack() as made:

        async def opened(data: Path | None, _url: str | None = None) -> Store:
            if data is not None and (data / DATABASE_NAME).exists():
                return await open_store(data)  # a process that was killed has made it
            if data is None:
                return await open_postgres_store(made.enter_context(new_database()))
            if data not in databases:
                databases[data] = made.enter_context(new_database())
            return await open_postgres_store(databases[data], folder=data)

        with mock.patch.object(runtime, "_open_store", opened):
            yield
