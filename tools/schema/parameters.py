"""From a typed function to a Struct of its arguments and their JSON Schema."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Optional

import msgspec
import msgspec.inspect

from ...runtime.definitions import Attachment, Image, ToolResult
from ...runtime.errors import ValidationError
from .validation import is_model, model_of, plain_of

_REST_TYPE = re.compile(r"^(:param)[ \t][^:\n]*?[ \t](\w+[ \t]*:)", re.MULTILINE)
"""In reST: a type before a parameter's name, which docstring_parser refuses when it has spaces."""


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the first paragraph as one line, and the description of each parameter."""
    from docstring_parser import ParseError, google, numpydoc, rest  # here: 30 ms

    best = None
    for style in (google, numpydoc, rest):
        with suppress(ParseError):
            # They dedent all lines but the first, which may be the title of a section.
            parsed = style.parse("\n" + _REST_TYPE.sub(r"\1 \2", text))
            if best is None or len(parsed.meta) > len(best.meta):
                best = parsed
            if parsed.params:
                break
    if best is None:
        return " ".join(text.split("\n\n", 1)[0].split()), {}
    described: dict[str, str] = {}
    for parameter in best.params:
        if description := " ".join((parameter.description or "").split()):
            names = parameter.arg_name.split(",")
            described.update((name.strip().lstrip("*"), description) for name in names)
    return " ".join((best.description or "").split("\n\n", 1)[0].split()), described


_LITERAL = frozenset({"default", "enum", "const", "examples", "required", "discriminator"})
"""Keywords whose values are not schemas."""
_PLAIN = (str, int, float, bool)
_WIRE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names of parameters that every provider takes (Anthropic's rule is the narrowest)."""


class WireName(msgspec.Struct, frozen=True):
    """Marks a parameter whose name on the wire can't be its name in Python (`from`)."""

    name: str


Timeout = Annotated[Annotated[float, msgspec.Meta(gt=0)] | None, WireName("timeout")]
"""A parameter that the dispatcher reads too: it ends the call after so long."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a function takes and returns.

    Attributes:
        struct: A Struct with one field a parameter, named as in Python.
        annotations: The annotation of each parameter, by that name.
        context_name: The parameter that takes the context, if any.
        app_type: `Shop` of a context annotated `ToolContext[Shop]`, else `None`.
        description: The first paragraph of its docstring; without one, its signature.
        returns: The annotation of its result when that declares fields, else `None`.
    """

    struct: type[msgspec.Struct]
    annotations: dict[str, Any]
    context_name: str | None
    app_type: Any
    description: str
    returns: Any


def parameters_of(function: Callable[..., Any], context_type: type) -> Parameters:
    """Read a function's signature and docstring; raise `ValidationError` when it can't be a tool."""
    name = getattr(function, "__name__", "tool")
    signature = _signature(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValidationError(
            f"tool {name}: it yields, and a call has one result. Return a list, and show what "
            "comes before it with context.progress(text)."
        )
    hints = _hints(function, name)
    description, described = parse_docstring(inspect.getdoc(function) or "")
    fields: list[tuple[str, Any, Any]] = []
    annotations: dict[str, Any] = {}
    context_name = app_type = None
    for parameter in signature.parameters.values():
        _check_parameter(parameter, hints, name)
        annotation = hints[parameter.name]
        if (typing.get_origin(annotation) or annotation) is context_type:
            context_name = parameter.name
            [app_type] = typing.get_args(annotation) or (None,)
            continue
        if annotation is list:
            annotation = list[str]  # A bare `list` holds strings, as docs/writing-tools.md says.
        annotations[parameter.name] = annotation
        fields.append(_field(parameter, annotation, described.get(parameter.name), name))
    try:
        struct = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, frozen=True)
    except ValueError as error:
        raise ValidationError(f"tool {name}: two parameters have one name on the wire.") from error
    returns = hints.get("return")
    return Parameters(
        struct=struct,
        annotations=annotations,
        context_name=context_name,
        app_type=app_type,
        description=description
        or f"The function {name}({', '.join(annotations)}), which has no description.",
        returns=returns if _declares_fields(returns) else None,
    )


def parameters_schema(parameters: Parameters, tool_name: str) -> dict[str, Any]:
    """Return the JSON Schema of a function's arguments, without null where it means "not given".

    Raises `ValidationError` that names the parameter whose type has no JSON Schema.
    """
    struct = parameters.struct
    try:
        schema = _inlined(struct, null_is_absent=True)
        if _foreign_class(struct) is None:
            return schema
    except _NO_SCHEMA as error:
        _check_types(parameters, tool_name)
        raise _no_schema(f"tool {tool_name}: a parameter", error, None) from error
    _check_types(parameters, tool_name)
    return schema


def output_schema(kind: Any, tool_name: str) -> dict[str, Any]:
    """Return the JSON Schema of what a tool returns; raise `ValidationError` when there is none.

    Of several types, any may be returned.
    """
    if isinstance(kind, tuple):
        return {"anyOf": [output_schema(each, tool_name) for each in kind]}
    _check_type(kind, f"tool {tool_name}: its result", "return")
    return _inlined(kind, null_is_absent=False)


def answer_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type that an answer is to have; raise `ValidationError` when there is none."""
    _check_type(kind, "answer", "answer")
    return _inlined(kind, null_is_absent=True)


# ── the signature ────────────────────────────────────────────────────────────────────────────────


def _signature(function: object) -> inspect.Signature:
    what = f"{function!r:.80}"
    if isinstance(function, type) or not callable(function):
        raise ValidationError(
            f"{what} is not a function: a tool is made of a `def` or `async def`."
        )
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ValidationError(
            f"{what} does not tell its parameters ({error}). Write a function around it."
        ) from error


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    # A callable object has its annotations on its method.
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
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
    if parameter.name in hints:
        return
    advice = "its type is what the model is told. Annotate it."
    if parameter.name in {"self", "cls"}:
        advice = "make the tool of the bound method instead: tool(object.method)."
    raise ValidationError(
        f"tool {name}: parameter {parameter.name} has no annotation; {advice}", field=parameter.name
    )


def _field(
    parameter: inspect.Parameter, annotation: Any, described: str | None, tool_name: str
) -> tuple[str, Any, Any]:
    said, wire_name = annotation, None
    for extra in getattr(said, "__metadata__", ()):
        if isinstance(extra, WireName):
            wire_name = extra.name
        elif isinstance(extra, msgspec.Meta) and extra.description is not None:
            described = None  # What stands at the parameter itself wins.
    if not _WIRE_NAME.fullmatch(wire_name or parameter.name):
        raise ValidationError(
            f"tool {tool_name}: parameter {parameter.name} has a name that providers refuse; use "
            "at most 64 letters, digits and underscores of ASCII.",
            field=parameter.name,
        )
    default = parameter.default
    if default is None:
        annotation = Optional[annotation]  # ruff: ignore[non-pep604-annotation-optional] not on strings
    if described:
        annotation = Annotated[annotation, msgspec.Meta(description=described)]
    if default is inspect.Parameter.empty:
        return parameter.name, annotation, msgspec.field(name=wire_name)
    _check_default(parameter, said, annotation, tool_name)
    if _is_mutable(default):
        # A copy for each call: Python itself would share the default between calls.
        factory = partial(copy.deepcopy, default)
        return parameter.name, annotation, msgspec.field(default_factory=factory, name=wire_name)
    return parameter.name, annotation, msgspec.field(default=default, name=wire_name)


def _check_default(parameter: inspect.Parameter, said: Any, annotation: Any, tool: str) -> None:
    if parameter.default is None or (said in _PLAIN and type(parameter.default) is said):
        return  # the usual case; `None` has made its type optional
    where = f"tool {tool}: parameter {parameter.name}"
    _check_type(said, where, parameter.name)
    try:
        plain = msgspec.to_builtins(parameter.default, str_keys=True, enc_hook=plain_of)
        msgspec.convert(plain, annotation, str_keys=True, dec_hook=model_of)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValidationError(
            f"{where} has a default that does not fit its annotation ({error}). Correct one of "
            "the two.",
            field=parameter.name,
        ) from error


def _is_mutable(value: object) -> bool:
    if isinstance(value, msgspec.Struct):
        return not value.__struct_config__.frozen
    if dataclasses.is_dataclass(value):
        return not getattr(value, "__dataclass_params__").frozen  # ruff: ignore[get-attr-with-constant] no stub has it
    return isinstance(value, (list, dict, set)) or is_model(type(value))


def _declares_fields(annotation: Any) -> bool:
    if not isinstance(annotation, type) or annotation in (ToolResult, Image, Attachment):
        return False
    return (
        issubclass(annotation, msgspec.Struct)
        or is_model(annotation)
        or dataclasses.is_dataclass(annotation)
        or typing.is_typeddict(annotation)
    )


# ── the schema ───────────────────────────────────────────────────────────────────────────────────

_NO_SCHEMA = (TypeError, NameError, ValueError, RecursionError)
"""Raised by msgspec for a type that it does not know, or that names a missing one."""


def _check_types(parameters: Parameters, tool_name: str) -> None:
    """Raise `ValidationError` for the parameter that is at fault.

    Its own annotation is checked: with a description around it, msgspec takes any class as a type.
    """
    for name, annotation in parameters.annotations.items():
        _check_type(annotation, f"tool {tool_name}: parameter {name}", name)


def _check_type(annotation: Any, where: str, field: str) -> None:
    try:
        _json_schema(annotation, {})
    except _NO_SCHEMA as error:
        raise _no_schema(where, error, field) from error
    if (foreign := _foreign_class(annotation)) is not None:
        raise _no_schema(where, TypeError(f"{foreign!r} has no JSON form"), field)


def _foreign_class(annotation: Any) -> Any:
    """Return a class inside the type that JSON can't carry; with a description msgspec takes any."""
    seen: set[Any] = set()
    todo: list[Any] = [msgspec.inspect.type_info(annotation)]
    while todo:
        node = todo.pop()
        if isinstance(node, msgspec.inspect.CustomType) and not is_model(node.cls):
            return node.cls
        if isinstance(node, tuple):
            todo.extend(node)
        elif isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field):
            kind = getattr(node, "cls", None)
            if kind is None or kind not in seen:
                seen.add(kind)
                todo.extend(getattr(node, name) for name in node.__struct_fields__)
    return None


def _no_schema(where: str, error: BaseException, field: str | None) -> ValidationError:
    why = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    return ValidationError(
        f"{where} has a type that JSON can't carry: {why}. Use str, int, float, bool, list, dict, "
        "Literal, an enum, a dataclass, a TypedDict, a msgspec Struct or a Pydantic model.",
        field=field,
    )


def _json_schema(
    kind: Any, definitions: dict[str, Any], *, is_result: bool = False
) -> dict[str, Any]:
    """Return msgspec's schema of a type, and put what Pydantic's models in it define into the dict."""

    def schema_of(foreign: type) -> dict[str, Any]:
        if not is_model(foreign):
            raise NotImplementedError
        from .pydantic_models import model_schema

        return model_schema(foreign, definitions, is_result=is_result)

    return msgspec.json.schema(kind, schema_hook=schema_of)


def _inlined(kind: Any, *, null_is_absent: bool) -> dict[str, Any]:
    """Return the schema of a type, with references written out (recursive ones stay)."""
    definitions: dict[str, Any] = {}
    schema = _json_schema(kind, definitions, is_result=not null_is_absent)
    definitions.update(schema.pop("$defs", {}))
    inliner = _Inliner(definitions, null_is_absent=null_is_absent)
    inlined: dict[str, Any] = inliner.write_out(schema, ())
    if inliner.recursive:
        inlined["$defs"] = {
            key: inliner.write_out(inliner.definitions[key], (key,))
            for key in sorted(inliner.recursive)
        }
    return inlined


class _Inliner:
    def __init__(self, definitions: Mapping[str, Any], *, null_is_absent: bool) -> None:
        self.definitions = definitions
        self.recursive: set[str] = set()
        self._null_is_absent = null_is_absent

    def write_out(self, node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [self.write_out(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return self._reference(node, inside)
        made: dict[str, Any] = {}
        for name, value in node.items():
            if name == "properties":
                made[name] = self._properties(node, inside)
            elif name in _LITERAL:
                made[name] = value
            elif name != "title":
                made[name] = self.write_out(value, inside)
        if "enum" in made and (kind := _type_of(made["enum"])):
            made.setdefault("type", kind)
        return made

    def _reference(self, node: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        key = node["$ref"].rsplit("/", 1)[1]
        if key in inside:
            self.recursive.add(key)
            return dict(node)
        target = self.write_out(self.definitions[key], (*inside, key))
        return {**target, **{name: value for name, value in node.items() if name != "$ref"}}

    def _properties(self, node: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        required = node.get("required", ()) if self._null_is_absent else node["properties"]
        made = {}
        for key, value in node["properties"].items():
            schema = self.write_out(value, inside)
            made[key] = schema if key in required else _without_null(schema)
        return made


def _type_of(choices: list[Any]) -> str | None:
    """Return the one type of all choices, which some providers want beside them."""
    if all(isinstance(choice, str) for choice in choices):
        return "string"
    if all(isinstance(choice, int) and not isinstance(choice, bool) for choice in choices):
        return "integer"
    return None


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave null out where it is the default: then it says no more than a key that is not there."""
    choices = schema.get("anyOf")
    if not isinstance(choices, list) or schema.get("default", ...) is not None:
        return schema
    rest = [choice for choice in choices if choice != {"type": "null"}]
    outer = {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    return {**rest[0], **outer} if len(rest) == 1 else {**outer, "anyOf": rest}
