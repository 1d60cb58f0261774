"""install_package: the tool that installs packages from the operator's index into the workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from ...runtime.definitions import Capability, ErrorType, Tier, ToolFailure, ToolResult
from ...runtime.processes import ChangedFiles, Command, Ran
from ..context import ToolContext
from ..failures import failed, invalid
from ..git.command import checked, said
from ..processes.threads import run_read
from ..programs.program_result import (
    ChangesOutput,
    change_fields,
    changes_line,
    made_files,
    sandboxed_tool,
    title,
)
from ..schema.complaint import in_words
from ..workshop import ALL_BY_PROXY

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

NAME_IN_WORDS = (
    "a package's name as indexes know it, with a version or without, like requests, requests>=2.31 or "
    "left-pad@1.3.0: no URL, no path, no option, no spaces"
)

Package = Annotated[str, in_words(f"^(?:{_NAME})$", NAME_IN_WORDS, max_length=200)]
"""A name with a version, and never a URL, a path or an option."""

_OWN_PATH = """
set -ef
top=$(pwd -P) path= IFS=:
for each in $PATH; do
  real=$(cd -- "$each" 2> /dev/null && pwd -P) || continue
  case $real/ in "$top"/*) ;; *) path=$path$each: ;; esac
done
unset IFS
PATH=${path%:}
"""
"""PATH without folders of the workspace: only programs of the operator's may reach hosts."""

_FETCH = f"""{_OWN_PATH}
how=$1 into=$2
shift 2
made=; [ -d .venv ] || made=1
trap 'code=$?; [ $code = 0 ] || rm -rf .venv/.wheels; [ $code = 0 ] || [ -z "$made" ] || rmdir .venv; exit $code' EXIT
mkdir -p .venv
rm -rf .venv/.wheels
mkdir .venv/.wheels
version=$(sed -n 's/^version\\(_info\\)\\{{0,1\\}} *= *\\([0-9]*[.][0-9]*\\).*/\\2/p' .venv/pyvenv.cfg 2> /dev/null | head -n 1)
python=python3 other=
if [ -n "$version" ]; then
  if command -v "python$version" > /dev/null; then python=python$version
  elif [ "$how" = download ]; then other=--python-version=$version; fi
fi
if ! "$python" -I -c "import pip" 2> /dev/null; then
  "$python" -I -m venv /tmp/pip
  python=/tmp/pip/bin/python
fi
"$python" -I -m pip "$how" --no-input --disable-pip-version-check --no-cache-dir \\
  --progress-bar off --retries 2 $other "$into" .venv/.wheels "$@"
"""
"""Fetches, with a network, and builds where that was allowed. It uses a Python outside of the workspace: nothing
of `.venv`, which anybody may have put there, runs while hosts can be reached."""

_INSTALL = """
set -e
made=; [ "$(ls -A .venv)" = .wheels ] && made=1
trap 'code=$?; rm -rf .venv/.wheels; [ $code = 0 ] || [ -z "$made" ] || rm -rf .venv; exit $code' EXIT
if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
.venv/bin/python -m pip install --no-input --disable-pip-version-check --no-cache-dir \
  --progress-bar off --no-index --find-links .venv/.wheels "$@"
"""
"""Installs by the environment's own Python, without a network. A new environment is removed on failure."""

_NPM = f"""{_OWN_PATH}
exec npm install --no-audit --no-fund --no-update-notifier --no-progress "$@"
"""

NPM_REGISTRY = "https://registry.npmjs.org/"
"""Always set: else npm takes the one of the workspace's .npmrc."""

_ALONE: Mapping[str, str] = {
    "PIP_CONFIG_FILE": "/dev/null",
    "NPM_CONFIG_USERCONFIG": "/dev/null",
    "NPM_CONFIG_CACHE": "/tmp/npm",
    "NPM_CONFIG_REGISTRY": NPM_REGISTRY,
}
"""Switches off warnings about the user's configuration, which does not exist inside."""

_NO_GIT: Mapping[str, str] = {"NPM_CONFIG_GIT": "/bin/false"}
"""npm runs scripts of packages from git repositories even with `--ignore-scripts`."""


def _preview(arguments: Any, context: ToolContext) -> str:
    where = ".venv" if arguments.manager == "pip" else "node_modules"
    scripts = (
        "their scripts run meanwhile, in the sandbox, with a way to the network"
        if arguments.scripts
        else "nothing of them runs meanwhile"
    )
    index = _indexes(arguments.manager, context)
    places = [next(iter(index.values()), "the public index")]
    if arguments.manager == "npm":
        places.append("where the workspace's package.json, package-lock.json and .npmrc say")
    names = "\n".join(f"  {name}" for name in arguments.packages)
    return f"{arguments.manager} installs into {where}, from {' and '.join(places)}; {scripts}:\n{names}"


class Installed(ChangesOutput):
    """What install_package returns."""

    manager: str
    installed_into: str
    hosts: list[str]
    sandbox: str
    output: str


@sandboxed_tool(
    tier=Tier.ELEVATED,
    needs=[Capability.PROCESSES, Capability.NETWORK],
    timeout_seconds=SECONDS,
    preview=_preview,
    output=Installed,
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
    for package in packages:  # again: `$` in a schema's pattern lets a line break at the end pass
        if not re.fullmatch(_NAME, package):
            raise invalid("packages", f"packages: expected {NAME_IN_WORDS}; got {package!r}.")
    files, certificates = await _certificates(context)
    env = {**_ALONE, **ALL_BY_PROXY, **_indexes(manager, context), **certificates}
    wanted = Command(
        argv=(),
        files=files,
        seconds=SECONDS,
        lists_changes=True,
        title=title(f"{manager} install {' '.join(packages)}"),
        network=True,
    )
    if manager == "npm":
        less = () if scripts else ("--ignore-scripts",)
        wanted = replace(
            wanted,
            argv=("/bin/sh", "-c", _NPM, "npm", *less, "--", *packages),
            env=env if scripts else {**env, **_NO_GIT},
        )
        ran = await _run(context, manager, wanted, scripts=scripts)
    else:
        ran = await _pip(context, replace(wanted, env=env), packages, scripts=scripts)
    output = {
        "manager": manager,
        "installed_into": ".venv" if manager == "pip" else "node_modules",
        "hosts": list(ran.hosts),
        "sandbox": ran.sandbox,
        **change_fields(ran.changed),
        "output": ran.stdout[-MAX_TAIL_CHARACTERS:],
    }
    line = f"{manager} installed {', '.join(packages)}"[:200]
    return ToolResult(
        output=output,
        display=f"{line}{changes_line(ran.changed)}",
        artifacts=made_files(ran.changed),
    )


async def _pip(context: ToolContext, wanted: Command, packages: list[str], *, scripts: bool) -> Ran:
    """Fetch first, and then install without a network."""
    how = ("wheel", "--wheel-dir") if scripts else ("download", "--dest")
    less = () if scripts else ("--only-binary=:all:",)
    fetching = replace(wanted, argv=("/bin/sh", "-c", _FETCH, "pip", *how, *less, "--", *packages))
    fetched = await _run(context, "pip", fetching, scripts=scripts)
    installing = replace(
        wanted, argv=("/bin/sh", "-c", _INSTALL, "pip", "--", *packages), network=False
    )
    ran = await _run(context, "pip", installing, scripts=scripts)
    return replace(
        ran,
        stdout=f"{fetched.stdout}{ran.stdout}",
        hosts=fetched.hosts,
        changed=_both(fetched.changed, ran.changed),
    )


async def _run(context: ToolContext, manager: str, wanted: Command, *, scripts: bool) -> Ran:
    assert context.processes is not None  # or `needs` would have refused the call
    ran = await context.processes.run(wanted, context.progress)
    _check(manager, ran, scripts=scripts)
    return ran


def _both(first: ChangedFiles, second: ChangedFiles) -> ChangedFiles:
    return ChangedFiles(
        created=tuple(sorted({*first.created, *second.created})),
        modified=tuple(sorted({*first.modified, *second.modified})),
        deleted=tuple(sorted({*first.deleted, *second.deleted})),
        more=first.more + second.more,
        why_not=first.why_not or second.why_not,
        not_undoable=tuple(dict.fromkeys((*first.not_undoable, *second.not_undoable))),
    )


def _indexes(manager: str, context: ToolContext) -> dict[str, str]:
    if context.workshop is None:
        return {}
    its = context.workshop.indexes.items()
    return {name: value for name, value in its if name.lower().startswith(manager)}


async def _certificates(context: ToolContext) -> tuple[dict[str, bytes], dict[str, str]]:
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
        raise failed(
            f"pip install: {said(ran)}\nOnly wheels were looked for: a package that must be built "
            "needs scripts=true, which a person has to allow."
        )
    checked(f"{manager} install", ran)
