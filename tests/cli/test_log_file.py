"""The log of a command over a fork: a line never goes into a file that has the number of the log's."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.cli.log_file import LOG_NAME, LogFile, close_log_files, start_logging


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder to which warnings of this process go."""
    before = logging.getLogger().handlers[:]
    start_logging(tmp_path, verbose=False)
    yield tmp_path
    for handler in set(logging.getLogger().handlers) - set(before):
        logging.getLogger().removeHandler(handler)
        handler.close()


def test_a_log_that_was_begun_goes_on_in_its_own_file_when_its_number_is_anothers(
    folder: Path,
) -> None:
    logging.warning("before")
    (number,) = (
        int(each)
        for each in os.listdir("/proc/self/fd")
        if os.path.realpath(f"/proc/self/fd/{each}") == str((folder / LOG_NAME).resolve())
    )
    close_log_files()
    store = os.open(folder / "store", os.O_RDWR | os.O_CREAT)
    try:
        assert store <= number  # the lowest that is free: it may be the log's
        logging.warning("after")
        assert (folder / "store").read_bytes() == b""
    finally:
        os.close(store)
    lines = (folder / LOG_NAME).read_text().splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["before", "after"]


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.WARNING, "x.py", 1, text, None, None)


def test_a_full_log_is_kept_as_the_older_one_and_another_begun(tmp_path: Path) -> None:
    log = LogFile(tmp_path, max_bytes=100)
    for number in range(9):
        log.emit(_record(f"{number} " + "x" * 28))
    log.close()
    newer, older = tmp_path / LOG_NAME, tmp_path / f"{LOG_NAME}.1"
    assert [line[0] for line in older.read_text().splitlines()] == ["3", "4", "5"]
    assert [line[0] for line in newer.read_text().splitlines()] == ["6", "7", "8"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in (newer, older)} == {0o600}
    assert max(each.stat().st_size for each in (newer, older)) < 100


def test_a_log_that_can_t_be_kept_disturbs_nobody_and_goes_on_when_it_can(tmp_path: Path) -> None:
    log = LogFile(tmp_path, max_bytes=40)
    (tmp_path / f"{LOG_NAME}.1").mkdir()  # nothing can be renamed to that
    for text in ("first" * 7, "second" * 6, "%d half a character \ud800"):
        log.emit(_record(text))
    (tmp_path / f"{LOG_NAME}.1").rmdir()
    log.emit(_record("third" * 7))
    log.close()
    assert (tmp_path / LOG_NAME).read_text() == "third" * 7 + "\n"
    kept = (tmp_path / f"{LOG_NAME}.1").read_text().splitlines()
    assert kept == ["first" * 7, "second" * 6, "%d half a character \\ud800"]
