"""The answers to the forms of questions: what is typed for a field, and JSON objects with all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from ..errors import ValidationError
from .people import FormField, FormValue

MAX_FIELDS = 20
"""Fields of a form: what a person fills in while a call waits."""
MAX_VALUE_CHARACTERS = 10_000
"""Of one value: some pages."""


def read_value(field: FormField, typed: str) -> FormValue:
    """Return what somebody has typed as a value; raise `ValidationError`.

    An option may be typed as its number, from 1; several are parted by commas.
    """
    match field.kind:
        case "text":
            return checked_value(field, typed)
        case "yes_no":
            words = {
                "y": True,
                "yes": True,
                "true": True,
                "n": False,
                "no": False,
                "false": False,
            }
            if (said := words.get(typed.lower())) is None:
                raise _wrong(field, "say y or n")
            return said
        case "choice":
            return checked_value(field, _option(field, typed))
        case "choices":
            chosen = [each.strip() for each in typed.split(",")]
            return checked_value(field, tuple(_option(field, each) for each in chosen if each))
        case "integer" | "number":
            try:
                return checked_value(field, int(typed) if field.kind == "integer" else float(typed))
            except ValueError:
                raise _wrong(field, "that is not a number") from None


def checked_value(field: FormField, value: object) -> FormValue:
    """Return a value of this field; raise `ValidationError` for one that it can't have."""
    match field.kind, value:
        case "text", str():
            _check_size(field, len(value), "characters")
            if len(value) > MAX_VALUE_CHARACTERS:
                raise _wrong(field, f"at most {MAX_VALUE_CHARACTERS} characters")
            return value
        case "yes_no", bool():
            return value
        case ("integer", int(number)) | ("number", int(number) | float(number)) if not (
            isinstance(value, bool)
        ):
            _check_size(field, number, "")
            return number
        case "choice", str() if value in field.options:
            return value
        case "choices", list() | tuple() if all(each in field.options for each in value):
            chosen = tuple(dict.fromkeys(value))
            _check_size(field, len(chosen), "options")
            return chosen
    kinds = {
        "yes_no": "true or false",
        "choice": "one of the options",
        "choices": "a list of options",
    }
    raise _wrong(field, f"it is {kinds.get(field.kind, f'a value of the type {field.kind}')}")


def _option(field: FormField, typed: str) -> str:
    if typed in field.options:
        return typed
    if typed in field.labels:
        return field.options[field.labels.index(typed)]
    if typed.isascii() and typed.isdigit() and 0 < int(typed[:4]) <= len(field.options):
        return field.options[int(typed[:4]) - 1]
    raise _wrong(field, "that is not among the options")


def _check_size(field: FormField, size: float, what: str) -> None:
    unit = f" {what}" if what else ""
    if isinstance(size, float) and not math.isfinite(size):
        raise _wrong(field, "that is not a number")
    if not -(2.0**63) <= size < 2.0**63:
        raise _wrong(field, "a smaller number")  # no event keeps it
    if field.least is not None and size < field.least:
        raise _wrong(field, f"at least {field.least:g}{unit}")
    if field.most is not None and size > field.most:
        raise _wrong(field, f"at most {field.most:g}{unit}")


def _wrong(field: FormField, problem: str) -> ValidationError:
    return ValidationError(f"{field.name}: {problem}", field=field.name)


_ANSWER = msgspec.json.Decoder(dict[str, bool | int | float | str | list[str] | None])


def form_answer(fields: Sequence[FormField], text: str) -> dict[str, FormValue]:
    """Return the values of an answer, a JSON object; raise `ValidationError`, which names the field."""
    try:
        given = _ANSWER.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValidationError(
            f"the answer to a form is a JSON object with its fields: {error}", field="answer"
        ) from None
    return filled_in(fields, given)


def filled_in(fields: Sequence[FormField], given: Mapping[str, object]) -> dict[str, FormValue]:
    """Return the values of a form, with defaults for what is not said; raise `ValidationError`."""
    for name in given.keys() - {field.name for field in fields}:
        raise ValidationError(f"{name[:100]}: the form has no such field", field="answer")
    found: dict[str, FormValue] = {}
    for field in fields:
        value = given.get(field.name)
        if value is None:
            value = field.default
        if value is not None:
            found[field.name] = checked_value(field, value)
        elif field.required:
            raise ValidationError(f"{field.name}: it must be said", field=field.name)
    return found
