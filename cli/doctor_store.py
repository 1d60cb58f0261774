"""What `callboard doctor` says of the size of the store."""

from __future__ import annotations

from pathlib import Path

from ..actors.session_pruning import MIB, size_warning
from ..config.session_settings import SessionSettings
from ..runtime.errors import CallboardError, NotFoundError
from ..runtime.store_upkeep import stored_size
from .finding import Finding, good, problem, warning

MUCH_FREED = 256 * MIB
"""Of the file, not in use: from here on it is worth a `callboard compact`."""


def size_finding(data: Path, settings: SessionSettings) -> Finding:
    """How much it holds, of how much it may."""
    try:
        size = stored_size(data)
    except NotFoundError:
        return good("store", "there is none yet")
    except CallboardError as error:
        fix = "`callboard upgrade` may mend it; else `callboard restore` takes a backup"
        return problem("store", str(error), fix)
    limit = settings.max_store_mib * MIB
    if said := size_warning(size.used_bytes, limit):
        words, _, fix = said.partition(". ")
        return (problem if size.used_bytes >= limit else warning)("store", words, fix)
    freed = size.file_bytes - size.used_bytes
    if freed >= MUCH_FREED:
        words = f"{freed / MIB:.0f} MiB of its file are what purged sessions have left"
        return warning("store", words, "callboard compact, while no daemon runs")
    most = f", of {settings.max_store_mib}" if limit else ""
    return good("store", f"it holds {size.used_bytes / MIB:.1f} MiB{most}")
