"""Requests against the types of the providers' own SDKs, which come from their published schemas."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter


class RequestType:
    """Checks that a body is what a `TypedDict` of an SDK says, with no field beside it."""

    def __init__(self, typed_dict: Any) -> None:
        # In a list, since pydantic takes no configuration for a TypedDict itself.
        bodies: Any = types.GenericAlias(list, (typed_dict,))
        self._adapter: TypeAdapter[Any] = TypeAdapter(bodies, config=ConfigDict(extra="forbid"))

    def check(self, body: Any) -> None:
        """Fails where the body is no such request, or would be read as another one."""
        assert _all(self._adapter.validate_python([body])) == [body]


def _all(value: Any) -> Any:
    """The value with every iterable in it run through: those are validated when they are read."""
    if isinstance(value, BaseModel):
        # Anthropic's types also take a block back as the SDK itself read it.
        assert not value.model_extra
        return {name: _all(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, Mapping):
        return {key: _all(item) for key, item in value.items()}
    if isinstance(value, list) or hasattr(value, "__next__"):
        return [_all(item) for item in value]
    return value
