"""Pydantic's models as types of parameters and results, where the program brings Pydantic along.

callboard never imports Pydantic: who annotates a parameter with a model has done so. msgspec knows
these classes as custom types; each model checks its own values. This module is imported when there
is such a type (`validation.is_model`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import NoneType
from typing import Any, get_args


def model_schema(model: Any, definitions: dict[str, Any], *, is_result: bool) -> dict[str, Any]:
    """Return a model's JSON Schema; the definitions that it refers to are put into the dict."""
    prefix = f"{model.__name__}_"
    mode = "serialization" if is_result else "validation"
    schema = _plain(model.model_json_schema(ref_template=f"#/$defs/{prefix}{{model}}", mode=mode))
    inner = schema.pop("$defs", {})
    definitions.update((prefix + name, definition) for name, definition in inner.items())
    return dict(schema)


def _plain(node: Any) -> Any:
    """Return a schema with its tagged unions as msgspec writes them: references in their mapping would be lost."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {name: _plain(value) for name, value in node.items()}
    if isinstance(choices := made.get("oneOf"), list):
        del made["oneOf"]
        made.pop("discriminator", None)
        made["anyOf"] = choices
    return made


def validated(kind: Any, value: Any) -> Any:
    """Return a value as this model; raise `ValueError` with the first problem, and its place inside."""
    try:
        return kind.model_validate(value)
    except ValueError as error:
        problem, path = _first_problem(error)
        raise ValueError(f"{problem} - in `{path}`" if path else problem) from None


def _first_problem(error: Any) -> tuple[str, str]:
    if not hasattr(error, "errors"):  # a validator of the model raised it past Pydantic
        return " ".join(str(error).split()), ""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return first["msg"], "".join(steps)


def fields_of(kind: Any) -> Iterator[tuple[str, bool, Any]] | None:
    """Yield each key that a model knows, whether null is a value of it, and its annotation; `None` if it may take any."""
    root = sys.modules["pydantic"].RootModel
    if issubclass(kind, root) or kind.model_config.get("extra") == "allow":
        return None
    fields = [
        (name, field, [field.alias, field.validation_alias])
        for name, field in kind.model_fields.items()
    ]
    if any(not isinstance(alias, str | None) for _, _, aliases in fields for alias in aliases):
        return None
    return (
        (key, _has_null(field), field.annotation)
        for name, field, aliases in fields
        for key in {name, *aliases} - {None}
    )


def _has_null(field: Any) -> bool:
    """Return whether null says something else than a key that is not there."""
    if field.is_required():
        return True  # the model says what it takes
    return field.default is not None and NoneType in get_args(field.annotation)
