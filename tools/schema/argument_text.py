"""From the model's own text to a JSON object, or to the one thing that is wrong with it.

What models get wrong and a decoder lets pass is caught here: duplicate keys (a person would see
one value and the tool another), text that is too large or too deep.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.stream import MAX_ARGUMENT_BYTES

MAX_DEPTH = 100
"""No tool's arguments come near it, and recursion over them stays far from Python's limit."""

_ESCAPED_COLON = "\\u003"

TRY_AGAIN = "Correct the arguments and call it again."
"""What a model is told while it may."""

_ADVICE = re.compile(r" Correct (?:the arguments and call it again|it and call again)\.$")


def without_advice(message: str) -> str:
    """What is wrong, for a person: the model's advice is left out."""
    return _ADVICE.sub("", message)


class WrongArguments(Exception):
    """What is wrong with a call's arguments, and in which field of them."""

    def __init__(self, problem: str, field: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field

    def failure(self, tool_name: str, schema: dict[str, Any]) -> ToolFailure:
        """The failure that tells the model what to correct."""
        details: dict[str, Any] = {"schema": schema}
        if self.field is not None:
            details = {"field": self.field, **details}
        message = f"{tool_name}: {self.problem}. {TRY_AGAIN}"
        return ToolFailure(ErrorType.VALIDATION_ERROR, message, **details)


def parse_arguments(text: str) -> dict[str, Any]:
    """The object that a call's text holds (empty text: an empty one); raises `WrongArguments`."""
    if not text or text.isspace():
        return {}
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise WrongArguments("the arguments hold a lone surrogate, no character") from None
    if len(encoded) > MAX_ARGUMENT_BYTES:
        raise WrongArguments(
            f"the arguments are larger than {MAX_ARGUMENT_BYTES} bytes; send less at once"
        )
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise WrongArguments(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    try:
        tree = msgspec.json.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WrongArguments(f"the arguments are not JSON ({error})") from None
    if not isinstance(tree, dict):
        raise WrongArguments("the arguments must be a JSON object")
    # Every key has its colon. As many colons as were kept (of keys and within strings): none
    # can have been overwritten. Escaped colons would spoil the sum, so they are looked into.
    if text.count(":") != _count_colons(tree) or _ESCAPED_COLON in text:
        duplicate = _duplicate_key(text)
        if duplicate is not None:
            raise WrongArguments(f"the key `{duplicate}` is given twice", duplicate)
    return tree


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
