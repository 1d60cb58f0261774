"""The fake server as a file that every user of the machine can read."""

from __future__ import annotations

import shutil
from pathlib import Path


def readable_server(copy: Path) -> Path:
    """Return a copy of it, which those can read who get to its folder."""
    shutil.copyfile(Path(__file__).parent / "server.py", copy)
    copy.chmod(0o644)
    return copy
