"""Values of the types of parameters."""

from __future__ import annotations

from typing import Any

from msgspec import inspect


def example(kind: inspect.Type) -> Any:
    """Some value of a type."""
    match kind:
        case inspect.StrType() | inspect.BytesType():
            return "x"
        case inspect.IntType():
            return 1
        case inspect.FloatType():
            return 1.0
        case inspect.BoolType():
            return True
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.UnionType():
            return example(kind.types[0])
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return [example(kind.item_type)]
        case inspect.DictType():
            return {example(kind.key_type): example(kind.value_type)}
        case inspect.StructType():
            return {each.encode_name: example(each.type) for each in kind.fields if each.required}
        case inspect.NoneType():
            return None
        case _:
            raise AssertionError(f"give an example of {kind}")
