"""The Python that is there in a sandbox, whatever PATH says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..system_programs import find_system_program
from .roots import View


def inner_python(view: View) -> str:
    """A Python that programs with this view can run: our own, or the system's.

    None of PATH, which may lead into a workspace: what a model put there would say what the
    sandbox's test found, and in the second tier run outside.
    """
    own = os.path.join(sys.base_prefix, "bin", "python3")
    if any(str(parent) in view.shown for parent in Path(own).parents):
        return own
    return find_system_program("python3") or own
