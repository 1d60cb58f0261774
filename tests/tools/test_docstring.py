"""Docstrings in three styles describe a tool and its parameters alike."""

from __future__ import annotations

import inspect

import pytest

from callboard.tools.schema.parameters import parse_docstring

GOOGLE = """
Finds synonyms
of a word.

More about it.

Args:
    word: One English word,
        in lower case: always.
    limit (int, optional): How many.

    *rest: The rest.

Returns:
    nothing: at all
"""
NUMPY = """
Finds synonyms
of a word.

Parameters
----------
word : str
    One English word,
    in lower case: always.
limit, rest : int, optional
    How many.
other
"""
REST = """
Finds synonyms
of a word.

:param word: One English word,
    in lower case: always.
:type word: str
:param int limit: How many.
:param dict[str, int] rest: The rest.
:returns: Nothing: at all.
"""
WORD = "One English word, in lower case: always."


@pytest.mark.parametrize(
    ("text", "rest"), [(GOOGLE, "The rest."), (NUMPY, "How many."), (REST, "The rest.")]
)
def test_three_styles_say_the_same(text: str, rest: str) -> None:
    described = {"word": WORD, "limit": "How many.", "rest": rest}
    assert parse_docstring(inspect.cleandoc(text)) == ("Finds synonyms of a word.", described)


@pytest.mark.parametrize(
    "section", ["Args:\n    a: One.", "Parameters\n----------\na\n    One.", ":param a: One."]
)
def test_a_section_is_no_summary_even_without_a_line_between(section: str) -> None:
    assert parse_docstring(f"Does it.\n{section}") == ("Does it.", {"a": "One."})
    assert parse_docstring(section) == ("", {"a": "One."})


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("", ""),
        ("Note: it is slow.\nVery slow.", "Note: it is slow. Very slow."),
        ("It says ``:param x:``\nand stops.", "It says ``:param x:`` and stops."),
        ("Args: none.", "Args: none."),
    ],
)
def test_what_only_looks_like_a_section_stays(text: str, summary: str) -> None:
    assert parse_docstring(text) == (summary, {})
