"""Tool lists as they go over the wire, encoded once for each set that agents use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from ..runtime.definitions import ToolDefinition
from .provider import NO_NAMES
from .tool_names import renamed

MAX_KEPT_TOOL_SETS = 16
"""Encoded tool lists that are kept: one for each agent in use, with room for switching."""

ToolSet = tuple[ToolDefinition, ...]


class ToolSets:
    """The tool lists of one wire format.

    Args:
        encode: The JSON of a list in that format.
    """

    def __init__(self, encode: Callable[[ToolSet], bytes]) -> None:
        self._encode = encode
        self._kept: deque[tuple[ToolSet, bytes, Mapping[str, str]]] = deque(
            maxlen=MAX_KEPT_TOOL_SETS
        )

    def __len__(self) -> int:
        return len(self._kept)

    def encoded(self, tools: ToolSet) -> tuple[bytes, Mapping[str, str]]:
        """Return the JSON of a list, and our names of its renamed tools by the sent ones."""
        for known, encoded, names in self._kept:
            if known is tools or known == tools:
                return encoded, names
        encoded = self._encode(tools)
        names = renamed(definition.name for definition in tools) or NO_NAMES
        self._kept.appendleft((tools, encoded, names))
        return encoded, names
