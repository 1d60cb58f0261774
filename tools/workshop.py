"""What the operator provides for development tools: an author, credentials, certificates, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ..runtime.redaction import Secret

ALL_BY_PROXY: Mapping[str, str] = {"NO_PROXY": "", "no_proxy": ""}
"""The environment of programs that serve nothing inside the sandbox: with it, a server of this machine that the operator
lists is reached by the sandbox's proxy, like all others."""


class Author(msgspec.Struct, frozen=True):
    """The author of commits."""

    name: str
    email: str


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's side of development tools.

    Attributes:
        author: Finds who commits, or `None`; blocks.
        credential: Finds what was stored for git at an origin, `USER:TOKEN` or the token alone;
            blocks, and raises `CallboardError` when it can't be used.
        certificates: Reads the operator's own certificate authorities, or gives `None`; blocks.
        test_command: Returns what `run_tests` runs; empty when it is to find out.
        indexes: Where packages come from, as variables of the package managers.
    """

    author: Callable[[], Author | None]
    credential: Callable[[str], Secret | None]
    certificates: Callable[[], bytes | None]
    test_command: Callable[[], tuple[str, ...]] = tuple
    indexes: Mapping[str, str] = {}
