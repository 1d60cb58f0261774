"""What development tools take from the operator: who commits, and how tests run."""

from __future__ import annotations

from typing import Annotated

import msgspec

GIT_KEYS = "git"
"""Under this name credentials of git servers are stored, each for its origin."""

MAX_WORDS = 100
"""Of a command; a longer one belongs into a script."""

_NO_NAME = frozenset("<>\n\r\0")
"""What git can't write into the line of a commit that says who made it."""


class GitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who `git_commit` commits as.

    Attributes:
        name, email: What stands in commits; both or neither. `None` is what the user's own git
            configuration says.
    """

    name: str | None = None
    email: str | None = None

    def __post_init__(self) -> None:
        if (self.name is None) != (self.email is None):
            raise ValueError("name and email belong together: set both, or neither")
        for field, value in (("name", self.name), ("email", self.email)):
            if value is not None and not is_name(value):
                raise ValueError(f"{field} is one line of text without < and >")


class TestSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `run_tests` runs.

    Attributes:
        command: The program and its arguments, run in the workspace; empty is what fits the project.
    """

    command: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_WORDS)] = ()


def is_name(text: str) -> bool:
    """Whether git can write it as a name or an address."""
    return bool(text.strip()) and _NO_NAME.isdisjoint(text) and text.isprintable()
