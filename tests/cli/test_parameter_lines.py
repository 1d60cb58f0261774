"""What a tool takes, as lines above its arguments: short, and nothing that an editor or a terminal could obey."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.cli.ask.edit_form import arguments_of, form_of, is_same
from callboard.cli.ask.parameter_lines import MAX_LINE_CHARS, MAX_LINES, parameter_lines
from callboard.tools.builtin import builtin_tools


def schema(required: Any = (), defs: Any = None, **properties: Any) -> dict[str, Any]:
    return {"properties": properties, "required": list(required), "$defs": defs or {}}


@pytest.mark.parametrize(
    ("its", "line"),
    [
        ({"type": "string", "description": "Where\n it is."}, "a (text): Where it is."),
        ({"enum": ["append", "x y"], "default": "x y"}, 'a ("append" or "x y", default "x y")'),
        ({"type": "integer", "default": 0}, "a (whole number, default 0)"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "a (number)"),
        ({"type": ["boolean", "null"]}, "a (true or false)"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "a (text or list)"),
        ({"$ref": "#/$defs/Level"}, 'a ("low" or "high")'),
        ({"allOf": [{"$ref": "#/$defs/Level"}]}, 'a ("low" or "high")'),
        ({}, "a"),
        (True, "a"),
        ({"type": {"x": 1}, "enum": "x", "anyOf": {"type": "string"}, "description": 1}, "a"),
        ({"$ref": "#/$defs/Circle"}, "a"),
        ({"$ref": "https://example.org/schema"}, "a"),
    ],
)
def test_an_argument_is_told_in_one_line(its: Any, line: str) -> None:
    circle = {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Circle"}]}
    defs = {"Level": {"enum": ["low", "high"]}, "Circle": circle}
    assert parameter_lines(schema(defs=defs, a=its)) == [line]
    said = parameter_lines(schema("a", defs, a=its))
    assert "required" in said[0]


@pytest.mark.parametrize("odd", [None, {}, {"properties": 1}, {"properties": []}])
def test_where_the_schema_says_nothing_nothing_is_said(odd: Any) -> None:
    assert parameter_lines(odd) == []
    assert "takes" not in form_of("write_file", "{}", odd).text


def test_what_a_stranger_writes_moves_no_cursor_and_has_no_screens() -> None:
    text = "\x1b[2J\u202e// }\n{" * 5000
    hostile = schema(**{f"a{n}": {"description": text, "default": text} for n in range(500)})
    hostile["properties"][text] = hostile["properties"]["b\x1b[2J"] = {"type": "string"}
    lines = parameter_lines(hostile)
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == f"and {500 - MAX_LINES} more"
    assert max(map(len, lines)) < 10 * MAX_LINE_CHARS  # an escape is longer than what it stands for
    form = form_of("write_file", '{"a": 1}', hostile)
    assert all(char.isprintable() or char == "\n" for char in form.text)
    assert is_same(arguments_of(form, form.text), '{"a": 1}')


def test_an_argument_is_added_below_what_the_tool_takes() -> None:
    [tool] = [each for each in builtin_tools() if each.name == "write_file"]
    form = form_of("write_file", '{"path": "a", "content": "b"}', tool.definition.parameters)
    assert "//   path (text, required): Relative to the workspace.\n" in form.text
    assert '//   mode ("append" or "overwrite", default "overwrite"): ' in form.text
    changed = arguments_of(form, form.text.replace('"a"', '"a", "mode": "append"'))
    assert json.loads(changed) == {"path": "a", "content": "b", "mode": "append"}
