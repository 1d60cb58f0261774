"""The form of an answer: a type of the program's, or a JSON Schema.

An answer is a JSON object, since the providers that bind their text to a schema take no other. What is
none (`list[str]`, `int`) goes into an object with one key, and comes out of it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ...runtime.errors import ValidationError
from .foreign_schema import foreign_shape
from .foreign_validator import ForeignValidator
from .parameters import answer_schema
from .validation import Validator, WrongArguments, canonical, parse_arguments, prune

Value = TypeVar("Value")

KEY = "answer"
"""The one key of the object around an answer that is none."""

FENCE = "```"


class TypedAnswer(Generic[Value]):
    """A type that an answer has to have.

    Raises `ValidationError` when JSON can't carry the type.

    Attributes:
        schema: Its JSON Schema, of type object.
    """

    def __init__(self, kind: type[Value]) -> None:
        self._is_inside = False
        self.schema = answer_schema(kind)
        if self.schema.get("type") != "object":
            self._is_inside = True
            wrapped = msgspec.defstruct("Answer", [(KEY, kind)])
            self.schema = answer_schema(wrapped)
            self._validator = Validator(KEY, wrapped, self.schema)
        else:
            self._validator = Validator(KEY, kind, self.schema)

    def read(self, text: str) -> tuple[Value, str]:
        """Return the value in a text, and its canonical JSON; raise `WrongArguments`."""
        with _OfAnswer():
            value, read = self._validator.read(json_in(text))
        return getattr(value, KEY) if self._is_inside else value, read

    def value(self, text: str) -> Value:
        """Return the value in a text; raise `ValueError`."""
        try:
            return self.read(text)[0]
        except WrongArguments as wrong:
            raise ValueError(wrong.problem) from wrong


class SchemaAnswer:
    """A JSON Schema that an answer has to fit; its value is a dict.

    Raises `ValidationError` when the schema is not valid, is not of an object, or no answer can fit it.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = dict(schema)
        if self.schema.get("type") != "object":
            raise _refused(
                f"its type is {self.schema.get('type')!r:.80}, and an answer is an object: put what you want "
                "under a property"
            )
        if why := _why_unmet(self.schema, KEY):
            raise _refused(f"no answer can fit it: {why}")
        try:
            self._validator = ForeignValidator("the answer", self.schema)
        except ValidationError as error:
            raise ValidationError(str(error), field="answer_schema") from error
        self._shape = foreign_shape(self._validator.schema)

    def read(self, text: str) -> tuple[dict[str, Any], str]:
        """Return the object in a text, and its canonical JSON; raise `WrongArguments`."""
        text = json_in(text)
        with _OfAnswer():
            value = prune(parse_arguments(text), self._shape, {})
            self._validator.check(value, len(text))
        return value, canonical(value)


def schema_in(text: str) -> dict[str, Any]:
    """Return the JSON Schema in a text; raise `ValidationError` when it holds none."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except ValueError as error:
        raise _refused(f"the text is no JSON object ({error})") from error


def json_in(text: str) -> str:
    """Return the JSON of an answer that may be fenced as code; raise `WrongArguments` for an empty one."""
    text = text.strip()
    if text.startswith(FENCE) and text.endswith(FENCE):
        text = text.removesuffix(FENCE).partition("\n")[2].strip()
    if not text:
        raise WrongArguments("the answer is empty")
    return text


class _OfAnswer:
    """Makes what is said of arguments be said of the answer."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, WrongArguments):
            said = error.problem.replace("the arguments are", "the answer is")
            error.problem = said.replace("the arguments", "the answer")
            error.args = (error.problem,)


def _refused(why: str) -> ValidationError:
    return ValidationError(f"the answer's schema: {why}.", field="answer_schema")


# ── schemas that nothing fits ────────────────────────────────────────────────────────────────────

_BOUNDS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)


def _why_unmet(schema: Any, where: str) -> str:
    """Return why nothing fits a schema, where that shows at once; else an empty text.

    A schema may contradict itself in ways that are not looked for: then its answers are refused one by one.
    """
    if schema is False:
        return f"`{where}` is false"
    if not isinstance(schema, dict):
        return ""
    if schema.get("enum") == []:
        return f"`{where}` has an empty enum"
    for least, most in _BOUNDS:
        low, high = _number(schema.get(least)), _number(schema.get(most))
        if low is not None and high is not None and low > high:
            return f"`{where}` has a {least} of {low} and a {most} of {high}"
    for inner in _list(schema.get("allOf")):
        if why := _why_unmet(inner, where):
            return why
    for name in ("anyOf", "oneOf"):
        whys = [_why_unmet(inner, where) for inner in _list(schema.get(name))]
        if (whys and all(whys)) or schema.get(name) == []:
            return f"`{where}` has no alternative that anything fits"
    return _why_no_object(schema, where)


def _why_no_object(schema: dict[str, Any], where: str) -> str:
    if schema.get("type") != "object":
        return ""
    given = schema.get("properties")
    properties = given if isinstance(given, dict) else {}
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    for name in _list(schema.get("required")):
        if is_closed and name not in properties:
            return f"`{where}.{name}` is required, and not among the properties that are allowed"
        if why := _why_unmet(properties.get(name), f"{where}.{name}"):
            return why
    return ""


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
