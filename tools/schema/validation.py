"""From the model's own text to validated arguments and the one canonical form of them.

Besides what `argument_text` catches: null for "not given" and unknown keys (`approved: true`) are
dropped, and a number like 1.0 is an integer where one is wanted, as JSON Schema has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from .argument_text import WrongArguments, parse_arguments
from .pattern_words import with_words
from .shape import Shape, prune, shape_of

_ANY_ENTRY = "[...]"
_STEP = re.compile(r"\.(?P<field>[^.\[`]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
MAX_KEY_LENGTH = 100
"""Of a key that is shown: more than any that means something to its reader."""


def with_keys(message: str, tree: Any, kind: Any) -> str:
    """The message of a failed conversion, its path with the keys of dicts (`$.headers.Accept`)."""
    begin = message.rfind("`$")
    if _ANY_ENTRY not in message[max(begin, 0) :]:
        return message

    def is_refused(tried: Any) -> bool:
        try:
            msgspec.convert(tried, kind, str_keys=True)
        except msgspec.ValidationError as error:
            return str(error) == message
        return False

    path: list[str | int] = []
    for step in _STEP.finditer(message, begin):
        if step["field"] is not None:
            path.append(step["field"])
        elif step["index"] is not None:
            path.append(int(step["index"]))
        else:
            key = _refused_key(tree, path, is_refused)
            if key is None:
                return message
            path.append(key)
    shown = "".join(f"[{p}]" if isinstance(p, int) else f".{p[:MAX_KEY_LENGTH]}" for p in path)
    return f"{message[:begin]}`${shown}`"


def _refused_key(
    tree: Any, path: Sequence[str | int], is_refused: Callable[[Any], bool]
) -> str | None:
    """Halves the dict: a try takes as long as the whole conversion, and dicts may be large."""
    try:
        entries = tree
        for step in path:
            entries = entries[step]
        keys = list(entries)
    except (KeyError, IndexError, TypeError):  # a name with a dot in it
        return None
    while len(keys) > 1:
        first = keys[: len(keys) // 2]
        some = {key: entries[key] for key in first}
        keys = first if is_refused(_replaced(tree, path, some)) else keys[len(first) :]
    return str(keys[0]) if keys else None


def _replaced(tree: Any, path: Sequence[str | int], value: Any) -> Any:
    """A copy of the tree with another value at that path."""
    if not path:
        return value
    step, *rest = path
    copied = tree.copy()
    copied[step] = _replaced(tree[step], rest, value)
    return copied


_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.+)`$")
_MAX_EXACT = 2.0**53
"""Beyond it a float no longer says which integer was meant."""


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

    @cached_property
    def _shape(self) -> Shape | None:
        return shape_of(msgspec.inspect.type_info(self._struct))

    def decode(self, text: str) -> tuple[Any, str]:
        """The Struct and the canonical JSON; `ToolFailure` (`validation_error`) otherwise."""
        try:
            tree = prune(parse_arguments(text), self._shape)
            value, tree = self._convert(tree)
        except WrongArguments as wrong:
            raise wrong.failure(self._tool_name, self._schema) from None
        return value, msgspec.json.encode(tree, order="deterministic").decode()

    def _convert(self, tree: Any) -> tuple[Any, Any]:
        try:
            return msgspec.convert(tree, self._struct, str_keys=True), tree
        except msgspec.ValidationError as error:
            first = error
        # Some providers send every number as a float.
        whole = _whole_numbers(tree)
        try:
            return msgspec.convert(whole, self._struct, str_keys=True), whole
        except msgspec.ValidationError as error:
            # The second is about another place when the first was only about 1.0.
            last, tree = (error, whole) if "got `float`" in str(first) else (first, tree)
            message = with_words(with_keys(str(last), tree, self._struct), self._struct)
            raise WrongArguments(*explain(message)) from None


def explain(message: str) -> tuple[str, str | None]:
    """What msgspec found wrong, in the words of our errors, and in which field."""
    found = _AT.match(message)
    problem, path = (found["problem"], found["path"] or "") if found else (message, "")
    missing = _MISSING.match(problem)
    if missing:
        field = f"{path}.{missing[1]}".lstrip(".")
        return f"`{field}` is required and missing", field
    field = path.lstrip(".")
    # Null is never what was expected: where it may stand, it only means "not given".
    problem = problem[:1].lower() + problem[1:].replace(" | null`", "`")
    return (f"`{field}`: {problem}" if field else problem), field or None


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return value
