"""`callboard hooks`: what other systems begin here, what they are told, and what could not be delivered."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import App, Parameter

from ...config.daemon_file import find_daemon
from ...config.files import load_settings
from ...config.keys.store import open_key_store
from ...embedding.unattended.hook_rows import hook_rows
from ...runtime.errors import ConflictError
from ...runtime.hooks.hook import SECRET_PLACE
from ...runtime.wire.hooks import DeadLetter, HookRow
from ..backend import FileBackend, ask_daemon
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Data, Json, data_path
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import counted, minute

if TYPE_CHECKING:
    from ...client.client import Client

Result = TypeVar("Result")

WebhookName = Annotated[str, Parameter(name="NAME", help="The name of a webhook.")]
LetterName = Annotated[
    str,
    Parameter(name="LETTER", help="As `callboard hooks dead` names them; without any, all."),
]

hooks = App(
    name="hooks", help="List hooks and webhooks, test them, and send again what nobody took."
)


@hooks.command(name="list")
def list_hooks(*, json: Json = False, data: Data = None) -> int:
    """List what other systems begin here, and whom the daemon tells what happened; never a secret."""
    folder = data_path(data)
    backend = FileBackend(find_daemon(folder), lambda: folder)
    rows = backend.ask(lambda client: client.hooks.list(), _rows_here)
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        write_list(("hook", "way", "place", "what", "state"), map(_cells, rows))
    if not rows:
        complain("There are no hooks: [hooks.NAME] or [webhooks.NAME] in callboard.toml is one.")
    return ANSWERED


@hooks.command(name="test")
def try_hook(name: WebhookName, /, *, data: Data = None) -> int:
    """Have the daemon post a test to a webhook."""
    problem = _ask(data, lambda client: client.hooks.test(name))
    if problem:
        complain(f"{safe_line(name)} did not take it: {safe_line(problem)}.")
        return FAILED
    print(f"{safe_line(name)} took it.")
    return ANSWERED


@hooks.command(name="dead")
def list_dead(*, json: Json = False, data: Data = None) -> int:
    """List the notices that no attempt delivered."""
    letters = _ask(data, lambda client: client.hooks.dead())
    if json:
        sys.stdout.writelines(map(json_line, letters))
    else:
        write_list(("letter", "type", "when", "sent", "problem"), map(_letter_cells, letters))
    if not letters:
        complain("There are no dead letters.")
    return ANSWERED


@hooks.command(name="resend")
def resend(*names: LetterName, data: Data = None) -> int:
    """Send dead letters once more; those that are taken are dead no more."""
    resent = _ask(data, lambda client: client.hooks.resend(names))
    print(f"Sent {counted(resent.sent, 'letter')}.")
    for letter in resent.letters:
        complain(f"{safe_line(letter.name)} is dead still: {safe_line(letter.problem)}.")
    return FAILED if resent.letters else ANSWERED


def _ask(data: Path | None, request: Callable[[Client], Awaitable[Result]]) -> Result:
    if (daemon := find_daemon(data_path(data))) is None:
        raise ConflictError("no daemon runs, and it alone posts to webhooks: `callboard serve`.")
    return ask_daemon(daemon, request)


def _rows_here(data: Path) -> list[HookRow]:
    settings = load_settings()
    store = open_key_store(data, settings.keys, os.environ)
    stored = {row.binding.provider for row in store.rows() if row.binding.origin == SECRET_PLACE}
    return hook_rows(settings, stored.__contains__, lambda _: (0, 0))


def _cells(row: HookRow) -> tuple[str, ...]:
    what = f"{row.signature}, agent {row.agent}" if row.direction == "in" else ", ".join(row.events)
    state = row.problem or ("signed" if row.has_secret else "not signed")
    if row.waiting or row.dead:
        state += f"; {row.waiting} waiting, {row.dead} dead"
    return safe_line(row.name), row.direction, safe_line(row.place), what, safe_line(state)


def _letter_cells(letter: DeadLetter) -> tuple[str, ...]:
    name, problem = safe_line(letter.name), safe_line(letter.problem)
    return name, letter.type, minute(letter.at_ms), str(letter.attempts), problem
