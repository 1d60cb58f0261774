"""`callboard doctor`: whether this machine has what callboard needs; so far, of the sandbox."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from ..config.files import config_folder, data_folder, load_settings
from ..config.sandbox_settings import Strength
from ..tools.sandbox.sandbox import Sandbox
from .exit_codes import ANSWERED, FAILED
from .json_lines import json_line


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of the sandbox."""

    strength: Strength
    minimum: Strength
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    sandbox: SandboxReport


def show_doctor(config: Path | None, *, json: bool) -> int:
    """Tests the sandbox; fails when it is weaker than the configuration wants."""
    settings = load_settings(config).sandbox
    sandbox = Sandbox(settings, forbidden=(data_folder(), config_folder()))
    found, problem = sandbox.status(), sandbox.problem()
    if json:
        told = SandboxReport(strength=found.strength, minimum=settings.minimum, reason=found.reason)
        sys.stdout.write(json_line(Report(sandbox=told)))
    else:
        lines = [f"sandbox: {found.strength} (at least {settings.minimum} is wanted)"]
        if found.reason:
            lines.append(f"  {found.reason}")
        if found.recipe is not None:
            places = len(found.recipe.view.shown)
            lines += [
                f"  {found.recipe.bwrap}, which shows {places} places read-only",
                f"  memory and processes: {found.bounds}",
            ]
        if problem is not None:
            lines.append("  run_code, shell and process are not offered to models.")
        sys.stdout.write("\n".join(lines) + "\n")
    return ANSWERED if problem is None else FAILED
