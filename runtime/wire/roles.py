"""What a client may do, by the role of its token."""

from __future__ import annotations

import enum


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
