"""The types of fields: texts and lists with limits, the roles, and `Nothing`.

Every field that a client sends has a limit, so that one frame can't make the daemon work for long.
"""

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
    """The parameters, or the result, of a method that has none."""


MAX_WORD_CHARS = 512
"""Ids and names. Ours are shorter."""
MAX_LINE_CHARS = 4096
"""Titles, paths, URLs, patterns, reasons, queries: the length of the longest path."""
MAX_SECRET_CHARS = 8192
"""Keys of providers; the key store has the same limit."""
MAX_TEXT_CHARS = MAX_ARGUMENT_BYTES
"""Arguments of a call, and long texts of a person."""
MAX_PROMPT_CHARS = 16 * 1024 * 1024
"""Prompts: more than any model reads."""
MAX_PART_CHARS = 64 * 1024 * 1024
"""Parts of a file: as large as the whole may be; the frame's limit comes first."""
MAX_ITEMS = 1000
"""Lists: as long as a page."""
MAX_TOPICS = len(Topic)
"""Topics of a subscription: naming one twice has no effect."""

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
    """What a credential may do; each role includes the ones before it."""

    OBSERVER = "observer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this role may do all that the other may."""
        roles = list(Role)
        return roles.index(self) >= roles.index(other)
