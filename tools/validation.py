"""From the model's own text to validated arguments and the one canonical form of them.

What models get wrong and a decoder lets pass is caught here: duplicate keys (a person would see
one value and the tool another), null for "not given", unknown keys (`approved: true`), text that
is too large or too deep.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ..runtime.definitions import ErrorType, ToolFailure
from .shape import Shape, prune, shape_of

MAX_ARGUMENT_BYTES = 1024 * 1024
"""The same bound cuts the stream; a file to write may be that long, no argument needs more."""
MAX_DEPTH = 100
"""No tool's arguments come near it, and recursion over them stays far from Python's limit."""

_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_ESCAPED_COLON = "\\u003"
_MISSING = re.compile(r"Object missing required field `(.+)`$")


class Validator:
    """Decodes the arguments of one tool.

    Args:
        tool_name: For messages.
        struct: What the arguments become.
        schema: Shown to the model when it got them wrong.
    """

    def __init__(
        self, tool_name: str, struct: type[msgspec.Struct], schema: dict[str, Any]
    ) -> None:
        self._tool_name = tool_name
        self._struct = struct
        self._schema = schema
        self._shape: Shape | None = shape_of(msgspec.inspect.type_info(struct))

    def decode(self, text: str) -> tuple[Any, str]:
        """The Struct and the canonical JSON; `ToolFailure` (`validation_error`) otherwise."""
        tree = self._parse(text)
        tree = prune(tree, self._shape)
        try:
            value = msgspec.convert(tree, self._struct, str_keys=True)
        except msgspec.ValidationError as error:
            raise self._refused(str(error)) from None
        return value, msgspec.json.encode(tree, order="deterministic").decode()

    def _parse(self, text: str) -> dict[str, Any]:
        if not text or text.isspace():
            return {}
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            raise self._failure("the arguments hold a lone surrogate, no character") from None
        if len(encoded) > MAX_ARGUMENT_BYTES:
            raise self._failure(
                f"the arguments are larger than {MAX_ARGUMENT_BYTES} bytes; send less at once"
            )
        if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
            raise self._failure(f"the arguments are nested deeper than {MAX_DEPTH} levels")
        try:
            tree = msgspec.json.decode(encoded)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._failure(f"the arguments are not JSON ({error})") from None
        if not isinstance(tree, dict):
            raise self._failure("the arguments must be a JSON object")
        # Every key has its colon. As many colons as were kept (of keys and within strings): none
        # can have been overwritten. Escaped colons would spoil the sum, so they are looked into.
        if text.count(":") != _count_colons(tree) or _ESCAPED_COLON in text:
            duplicate = _duplicate_key(text)
            if duplicate is not None:
                raise self._failure(f"the key `{duplicate}` is given twice", field=duplicate)
        return tree

    def _refused(self, message: str) -> ToolFailure:
        found = _AT.match(message)
        problem, path = (found["problem"], found["path"] or "") if found else (message, "")
        missing = _MISSING.match(problem)
        if missing:
            field = f"{path}.{missing[1]}".lstrip(".")
            return self._failure(f"`{field}` is required and missing", field=field)
        field = path.lstrip(".")
        # Null is never what was expected: where it may stand, it only means "not given".
        problem = problem[:1].lower() + problem[1:].replace(" | null`", "`")
        where = f"`{field}`: " if field else ""
        return self._failure(f"{where}{problem}", field=field or None)

    def _failure(self, problem: str, *, field: str | None = None) -> ToolFailure:
        details: dict[str, Any] = {"schema": self._schema}
        if field is not None:
            details = {"field": field, **details}
        message = f"{self._tool_name}: {problem}. Correct the arguments and call it again."
        return ToolFailure(ErrorType.VALIDATION_ERROR, message, **details)


def _depth(text: str) -> int:
    """How deep the brackets go; text that is no JSON may give any number."""
    depth = deepest = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', text, re.DOTALL):
        if token[0] in {"[", "{"}:
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in {"]", "}"}:
            depth -= 1
    return deepest


def _count_colons(tree: Any) -> int:
    """How many colons a JSON text of this value has at least."""
    if isinstance(tree, str):
        return tree.count(":")
    if isinstance(tree, dict):
        count = len(tree)
        for key, value in tree.items():
            count += key.count(":")
            if isinstance(value, (str, dict, list)):
                count += _count_colons(value)
        return count
    return sum(_count_colons(item) for item in tree if isinstance(item, (str, dict, list)))


class _Duplicate(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _duplicate_key(text: str) -> str | None:
    try:
        # Numbers are of no interest here, and int() refuses more than 4,300 digits.
        json.loads(text, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except _Duplicate as duplicate:
        return duplicate.key
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(key)
            seen.add(key)
    return made
