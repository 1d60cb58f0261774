"""The arguments of a call as a file to edit: JSON, and one long text below it as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from ..terminal.escaping import safe_line
from .parameter_lines import parameter_lines

MIN_LONG_CHARS = 100
"""A text of one line is easier to edit outside JSON from about the width of a screen on."""

HEADER = """\
// The arguments of {tool}. What you save is shown to you before it is sent.
// To change nothing: leave them as they are, or end the editor with an error (:cq in vi).
{takes}// Lines like these, at the top, don't count.
"""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class EditProblem(Exception):
    """An edit that can't be used, with the reason.

    Attributes:
        draft: The person's text, to go on with; `None` if there is none.
    """

    def __init__(self, message: str, draft: str | None = None) -> None:
        super().__init__(message)
        self.draft = draft


class Form(msgspec.Struct, frozen=True):
    """A file to edit.

    Attributes:
        text: The content of the file.
        long: The argument whose text stands below the rest; `None` when all is JSON.
        marker: The line between the two.
        is_padded: Whether a line break was put behind that text.
    """

    text: str
    long: str | None = None
    marker: str = ""
    is_padded: bool = False


def form_of(tool: str, arguments: str, parameters: Mapping[str, Any] | None = None) -> Form:
    """Return the form of these arguments, a JSON object; with a schema, it says what the tool takes."""
    values: dict[str, Any] = json.loads(arguments)
    takes = [f"//   {line}\n" for line in parameter_lines(parameters)]
    if takes:
        takes.insert(0, "// What it takes; what is not required may be added or left out:\n")
    header = HEADER.format(tool=safe_line(tool), takes="".join(takes))
    long = max((name for name in values if _is_long(values[name])), key=_size(values), default=None)
    if long is None:
        return Form(f"{header}{_pretty(values)}\n")
    text: str = values.pop(long)
    is_padded = not text.endswith("\n")
    note = " (the last line break is not part of it)" if is_padded else ""
    marker = f"// {json.dumps(long)}, as text, from the next line to the end{note}:"
    body = "\n".join((header + _pretty(values), marker, text))
    return Form(body + "\n" * is_padded, long, marker, is_padded)


def arguments_of(form: Form, text: str) -> str:
    """Return the arguments that a person wrote into a form, as JSON.

    Raises:
        EditProblem: The text is not valid arguments; the error has it as the draft.
    """
    if form.long is None:
        return json.dumps(_parsed(text, text))
    # Framed by line breaks, so that the marker is found as the first or the last line, too.
    above, is_there, below = f"\n{text}\n".partition(f"\n{form.marker}\n")
    if not is_there:
        raise EditProblem(f"the line {form.marker!r} is gone", text)
    values = _parsed(above[1:], text)
    if form.long in values:
        raise EditProblem(f"{form.long!r} is there twice, in JSON and as text", text)
    below = below.removesuffix("\n")
    values[form.long] = below.removesuffix("\n") if form.is_padded else below
    return json.dumps(values)


def is_same(one: str, other: str) -> bool:
    """Return whether two JSON texts say the same; `1` and `1.0`, or `true`, do not."""
    return _sorted(one) == _sorted(other)


def _sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _parsed(text: str, draft: str) -> dict[str, Any]:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.startswith("//"):
            break
        lines[number] = ""  # stays as a line, so that an error names the right one
    try:
        values = json.loads(
            "\n".join(lines), object_pairs_hook=_without_twins, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise EditProblem(f"it is not JSON: {error}", draft) from None
    if not isinstance(values, dict):
        raise EditProblem("the arguments are not a JSON object, in braces", draft)
    return values


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name is there twice")
    return values


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _pretty(values: dict[str, Any]) -> str:
    """Return JSON in which no character moves a cursor: what is not visible is an escape."""
    text = json.dumps(values, ensure_ascii=False, indent=2)
    return _NOT_ASCII.sub(lambda match: _visible(match[0]), text)


def _visible(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]


def _is_long(value: Any) -> bool:
    """Return whether a text is better edited as it is, and can be: an editor may obey odd characters."""
    if not isinstance(value, str):
        return False
    if "\n" not in value.rstrip("\n") and len(value) < MIN_LONG_CHARS:
        return False
    return value.replace("\n", "").replace("\t", "").isprintable()


def _size(values: dict[str, Any]) -> Any:
    return lambda name: len(values[name])
