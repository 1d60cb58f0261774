"""format_code: the tool that runs the formatters of the workspace's languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec

from ...runtime.definitions import Effect, ErrorType, Tier, ToolFailure, ToolResult
from ...runtime.processes import Command
from ..context import ToolContext
from ..failures import failed
from ..git.command import Paths, checked
from ..programs.program_result import made_files, sandboxed_tool, title, unkept
from ..workspace.paths import shown

SECONDS = 60.0
WORKER = "format.py"


def _preview(arguments: Any, context: ToolContext) -> str:
    where = ", ".join(map(shown, arguments.paths or ["the whole workspace"]))
    return f"formats with ruff, gofmt, rustfmt and prettier: {where}"


class Formatted(TypedDict):
    """What format_code returns; counts of files but for `files` and `failed`."""

    checked: int
    changed: int
    files: list[str]
    failed: NotRequired[dict[str, str]]
    not_installed: NotRequired[dict[str, int]]
    truncated: NotRequired[bool]
    not_undoable: NotRequired[list[str]]


@sandboxed_tool(
    tier=Tier.WORKSPACE,
    timeout_seconds=SECONDS,
    effect=Effect.IDEMPOTENT,
    preview=_preview,
    output=Formatted,
)
async def format_code(context: ToolContext, paths: Paths | None = None) -> ToolResult:
    """Formats code with ruff, gofmt, rustfmt or prettier, by the kind of each file, and says what changed.

    Args:
        paths: Files or folders; default: the whole workspace, without hidden folders and what was built or installed.
    """
    assert context.processes is not None  # or `needs` would have refused the call
    ran = await context.processes.run(
        Command(
            argv=("python3", "-I", f"/run/callboard/{WORKER}", *(paths or ())),
            files={WORKER: Path(__file__).with_name("format_worker.py").read_bytes()},
            seconds=SECONDS,
            lists_changes=True,
            title=title(f"formats {' '.join(paths or ['all'])}"),
        )
    )
    report = msgspec.json.decode(checked("format_code", ran).stdout)
    if report["missing"]:
        missing = shown(report["missing"][0])
        raise ToolFailure(ErrorType.FILE_NOT_FOUND, f"{missing}: there is no such file or folder.")
    if not report["checked"] and not report["not_installed"]:
        why = "There is nothing here that ruff, gofmt, rustfmt or prettier formats."
        raise ToolFailure(ErrorType.FILE_NOT_FOUND, why)
    if not report["checked"]:
        names = " and ".join(sorted(report["not_installed"]))
        raise failed(
            f"Nothing was formatted: {names} would do it, and can't be found in the sandbox. It must be "
            "on the operator's PATH, or in the workspace (.venv/bin/ruff, node_modules/.bin/prettier)."
        )
    output = {
        "checked": report["checked"],
        "changed": report["changed"],
        "files": report["files"],
        **({"failed": report["failed"]} if report["failed"] else {}),
        **({"not_installed": report["not_installed"]} if report["not_installed"] else {}),
        **({"truncated": True} if report["truncated"] else {}),
        **unkept(ran.changed),
    }
    return ToolResult(
        output=output,
        display=f"{report['changed']} of {report['checked']} files changed",
        artifacts=made_files(ran.changed),
    )
