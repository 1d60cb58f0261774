"""What kind of machine programs run on, as far as sandboxes differ by it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from ...processes.system_programs import find_system_program
from .roots import View

_COLUMNS = ("-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "uid=", "-o", "stat=")
"""One option each: with commas, what stands behind `=` would be one long heading."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, by what it is asked with.

    Attributes:
        platform: As `sys.platform` says it.
        sandbox_exec: What confines programs on macOS.
        listing: What lists all processes: number, parent, group, user and state.
        marked_listing: The same, with the variables of each behind it.
    """

    platform: str
    sandbox_exec: str = "/usr/bin/sandbox-exec"
    listing: tuple[str, ...] = ("/bin/ps", "-ax", *_COLUMNS)
    marked_listing: tuple[str, ...] = ("/bin/ps", "-axww", "-E", *_COLUMNS, "-o", "command=")

    @property
    def is_macos(self) -> bool:
        """Whether it is a Mac."""
        return self.platform == "darwin"


def this_machine() -> Machine:
    """The one that this process runs on."""
    return Machine(platform=sys.platform)


def inner_python(view: View) -> str:
    """A Python that programs with this view can run: our own, or the system's.

    None of PATH, which may lead into a workspace: what a model put there would say what the
    sandbox's test found, and in the second tier run outside.
    """
    own = os.path.join(sys.base_prefix, "bin", "python3")
    if any(str(parent) in view.shown for parent in Path(own).parents):
        return own
    return find_system_program("python3") or own
