"""Where a push may go, and the one place that its credential goes to. Pure.

Only HTTPS: what else git speaks runs programs of its own (ssh, ext), is in clear text (git, http),
or is a folder of this machine (file). A server on this machine may speak http.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from urllib.parse import unquote, urlsplit

import msgspec
import trio

from ...config.base_url import checked_base_url, may_carry_key, origin
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.redaction import Secret
from ..workspace.paths import shown

SOMEBODY = "git"
"""The user name that goes with a token alone: servers that know tokens take any."""

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
    """The remote of that URL; raises `ToolFailure` when nothing is pushed there."""
    scheme = re.match(_SCHEME, url)
    if scheme is None or scheme[1].lower() not in {"https", "http"} or "::" in scheme[0]:
        kind = scheme[1] if scheme else "ssh, or a folder"
        raise _refused(
            name,
            f"its URL is no https:// one ({shown(kind)}), and credentials are only sent over that",
        )
    if any(character <= " " or character == "\x7f" for character in url):
        # Some parsers drop what others take: what is shown must be where it goes.
        raise _refused(name, "its URL holds a space or a control character")
    try:
        parts = urlsplit(url)
        user, password = parts.username or "", parts.password
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        bare = checked_base_url(bare)
    except ValueError as error:
        raise _refused(name, f"its URL can't be used ({error})") from None
    if not may_carry_key(bare):
        raise _refused(name, "http:// would show all of it to everybody on the way; use https://")
    return Remote(name=name, url=bare, user=unquote(user), has_password=password is not None)


def answerer(remote: Remote, credential: Secret) -> Callable[[bytes], Awaitable[bytes]]:
    """Answers git's question for a user name and a password, for this remote and no other place.

    What it is asked and says are the lines of git's credential protocol.
    """
    parts = urlsplit(remote.url)
    wanted = {
        "protocol": parts.scheme,
        "host": parts.netloc,
        "path": parts.path.lstrip("/"),
    }

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


def _refused(name: str, why: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.URL_NOT_ALLOWED,
        f"Nothing was pushed: {why}. Only a person can change the remote {shown(name)}: "
        f"`git remote set-url {shown(name)} https://…`.",
    )
