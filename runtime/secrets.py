"""Values that must not be shown."""

from __future__ import annotations


class Secret:
    """A value that never appears in a log, a traceback or an error.

    `repr` and `str` are `***`; `reveal()` is the only way to the text, and the only callers are the
    places that put it into a header.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The text itself."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
