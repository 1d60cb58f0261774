"""The arguments of a call as a file to edit: what is written back, and what can not be read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.ask.edit_form import EditProblem, arguments_of, form_of, is_same

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Lone surrogates are left out: what a model says has none.
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.text(st.sampled_from("a\n\t/{}\"'"), max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), json_values))
def test_what_is_left_alone_says_the_same(arguments: dict[str, object]) -> None:
    text = json.dumps(arguments)
    form = form_of("write_file", text)
    assert is_same(arguments_of(form, form.text), text)


CONTENT = json.dumps({"path": "a.txt", "content": "one\ntwo"})


def test_a_text_of_several_lines_is_edited_as_it_is() -> None:
    form = form_of("write_file", CONTENT)
    assert form.text.endswith(":\none\ntwo\n")
    changed = arguments_of(form, form.text.replace("two", "two\n\n// three").replace("a.txt", "b"))
    assert json.loads(changed) == {"path": "b", "content": "one\ntwo\n\n// three"}
    without_end = arguments_of(form, form.text.removesuffix("\n"))
    assert is_same(without_end, CONTENT)
    nothing_left = arguments_of(form, form.text[: form.text.index(":\none") + 1])
    assert json.loads(nothing_left)["content"] == ""


def test_a_text_keeps_the_line_break_at_its_end() -> None:
    ended = json.dumps({"content": "one\ntwo\n"})
    form = form_of("write_file", ended)
    assert json.loads(arguments_of(form, form.text + "three\n")) == {"content": "one\ntwo\nthree\n"}
    assert json.loads(arguments_of(form, form.text.removesuffix("\n"))) == {"content": "one\ntwo"}


def test_nothing_that_an_editor_could_obey_is_in_the_file() -> None:
    odd = "a\u202eb\x1b[2J\U000e0001\r\n" * 20
    form = form_of("f\x1b[2J", json.dumps({odd: odd, "list": [odd]}))
    assert all(char.isprintable() or char == "\n" for char in form.text)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "it is not JSON"),
        ("// a comment\n", "it is not JSON"),
        ("// one\n{\n  nonsense\n}\n", "line 3 column 3"),
        ("[1]", "not a JSON object"),
        ('{"a": 1, "a": 2}', "a name is there twice"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_what_is_no_object_is_told_and_kept(written: str, problem: str) -> None:
    with pytest.raises(EditProblem, match=problem) as caught:
        arguments_of(form_of("f", '{"a":1}'), written)
    assert caught.value.draft == written


def test_the_line_above_a_text_must_stay_and_its_name_be_there_once() -> None:
    form = form_of("write_file", CONTENT)
    with pytest.raises(EditProblem, match="is gone"):
        arguments_of(form, form.text.replace('// "content"', "// content"))
    with pytest.raises(EditProblem, match="is there twice"):
        arguments_of(form, form.text.replace('"path"', '"content"'))


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("1", "true"), ('"1"', "1"), ("[1,2]", "[2,1]")]
)
def test_values_of_other_kinds_are_other_values(one: str, other: str) -> None:
    assert not is_same(f'{{"a":{one}}}', f'{{"a":{other}}}')
    assert is_same(f'{{"a":{one},"b":2}}', f'{{"b": 2, "a": {one}}}')
