"""A record that contradicts itself: how that shows, and what is told of it."""

from __future__ import annotations

from ..runtime.errors import StorageError

CONTRADICTIONS = (KeyError, IndexError, ValueError)
"""What folding an event raises that can't come behind those before it."""


class UnreadableRecord(StorageError):
    """What is on record of a session contradicts itself, so it can't be loaded."""
