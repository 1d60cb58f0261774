"""No answer is too much: bombs, endless ones and drips, each with honest answers beside it.

They come from a public address in a network namespace (`network_scenes.py`): nothing is allowed.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.web import floods
from support.web.namespaces import in_namespace

LEFT = ["/gzip_bomb", "/deflate_bomb", "/endless", "/endless_chunks"]
"""Those of which the model gets the beginning."""

BROKEN = {
    "/nested_bomb": "compressed its response as 'gzip, gzip'",
    "/nested_bomb_in_two_lines": "compressed its response as 'gzip, gzip'",
    "/brotli": "compressed its response as 'br'",
    "/endless_nothing": "decompresses to nothing",
    "/endless_after_the_end": "decompresses to nothing",
    "/endless_head": "too long",
    "/endless_headers": "too long",
    "/endless_chunk_line": "too long",
    "/endless_trailers": "too long",
}


@pytest.mark.parametrize("path", floods.HONEST)
def test_a_small_honest_answer_is_whole(path: str) -> None:
    row = in_namespace("bodies")[path]
    text = {"/": "inside", "/bye": "bye"}.get(path, "fine")
    assert (row["outcome"], row["body"], row["note"]) == (200, text, "")


@pytest.mark.parametrize("path", LEFT)
def test_case_21_of_an_answer_without_end_the_beginning_is_shown(path: str) -> None:
    row = in_namespace("bodies")[path]
    assert row["outcome"] == 200
    assert row["note"].startswith("The body is the first 102400 bytes of more than 8")


def test_of_a_stated_size_no_more_is_read_than_is_shown() -> None:
    row = in_namespace("bodies")["/endless_of_a_size"]
    assert row["note"] == "The body is the first 102400 bytes of 5000000000 bytes."


def test_only_what_is_stated_is_decompressed() -> None:
    row = in_namespace("bodies")["/half_told_bomb"]
    size = len(floods.bomb())
    assert row["note"] == f"The body is the first 102400 bytes of {size} bytes."


@pytest.mark.parametrize("path", BROKEN)
def test_case_21_what_no_honest_server_sends_is_a_network_error(path: str) -> None:
    row = in_namespace("bodies")[path]
    assert row["outcome"] == "network_error"
    assert BROKEN[path] in row["message"]


def test_case_21_all_of_them_take_little_memory() -> None:
    found = in_namespace("bodies")
    assert set(floods.bodies()) == {
        *LEFT,
        *BROKEN,
        *(set(floods.HONEST) - {"/", "/bye"}),
        *("/endless_of_a_size", "/half_told_bomb"),
    }
    assert found["rise_kib"] < 32 * 1024
    assert found["control_kib"] > 32 * 1024


def fetched() -> Any:
    return in_namespace("bodies", "web_fetch")


@pytest.mark.parametrize("path", [*floods.HONEST, *LEFT, *BROKEN])
def test_web_fetch_is_held_by_the_same_bounds(path: str) -> None:
    row = fetched()[path]
    if path in BROKEN:
        assert row["outcome"] == "network_error"
    else:
        assert (row["outcome"], row["truncated"]) == (200, path in LEFT)
    assert (path in floods.HONEST) == (row.get("body") in {"inside", "bye", "fine"})


def test_case_21_what_web_fetch_reads_of_them_takes_bounded_memory() -> None:
    found = fetched()
    # Twice the 8 MiB that it reads, and a little.
    assert found["rise_kib"] < 32 * 1024
    assert found["control_kib"] > 16 * 1024


@pytest.mark.parametrize("path", sorted({*floods.drips(), "/"}))
def test_case_21_an_answer_that_drips_ends_with_the_calls_deadline(path: str) -> None:
    result = in_namespace("deadlines")[path]
    if path in {"/", "/slow"}:
        # The controls: what is whole in time is shown, however it came.
        body = {"/": "inside", "/slow": "fifififi"}[path]
        assert (result["status"], result["result"]["body"]) == ("success", body)
    elif path == "/drip_of_promises":  # so many come with no answer that it ends before
        assert result["error_type"] == "network_error"
        assert "informational responses" in result["message"]
    else:
        assert (result["error_type"], result["elapsed_seconds"]) == (
            "timeout",
            floods.DEADLINE_SECONDS,
        )
