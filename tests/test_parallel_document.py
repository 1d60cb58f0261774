"""The matrix of docs/parallel-calls.md is what the tests prove: each cell's test is there."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest

from support.flows.batch import ROWS
from support.flows.interrupted import READY
from support.flows.process_ends import ENDS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = (ROOT / "docs/parallel-calls.md").read_text(encoding="utf-8")
HERE = "tests/flows/test_parallel_calls.py"
COLUMNS = ["test_siblings", "test_model", "test_consumer", "test_record", "test_cancel"]
CRASHES = ["test_dispatcher_crash", "test_broker_crash", "test_session_crash", "test_kill"]
KINDS: dict[str, Collection[str]] = {"each_row": ROWS, "each_state": READY, "each_end": ENDS}
"""What a test that has a cell for each of its rows is decorated with, and its rows."""
NAMED = sorted(set(re.findall(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)(?:\[(\w+)\])?`", DOCUMENT)))


def test_each_test_that_is_named_exists() -> None:
    assert len(NAMED) > 100
    assert [named for named in NAMED if not exists(*named)] == []
    assert not exists("", "test_siblings", "no_such_row")
    assert not exists("", "test_no_such", "")


def exists(file: str, test: str, row: str) -> bool:
    """Whether the file has the test, and that a cell for the row."""
    source = (ROOT / (file or HERE)).read_text(encoding="utf-8")
    found = re.search(rf"^(?:@(each_\w+)\n)?(?:async )?def {test}\(", source, flags=re.MULTILINE)
    return found is not None and (not row or row in KINDS[found[1]])


@pytest.mark.parametrize("column", COLUMNS)
def test_every_cell_names_its_test(column: str) -> None:
    cells = re.findall(rf"^\|.+\| `{column}\[(\w+)\]` \|$", DOCUMENT, flags=re.MULTILINE)
    assert cells == list(ROWS)


@pytest.mark.parametrize(
    ("file", "column", "rows"),
    [("interrupted", column, READY) for column in CRASHES] + [("process", "test_end", ENDS)],
)
def test_every_cell_about_a_crash_names_its_test(
    file: str, column: str, rows: Collection[str]
) -> None:
    place = rf"tests/flows/test_{file}_calls\.py::{column}"
    cells = re.findall(rf"^\|.+\| `{place}\[(\w+)\]` \|$", DOCUMENT, flags=re.MULTILINE)
    assert cells == list(rows)


def test_every_test_of_the_matrix_is_named() -> None:
    sources = [
        HERE,
        "tests/flows/test_resource_keys.py",
        "tests/flows/test_interrupted_calls.py",
        "tests/flows/test_process_calls.py",
    ]
    tests = {
        name
        for source in sources
        for name in re.findall(
            r"^(?:async )?def (test_\w+)", (ROOT / source).read_text(), re.MULTILINE
        )
    }
    assert tests - {name for _, name, _ in NAMED} == {
        "test_keys_are_forgotten_with_their_batch",
        "test_what_a_crash_left_deep_in_a_large_workspace_is_gone_with_the_next_start",
    }
