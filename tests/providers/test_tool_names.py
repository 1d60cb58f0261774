"""Tool names as they go over the wire."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.tool_names import renamed, sent_name

STRICTEST = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


@pytest.mark.parametrize("name", ["read_file", "a", "_x", "A-b", "x" * 64])
def test_an_accepted_name_is_sent_as_it_is(name: str) -> None:
    assert sent_name(name) == name
    assert renamed([name]) == {}


@pytest.mark.parametrize("name", ["mcp.files.read", "two words", "1st", "-x", "ä", "x" * 65, ""])
def test_a_refused_name_is_renamed_and_found_again(name: str) -> None:
    sent = sent_name(name)
    assert STRICTEST.fullmatch(sent)
    assert renamed([name]) == {sent: name}


def test_names_that_differ_in_refused_characters_or_behind_the_cut_stay_apart() -> None:
    names = ["a.b", "a b", "a_b", "y" * 70, "y" * 71]
    assert len({sent_name(name) for name in names}) == len(names)


def test_a_name_that_copies_a_renamed_one_is_renamed_itself() -> None:
    copied = sent_name("a.b")
    assert sent_name(copied) != copied
    assert renamed(["a.b", copied]) == {copied: "a.b", sent_name(copied): copied}


@given(st.lists(st.text(), unique=True))
def test_any_names_are_accepted_and_reversible(names: list[str]) -> None:
    sent = [sent_name(name) for name in names]
    assert all(STRICTEST.fullmatch(name) for name in sent)
    back = renamed(names)
    assert [back.get(name, name) for name in sent] == names
