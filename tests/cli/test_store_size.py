"""The size of the store, as `callboard doctor` tells it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import apsw
import pytest

from callboard.cli.doctor import doctor as doctor_store
from callboard.cli.doctor.doctor import store_finding
from callboard.config.sections import SessionSettings
from callboard.runtime.events import InputAccepted, SessionCreated
from callboard.runtime.store.file import make_folder, open_writer
from callboard.runtime.store.rows import Append


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose store holds two and a half MiB."""
    folder = tmp_path / "data"
    make_folder(folder)
    connection = open_writer(folder)
    connection.execute("create table filler as select zeroblob(2400000) as x")
    connection.close()
    return folder


def test_the_size_is_told_and_a_full_store_is_a_problem(data: Path) -> None:
    states = {
        limit: store_finding(data, SessionSettings(max_store_mib=limit)).state
        for limit in (0, 2, 3, 4)
    }
    assert states == {0: "good", 2: "problem", 3: "warning", 4: "good"}
    found = store_finding(data, SessionSettings(max_store_mib=2))
    assert "of the 2 that max_store_mib lets it" in found.words
    assert "callboard session delete" in found.fix
    assert store_finding(data / "none", SessionSettings()).state == "good"


def test_what_was_freed_is_worth_a_compact(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_store, "MUCH_FREED", 1024 * 1024)
    assert store_finding(data, SessionSettings()).state == "good"
    connection = apsw.Connection(str(data / "callboard.db"))
    connection.execute("drop table filler")
    connection.close()
    found = store_finding(data, SessionSettings())
    assert (found.state, "callboard compact" in found.fix) == ("warning", True)


async def test_the_size_of_a_store_in_postgresql_is_compared_with_the_limit_too(
    tmp_path: Path,
) -> None:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    from callboard.runtime.store.postgres.store import open_postgres_store
    from support.postgres.databases import new_database
    from support.postgres.server import needs_postgres

    needs_postgres()
    with new_database() as url:
        store = await open_postgres_store(url, folder=tmp_path)
        try:
            said = InputAccepted(input_id="i", text=Random(1).randbytes(600_000).hex())
            created = SessionCreated(agent="general", workspace="/work")
            await store.commit([Append("s", (created, said))])
        finally:
            await store.aclose()
        limits = [SessionSettings(max_store_mib=limit) for limit in (0, 1, 9)]
        found = [store_finding(tmp_path, settings) for settings in limits]
        assert [each.state for each in found] == ["good", "problem", "good"]
        assert "MiB, of 9 in postgresql://" in found[2].words
        assert "callboard session delete" in found[1].fix
        assert "callboard compact" not in found[1].fix  # which is refused there
