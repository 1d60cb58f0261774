"""The parameters, or the result, of a method that has none."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from ..definitions import ModelName as ModelName
from ..history import MAX_ATTACHMENTS, Attachment
from ..identity import MAX_KEY_LENGTH
from ..store.feeds import Topic
from ..stream import MAX_ARGUMENT_BYTES


class Nothing(msgspec.Struct, frozen=True):
    """Of a method without parameters, or without a result."""


MAX_WORD_CHARS = 512
"""Of an id or a name: ours are shorter, and a made-up one needs no more to be unknown."""
MAX_LINE_CHARS = 4096
"""Of a title, a path, a URL, a pattern, a reason or a query: the longest path has as much."""
MAX_SECRET_CHARS = 8192
"""Of a key of a provider, as what stores it has it."""
MAX_TEXT_CHARS = MAX_ARGUMENT_BYTES
"""Of the arguments of a call, and of what a person writes at length."""
MAX_PROMPT_CHARS = 16 * 1024 * 1024
"""Of a prompt: no model reads as much."""
MAX_PART_CHARS = 64 * 1024 * 1024
"""Of a part of a file: as large as the whole may be; the frame ends it sooner."""
MAX_ITEMS = 1000
"""Of a list: as many as a page has rows."""
MAX_TOPICS = len(Topic)
"""That one may hear: naming one twice hears no more."""

Word = Annotated[str, msgspec.Meta(max_length=MAX_WORD_CHARS)]
Line = Annotated[str, msgspec.Meta(max_length=MAX_LINE_CHARS)]
Secret = Annotated[str, msgspec.Meta(max_length=MAX_SECRET_CHARS)]
LongText = Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]
IdempotencyKey = Annotated[str, msgspec.Meta(max_length=MAX_KEY_LENGTH)]
PromptText = Annotated[str, msgspec.Meta(max_length=MAX_PROMPT_CHARS)]
FileText = Annotated[str, msgspec.Meta(max_length=MAX_PART_CHARS)]
Words = Annotated[tuple[Word, ...], msgspec.Meta(max_length=MAX_ITEMS)]
ModelNames = Annotated[tuple[ModelName, ...], msgspec.Meta(max_length=MAX_ITEMS)]
Topics = Annotated[tuple[Topic, ...], msgspec.Meta(max_length=MAX_TOPICS)]
Attachments = Annotated[tuple[Attachment, ...], msgspec.Meta(max_length=MAX_ATTACHMENTS)]


class Role(enum.StrEnum):
    """What a credential may do; each role includes those before it."""

    OBSERVER = "observer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this one may do what the other may."""
        roles = list(Role)
        return roles.index(self) >= roles.index(other)
