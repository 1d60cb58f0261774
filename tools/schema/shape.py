"""Which keys a type knows, level by level: enough to drop what it does not.

A shape exists only where there is something to drop; everywhere else it is `None`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect as types


class ObjectShape(msgspec.Struct, frozen=True):
    """An object with known keys: for each, whether null is its value, and the shape below.

    Attributes:
        is_open: Whether other keys are kept.
    """

    keys: dict[str, tuple[bool, Any]]
    tag_field: str | None = None
    is_open: bool = False


class TaggedShape(msgspec.Struct, frozen=True):
    """One of several objects, told apart by the value of one key."""

    tag_field: str
    by_tag: dict[Any, Any]


class ArrayShape(msgspec.Struct, frozen=True):
    """An array of shaped items."""

    items: Any


class MapShape(msgspec.Struct, frozen=True):
    """An object with free keys and shaped values."""

    values: Any


Shape = ObjectShape | TaggedShape | ArrayShape | MapShape


def shape_of(kind: types.Type, known: dict[Any, Shape] | None = None) -> Shape | None:
    """The shape of a type; recursive types give recursive shapes."""
    known = {} if known is None else known
    match kind:
        case types.Metadata():
            return shape_of(kind.type, known)
        case types.StructType() if not kind.array_like:
            return _object(kind.cls, kind.fields, known, kind.tag_field)
        case types.DataclassType() | types.TypedDictType():
            return _object(kind.cls, kind.fields, known, None)
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            items = shape_of(kind.item_type, known)
            return None if items is None else ArrayShape(items)
        case types.DictType():
            values = shape_of(kind.value_type, known)
            return None if values is None else MapShape(values)
        case types.UnionType():
            return _union(kind, known)
        case _:
            return None


def prune(value: Any, shape: Shape | None) -> Any:
    """The value without keys that the shape does not know and without nulls that mean nothing."""
    if isinstance(value, dict):
        if isinstance(shape, TaggedShape):
            tag = value.get(shape.tag_field)
            shape = shape.by_tag.get(tag) if isinstance(tag, (str, int)) else None
        if isinstance(shape, ObjectShape):
            return _prune_object(value, shape)
        if isinstance(shape, MapShape):
            return {key: prune(item, shape.values) for key, item in value.items()}
    elif isinstance(value, list) and isinstance(shape, ArrayShape):
        return [prune(item, shape.items) for item in value]
    return value


def _prune_object(value: dict[str, Any], shape: ObjectShape) -> dict[str, Any]:
    kept = {}
    for key, item in value.items():
        known = shape.keys.get(key)
        if known is None:
            if key == shape.tag_field or shape.is_open:
                kept[key] = item
        elif item is None:
            if known[0]:
                kept[key] = item
        else:
            kept[key] = item if known[1] is None else prune(item, known[1])
    return kept


def _object(
    cls: Any, fields: tuple[types.Field, ...], known: dict[Any, Shape], tag_field: str | None
) -> Shape:
    if cls in known:
        return known[cls]
    keys: dict[str, tuple[bool, Any]] = {}
    shape = known[cls] = ObjectShape(keys, tag_field)
    for field in fields:
        # Null is a value only where the type says so and nothing stands in for it.
        is_value = field.required and _takes_null(field.type)
        keys[field.encode_name] = (is_value, shape_of(field.type, known))
    return shape


def _takes_null(kind: types.Type) -> bool:
    match kind:
        case types.Metadata():
            return _takes_null(kind.type)
        case types.UnionType():
            return kind.includes_none
        case types.LiteralType():
            return None in kind.values
        case _:
            return isinstance(kind, (types.NoneType, types.AnyType))


def _union(kind: types.UnionType, known: dict[Any, Shape]) -> Shape | None:
    tagged: dict[Any, Any] = {}
    tag_field = ""
    found = None
    for member in kind.types:
        if isinstance(member, types.StructType) and member.tag_field is not None:
            tag_field = member.tag_field
            tagged[member.tag] = shape_of(member, known)
        else:
            found = shape_of(member, known) or found
    return TaggedShape(tag_field, tagged) if tagged else found
