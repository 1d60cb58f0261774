"""Forms that the servers of tools have people fill in, as an editor shows them."""

from __future__ import annotations

from collections.abc import Iterable

from ...runtime.event_types.people import FormField
from ..terminal.escaping import safe_line
from . import wire


def schema_of(fields: Iterable[FormField]) -> wire.ElicitationSchema:
    """Return a form in the words of the protocol."""
    fields = tuple(fields)
    return wire.ElicitationSchema(
        type="object",
        properties={field.name: _property(field) for field in fields},
        required=tuple(field.name for field in fields if field.required) or None,
    )


def choice_of(name: str, options: Iterable[str]) -> wire.ElicitationSchema:
    """Return a form with one field, which is one of these options."""
    return schema_of((FormField(name=name, kind="choice", options=tuple(options), required=True),))


def _property(field: FormField) -> wire.ElicitationPropertySchema:
    title = safe_line(field.title) or None
    description = safe_line(field.description) or None
    default = field.default
    match field.kind:
        case "integer":
            return wire.ElicitationPropertySchemaInteger(
                title=title,
                description=description,
                minimum=_whole(field.least),
                maximum=_whole(field.most),
                default=default if isinstance(default, int) else None,
            )
        case "number":
            return wire.ElicitationPropertySchemaNumber(
                title=title,
                description=description,
                minimum=field.least,
                maximum=field.most,
                default=default if isinstance(default, int | float) else None,
            )
        case "yes_no":
            return wire.ElicitationPropertySchemaBoolean(
                title=title,
                description=description,
                default=default if isinstance(default, bool) else None,
            )
        case "choices":
            return wire.ElicitationPropertySchemaArray(
                title=title,
                description=description,
                min_items=_whole(field.least),
                max_items=_whole(field.most),
                items=wire.MultiSelectItems(any_of=_options(field)),
                default=default if isinstance(default, tuple) else None,
            )
        case "choice":
            return wire.ElicitationPropertySchemaString(
                title=title,
                description=description,
                one_of=_options(field),
                default=default if isinstance(default, str) else None,
            )
        case "text":
            return wire.ElicitationPropertySchemaString(
                title=title,
                description=description,
                min_length=_whole(field.least),
                max_length=_whole(field.most),
                format=field.form or None,
                default=default if isinstance(default, str) else None,
            )


def _options(field: FormField) -> tuple[wire.EnumOption, ...]:
    labels = field.labels or field.options
    return tuple(
        wire.EnumOption(const=value, title=safe_line(label) or value)
        for value, label in zip(field.options, labels, strict=True)
    )


def _whole(bound: float | None) -> int | None:
    return None if bound is None else int(bound)
