"""git in the sandbox, on a repository whose own configuration must run nothing.

What a repository could make git run or do, and what stops it here:

- hooks, fsmonitor, pagers, editors, signing, ssh, credential helpers: set to nothing, in the strongest
  place that git reads (`GIT_CONFIG_COUNT`; unlike `-c`, it takes names that hold `=`);
- clean, smudge and diff filters, which can have any name: looked up, and each set to nothing;
- git in submodules, which have configurations of their own: submodules are compared by their commit;
- the configuration of user and machine: not read;
- `core.worktree` and aliases: the folder is given, and git's own commands can't be aliased;
- objects in the place of others (`git replace`, grafts): ignored;
- a `git` in a folder of the workspace that stands on PATH: only the system's git is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.processes import Answerer, Command, Processes, Ran
from ..context import ToolContext
from ..failures import failed
from ..processes.system_programs import SYSTEM_FOLDERS, SYSTEM_PATH
from ..programs.program_result import ENDED_BY
from ..schema.complaint import in_words
from ..schema.validation import TRY_AGAIN
from ..workspace.paths import not_allowed, shown, split_path

SECONDS = 30.0

STATUS = ("status", "--porcelain=v2", "-z", "--ignore-submodules=dirty")

MAX_PATHS = 1000
"""Nobody reads a longer list of arguments."""

MAX_SAID_CHARACTERS = 2000
"""The end of git's message about a failure, which holds the reason."""

MAX_DRIVERS = 500
"""Filters, diff drivers and submodules of one repository: more than a project has."""

Paths = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1)]], msgspec.Meta(max_length=MAX_PATHS)
]

Revision = Annotated[
    str,
    in_words(
        r"^[A-Za-z0-9_@][A-Za-z0-9_@./{}^~+-]*$",
        "a commit as git names it, like main, v1.2, HEAD~2 or 1a2b3c4: without spaces, and not "
        "beginning with a hyphen",
        max_length=250,
    ),
]
"""A commit as git names it. It can't begin with `-`, and so can't pass for an option."""

_ALONE: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": ":",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PATH": SYSTEM_PATH,
}
"""Only the repository counts, nothing is fetched, and nobody is asked."""

_OF_REPOSITORY: Mapping[str, str] = {"GIT_DIR": ".git", "GIT_WORK_TREE": "."}

_LOOKS: Mapping[str, str] = {"GIT_OPTIONAL_LOCKS": "0"}
"""The environment of commands that only look: they write nothing, not even git's cache."""

_HARMLESS: Mapping[str, str] = {
    "color.ui": "false",
    "commit.gpgSign": "false",
    "core.alternateRefsCommand": "",
    "core.askPass": "",
    "core.editor": ":",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "dirty",
    "diff.mnemonicPrefix": "false",
    "diff.noprefix": "false",
    "diff.relative": "false",
    "gc.auto": "0",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "i18n.commitEncoding": "UTF-8",
    "i18n.logOutputEncoding": "UTF-8",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}

_DRIVER = r"(?s)(filter|diff|submodule)\.(.*)\.([^.]+)"
_REMOTE = r"(?s)remote\.(.*)\.(?:push)?url"
_DISARMED = {
    ("filter", "clean"): "",
    ("filter", "smudge"): "",
    ("filter", "process"): "",
    ("filter", "required"): "false",
    ("diff", "command"): "",
    ("diff", "textconv"): "",
}

_LISTING = """
git rev-parse --git-dir > /dev/null || exit
git config --list -z || exit
if [ -f .gitmodules ]; then git config --list -z --file .gitmodules; fi
"""


_OUTSIDE = re.compile(r"^fatal: (.*): '.*' is outside repository at '", re.MULTILINE)
_NO_REVISION = re.compile(
    r"^fatal: (?:bad revision|ambiguous argument|Invalid object name|bad object) '?(.*?)'?"
    r"(?:: unknown revision .*|[.])?$",
    re.MULTILINE,
)


class Repository:
    """The repository of a session's workspace; made by `open_repository`."""

    def __init__(self, processes: Processes, settings: Sequence[tuple[str, str]]) -> None:
        self._processes = processes
        self._settings = settings
        self._harmless = _harmless(name for name, _ in settings)

    def values(self, name: str) -> list[str]:
        """Return the repository's values of a setting, by its name in git's canonical form."""
        return [value for each, value in self._settings if each == name]

    def setting(self, name: str) -> str | None:
        """Return the value that counts, or `None`."""
        return next(reversed(self.values(name)), None)

    def remotes(self) -> list[str]:
        """Return the names of remotes that have a URL."""
        found = (re.fullmatch(_REMOTE, name) for name, _ in self._settings)
        return list(dict.fromkeys(each[1] for each in found if each))

    async def look(self, *words: str, files: Mapping[str, bytes] | None = None) -> Ran:
        """Run git to look at something; raise `ToolFailure` when it fails."""
        ran = await self.run(("git", *words), env=_LOOKS, files=files)
        if ran.exit_code == 128 and (refusal := _refused(ran)) is not None:
            raise refusal
        return checked(f"git {words[0]}", ran)

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        seconds: float = SECONDS,
        network: bool = False,
        answers: Mapping[str, Answerer] | None = None,
    ) -> Ran:
        """Run a program under the disarmed configuration; return its result, whatever its exit code."""
        return await self._processes.run(
            Command(
                argv=argv,
                env={
                    **_ALONE,
                    **_OF_REPOSITORY,
                    **_as_variables({**self._harmless, **(settings or {})}),
                    **(env or {}),
                },
                files=files or {},
                seconds=seconds,
                network=network,
                answers=answers or {},
                title=" ".join(argv[:2]),
            )
        )


async def open_repository(context: ToolContext) -> Repository:
    """Read what the repository in the workspace's root configures, so that git can run without it.

    Raises `ToolFailure` when there is none.
    """
    assert context.processes is not None  # or `needs` would have refused the call
    bare = Repository(context.processes, ())
    ran = await bare.run(("sh", "-c", _LISTING), env=_LOOKS)
    if ran.exit_code == 128 and "not a git repository" in ran.stderr:
        raise failed(
            "There is no git repository in the workspace's root, or it is kept outside of the "
            "workspace, which the sandbox does not show."
        )
    listed = checked("git config", ran)
    if listed.is_truncated:
        raise failed("The repository's configuration is too long to be checked.")
    pairs = (record.partition("\n")[::2] for record in listed.stdout.split("\0"))
    return Repository(context.processes, [(name, value) for name, value in pairs if name])


def checked(name: str, ran: Ran) -> Ran:
    """Return the run, if it succeeded; raise `ToolFailure` with the program's message."""
    if ran.killed_by == "timeout":
        raise ToolFailure(
            ErrorType.TIMEOUT,
            f"{name} was stopped after {ran.duration_seconds:.1f} s.",
            elapsed_seconds=round(ran.duration_seconds, 3),
        )
    if ran.killed_by is not None:
        how = ENDED_BY.get(ran.killed_by, ran.killed_by)
        raise failed(f"{name} {how}.")
    if ran.exit_code == 127:
        program = name.partition(" ")[0]
        where = "where programs in the sandbox find it"
        if program == "git":
            where = f"in {', '.join(SYSTEM_FOLDERS)}, and no other is run"
        raise failed(f"{program} is not installed {where}.")
    if ran.exit_code != 0:
        raise failed(f"{name}: {said(ran) or f'exit code {ran.exit_code}'}")
    return ran


def said(ran: Ran) -> str:
    """Return the end of a program's message about its failure, with control characters made visible."""
    text = (ran.stderr.strip() or ran.stdout.strip())[-MAX_SAID_CHARACTERS:]
    return "\n".join(map(shown, text.splitlines()))


def _harmless(settings: Iterable[str]) -> dict[str, str]:
    harmless = dict(_HARMLESS)
    for name in settings:
        found = re.fullmatch(_DRIVER, name)
        if found is None:
            continue
        kind, driver, key = found.groups()
        if kind == "submodule":
            harmless[f"submodule.{driver}.ignore"] = "dirty"
        elif (value := _DISARMED.get((kind, key))) is not None:
            harmless[name] = value
    if len(harmless) - len(_HARMLESS) > MAX_DRIVERS:
        raise failed(f"The repository configures more than {MAX_DRIVERS} filters and submodules.")
    return harmless


def _as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (name, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{index}"] = name
        variables[f"GIT_CONFIG_VALUE_{index}"] = value
    return variables


def check_paths(paths: Sequence[str] | None) -> None:
    """Raise `ToolFailure` for relative paths that lead out of the workspace; git refuses absolute ones."""
    for path in paths or ():
        if not path.startswith("/"):
            split_path(path)


def _refused(ran: Ran) -> ToolFailure | None:
    """Return git's failure as the error that other tools have for it, if the call's arguments are at fault."""
    if outside := _OUTSIDE.search(ran.stderr):
        return not_allowed(outside[1])
    if missing := _NO_REVISION.search(ran.stderr):
        name = shown(missing[1])
        if name == "HEAD":
            return failed("There is no commit yet in the workspace's repository.")
        return ToolFailure(
            ErrorType.VALIDATION_ERROR,
            f"There is no branch, tag or commit {name} in the workspace's repository; git_log lists "
            f"commits. {TRY_AGAIN}",
        )
    return None
