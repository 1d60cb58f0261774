"""Whether the values of a struct of settings are what their types and bounds say.

Structs check their types when they are read from a file, and not when a program makes them. So settings that a
program passes are checked here once more, by the same rules, before anything uses them; and in both cases the
complaint names the setting in the same words.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ..runtime.errors import ValidationError

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def checked(given: _Struct, place: str) -> _Struct:
    """Return a struct as a file with the same values would give it: an enumeration's text as its member.

    Args:
        given: The struct; those in it are checked too.
        place: What it is called in messages.

    Raises:
        ValidationError: A value is not what it may be; `field` names the setting.
    """
    kind = type(given)
    # Not msgspec.structs.fields, which reads the annotations of each class every time.
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    values = {
        shown: _inner(value, f"{place}.{shown}")
        for name, shown in names
        if (value := getattr(given, name)) is not msgspec.UNSET
    }
    try:
        return msgspec.convert(values, kind, strict=True)
    except msgspec.ValidationError as error:
        path, problem = explained(str(error), kind)
        where = ".".join((place, *path))
        problem = problem.replace("`", "")
        raise ValidationError(
            f"{where}: {problem}. Nothing of it was used.", field=where
        ) from error


def _inner(value: Any, place: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return checked(value, place)
    if isinstance(value, Mapping):
        return {name: _inner(its, f"{place}.{name}") for name, its in value.items()}
    if isinstance(value, tuple | list):
        return [_inner(its, f"{place}[{number}]") for number, its in enumerate(value, 1)]
    return value


def explained(complaint: str, kind: type[Any]) -> tuple[tuple[str, ...], str]:
    """Return the setting that msgspec complains about, and what is wrong with it.

    msgspec says ``Expected `int`, got `str` - at `$.limits.idle_seconds` ``.
    """
    text, _, where = complaint.partition(" - at `$")
    inner = tuple(re.findall(r"[A-Za-z0-9_]+", where.partition("[")[0]))
    unknown = re.search(r"unknown field `(.*)`$", text)
    missing = re.search(r"missing required field `(.*)`$", text)
    if unknown is not None:
        import difflib  # here: a configuration without a mistake needs it not

        known = _fields(kind, inner)
        close = difflib.get_close_matches(unknown[1], known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        return (*inner, unknown[1]), f"there is no such setting; {hint}"
    if missing is not None:
        return (*inner, missing[1]), "it is required"
    name, colon, rest = text.partition(": ")
    if colon and name in _fields(kind, inner):  # a struct's own check names its field
        return (*inner, name), rest
    if text.startswith("Invalid enum value"):
        text += f"; choices: {', '.join(_choices(kind, inner))}"
    return inner, text[:1].lower() + text[1:]


def _fields(kind: Any, inner: tuple[str, ...]) -> list[str]:
    """Return the field names of a struct, or of the struct inside it at `inner`."""
    found = _type_at(kind, inner)
    return (
        [field.encode_name for field in msgspec.structs.fields(found)] if _is_struct(found) else []
    )


def _choices(kind: Any, inner: tuple[str, ...]) -> list[str]:
    """Return the values of the enumeration, or of the literal, at `inner`."""
    found = _type_at(kind, inner)
    if typing.get_origin(found) is typing.Literal:
        return [str(each) for each in typing.get_args(found)]
    return [str(member.value) for member in next(iter(typing.get_args(found)), found)]


def _type_at(kind: Any, inner: tuple[str, ...]) -> Any:
    """Return the type of the field at `inner`; of an optional one, the type that is not `None`."""
    for name in inner:
        kind = next(field.type for field in msgspec.structs.fields(kind) if field.name == name)
        kind = typing.get_args(kind)[0] if isinstance(kind, types.UnionType) else kind
    return kind


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
