"""`callboard doctor`: whether this machine has what callboard needs, and what to do where it has not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import trio

from ..config.files import config_file, config_folder
from ..config.sandbox_settings import Strength
from ..runtime.redaction import redact
from ..tools.plugins import Plugin, load_plugins
from ..tools.registry import builtin_tools
from ..tools.sandbox.sandbox import Sandbox
from ..tools.tool import Tool
from .doctor_files import file_findings
from .doctor_reach import reach_findings, read_settings
from .doctor_sandbox import sandbox_finding
from .doctor_store import size_finding
from .exit_codes import ANSWERED, FAILED
from .finding import Finding
from .json_lines import json_line
from .tool_list import plugin_lines


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of the sandbox."""

    strength: Strength
    minimum: Strength
    reason: str
    bounds: str
    advice: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    sandbox: SandboxReport
    plugins: tuple[Plugin, ...]
    checks: tuple[Finding, ...] = ()


def show_doctor(config: Path | None, data: Path, *, json: bool) -> int:
    """Tests all that can be; fails when something is not as the configuration wants it."""
    all_settings, finding = read_settings(config)
    settings = all_settings.sandbox
    sandbox = Sandbox(settings, forbidden=(data, config_folder()))
    checks = (
        sandbox_finding(sandbox, config_file(config)),
        finding,
        *file_findings(data, config_file(config).parent),
        size_finding(data, all_settings.sessions),
        *trio.run(reach_findings, all_settings, data, config),
    )
    built_in = builtin_tools()
    names = [tool.name for tool in built_in]
    plugins = trio.run(load_plugins, all_settings.plugins, names).plugins
    broken = [plugin for plugin in plugins if plugin.state == "broken"]
    found = sandbox.status()
    if json:
        told = SandboxReport(
            strength=found.strength,
            minimum=settings.minimum,
            reason=found.reason,
            bounds=found.bounds,
            advice=found.advice,
        )
        sys.stdout.write(json_line(Report(sandbox=told, plugins=plugins, checks=checks)))
    else:
        lines = _sandbox_lines(sandbox, built_in, checks[0])
        lines += [*plugin_lines(broken), *_checked(checks[1:])]
        sys.stdout.write("\n".join(lines) + "\n")
    is_broken = bool(broken) or any(each.state == "problem" for each in checks)
    return FAILED if is_broken else ANSWERED


def _sandbox_lines(sandbox: Sandbox, tools: Sequence[Tool], checked: Finding) -> list[str]:
    found = sandbox.status()
    lines = [f"sandbox: {found.strength} (at least {sandbox.settings.minimum} is wanted)"]
    if found.reason:
        lines.append(f"  {found.reason}")
    if found.recipe is not None:
        places = len(found.recipe.view.shown)
        lines += [
            f"  {found.recipe.name}, which shows {places} places read-only",
            f"  memory and processes: {found.bounds}",
        ]
    if checked.fix:
        lines.append(f"  fix: {redact(checked.fix)}")
    if found.advice:
        lines.append(f"  advice: {found.advice}")
    withheld = [tool.name for tool in tools if sandbox.why_not(tool.definition) is not None]
    if withheld:
        lines.append(f"  not offered to models: {', '.join(withheld)}.")
    return lines


def _checked(checks: tuple[Finding, ...]) -> list[str]:
    return [redact(line) for each in checks for line in each.lines()]
