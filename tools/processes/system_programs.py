"""Finds programs that may run outside of a sandbox or with a secret: only the system's own.

PATH does not count for them. It may name folders of a workspace (`.venv/bin`, `node_modules/.bin`), where a
program that a model wrote can put anything.
"""

from __future__ import annotations

import os
import shutil

SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Only administrators write there; the last one is that of NixOS."""

SYSTEM_PATH = os.pathsep.join(SYSTEM_FOLDERS)


def find_system_program(name: str) -> str | None:
    """Return the path of a program of the system; `None` when there is none of that name."""
    return shutil.which(name, path=SYSTEM_PATH)
