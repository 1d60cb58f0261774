"""git_commit: the tool that commits what has changed, or parts of it, in the operator's name."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from ...runtime.definitions import Artifact, Tier, ToolFailure, ToolResult
from ..context import ToolContext
from ..failures import failed
from ..processes.threads import run_read
from ..programs.program_result import sandboxed_tool
from ..workshop import Author
from ..workspace.paths import shown
from .command import SECONDS, STATUS, Paths, Repository, check_paths, checked, open_repository
from .output import read_name_status, read_status, records

MAX_MESSAGE_CHARACTERS = 64 * 1024
MAX_FILES = 500
"""Files of a commit that the result names, beside their number."""
MAX_CHANGES = 20_000
"""In one commit; more are an accident, such as an environment that no .gitignore covers."""

FOLDER = "/run/callboard"

_COMMIT = """
set -e
if [ -s {folder}/new ]; then
  git add --pathspec-from-file={folder}/new --pathspec-file-nul
fi
git commit --quiet --no-verify --no-gpg-sign --cleanup=whitespace --file={folder}/message "$@"
git rev-parse HEAD
"""
"""A whole commit adds all changes first; in a partial one `git commit --only` adds tracked files."""

_COMMITTED = ("show", "-z", "--format=", "--name-status", "--no-renames", "--no-show-signature")
"""Lists what a commit changed; of a merge, in the branch that was checked out."""


class CommittedFile(TypedDict):
    """A file of a commit."""

    path: str
    state: str


class Committed(TypedDict):
    """What git_commit returns."""

    commit: str
    subject: str
    changed: NotRequired[int]
    files: NotRequired[list[CommittedFile]]
    warnings: NotRequired[list[str]]


@sandboxed_tool(tier=Tier.WORKSPACE, timeout_seconds=SECONDS, output=Committed)
async def git_commit(
    context: ToolContext,
    message: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MESSAGE_CHARACTERS)],
    paths: Paths | None = None,
) -> ToolResult:
    """Commits changes of the workspace's git repository, new and deleted files too; no hook runs.

    Args:
        message: The commit's message; its first line is the subject.
        paths: Only what lies under these; default: everything that has changed.
    """
    check_paths(paths)
    repository = await open_repository(context)
    author = await _author(context)
    changes = await _changes(repository, paths)
    await _check_filters(repository, changes)
    new = [each["path"] for each in changes if each.get("unstaged") is not None]
    if paths is not None:
        new = [each["path"] for each in changes if each.get("unstaged") == "untracked"]
    names = [name for each in changes for name in (each["path"], each.get("from")) if name]
    only = f"--pathspec-from-file={FOLDER}/paths"
    ran = await repository.run(
        (
            "sh",
            "-c",
            _COMMIT.format(folder=FOLDER),
            "commit",
            *(["--only", only, "--pathspec-file-nul"] if paths is not None else []),
        ),
        env={
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (("NAME", author.name), ("EMAIL", author.email))
        },
        files={
            "message": message.encode(errors="replace"),
            "new": _joined(new),
            "paths": _joined(names),
        },
    )
    commit = checked("git commit", ran).stdout.strip()[-64:]
    subject = message.strip().partition("\n")[0].strip()
    output: dict[str, Any] = {"commit": commit, "subject": subject}
    try:
        ran = await repository.look(*_COMMITTED, "--diff-merges=first-parent", commit)
    except ToolFailure as failure:  # an error would make the model commit again
        output["warnings"] = [f"The commit is there; what it changed can't be listed: {failure}"]
    else:
        files = list(read_name_status(records(ran)))
        output |= {"changed": len(files), "files": files[:MAX_FILES]}
    return ToolResult(
        output=output,
        display=f"{commit[:10]} {shown(subject[:80])}",
        artifacts=(Artifact(kind="commit", id=commit, size_bytes=0),),
    )


async def _author(context: ToolContext) -> Author:
    author = None if context.workshop is None else await run_read(context.workshop.author)
    if author is None:
        raise failed(
            "Nothing was committed: nobody says in whose name. The operator sets name and email "
            "under [git] in callboard.toml, or with `git config --global user.name` and user.email."
        )
    return author


async def _changes(repository: Repository, paths: list[str] | None) -> list[dict[str, Any]]:
    """Return what would be committed; raise `ToolFailure` when that is nothing, or can't be committed."""
    ran = await repository.look(*STATUS, "--untracked-files=all", "--", *(paths or ()))
    changes: list[dict[str, Any]] = read_status(records(ran))["entries"]
    if not changes:
        where = "" if paths is None else " under these paths"
        raise _failed(f"nothing has changed{where}")
    if ran.is_truncated or len(changes) > MAX_CHANGES:
        raise _failed(
            f"more than {MAX_CHANGES} files have changed; name paths, or what .gitignore lacks"
        )
    if conflicts := [each["path"] for each in changes if "conflict" in each]:
        raise _failed(f"{shown(conflicts[0])} is in conflict; resolve it and stage it with shell")
    return changes


async def _check_filters(repository: Repository, changes: list[dict[str, Any]]) -> None:
    """Raise `ToolFailure` for files that a filter would change: filters don't run here."""
    ran = await repository.run(
        ("sh", "-c", f"git check-attr -z --stdin filter < {FOLDER}/paths"),
        files={"paths": _joined([each["path"] for each in changes])},
    )
    answers = records(checked("git check-attr", ran))
    for at in range(0, len(answers) - 2, 3):
        if answers[at + 2] not in {"unspecified", "unset"}:
            raise _failed(
                f"{shown(answers[at])} goes through the filter {shown(answers[at + 2])} "
                "(.gitattributes), which this tool does not run. Leave it out by naming paths, or "
                "let a person commit it"
            )


def _joined(paths: list[str]) -> bytes:
    return b"".join(path.encode(errors="replace") + b"\0" for path in paths)


def _failed(problem: str) -> ToolFailure:
    return failed(f"Nothing was committed: {problem}.")
