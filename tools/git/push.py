"""git_push: the tool that pushes a branch to an HTTPS remote, from a repository without configuration.

The push is made from an empty repository in the sandbox's /tmp that borrows the objects of the real
one: no hook, no rewritten URL, no proxy and no helper of the workspace's configuration has a say.
The credential goes through a socket that answers for this one URL, never by variable or file.

Only HTTPS: what else git speaks runs programs of its own (ssh, ext), is in clear text (git, http), or is
a folder of this machine (file). A server on this machine may speak http.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from urllib.parse import unquote, urlsplit

import msgspec
import trio

from ...config.base_url import checked_base_url, may_carry_key, origin
from ...config.sections import GIT_KEYS
from ...runtime.definitions import Capability, ErrorType, Tier, ToolFailure, ToolResult
from ...runtime.errors import CallboardError
from ...runtime.processes import Ran
from ...runtime.redaction import Secret, mask
from ..context import ToolContext
from ..failures import failed, invalid
from ..processes.system_programs import find_system_program
from ..processes.threads import run_read
from ..programs.program_result import sandboxed_tool
from ..schema.complaint import in_words
from ..workshop import ALL_BY_PROXY
from ..workspace.paths import shown
from .command import Repository, checked, open_repository, said
from .output import records

SECONDS = 120.0
MAX_SHOWN_COMMITS = 50
"""In a preview, beside their number."""
MAX_SHOWN_NOTED = 5
"""Commits that the workspace notes as already pushed and that are shown all the same: a program in it may have
planted the note to hide them."""
DEFAULT_REMOTE = "origin"

FOLDER = "/run/callboard"
HELPER = "credential.py"
CERTIFICATES = "certificates.pem"

Name = Annotated[
    str,
    in_words(
        r"^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$",
        "the name of a remote or a branch: letters, digits and _ . / + @ -, and first a letter, a "
        "digit or _",
        max_length=250,
    ),
]

_RESOLVE = """
branch=$1
if [ -z "$branch" ]; then branch=$(git symbolic-ref --quiet --short HEAD) || exit 3; fi
commit=$(git rev-parse --verify --quiet --end-of-options "refs/heads/$branch^{commit}") || exit 4
printf '%s\\0%s\\0' "$branch" "$commit"
"""

_PUSH = f"""
set -e
objects=$(git rev-parse --path-format=absolute --git-path objects)
shallow=$(git rev-parse --path-format=absolute --git-path shallow)
unset GIT_DIR GIT_WORK_TREE
git init --quiet --bare --template= /tmp/push.git
export GIT_DIR=/tmp/push.git GIT_OBJECT_DIRECTORY="$objects" GIT_SHALLOW_FILE="$shallow"
if [ -e {FOLDER}/{CERTIFICATES} ]; then export GIT_SSL_CAINFO={FOLDER}/{CERTIFICATES}; fi
exec git push --porcelain --no-verify --no-follow-tags --recurse-submodules=no \
  --end-of-options "$1" "$2:refs/heads/$3"
"""

_OUTCOMES = {"*": "created", " ": "updated", "=": "up_to_date"}
"""Outcomes by the flag of `push --porcelain`. A push is never forced."""


SOMEBODY = "git"
"""The user name for a token without one; servers take any."""

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*)(?:://|::)"


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """Where a push goes.

    Attributes:
        name: As the repository calls it.
        url: Without user name and password.
        user: The user name that the repository's URL holds, or empty.
        has_password: Whether it holds a password too, which is not used.
    """

    name: str
    url: str
    user: str = ""
    has_password: bool = False

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return origin(self.url)


def parse_remote(name: str, url: str) -> Remote:
    """Parse a remote's URL; raise `ToolFailure` when nothing is pushed there."""
    scheme = re.match(_SCHEME, url)
    if scheme is None or scheme[1].lower() not in {"https", "http"} or "::" in scheme[0]:
        kind = scheme[1] if scheme else "ssh, or a folder"
        raise _no_push(
            name,
            f"its URL is not https:// ({shown(kind)}), and credentials are only sent over that",
        )
    if any(character <= " " or character == "\x7f" for character in url):
        # Some parsers drop these characters, others don't: what is shown must be where it goes.
        raise _no_push(name, "its URL holds a space or a control character")
    try:
        parts = urlsplit(url)
        user, password = parts.username or "", parts.password
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        bare = checked_base_url(bare)
    except ValueError as error:
        raise _no_push(name, f"its URL can't be used ({error})") from None
    if not may_carry_key(bare):
        raise _no_push(name, "http:// would show all of it to everybody on the way; use https://")
    return Remote(name=name, url=bare, user=unquote(user), has_password=password is not None)


def answerer(remote: Remote, credential: Secret) -> Callable[[bytes], Awaitable[bytes]]:
    """Return a function that answers git's question for a user name and a password, for this remote only.

    Question and answer are lines of git's credential protocol (gitcredentials(7)).
    """
    parts = urlsplit(remote.url)
    wanted = {"protocol": parts.scheme, "host": parts.netloc, "path": parts.path.lstrip("/")}

    async def answer(question: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        asked = dict(
            line.split("=", 1)
            for line in question.decode(errors="replace").split("\n")
            if "=" in line
        )
        if any(asked.get(name) != value for name, value in wanted.items()):
            return b"quit=1\n"
        user, _, token = credential.reveal().rpartition(":")
        user = user or remote.user or SOMEBODY
        return f"username={user}\npassword={token}\n".encode()

    return answer


def _no_push(name: str, why: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.URL_NOT_ALLOWED,
        f"Nothing was pushed: {why}. Only a person can change the remote {shown(name)}: "
        f"`git remote set-url {shown(name)} https://…`.",
    )


class Push(msgspec.Struct, frozen=True):
    """What is pushed, and where to."""

    remote: Remote
    branch: str
    commit: str

    @property
    def line(self) -> str:
        """The first line of the preview. A person who allowed the call allowed what this line says."""
        remote = self.remote
        user = f" as {shown(remote.user)}" if remote.user else ""
        secret = " (with a password in it, which is not used)" if remote.has_password else ""
        return f"pushes {shown(self.branch)} ({self.commit}) to {shown(remote.url)}{user}{secret}"


async def _preview(arguments: Any, context: ToolContext) -> str:
    repository = await open_repository(context)
    push = await _resolve(repository, arguments.remote, arguments.branch)
    noted = ("--not", f"--remotes={push.remote.name}")
    new = await _commits(repository, push, MAX_SHOWN_COMMITS, *noted)
    count = int((await repository.look("rev-list", "--count", push.commit, *noted, "--")).stdout)
    lines = [
        push.line,
        f"remote: {shown(push.remote.name)}",
        f"{count} commits that the workspace does not note as there (any program in it can note that):",
        *(f"  {shown(each)}" for each in new),
    ]
    if count > len(new):
        lines.append(f"  (… and {count - len(new)} more …)")
    if count < MAX_SHOWN_NOTED:
        last = await _commits(repository, push, MAX_SHOWN_NOTED + len(new))
        old = [each for each in last if each not in new][:MAX_SHOWN_NOTED]
        lines += ["noted as there:", *(f"  {shown(each)}" for each in old)] if old else []
    return "\n".join(lines)


class Pushed(TypedDict):
    """What git_push returns."""

    remote: str
    url: str
    branch: str
    commit: str
    outcome: Literal["created", "updated", "up_to_date"]
    warnings: NotRequired[list[str]]


@sandboxed_tool(
    tier=Tier.ELEVATED,
    needs=[Capability.PROCESSES, Capability.NETWORK],
    timeout_seconds=SECONDS,
    preview=_preview,
    output=Pushed,
)
async def git_push(
    context: ToolContext, remote: Name | None = None, branch: Name | None = None
) -> ToolResult:
    """Pushes a branch of the workspace's git repository to the branch of the same name at an HTTPS remote, without force.

    Args:
        remote: Default: the branch's own, else origin.
        branch: Default: the present one.
    """
    repository = await open_repository(context)
    push = await _resolve(repository, remote, branch)
    _check_shown(context, push)
    credential = await _credential(context, push.remote)
    files = {HELPER: Path(__file__).with_name(HELPER).read_bytes()}
    workshop = context.workshop
    certificates = None if workshop is None else await run_read(workshop.certificates)
    if certificates is not None:
        files[CERTIFICATES] = certificates
    python = find_system_program("python3") or sys.executable
    ran = await repository.run(
        ("sh", "-c", _PUSH, "push", push.remote.url, push.commit, push.branch),
        env={"GIT_ALLOW_PROTOCOL": "https:http", **ALL_BY_PROXY},
        settings={
            "credential.useHttpPath": "true",
            # The credential is meant for the host that a person saw, and for no other.
            "http.followRedirects": "false",
            "credential.helper": f"!{shlex.quote(python)} -I {FOLDER}/{HELPER}",
        },
        files=files,
        seconds=SECONDS,
        network=True,
        answers={} if credential is None else {"credential": answerer(push.remote, credential)},
    )
    outcome = _outcome(ran, push, has_credential=credential is not None)
    warnings = await _follow(repository, push)
    output = {
        "remote": push.remote.name,
        "url": push.remote.url,
        "branch": push.branch,
        "commit": push.commit,
        "outcome": outcome,
        **({"warnings": warnings} if warnings else {}),
    }
    line = f"{push.branch} at {push.remote.name}: {outcome}"
    return ToolResult(output=output, display=shown(line))


def _check_shown(context: ToolContext, push: Push) -> None:
    """Raise `ToolFailure` when a person allowed the call, but saw another push."""
    said = context.shown_preview
    if said is None or said.partition("\n")[0] == mask(push.line):
        return
    raise ToolFailure(
        ErrorType.PERMISSION_DENIED,
        f"Nothing was pushed: it would have been another commit or another place than was shown to "
        f"who allowed it: {push.line}. Push again, so that it can be decided about as it is now.",
        reason="what would be pushed has changed",
    )


async def _resolve(repository: Repository, remote: str | None, branch: str | None) -> Push:
    ran = await repository.run(("sh", "-c", _RESOLVE, "resolve", branch or ""))
    if ran.exit_code == 3:
        raise _invalid("branch", "no branch is checked out; name one")
    if ran.exit_code == 4:
        raise _invalid("branch", f"there is no branch {shown(branch or '')} with a commit")
    found, commit = records(checked("git rev-parse", ran))
    name = remote or repository.setting(f"branch.{found}.remote") or DEFAULT_REMOTE
    urls = repository.values(f"remote.{name}.pushurl") or repository.values(f"remote.{name}.url")
    if len(urls) != 1:
        known = ", ".join(shown(each) for each in repository.remotes()) or "none"
        problem = "has no URL" if not urls else "has several URLs, and a push is to one"
        raise _invalid("remote", f"{shown(name)} {problem}. Remotes: {known}")
    return Push(parse_remote(name, urls[0]), found, commit)


async def _commits(repository: Repository, push: Push, most: int, *without: str) -> list[str]:
    how = ("-z", "--format=%h %s", "--no-show-signature", "--no-color", f"--max-count={most}")
    return records(await repository.look("log", *how, push.commit, *without, "--"))


async def _credential(context: ToolContext, remote: Remote) -> Secret | None:
    if context.workshop is None:
        return None
    try:
        return await run_read(context.workshop.credential, remote.origin)
    except CallboardError as error:
        raise failed(
            f"Nothing was pushed: the credential for {remote.origin} can't be used: {error}"
        ) from error


def _outcome(ran: Ran, push: Push, *, has_credential: bool) -> str:
    """Return what the remote did; raise `ToolFailure` when it refused."""
    flag, why = "", ""
    for line in ran.stdout.splitlines():
        first, _, rest = line.partition("\t")
        if first in _OUTCOMES or first == "!":
            flag, why = first, rest.rpartition("\t")[2]
    if flag in _OUTCOMES:  # what the remote has said counts, however git ended then
        return _OUTCOMES[flag]
    if ran.refused_hosts:
        raise ToolFailure(ErrorType.URL_NOT_ALLOWED, next(iter(ran.refused_hosts.values())))
    if flag == "!":
        raise failed(
            f"{shown(push.remote.name)} did not take {shown(push.branch)}: {shown(why)}. A push is "
            "never forced: bring in what the remote has, and push again."
        )
    text = said(ran)
    if "Authentication failed" in text or "could not read Username" in text or " 403" in text:
        which = "did not accept the stored credential" if has_credential else "wants a credential"
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            f"{push.remote.origin} {which}. The operator stores one with "
            f"`callboard keys set {GIT_KEYS} --origin {push.remote.origin}`.",
            reason=text,
        )
    checked("git push", ran)
    raise failed(f"git push: {text or 'it said nothing'}")


async def _follow(repository: Repository, push: Push) -> list[str]:
    """Note what the remote has now, as git does after a push; return what went wrong with that."""
    name = push.remote.name
    if f"+refs/heads/*:refs/remotes/{name}/*" in repository.values(f"remote.{name}.fetch"):
        ref = f"refs/remotes/{name}/{push.branch}"
        try:
            ran = await repository.run(
                ("git", "update-ref", "-m", "update by push", ref, push.commit)
            )
            checked("git update-ref", ran)
        except ToolFailure as failure:  # the push has happened
            return [f"It is pushed; that could not be noted in {shown(ref)}: {failure}"]
    return []


def _invalid(field: str, problem: str) -> ToolFailure:
    return invalid(field, f"Nothing was pushed: {field}: {problem}.")
