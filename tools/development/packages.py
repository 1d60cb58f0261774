"""install_package: packages from the operator's index, into the workspace and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from ...runtime.definitions import (
    Capability,
    Effect,
    ErrorType,
    Resource,
    Tier,
    ToolFailure,
    ToolResult,
)
from ...runtime.processes import Command, Ran
from ..context import ToolContext
from ..program_result import changes, title
from ..threads import run_read
from ..tool import tool
from .git_command import checked, said
from .workshop import ALL_BY_PROXY

SECONDS = 120.0
MAX_PACKAGES = 50
MAX_TAIL_CHARACTERS = 4000

FOLDER = "/run/callboard"
CERTIFICATES = "certificates.pem"

Manager = Literal["pip", "npm"]

_VERSION = r"[A-Za-z0-9][A-Za-z0-9.+!*-]*"
PIP_NAME = (
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    r"(?:\[[A-Za-z0-9._,-]+\])?"
    rf"(?:(?:===?|~=|!=|<=?|>=?){_VERSION}(?:,(?:==|~=|!=|<=?|>=?){_VERSION})*)?"
)
NPM_NAME = (
    r"(?:@[a-z0-9~_][a-z0-9._~-]*/)?[a-z0-9~_][a-z0-9._~-]*(?:@[\^~]?[A-Za-z0-9][A-Za-z0-9.+*-]*)?"
)

_NAME = f"{PIP_NAME}|{NPM_NAME}"

Package = Annotated[str, msgspec.Meta(pattern=f"^(?:{_NAME})$", max_length=200)]
"""A name with a version as indexes know it: no URL, no path, no repository, and no option."""

_PIP = """
set -e
if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
exec .venv/bin/python -m pip install --no-input --disable-pip-version-check \
  --no-cache-dir --progress-bar off --retries 2 "$@"
"""

_INSTALLS: Mapping[str, tuple[str, ...]] = {
    "pip": ("sh", "-c", _PIP, "pip"),
    "npm": ("npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress"),
}

_WITHOUT_SCRIPTS = {"pip": ("--only-binary=:all:",), "npm": ("--ignore-scripts",)}

_ALONE: Mapping[str, str] = {
    "PIP_CONFIG_FILE": "/dev/null",
    "NPM_CONFIG_USERCONFIG": "/dev/null",
    "NPM_CONFIG_CACHE": "/tmp/npm",
}
"""Nothing of the user's own configuration is seen inside; no warning says so."""


def _preview(arguments: Any, context: ToolContext) -> str:
    where = ".venv" if arguments.manager == "pip" else "node_modules"
    scripts = (
        "their scripts run meanwhile, in the sandbox, with a way to the network"
        if arguments.scripts
        else "nothing of them runs meanwhile"
    )
    index = _indexes(arguments.manager, context)
    shown = next(iter(index.values()), "the public index")
    names = "\n".join(f"  {name}" for name in arguments.packages)
    return f"{arguments.manager} installs into {where}, from {shown}; {scripts}:\n{names}"


@tool(
    tier=Tier.ELEVATED,
    needs=[Capability.PROCESSES, Capability.NETWORK],
    timeout_seconds=SECONDS,
    effect=Effect.ONCE,
    resources=lambda arguments: [Resource("")],
    preview=_preview,
)
async def install_package(
    context: ToolContext,
    manager: Manager,
    packages: Annotated[list[Package], msgspec.Meta(min_length=1, max_length=MAX_PACKAGES)],
    scripts: bool = False,
) -> ToolResult:
    """Installs packages into the workspace: with pip into .venv, which is made when it is missing, with npm into node_modules.

    Args:
        manager: pip or npm.
        packages: Names, with a version where it matters: `requests`, `requests>=2.31`, `left-pad@1.3.0`.
        scripts: Whether packages may run code of their own to build themselves; without it pip takes only wheels.
    """
    assert context.processes is not None  # or `needs` would have refused the call
    _check_names(packages)
    without = () if scripts else _WITHOUT_SCRIPTS[manager]
    files, env = await _certificates(context)
    ran = await context.processes.run(
        Command(
            argv=(*_INSTALLS[manager], *without, "--", *packages),
            env={**_ALONE, **ALL_BY_PROXY, **_indexes(manager, context), **env},
            files=files,
            seconds=SECONDS,
            lists_changes=True,
            title=title(f"{manager} install {' '.join(packages)}"),
            network=True,
        ),
        context.progress,
    )
    _check(manager, ran, scripts=scripts)
    output = {
        "manager": manager,
        "installed_into": ".venv" if manager == "pip" else "node_modules",
        "hosts": list(ran.hosts),
        "sandbox": ran.sandbox,
        **changes(ran.changed),
        "output": ran.stdout[-MAX_TAIL_CHARACTERS:],
    }
    return ToolResult(output=output, display=f"{manager} installed {', '.join(packages)}"[:200])


def _check_names(packages: list[str]) -> None:
    """A pattern of a schema lets a line break at the end pass."""
    for package in packages:
        if not re.fullmatch(_NAME, package):
            raise ToolFailure(
                ErrorType.VALIDATION_ERROR,
                f"packages: {package!r} is no name of a package.",
                field="packages",
            )


def _indexes(manager: str, context: ToolContext) -> dict[str, str]:
    """The operator's index of this manager."""
    if context.workshop is None:
        return {}
    its = context.workshop.indexes.items()
    return {name: value for name, value in its if name.lower().startswith(manager)}


async def _certificates(context: ToolContext) -> tuple[dict[str, bytes], dict[str, str]]:
    """The operator's certificate authorities as a file inside, and what tells where it is."""
    known = None if context.workshop is None else await run_read(context.workshop.certificates)
    if known is None:
        return {}, {}
    path = f"{FOLDER}/{CERTIFICATES}"
    return {CERTIFICATES: known}, {"PIP_CERT": path, "NODE_EXTRA_CA_CERTS": path}


def _check(manager: str, ran: Ran, *, scripts: bool) -> None:
    if ran.exit_code not in (0, None) and ran.refused_hosts:
        why = next(iter(ran.refused_hosts.values()))
        raise ToolFailure(ErrorType.URL_NOT_ALLOWED, f"{manager} installed nothing: {why}")
    if ran.exit_code and not scripts and "no matching distribution" in ran.stderr.lower():
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"pip install: {said(ran)}\nOnly wheels were looked for: a package that must be built "
            "needs scripts=true, which a person has to allow.",
        )
    checked(f"{manager} install", ran)
