"""Programs that run outside of a sandbox, or with a secret at hand: the system's own, by fixed folders.

PATH is not asked. What an operator has on it may lie in a workspace (`.venv/bin`,
`node_modules/.bin`), where a program that a model wrote puts whatever it likes.
"""

from __future__ import annotations

import os
import shutil

SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Only who administers the machine writes there; the last is that of NixOS."""

SYSTEM_PATH = os.pathsep.join(SYSTEM_FOLDERS)


def find_system_program(name: str) -> str | None:
    """The path of a program of the system; `None` when there is none of that name."""
    return shutil.which(name, path=SYSTEM_PATH)
