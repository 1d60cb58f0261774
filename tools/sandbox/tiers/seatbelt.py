"""The tier of macOS: `sandbox-exec` confines, and a warden ends what was started. Nobody has tried it.

It is `partial` at most. There are no namespaces, so that a program sees which processes there are,
and what it leaves behind must be found in the list of all of them; nothing bounds the memory of
several processes, and no system calls are filtered.
"""

from __future__ import annotations

import json
import os
import secrets

import msgspec

from ....config.sections import SandboxSettings, Strength
from ..box.machine import Machine, inner_python
from ..box.recipe import FILES, HOME, Box, Recipe, environment
from ..box.start_gate import limits
from .landlock import ACCEPTED
from .profile import GIVEN, PRIVATE, profile_of

ACCEPTED_ON_MACOS = frozenset(
    {
        "gain rights by a program's file",
        "make system calls unfiltered",
        "open a socket to the virtual machine's host",
        "see processes of the machine",
        "share a namespace with the machine",
    }
)
"""What a program can do in it that it can't in one of namespaces and a filter."""

SWITCHED_OFF = (
    "there is no tested sandbox on macOS. There is one by sandbox-exec that nobody has tried there: to "
    'try it, set `macos_untested = true` and `minimum = "partial"` under `[sandbox]` in '
    "callboard.toml."
)
WEAKER = (
    "sandbox-exec confines programs on macOS, which nobody has tried (sandbox.macos_untested): there "
    "are no namespaces and no filter of system calls, nothing bounds what several processes take of "
    "memory together, and what a program leaves behind is looked for in the list of processes, "
    'where one that hides well is missed. It counts with sandbox.minimum = "partial" alone.'
)
LIMITS_ALONE = "limits of each process, and none of all together"
"""What bounds memory and the number of processes there, for people."""
MARK = "CALLBOARD_PROGRAM"
"""The variable that what a program has started is known by."""


def accepted(recipe: Recipe) -> frozenset[str]:
    """What a program may be able to do in a sandbox of this recipe, and it is partial for it."""
    if recipe.seatbelt is not None:
        return ACCEPTED_ON_MACOS
    return frozenset() if recipe.confiner is None else ACCEPTED


def macos_problem(settings: SandboxSettings, machine: Machine) -> str | None:
    """Why there can be no sandbox on a Mac, as far as it shows without running anything."""
    if not settings.macos_untested:
        return SWITCHED_OFF
    for path in (machine.sandbox_exec, machine.listing[0]):
        if not os.access(path, os.X_OK):
            return f"{path} is not there or is not executable; it is a part of macOS."
    return None


def seatbelt_recipe(recipe: Recipe, machine: Machine) -> Recipe:
    """How sandboxes are built on a Mac, from what all tiers share."""
    confiner = inner_python(recipe.view)
    return msgspec.structs.replace(recipe, confiner=confiner, seatbelt=machine, groups=None)


def seatbelt_strength(found: Strength, reason: str) -> tuple[Strength, str]:
    """What the test's outcome is worth there: `partial` at most, and why."""
    if found is Strength.NONE:
        return found, f"sandbox-exec does not hold here: {reason}"
    return Strength.PARTIAL, f"{WEAKER} {reason}".strip()


def warden_plan(recipe: Recipe, box: Box) -> bytes:
    """What the warden reads."""
    machine = recipe.seatbelt
    assert machine is not None
    plan = {
        "gate": box.gate,
        "files": dict(box.data),
        "files at": FILES,
        "cwd": box.cwd,
        "environment": environment(recipe, box),
        "places": {"/tmp": "", HOME: "home"},
        "profile": os.fsdecode(profile_of(recipe, box)),
        "parameters": {"private": PRIVATE, "given": GIVEN},
        "program": machine.sandbox_exec,
        "listing": machine.listing,
        "marked listing": machine.marked_listing,
        "mark": [MARK, secrets.token_hex(16)],
        "limits": {str(int(kind)): bound for kind, bound in limits(recipe.settings).items()},
        "processes": recipe.settings.processes,
    }
    return json.dumps(plan).encode()
