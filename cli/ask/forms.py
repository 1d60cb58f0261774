"""A form at the terminal: what the server of a tool asks, field by field."""

from __future__ import annotations

import msgspec

from ...runtime.errors import ValidationError
from ...runtime.event_types.form import filled_in, read_value
from ...runtime.event_types.people import FormField, FormValue
from ..terminal.escaping import safe_line
from ..terminal.keyboard import Keyboard

SEND = "Send this? [y] send  [e] fill it in again  [d] decline: "
YES_NO = ("no", "yes")


async def fill_in(keyboard: Keyboard, fields: tuple[FormField, ...]) -> str | None:
    """Ask for the values of a form until they are to be sent; return them as JSON.

    Returns `""` for a form that is declined, and `None` when the input ends.
    """
    while True:
        values: dict[str, object] = {}
        for field in fields:
            typed = await _value(keyboard, field)
            if typed is None:
                return None
            if typed.value is not None:
                values[field.name] = typed.value
        found = filled_in(fields, values)
        lines = [f"  {safe_line(name)}: {_shown(value)}" for name, value in found.items()]
        keyboard.write("\n".join(lines) + "\n")
        while (key := await keyboard.choice(SEND)) not in {"y", "yes", "e", "d"}:
            if key is None:
                return None
        if key == "d":
            return ""
        if key != "e":
            return msgspec.json.encode(found).decode()


class _Typed(msgspec.Struct, frozen=True):
    """What was typed for a field; without a value, its default holds."""

    value: FormValue | None


async def _value(keyboard: Keyboard, field: FormField) -> _Typed | None:
    """Ask for a value until it is one of the field; return `None` when the input ends."""
    if field.description:
        keyboard.write(f"  {safe_line(field.description)}\n")
    for number, value in enumerate(field.options, 1):
        label = f": {safe_line(field.labels[number - 1])}" if field.labels else ""
        keyboard.write(f"  [{number}] {safe_line(value)}{label}\n")
    while (typed := await keyboard.line(_prompt(field))) is not None:
        if not typed and (field.default is not None or not field.required):
            return _Typed(None)
        try:
            return _Typed(read_value(field, typed))
        except ValidationError as problem:
            keyboard.write(f"That can't be: {safe_line(str(problem))}.\n")
    return None


def _prompt(field: FormField) -> str:
    kinds = {
        "text": field.form,
        "yes_no": "y or n",
        "choice": "a number",
        "choices": "numbers, with commas",
    }
    said = [kinds.get(field.kind, field.kind)]
    if field.default is not None:
        said.append(f"Enter: {_shown(field.default)}")
    elif not field.required:
        said.append("Enter: nothing")
    words = "; ".join(filter(None, said))
    return f"{safe_line(field.title or field.name)}{f' ({safe_line(words)})' if words else ''}: "


def _shown(value: FormValue) -> str:
    if isinstance(value, bool):
        return YES_NO[value]
    return safe_line(", ".join(value) if isinstance(value, tuple) else str(value))
