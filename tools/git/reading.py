"""git_status, git_diff and git_log: the tools that read a repository."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

import msgspec

from ...runtime.definitions import Capability, Effect, Resource, Tier, ToolResult
from ..context import ToolContext
from ..tool import tool_family
from .command import SECONDS, STATUS, Paths, Revision, check_paths, open_repository
from .output import LOG_FORMAT, read_diff, read_log, read_status, records

MAX_ENTRIES = 1000
"""In a status; with more, a model should look at single folders."""

MAX_DIFF_CHARACTERS = 256 * 1024
"""Some thousand lines; larger changes are better read file by file."""

MAX_COMMITS = 200
DEFAULT_COMMITS = 20

_DIFF = (
    *("diff", "--numstat", "--patch", "-z", "--find-renames", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--submodule=short", "--ignore-submodules=dirty"),
)
_LOG = (
    *("log", "-z", f"--format={LOG_FORMAT}", "--no-show-signature", "--no-notes", "--no-color"),
    "--no-decorate",
)

_reading_tool = tool_family(
    tier=Tier.READ_ONLY,
    needs=[Capability.PROCESSES],
    timeout_seconds=SECONDS,
    effect=Effect.READ,
    resources=lambda arguments: [Resource("", write=False)],
)


StatusEntry = TypedDict(
    "StatusEntry",
    {
        "path": str,
        "from": NotRequired[str],
        "staged": NotRequired[str],
        "unstaged": NotRequired[str],
        "conflict": NotRequired[str],
    },
)
"""A file that is not as it was committed."""


class StatusOutput(TypedDict):
    """What git_status returns."""

    branch: str | None
    commit: str | None
    upstream: NotRequired[str]
    ahead: NotRequired[int]
    behind: NotRequired[int]
    truncated: NotRequired[bool]
    entries: list[StatusEntry]


DiffFile = TypedDict(
    "DiffFile",
    {
        "path": str,
        "from": NotRequired[str],
        "added": NotRequired[int],
        "deleted": NotRequired[int],
        "binary": NotRequired[bool],
    },
)
"""A file that differs, with numbers of lines."""


class Diff(TypedDict):
    """What git_diff returns."""

    files: list[DiffFile]
    truncated: NotRequired[bool]
    diff: str


class Commit(TypedDict):
    """One commit of git_log."""

    commit: str
    author: str
    date: str
    subject: str


class Log(TypedDict):
    """What git_log returns."""

    commits: list[Commit]


@_reading_tool(output=StatusOutput)
async def git_status(context: ToolContext, paths: Paths | None = None) -> ToolResult:
    """Shows the branch of the workspace's git repository and what has changed since its last commit.

    Args:
        paths: Only what lies under these.
    """
    check_paths(paths)
    repository = await open_repository(context)
    ran = await repository.look(
        *STATUS, "--branch", "--untracked-files=normal", "--", *(paths or ())
    )
    status = read_status(records(ran))
    entries = status.pop("entries")
    is_cut = ran.is_truncated or len(entries) > MAX_ENTRIES
    output = {**status, **({"truncated": True} if is_cut else {}), "entries": entries[:MAX_ENTRIES]}
    where = status["branch"] or "no branch"
    return ToolResult(output=output, display=f"on {where}: {len(entries)} changed")


@_reading_tool(output=Diff)
async def git_diff(
    context: ToolContext,
    paths: Paths | None = None,
    staged: bool = False,
    base: Revision | None = None,
    target: Revision | None = None,
) -> ToolResult:
    """Shows the changes of tracked files as a diff: what is not committed, or between two commits.

    Args:
        paths: Only what lies under these.
        staged: Only what is staged for the next commit.
        base: The commit to compare with; without it, files are compared with what is staged.
        target: The commit that is compared with base; without it, the files as they are.
    """
    check_paths(paths)
    repository = await open_repository(context)
    commits = [each for each in (base, target if base else None) if each is not None]
    which = (*(["--cached"] if staged else []), "--end-of-options", *commits, "--", *(paths or ()))
    ran = await repository.look(*_DIFF, *which)
    files, patch = read_diff(ran.stdout)
    is_cut = ran.is_truncated or len(patch) > MAX_DIFF_CHARACTERS
    output = {
        "files": files[:MAX_ENTRIES],
        **({"truncated": True} if is_cut or len(files) > MAX_ENTRIES else {}),
        "diff": patch[:MAX_DIFF_CHARACTERS],
    }
    return ToolResult(output=output, display=f"{len(files)} files differ")


@_reading_tool(output=Log)
async def git_log(
    context: ToolContext,
    revision: Revision | None = None,
    paths: Paths | None = None,
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_COMMITS)] = DEFAULT_COMMITS,
) -> ToolResult:
    """Lists commits of the workspace's git repository, the latest first.

    Args:
        revision: A branch, tag or commit to begin at, or a range like main..topic; default: the present one.
        paths: Only commits that changed something under these.
        limit: How many at most; default 20.
    """
    check_paths(paths)
    repository = await open_repository(context)
    which = (f"--max-count={limit}", "--end-of-options", revision or "HEAD", "--", *(paths or ()))
    ran = await repository.look(*_LOG, *which)
    # `log -z` puts NUL between commits, and none behind the last one.
    last = ran.stdout.rpartition("\0")[2]
    commits = read_log([*records(ran), *([last] if last else [])])
    return ToolResult(output={"commits": commits}, display=f"{len(commits)} commits")
