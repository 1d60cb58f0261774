"""What is left of a result that is too large: beginnings and ends of its long texts."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.calls.outcome import MIN_TEXT_BYTES, with_short_texts

texts = st.text(st.characters(codec="utf-8"), max_size=60).flatmap(
    lambda piece: st.integers(0, 40).map(lambda times: piece * times)
)


@given(stdout=texts, stderr=texts, most=st.integers(2 * MIN_TEXT_BYTES + 60, 3000))
def test_it_fits_and_keeps_both_ends(stdout: str, stderr: str, most: int) -> None:
    output = {"exit_code": 1, "stdout": stdout, "stderr": stderr}
    short = with_short_texts(output, ("stdout", "stderr"), most)
    assert short is not None
    assert len(msgspec.json.encode(short)) <= most
    for name, whole in (("stdout", stdout), ("stderr", stderr)):
        if short[name] != whole:
            head, _, tail = short[name].partition("\n(… ")
            assert whole.startswith(head)
            assert whole.endswith(tail.partition("are left out …)\n")[2])
    assert list(short) == list(output)


def test_what_fits_is_as_it_was() -> None:
    output = {"stdout": "a" * 500, "stderr": "b"}
    assert with_short_texts(output, ("stdout", "stderr"), 1000) == output


def test_a_short_text_stays_whole_beside_a_long_one() -> None:
    output = {"stdout": "<" + "x" * 10_000 + ">", "stderr": "the error"}
    short = with_short_texts(output, ("stdout", "stderr"), 1000)
    assert short is not None
    assert short["stderr"] == "the error"
    assert (short["stdout"][0], short["stdout"][-1]) == ("<", ">")
    assert len(json.dumps(short, ensure_ascii=False).encode()) > 900


@pytest.mark.parametrize(
    "output", [{"rest": "y" * 1000, "stdout": "x" * 1000}, {"rest": "y" * 1000}]
)
def test_when_the_rest_is_too_large_nothing_is_shortened(output: dict[str, str]) -> None:
    assert with_short_texts(output, ("stdout", "stderr"), 1000) is None
