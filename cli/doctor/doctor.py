"""`callboard doctor`: tests what callboard needs of this machine, and says what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import trio

from ...config.files import config_file, config_folder
from ...config.mcp.settings import McpSettings
from ...config.sections import SessionSettings, Strength
from ...runtime.errors import CallboardError, NotFoundError
from ...runtime.redaction import redact
from ...tools.builtin import KnownTool, builtin_tools
from ...tools.plugins import load_plugins
from ...tools.registry import unknown_in_rules, unknown_tools
from ...tools.sandbox.sandbox import Sandbox
from ...tools.sandbox.selftest.self_test import INSTALL, USER_NAMESPACES
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Data, Json, named_data_path
from ..show.tools import plugin_lines
from ..terminal.folding import columns_of, folded
from ..terminal.json_lines import json_line
from .files import file_findings, holder_of
from .finding import Finding, good, problem, warning

CHECK = "sandbox"


def sandbox_finding(sandbox: Sandbox, config: Path) -> Finding:
    """Check whether programs can be run; name what is missing first, and then what to do."""
    found, minimum = sandbox.status(), sandbox.settings.minimum
    if sandbox.problem() is None:
        return good(CHECK, f"{found.strength}")
    words = f"it is {found.strength}, and must be {minimum}: {found.reason}"
    return problem(CHECK, words.rstrip(": "), _fix(found.reason, found.strength, config))


def _fix(reason: str, strength: Strength, config: Path) -> str:
    for known in (INSTALL, USER_NAMESPACES):
        if known in reason:
            return known
    if reason.startswith("sandbox."):  # a setting, by its name
        return f"fix it: $EDITOR {config}"
    if strength is Strength.PARTIAL:
        return (
            "fix what is missing, or, if this is enough, write into the configuration: "
            '[sandbox] minimum = "partial"'
        )
    return "docs/sandbox.md says what it takes; until then no program runs"


MIB = 1024 * 1024
MUCH_FREED = 256 * MIB
"""Unused bytes of the file from which `callboard compact` is worth it."""


def store_finding(data: Path, settings: SessionSettings) -> Finding:
    """Check the store as a start does, and how much it holds, of how much it may."""
    from ...actors.upkeep.pruning import size_warning  # here: `doctor --help` opens no store
    from ...runtime.backup.upkeep import stored_size
    from ...runtime.store.file import address_in, examine

    address = None
    try:
        if (address := address_in(data)) is not None:
            from ...runtime.store.postgres.address import check_driver

            check_driver()
            from ...runtime.store.postgres.store import database_size

            size, where = database_size(address), f" in {address}"
        else:
            examine(data, is_in_use=holder_of(data) is not None)
            size, where = stored_size(data), ""
    except NotFoundError:
        return good("store", "there is none yet")
    except CallboardError as error:
        fix = "`callboard store rescue`, for a damaged one; `callboard upgrade`, for an older one"
        if address is not None:  # those two are for files
            fix = "docs/postgresql.md says what each message of a database means, and what to do"
        return problem("store", str(error), fix)
    limit = settings.max_store_mib * MIB
    if said := size_warning(size, limit):
        words, _, fix = said.partition(". ")
        return (problem if size.used_bytes >= limit else warning)("store", words, fix)
    freed = size.file_bytes - size.used_bytes
    if size.can_shrink and freed >= MUCH_FREED:
        words = f"{freed / MIB:.0f} MiB of its file are what purged sessions have left"
        return warning("store", words, "callboard compact, while no daemon runs")
    most = f", of {settings.max_store_mib}" if limit else ""
    return good("store", f"it holds {size.used_bytes / MIB:.1f} MiB{most}{where}")


def server_finding(server: McpSettings) -> Finding:
    """Check a server as far as that can be without starting it."""
    check, name = f"mcp {server.name}", server.name
    if not server.enabled:
        return good(check, "off")
    if find_spec("mcp") is None or find_spec("jsonschema_rs") is None:
        words = "it is configured, and the packages for it are not installed"
        return problem(check, words, "pip install 'callboard[mcp]'")
    if not server.tools:
        return warning(check, "none of its tools is accepted", f"callboard mcp review {name}")
    return good(check, f"{len(server.tools)} tools; `callboard mcp test {name}` starts it")


def doctor(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Test what callboard needs of this machine, and say what to do where something is missing.

    Exits with 1 when there is a problem, or the sandbox is weaker than the configuration wants.
    """
    from .reach import reach_findings, read_settings  # here: `doctor --help` connects to nothing

    folder = named_data_path(data)
    all_settings, finding = read_settings(config)
    settings = all_settings.sandbox
    sandbox = Sandbox(settings, forbidden=(folder, config_folder(), *map(Path, all_settings.files)))
    checks = (
        sandbox_finding(sandbox, config_file(config)),
        finding,
        *file_findings(folder, config_file(config).parent),
        store_finding(folder, all_settings.sessions),
        *trio.run(reach_findings, all_settings, folder, config),
    )
    if all_settings.cluster.node:
        from .nodes import node_findings  # here: most daemons are alone

        checks += tuple(trio.run(node_findings, all_settings, folder))
    built_in = builtin_tools()
    names = [tool.name for tool in built_in]
    plugins = trio.run(load_plugins, all_settings.plugins, names).plugins
    servers = all_settings.mcp.values()
    named = {*names, *(tool for plugin in plugins for tool in plugin.tools)}
    named.update(tool.name for server in servers for tool in server.tools)
    checks += tuple(map(server_finding, servers))
    if not any(plugin.state == "broken" for plugin in plugins):  # whose tools are not known
        checks += tuple(
            warning("agents", line, "correct its tools in callboard.toml")
            for name, agent in all_settings.agents.items()
            for line in unknown_tools(name, agent.tools, named)
        )
        checks += tuple(
            warning("rules", line, "correct its name; `callboard policy lint` looks at all rules")
            for line in unknown_in_rules(all_settings, named)
        )
    broken = [plugin for plugin in plugins if plugin.state == "broken"]
    found = sandbox.status()
    if json:
        report = {
            "strength": found.strength,
            "minimum": settings.minimum,
            "reason": found.reason,
            "bounds": found.bounds,
            "advice": found.advice,
        }
        sys.stdout.write(json_line({"sandbox": report, "plugins": plugins, "checks": checks}))
    else:
        lines = _sandbox_lines(sandbox, built_in, checks[0])
        lines += [*plugin_lines(broken), *_checked(checks[1:])]
        sys.stdout.write(folded("\n".join(lines), columns_of(1)) + "\n")
    is_broken = bool(broken) or any(each.state == "problem" for each in checks)
    return FAILED if is_broken else ANSWERED


def _sandbox_lines(sandbox: Sandbox, tools: Sequence[KnownTool], checked: Finding) -> list[str]:
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
