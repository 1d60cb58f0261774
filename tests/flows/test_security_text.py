"""Text that looks like a command to the database is only text, wherever it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.providers.testing.script import Step, reply
from callboard.runtime.definitions import Agent
from support.stage import on_both_stores, open_in, play, read_result

ODD = [
    "'; drop table events; --",
    '" or ""="',
    "x' union select * from keys --",
    'NEAR("a" "b", 5)',
    'tags:"x" AND NOT y*',
    "a\0b",
    "^col : - + ( ) * {a b}",
    "%s %n {0} ${HOME} `id` $(id)",
]


@on_both_stores
@pytest.mark.parametrize("odd", ODD)
async def test_case_60_odd_text_is_kept_and_found_as_it_is(
    tmp_path: Path, odd: str, store: str
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_store", {"text": f"green door {odd}", "tags": ["t"]}),
        ("memory_search", {"query": f"green {odd}"}),
        ("search_files", {"pattern": "", "glob": "*.txt"}),
    ]
    steps: list[Step] = [*(reply(calls=[call]) for call in calls), reply(f"Said {odd}")]
    async with open_in(tmp_path, steps, store, agents=[Agent(name="odd", prompt=odd)]) as runtime:
        played = await play(await runtime.create_session(agent="odd", title=odd), odd)
        assert played.text == f"Said {odd}"
        stored, found, listed = (read_result(result) for result in played.results)
        assert stored["status"] == "success"
        (memory,) = found["result"]["memories"]
        assert memory["text"] == f"green door {odd}"
        assert listed["result"]["matches"] == []
        (row,) = await runtime.sessions()
        # The control: a title is kept, but for what no terminal should be told.
        assert row.title.replace("\0", "") == odd.replace("\0", "")
        assert "sql" not in str(played.results).lower()
        (memory_row,) = await runtime.store.memories()
        assert memory_row.text == f"green door {odd}"


async def test_case_60_a_query_that_is_only_signs_is_refused_in_plain_words(tmp_path: Path) -> None:
    calls = [("memory_search", {"query": query}) for query in ('"', "'--", "*", "^ ( -", ":")]
    steps: list[Step] = [reply(calls=calls), reply("Done.")]
    async with open_in(tmp_path, steps) as runtime:
        for result in (await play(await runtime.create_session(), "Go.")).results:
            told = read_result(result)
            assert told["error_type"] == "validation_error"
            assert "no word" in told["message"]
            assert "fts" not in told["message"].lower()
