"""`callboard console`: opens the web console of the daemon in a browser that is logged in by a ticket."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ...config.daemon_file import find_daemon
from ...config.keys.console_logins import console_link
from ...config.private_file import write_private
from ...runtime.errors import NotFoundError
from ...runtime.wire.fields import Role
from ..backend import ask_daemon
from ..exit_codes import ANSWERED
from ..parameters import Data, data_path
from ..terminal.complaint import complain

PAGE_NAME = "console.html"
PAGE = """\
<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>callboard</title>
"""

NoOpen = Annotated[bool, Parameter(name="--no-open", help="Print the link alone.", negative=())]
RoleName = Annotated[
    Literal["observer", "operator", "approver", "admin"] | None,
    Parameter(name="--role", help="What the browser may do; all that you may, by default."),
]


def console(*, role: RoleName = None, no_open: NoOpen = False, data: Data = None) -> int:
    """Open the web console of the daemon in a browser, logged in.

    The link that is printed works once, within a minute.
    """
    folder = data_path(data)
    daemon = find_daemon(folder)
    if daemon is None:
        raise NotFoundError(
            f"no daemon runs on {folder}: `callboard serve` starts one, or `callboard service install` "
            "for good."
        )
    its = None if role is None else Role(role)
    made = ask_daemon(daemon, lambda client: client.tokens.console_ticket(its))
    link = console_link(daemon.url, made.ticket)
    sys.stdout.write(f"{link}\n")
    sys.stdout.flush()
    complain(f"It works once, within {made.seconds} seconds.")
    if not no_open and has_browser():
        _open(link, folder)
    return ANSWERED


def _open(link: str, folder: Path) -> None:
    """Open a page that leads on to the link: the arguments of a browser's process are seen by all users."""
    page = folder / PAGE_NAME
    write_private(page, PAGE.format(link=link).encode(), replace=True)
    if not webbrowser.open(page.resolve().as_uri()):
        complain("No browser could be opened: open the link yourself.")


def has_browser() -> bool:
    """Return whether a browser with windows can be opened here; one of the terminal would take the terminal."""
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
