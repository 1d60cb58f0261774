"""Validates values against a foreign schema, with jsonschema-rs and within bounds.

The library is an extra (`pip install "callboard[schemas]"`, 15 MB) and imported when the first
foreign schema arrives. Its regular expressions run in a linear engine without lookaround and
back-references; a schema that needs them is refused, since an engine that has them may backtrack
for ever. Formats are annotations, as in the standard.
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from ...runtime.errors import ValidationError
from .foreign_schema import MAX_CHECKS, ForeignSchema, JsonSchema
from .validation import WrongArguments

MAX_REGEX_BYTES = 256 * 1024
"""The largest compiled pattern: a pattern of a few hundred characters fits, `(a{1000}){1000}` does not."""
MAX_UNCOUNTED = 100_000
"""Schemas times values up to which no work is counted first: it can't take 10 ms."""
MAX_EXPLAINED = 2000
"""Checks up to which the library names the exact place of an error; for alternatives it copies
on every level what did not fit, forty a millisecond. Beyond it, we name the argument only."""

_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}
"""JSON Schema's words for the types of values."""
_MAX_SHOWN = 200
"""Characters of a schema's own text (a pattern, a list of choices) in a message."""


class ForeignValidator:
    """Checks whether values fit a schema, of JSON Schema 2020-12 unless its `$schema` says otherwise.

    Raises `ValidationError` when the schema is wrong or not allowed, or jsonschema-rs is not installed; `where`
    says whose it is.
    """

    def __init__(self, where: str, schema: JsonSchema) -> None:
        self._library = _library(where)
        self.schema = ForeignSchema(where, schema)
        self._validator = self._compile(where, schema)

    def check(self, value: Any, size: int | None = None) -> None:
        """Raise `WrongArguments` when the value, of plain JSON, does not fit; `size` is the length of its text."""
        counted: int | None = None
        is_small = size is not None and self.schema.size * size <= MAX_UNCOUNTED
        if self.schema.has_references or not is_small:
            counted = self._count(value)
        try:
            if self._validator.is_valid(value):
                return
            if counted is None:
                counted = self._count(value)
            if counted > MAX_EXPLAINED:
                self._explain_roughly(value)
            self._validator.validate(value)
        except self._library.ValidationError as error:
            raise WrongArguments(*_explain(error)) from None

    def _count(self, value: Any) -> int:
        counted = self.schema.count_checks(value)
        if counted > MAX_CHECKS:
            raise WrongArguments(
                "the arguments are too large, or nested too deeply, for a schema that branches "
                "like this one; send less at once"
            )
        return counted

    def _explain_roughly(self, value: Any) -> NoReturn:
        parts = value.items() if isinstance(value, dict) else ()
        root = self.schema.root if isinstance(self.schema.root, dict) else {}
        properties = root.get("properties")
        for name, part in parts:
            if isinstance(properties, dict) and name in properties:
                alone = {**root, "required": [], "properties": {name: properties[name]}}
                if not self._compile("", alone).is_valid({name: part}):
                    raise WrongArguments(f"`{name}` does not fit its schema", name)
        raise WrongArguments("the arguments do not fit the schema")

    def _compile(self, where: str, schema: JsonSchema) -> Any:
        def refuse(uri: str) -> NoReturn:
            raise ValueError(f"{uri} is not fetched")

        try:
            return self._library.validator_for(
                schema,
                validate_formats=False,
                retriever=refuse,
                mask="it",
                pattern_options=self._library.RegexOptions(
                    size_limit=MAX_REGEX_BYTES, dfa_size_limit=MAX_REGEX_BYTES
                ),
            )
        except ValueError as error:
            place = _path(getattr(error, "instance_path", ()))
            at = f" at {place}" if place else ""
            kind = getattr(getattr(error, "kind", None), "name", "")
            advice = (
                " (its patterns run in linear time: without lookaround and back-references)"
                if kind in {"pattern", "format"} or place.endswith("pattern")
                else ""
            )
            why = str(getattr(error, "message", error)).splitlines()[0][:_MAX_SHOWN]
            raise ValidationError(
                f"{where}: its schema is not valid{at}: {why}{advice}."
            ) from error


def _library(where: str) -> Any:
    try:
        return importlib.import_module("jsonschema_rs")
    except ImportError as error:
        raise ValidationError(
            f"{where} comes with a JSON Schema of its own, and what validates those is "
            'not installed. Install it: pip install "callboard[schemas]"'
        ) from error


def _explain(error: Any) -> tuple[str, str | None]:
    error = _deepest(error)
    path = _path(error.instance_path)
    where = f"`{path}`: " if path else ""
    kind = error.kind.name
    details = error.kind.as_dict()
    if kind == "required":
        field = f"{path}.{details['property']}".lstrip(".")
        return f"`{field}` is required and missing", field
    if kind == "type":
        expected = " or ".join(details["types"])
        return f"{where}expected {expected}, got {_KINDS[type(error.instance)]}", path or None
    if kind in {"additionalProperties", "unevaluatedProperties"}:
        field = f"{path}.{details['unexpected'][0]}".lstrip(".")
        return f"`{field}` is not known", field
    if kind in {"anyOf", "oneOf"}:
        return f"{where}expected {_alternatives(details)}", path or None
    return f"{where}{error.message[:_MAX_SHOWN]}", path or None


def _deepest(error: Any) -> Any:
    """Return the error of the alternative that fitted best, the one that reached deepest."""
    while error.kind.name in {"anyOf", "oneOf"}:
        reached = len(error.instance_path)
        below = [branch[0] for branch in error.kind.as_dict()["context"] if branch]
        below = [inner for inner in below if len(inner.instance_path) > reached]
        if not below:
            break
        error = max(below, key=lambda inner: len(inner.instance_path))
    return error


def _alternatives(details: dict[str, Any]) -> str:
    context = details["context"]
    kinds: list[str] = []
    for branch in context:
        if not branch:
            return f"exactly one of {len(context)} alternatives, and it fits several"
        if branch[0].kind.name != "type":
            return f"one of {len(context)} alternatives, and it fits none of them"
        kinds.extend(branch[0].kind.as_dict()["types"])
    return " or ".join(dict.fromkeys(kinds))


def _path(steps: Any) -> str:
    written = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return written.removeprefix(".")
