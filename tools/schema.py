"""From a typed function to a Struct of its arguments and their JSON Schema."""

from __future__ import annotations

import copy
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

import msgspec

from ..runtime.errors import ValidationError

_LITERAL = frozenset({"default", "enum", "const", "examples", "required", "discriminator"})
"""Keywords whose values are no schemas."""


class WireName(msgspec.Struct, frozen=True):
    """Marks a parameter whose name on the wire is no good name in Python (`from`)."""

    name: str


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a function takes.

    Attributes:
        struct: A Struct with one field a parameter, named as in Python.
        names: Those names.
        context_name: The parameter that takes the context, if any.
        description: The first paragraph of its docstring, or its name in words.
    """

    struct: type[msgspec.Struct]
    names: tuple[str, ...]
    context_name: str | None
    description: str


def parameters_of(function: Callable[..., Any], context_type: type) -> Parameters:
    """Reads a function's signature and docstring.

    Raises:
        ValidationError: It can't be a tool; the message says which parameter and why.
    """
    name = getattr(function, "__name__", "tool")
    hints = _hints(function, name)
    description, described = parse_docstring(inspect.getdoc(function) or "")
    fields: list[tuple[str, Any, Any]] = []
    context_name = None
    for parameter in inspect.signature(function).parameters.values():
        _check_parameter(parameter, hints, name)
        annotation = hints[parameter.name]
        if annotation is context_type:
            context_name = parameter.name
            continue
        fields.append(_field(parameter, annotation, described.get(parameter.name)))
    return Parameters(
        struct=msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, frozen=True),
        names=tuple(field[0] for field in fields),
        context_name=context_name,
        description=description or name.replace("_", " ").capitalize() + ".",
    )


def json_schema(struct: type[msgspec.Struct], tool_name: str) -> dict[str, Any]:
    """The JSON Schema of a Struct, with references written out (recursive ones stay)."""
    try:
        schema = msgspec.json.schema(struct)
    except TypeError as error:
        raise ValidationError(
            f"tool {tool_name}: a parameter has a type that JSON can't carry: "
            f"{str(error).strip().splitlines()[-1]}. Use str, int, float, bool, list, dict, "
            "Literal, an enum, a dataclass or a msgspec Struct."
        ) from error
    definitions: dict[str, Any] = schema.pop("$defs", {})
    kept: set[str] = set()
    inlined = cast("dict[str, Any]", _inline(schema, definitions, (), kept))
    if kept:
        inlined["$defs"] = {
            key: _inline(definitions[key], definitions, (key,), kept) for key in sorted(kept)
        }
    return inlined


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The first paragraph as one line, and what the `Args:` section says of each parameter."""
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    described: dict[str, str] = {}
    section = re.search(
        r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*\n?|\n)*)", text, re.MULTILINE
    )
    if section is None:
        return paragraph, described
    if section.start() == 0:
        paragraph = ""
    lines = inspect.cleandoc("\n" + section[1]).splitlines()
    current = ""
    for line in lines:
        entry = re.match(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)", line)
        if entry:
            current = entry[1]
            described[current] = entry[2].strip()
        elif current and line.strip():
            described[current] = f"{described[current]} {line.strip()}".strip()
    return paragraph, described


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ValidationError(
            f"tool {name}: its annotations can't be read ({error}). Types that annotations name "
            "must be defined at module level."
        ) from error


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, Any], name: str) -> None:
    if parameter.kind not in {
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }:
        raise ValidationError(
            f"tool {name}: parameter {parameter} can't be filled from JSON by name. Give every "
            "argument a name and a type of its own.",
            field=parameter.name,
        )
    if parameter.name not in hints:
        raise ValidationError(
            f"tool {name}: parameter {parameter.name} has no annotation; its type is what the "
            "model is told. Annotate it.",
            field=parameter.name,
        )


def _field(
    parameter: inspect.Parameter, annotation: Any, described: str | None
) -> tuple[str, Any, Any]:
    if annotation is list:
        annotation = list[str]  # The rule of the contract: no items said, they are strings.
    wire_name = None
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, WireName):
            wire_name = extra.name
        elif isinstance(extra, msgspec.Meta) and extra.description is not None:
            described = None  # What stands at the parameter itself wins.
    if described is not None:
        annotation = Annotated[annotation, msgspec.Meta(description=described)]
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name, annotation, msgspec.field(name=wire_name)
    if isinstance(default, (list, dict, set)):
        # Each call gets its own, as nobody would expect of a default in Python.
        factory = _copier(default)
        return parameter.name, annotation, msgspec.field(default_factory=factory, name=wire_name)
    return parameter.name, annotation, msgspec.field(default=default, name=wire_name)


def _copier(value: Any) -> Callable[[], Any]:
    return lambda: copy.deepcopy(value)


def _inline(
    node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...], kept: set[str]
) -> Any:
    """Writes references out, drops titles, and says `null` nowhere that it means `absent`."""
    if isinstance(node, list):
        return [_inline(item, definitions, inside, kept) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        key = node["$ref"].rsplit("/", 1)[1]
        if key in inside:
            kept.add(key)
            return dict(node)
        target = _inline(definitions[key], definitions, (*inside, key), kept)
        return {**target, **{name: value for name, value in node.items() if name != "$ref"}}
    made: dict[str, Any] = {}
    for name, value in node.items():
        if name == "properties":
            required = node.get("required", ())
            made[name] = {
                key: inlined if key in required else _without_null(inlined)
                for key, item in value.items()
                for inlined in (_inline(item, definitions, inside, kept),)
            }
        elif name in _LITERAL:
            made[name] = value
        elif name != "title":
            made[name] = _inline(value, definitions, inside, kept)
    if all(isinstance(choice, str) for choice in made.get("enum", (None,))):
        made.setdefault("type", "string")
    return made


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = schema.get("anyOf")
    if not isinstance(choices, list) or {"type": "null"} not in choices:
        return schema
    rest = [choice for choice in choices if choice != {"type": "null"}]
    outer = {name: value for name, value in schema.items() if name != "anyOf"}
    if outer.get("default", ...) is None:
        del outer["default"]
    return {**rest[0], **outer} if len(rest) == 1 else {**outer, "anyOf": rest}
