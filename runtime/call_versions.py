"""What a call needs to keep what its programs change: a log, whose change it is, and room for copies."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .version_log import VersionLog


class CallVersions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the versions of one call go.

    Attributes:
        log: The session's.
        session_id, call_id: Whose changes these are.
        is_marked: Whether a path, relative to the workspace, may hold the words of strangers.
        open_aside: Opens a file without a name for copies that nobody may need; raises `OSError`.
    """

    log: VersionLog
    session_id: str
    call_id: str
    is_marked: Callable[[str], bool]
    open_aside: Callable[[], int]
