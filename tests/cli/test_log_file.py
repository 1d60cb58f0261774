"""The log of a command over a fork: a line never goes into a file that has the number of the log's."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.cli.log_file import LOG_NAME, close_log_files, start_logging


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
