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
limit, most : int, optional
    How many.
rest

Returns
-------
nothing : str
    At all.
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
:raises ValueError: Never.
"""
WORD = "One English word, in lower case: always."


@pytest.mark.parametrize(
    ("text", "described"),
    [
        (GOOGLE, {"word": WORD, "limit": "How many.", "rest": "The rest."}),
        (
            GOOGLE.replace("Args:", "Parameters:"),
            {"word": WORD, "limit": "How many.", "rest": "The rest."},
        ),
        (NUMPY, {"word": WORD, "limit": "How many.", "most": "How many."}),
        (REST, {"word": WORD, "limit": "How many.", "rest": "The rest."}),
        ("Finds synonyms of a word.", {}),
    ],
    ids=["google", "google with another title", "numpy", "rest", "none"],
)
def test_three_styles_say_the_same(text: str, described: dict[str, str]) -> None:
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
        ("Use it like this: carefully.", "Use it like this: carefully."),
        ("Note: it is slow.\nVery slow.", "Note: it is slow. Very slow."),
        ("It says ``:param x:``\nand stops.", "It says ``:param x:`` and stops."),
        ("Args: none.", "Args: none."),
    ],
)
def test_what_only_looks_like_a_section_stays(text: str, summary: str) -> None:
    assert parse_docstring(text) == (summary, {})
