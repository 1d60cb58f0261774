"""The log of file versions: what holds after a crash, after damage, and after it was forgotten."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from callboard.runtime.changes.file_versions import NOTHING, Change, FileKind, FileState, PathStep
from callboard.runtime.changes.version_log import FOLDER, VersionLog, VersionStore
from callboard.runtime.errors import StorageError

WORDS = b"what was there"


def commit(log: VersionLog, change_id: str) -> FileState:
    """A change of one path whose content is kept."""
    with log.draft() as draft:
        at, size, digest = draft.keep(iter([WORDS]), len(WORDS))
        kept = FileState(FileKind.FILE, size_bytes=size, digest=digest.digest(), kept_at=at)
        draft.commit(
            Change(
                change_id=change_id,
                session_id="s1",
                call_id="call",
                at_ms=1,
                actions=(PathStep(b"a", kept, NOTHING),),
            )
        )
    return kept


def ids(data: Path) -> list[str]:
    """The changes on record, as whoever opens the folder anew finds them."""
    return [known.change.change_id for known in VersionStore(data).changes("s1")]


def file_of(data: Path) -> Path:
    [file] = (data / FOLDER).iterdir()
    return file


def flip(file: Path, at: int) -> bytes:
    """Turns one bit over."""
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    return bytes(data)


def three(data: Path) -> tuple[VersionLog, list[int], FileState]:
    """A log of three changes, where each ends, and what the first of them kept."""
    log = VersionStore(data).log("s1")
    ends: list[int] = []
    states: list[FileState] = []
    for change_id in ("c1", "c2", "c3"):
        states.append(commit(log, change_id))
        ends.append(len(file_of(data).read_bytes().rstrip(b"\0")))
    return log, ends, states[0]


def test_damage_before_the_latest_change_is_told_and_nothing_is_cut_off(tmp_path: Path) -> None:
    _, ends, first = three(tmp_path)
    file, whole = file_of(tmp_path), file_of(tmp_path).read_bytes()
    kept = range(first.kept_at or 0, (first.kept_at or 0) + len(WORDS))
    for at in set(range(ends[0])) - set(kept):
        damaged = flip(file, at)
        with pytest.raises(StorageError, match="is damaged"):
            ids(tmp_path)
        with pytest.raises(StorageError, match="is damaged"):
            commit(VersionStore(tmp_path).log("s1"), "c4")
        assert file.read_bytes() == damaged
        file.write_bytes(whole)
    assert ids(tmp_path) == ["c1", "c2", "c3"]


def test_a_latest_change_that_does_not_hold_is_what_a_crash_left(tmp_path: Path) -> None:
    _, ends, _ = three(tmp_path)
    file, whole = file_of(tmp_path), file_of(tmp_path).read_bytes()
    for at in (ends[1], ends[2] - 1):
        flip(file, at)
        assert ids(tmp_path) == ["c1", "c2"]
        commit(VersionStore(tmp_path).log("s1"), "c4")
        assert ids(tmp_path) == ["c1", "c2", "c4"], "what follows stands behind what holds"
        file.write_bytes(whole)


def test_a_log_that_was_never_flushed_is_begun_anew(tmp_path: Path) -> None:
    commit(VersionStore(tmp_path).log("s1"), "c1")
    file = file_of(tmp_path)
    for left in (b"", bytes(7), bytes(500)):
        file.write_bytes(left)
        assert ids(tmp_path) == []
        commit(VersionStore(tmp_path).log("s1"), "c2")
        assert ids(tmp_path) == ["c2"]


def test_a_kept_content_that_is_damaged_is_not_given_out(tmp_path: Path) -> None:
    log, _, state = three(tmp_path)
    assert b"".join(log.content(state)) == WORDS
    assert state.digest == hashlib.sha256(WORDS).digest()
    flip(file_of(tmp_path), (state.kept_at or 0) + 3)
    with pytest.raises(StorageError, match="A kept version is damaged"):
        list(log.content(state))


def test_a_log_that_was_forgotten_begins_anew_for_whoever_has_it_open(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)
    log = store.log("s1")
    commit(log, "c1")
    store.forget(["s1"])
    assert store.changes("s1") == []
    state = commit(log, "c2")
    assert ids(tmp_path) == ["c2"]
    assert b"".join(log.content(state)) == WORDS
