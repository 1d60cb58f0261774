"""`skill/…` on the wire."""

from __future__ import annotations

import msgspec

from .fields import Line, Word


class ListSkills(msgspec.Struct, frozen=True):
    """The folder whose skills to list: one in which sessions may work."""

    workspace: Line


class OneSkill(msgspec.Struct, frozen=True):
    """A skill or an AGENTS.md of a workspace, by its path there."""

    workspace: Line
    path: Line


class AllowSkill(msgspec.Struct, frozen=True):
    """Which content to allow, by the digest that was listed with it."""

    workspace: Line
    path: Line
    digest: Word
