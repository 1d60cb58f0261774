"""Requests against the types of the providers' own SDKs, which come from their published schemas."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import types
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, TypeAdapter


@contextmanager
def bare_packages(*names: str) -> Generator[None]:
    """Modules of an SDK can be imported in the block, without what its packages import besides.

    That is thousands of modules, of which requests need a few dozen: four seconds in each process of the tests.
    Behind the block the SDK can be imported as usual; what was imported in it is known to nobody else.
    """
    top = names[0]
    if top in sys.modules:
        yield
        return
    for name in names:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__, package.__spec__ = list(spec.submodule_search_locations or ()), spec
    try:
        yield
    finally:
        for name in [each for each in sys.modules if each == top or each.startswith(f"{top}.")]:
            del sys.modules[name]


class Known:
    """What was found sound before, by its text: a conversation is sent again with each request."""

    def __init__(self) -> None:
        self._digests: set[bytes] = set()

    def lacks(self, place: str, text: bytes) -> bool:
        """Whether this text was not noted yet at this place of a request."""
        return self._digest(place, text) not in self._digests

    def note(self, place: str, text: bytes) -> None:
        """This was checked, and is sound."""
        self._digests.add(self._digest(place, text))

    def _digest(self, place: str, text: bytes) -> bytes:
        return hashlib.sha256(place.encode() + b" " + text).digest()


class RequestType:
    """Checks that a body is what a `TypedDict` of an SDK says, with no field beside it.

    The items of its `lists` are each sound or not, whatever is beside them: of these, only those are
    looked at that are new.
    """

    def __init__(self, typed_dict: Any, *lists: str) -> None:
        # In a list, since pydantic takes no configuration for a TypedDict itself.
        bodies: Any = types.GenericAlias(list, (typed_dict,))
        self._adapter: TypeAdapter[Any] = TypeAdapter(bodies, config=ConfigDict(extra="forbid"))
        self._lists = lists
        self._known = Known()

    def check(self, body: Any) -> None:
        """Fails where the body is no such request, or would be read as another one."""
        new: list[tuple[str, bytes]] = []
        for name in self._lists:
            if isinstance(body.get(name), list):
                items = [(msgspec.json.encode(item), item) for item in body[name]]
                items = [(text, item) for text, item in items if self._known.lacks(name, text)]
                body = {**body, name: [item for _, item in items]}
                new += [(name, text) for text, _ in items]
        assert _all(self._adapter.validate_python([body])) == [body]
        for name, text in new:
            self._known.note(name, text)


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
