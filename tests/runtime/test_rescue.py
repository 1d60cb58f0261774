"""What is whole of a damaged store is in a new one, what is not is named, and doctor finds what a start does."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from callboard.cli.app import execute
from callboard.cli.doctor.doctor import store_finding
from callboard.config.sections import SessionSettings
from callboard.runtime.definitions import Binding, Tier
from callboard.runtime.disk.data_lock import DataLock
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError
from callboard.runtime.events import (
    CallProposed,
    GrantGiven,
    InputAccepted,
    SessionCreated,
    TurnStarted,
)
from callboard.runtime.store.file import DATABASE_NAME, open_writer
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from support.store_log import FRAME_BYTES, HEAD_BYTES, PAGE_BYTES, pages_in

SESSIONS = 6
INPUTS = 30
LOG = f"{DATABASE_NAME}-wal"


async def fill(folder: Path, kept: Path) -> None:
    """Sessions that speak in turns, the first with an open call and a grant; kept as a kill leaves it."""
    store = await open_disk_store(folder)
    names = [f"s{number}" for number in range(SESSIONS)]
    created = SessionCreated(agent="general", workspace="/w")
    await store.commit([Append(name, (created,)) for name in names])
    for number in range(INPUTS):
        said = InputAccepted(input_id=f"i{number}", text=f"{number} " + "x" * 600)
        await store.commit([Append(name, (said,)) for name in names])
    begun = (
        TurnStarted(turn_id="t", input_ids=("i1",), provider="p", model="m"),
        CallProposed(
            turn_id="t", message_id="m", call_id="c", index=0, name="delete_file", arguments="{}"
        ),
        GrantGiven(
            grant_id="g",
            verdict="allow",
            scope="always",
            tool="delete_file",
            definition="d",
            tier=Tier.READ_ONLY,
            binding=Binding(arguments="{}"),
            agent="general",
            turn_id="t",
            workspace="/w",
            approval_id="a",
            given_by="p",
        ),
    )
    (stored,) = await store.commit([Append("s0", begun)])
    assert isinstance(stored, tuple), stored
    shutil.copytree(folder, kept)
    await store.aclose()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import trio

    folder = tmp_path_factory.mktemp("rescue")
    trio.run(fill, folder / "ended", folder / "killed")
    return folder


@pytest.fixture
def ended(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled / "ended", tmp_path / "ended"))


@pytest.fixture
def killed(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled / "killed", tmp_path / "killed"))


def overwrite(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def damage(folder: Path, table: str, which: int = 1) -> None:
    """Overwrite a page of a table's tree: its root is 0."""
    connection = apsw.Connection(str(folder / DATABASE_NAME))
    pages = connection.execute("select rootpage from sqlite_schema where name = ?", (table,)).get
    connection.close()
    data = (folder / DATABASE_NAME).read_bytes()
    root = data[(pages - 1) * PAGE_BYTES : pages * PAGE_BYTES]
    assert root[0] == 5  # an inner page, with the places of its children
    at = int.from_bytes(root[12 + 2 * which : 14 + 2 * which], "big")
    child = int.from_bytes(root[at : at + 4], "big")
    overwrite(folder / DATABASE_NAME, (child - 1) * PAGE_BYTES, b"\xa5" * PAGE_BYTES)


def flip(folder: Path, frame: int) -> None:
    at = HEAD_BYTES + FRAME_BYTES * frame + 300
    byte = (folder / LOG).read_bytes()[at]
    overwrite(folder / LOG, at, bytes([byte ^ 4]))


def rescued(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert execute(["store", "rescue", "--yes", "--json", "--data", str(folder)]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def rows(folder: Path, sql: str) -> list[tuple[object, ...]]:
    connection = open_writer(folder)
    found: list[tuple[object, ...]] = list(connection.execute(sql))
    connection.close()
    return found


def test_doctor_finds_what_a_start_refuses_and_both_name_what_helps(ended: Path) -> None:
    assert store_finding(ended, SessionSettings()).state == "good"
    damage(ended, "events")
    with pytest.raises(StorageError) as refused:
        open_writer(ended)
    assert "callboard doctor" in str(refused.value)
    assert "callboard store rescue" in str(refused.value)
    found = store_finding(ended, SessionSettings())
    assert (found.state, found.words) == ("problem", str(refused.value))
    assert "callboard store rescue" in found.fix


def test_doctor_finds_a_loss_unless_the_store_is_in_use(killed: Path) -> None:
    assert store_finding(killed, SessionSettings()).state == "good"
    flip(killed, 60)
    assert "missing" in store_finding(killed, SessionSettings()).words
    lock = DataLock(killed)
    assert store_finding(killed, SessionSettings()).state == "good"
    lock.release()


def test_a_damaged_page_costs_only_what_was_on_it(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows(ended, "select value from meta where key = 'epoch'")
    damage(ended, "events", which=20)
    found = rescued(ended, capsys)
    assert (found["whole"], found["lost"]) == (0, [])  # all speak in turns, so each has lost some
    cut = {name: (taken, head) for name, taken, head in found["cut"]}  # type: ignore[attr-defined]
    assert set(cut) == {f"s{number}" for number in range(SESSIONS)}
    assert all(10 < taken < head for taken, head in cut.values())
    assert "damaged" in str(found["problem"])
    assert Path(str(found["kept"])).read_bytes()[:6] == b"SQLite"
    assert rows(ended, "select value from meta where key = 'epoch'") != before
    heads = rows(ended, "select session_id, head_seq, is_tainted from sessions")
    # What came after the cut is unknown: each is tainted.
    assert sorted(heads) == [(name, cut[name][0] + 1, 1) for name in sorted(cut)]
    assert rows(ended, "pragma integrity_check") == [("ok",)]


def test_tables_that_follow_from_events_are_made_again(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = rows(ended, "select session, content from messages order by session, position")
    damage(ended, "messages")
    found = rescued(ended, capsys)
    assert (found["whole"], found["cut"], found["lost"]) == (SESSIONS, [], [])
    assert rows(ended, "select session, content from messages order by session, position") == said
    assert rows(ended, "select count(*) from grants where revoked_at_ms is null") == [(1,)]
    assert rows(ended, "select sum(is_tainted) from sessions") == [(0,)]


def test_sessions_whose_rows_are_lost_are_found_by_their_names(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = apsw.Connection(str(ended / DATABASE_NAME))
    root = connection.execute("select rootpage from sqlite_schema where name = 'sessions'").get
    connection.close()
    overwrite(ended / DATABASE_NAME, (root - 1) * PAGE_BYTES, b"\xa5" * PAGE_BYTES)
    found = rescued(ended, capsys)
    # How many events each had is unknown, so none counts as whole, though all is there.
    assert found["cut"] == [
        [f"s{number}", INPUTS + 1 + 3 * (number == 0), None] for number in range(SESSIONS)
    ]
    assert (found["whole"], found["lost"]) == (0, [])


def test_a_flipped_bit_in_the_log_costs_its_page_alone(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(killed, 60)
    with pytest.raises(StorageError, match="missing"):
        open_writer(killed)
    found = rescued(killed, capsys)
    assert (found["whole"], found["cut"], found["lost"]) == (SESSIONS, [], [])
    assert rows(killed, "select count(*) from events") == [((INPUTS + 1) * SESSIONS + 3,)]


def test_what_is_open_may_have_happened_when_the_end_is_lost(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (killed / f"{DATABASE_NAME}-last").unlink()
    count = pages_in(killed / LOG)
    for frame in (count - 2, 60):  # of the last commit, and one before
        flip(killed, frame)
    found = rescued(killed, capsys)
    assert found["lost"] == []
    assert rows(killed, "select count(*) from sessions where not is_tainted") == [(0,)]
    assert rows(killed, "select count(*) from turns where ended_at_ms is null") == [(0,)]
    assert rows(killed, "select count(*) from grants where revoked_at_ms is null") == [(0,)]


def test_a_store_that_is_whole_is_left_alone(
    ended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (ended / DATABASE_NAME).read_bytes()
    words = ["store", "rescue", "--data"]
    assert execute([*words, str(ended)]) == 2
    with pytest.raises(ConflictError, match="all its sessions are whole"):
        execute([*words, str(ended), "--yes"])
    lock = DataLock(ended)
    with pytest.raises(ConflictError, match="in use"):
        execute([*words, str(ended), "--yes"])
    lock.release()
    with pytest.raises(NotFoundError):
        execute([*words, str(tmp_path / "none"), "--yes"])
    assert (ended / DATABASE_NAME).read_bytes() == before
    names = {path.name for path in ended.iterdir()}
    assert names == {DATABASE_NAME, f"{DATABASE_NAME}-last", "callboard.lock"}


def test_of_what_is_no_database_nothing_is_rescued(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"text" * 3000)
    with pytest.raises(StorageError, match="damaged"):
        execute(["store", "rescue", "--yes", "--data", str(tmp_path)])
    assert (tmp_path / DATABASE_NAME).read_bytes() == b"text" * 3000


@pytest.mark.parametrize(
    "change",
    [
        "event = x'7b'",
        "event = x'7b22ff223a317d'",
        "event = null",
        "event = 'text'",
        "at_ms = 'never'",
        "seq = null",
    ],
)
def test_an_event_that_can_not_be_read_ends_its_session_there(
    ended: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    columns = "id integer primary key, session integer, seq, at_ms, event, unique (session, seq)"
    with closing(apsw.Connection(str(ended / DATABASE_NAME))) as connection:
        connection.pragma("writable_schema", True)  # a damaged row may have anything anywhere
        connection.execute(
            "update sqlite_schema set sql = ? where name = 'events'",
            (f"create table events ({columns})",),
        )
    with closing(apsw.Connection(str(ended / DATABASE_NAME))) as connection:
        connection.execute(f"update events set {change} where session = 2 and seq = 9")
    assert execute(["store", "rescue", "--yes", "--data", str(ended)]) == 0
    out = capsys.readouterr().out
    assert "5 sessions" in out
    assert f"s1: not whole, 8 of {INPUTS + 1} events are there." in out
    assert rows(ended, "select session_id from sessions where is_tainted") == [("s1",)]


def test_what_only_a_check_of_all_references_finds_is_rescued(ended: Path) -> None:
    """As a log leaves it that lost a purge when it was half written back."""
    with pytest.raises(ConflictError, match="Nothing is wrong"):
        execute(["store", "rescue", "--yes", "--data", str(ended)])
    with closing(apsw.Connection(str(ended / DATABASE_NAME))) as connection:
        connection.execute("update turns set session = 99 where id = (select min(id) from turns)")
    assert execute(["store", "rescue", "--yes", "--data", str(ended)]) == 0
    with closing(apsw.Connection(str(ended / DATABASE_NAME))) as connection:
        assert connection.execute("pragma foreign_key_check").fetchone() is None


def test_of_a_damaged_schema_what_can_be_read_is_rescued(ended: Path) -> None:
    with closing(apsw.Connection(str(ended / DATABASE_NAME))) as connection:
        connection.pragma("writable_schema", True)
        connection.execute("delete from sqlite_schema where name = 'approvals'")
    assert execute(["store", "rescue", "--yes", "--data", str(ended)]) == 0
    assert len(rows(ended, "select session_id from sessions")) == 6
