"""`callboard hooks`: what other systems begin here, what they are told, and what could not be delivered.

Hooks are made, changed and removed by the daemon when one runs, and hold there at once. A hook of callboard.toml is
changed there, with an editor, and so are all webhooks. A secret is read by `callboard keys set` alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from cyclopts import App, Parameter
from msgspec.structs import replace

from ...config.daemon_file import find_daemon
from ...config.files import config_file, load_settings_of, parse_fields
from ...config.keys.store import open_key_store
from ...config.managed import fields_toml
from ...embedding.unattended.hooks import HookBook
from ...runtime.errors import ConflictError, ValidationError
from ...runtime.hooks.hook import SECRET_PLACE, Hook, key_name
from ...runtime.wire.hooks import DeadLetter, HookRow, hook_of_row
from ..backend import FileBackend, ask_daemon, serving_daemon
from ..exit_codes import ANSWERED, FAILED
from ..hints import command_line, runnable
from ..parameters import Config, Data, Json, data_path, offered
from ..run.flags import EXAMPLE
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import counted, minute
from .editor import budget_fields, new_text, of_options, read_text

if TYPE_CHECKING:
    from ...client.client import Client

Result = TypeVar("Result")

Name = Annotated[str, Parameter(completer=offered("hooks"), help="The hook's name.")]
NewName = Annotated[str, Parameter(help="The name of the new hook.")]
Prompt = Annotated[
    str | None,
    Parameter(help="What is asked; {event} and {delivery} stand for the sender's words."),
]
Signature = Annotated[
    Literal["github", "stripe", "standard", "bearer"] | None,
    Parameter(help="How a delivery proves where it comes from; by default as a bearer token."),
]
Agent = Annotated[
    str | None, Parameter(completer=offered("agents"), help="Whose tools, model and rules it has.")
]
Workspace = Annotated[
    Path | None, Parameter(help="The folder that it works in; by default a new one each time.")
]
SessionOption = Annotated[
    Literal["new", "same"] | None,
    Parameter(help="A new session each time, or always the same; by default new."),
]
UnattendedOption = Annotated[
    Literal["deny", "defer"] | None,
    Parameter(help="Calls that need a person are denied, or wait; by default as the agent."),
]
BudgetOption = Annotated[
    str | None, Parameter(help=f"What each delivery may use: {EXAMPLE}, or some of these.")
]
MaxPerMinute = Annotated[
    int | None, Parameter(help="Deliveries that are let in within a minute; by default 30.")
]
HookFile = Annotated[
    Path | None,
    Parameter(
        name="--file", help="A TOML file with its fields; - is stdin.", allow_leading_hyphen=True
    ),
]
WebhookName = Annotated[str, Parameter(name="NAME", help="The name of a webhook.")]
LetterName = Annotated[
    str,
    Parameter(name="LETTER", help="As `callboard hooks dead` names them; without any, all."),
]

hooks = App(
    name="hooks",
    help="List, make, change, pause and remove hooks, test webhooks, and send again what nobody took.",
)


@hooks.command(name="list")
def list_hooks(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List what other systems begin here, and whom the daemon tells what happened; never a secret."""
    rows = _open(config, data).ask(_rows, HookBook.rows)
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        write_list(("hook", "way", "place", "what", "state"), map(_cells, rows))
    if not rows:
        complain("There are no hooks: `callboard hooks add NAME PROMPT` makes one.")
    return ANSWERED


@hooks.command
def show(name: Name, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Show a hook: its fields as TOML, and where deliveries are posted to; never its secret."""
    row = _get(name, config, data)
    if json:
        sys.stdout.write(json_line(row))
        return ANSWERED
    print(f"# {row.name}, from {row.source}" + (", paused" if row.paused else ""))
    print(fields_toml(hook_of_row(row)))
    print(f"POST {_url(row, config, data)}")
    if row.problem:
        complain(f"{row.name} lets nothing in: {safe_line(row.problem)}.")
    return ANSWERED


@hooks.command
def add(
    name: NewName,
    prompt: Prompt = None,
    /,
    *,
    signature: Signature = None,
    agent: Agent = None,
    workspace: Workspace = None,
    session: SessionOption = None,
    unattended: UnattendedOption = None,
    budget: BudgetOption = None,
    max_per_minute: MaxPerMinute = None,
    file: HookFile = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Make a hook, of options or of a TOML file; `callboard keys set hook:NAME` stores its secret."""
    given = {
        "name": name,
        "prompt": prompt,
        "signature": signature,
        "agent": agent,
        "workspace": None if workspace is None else str(workspace.expanduser().absolute()),
        "session": session,
        "unattended": unattended,
        "budget": budget_fields(budget),
        "max_per_minute": max_per_minute,
    }
    if file is None:
        made = of_options(Hook, given, "prompt")
    else:
        fields = {field: value for field, value in given.items() if value is not None}
        made = _parsed(*read_text(file), fields, name)
    row = _open(config, data).ask(
        lambda client: client.hooks.create(made), lambda book: _created(book, made)
    )
    if json:
        sys.stdout.write(json_line(row))
        return ANSWERED
    print(f"Made {name}: POST {_url(row, config, data)}")
    if row.has_secret:
        print("It has a secret, of an earlier hook of this name; another one takes its place with")
    else:
        print("It lets nothing in until it has a secret:")
    print(
        f"  openssl rand -hex 32 | tee {name}.secret | {command_line(f'callboard keys set {key_name(name)}')}"
    )
    if serving_daemon(config, data_path(data)) is None:
        print(runnable("Deliveries are taken while `callboard serve` runs; no daemon runs now."))
    return ANSWERED


@hooks.command
def edit(name: Name, /, *, file: HookFile = None, config: Config = None, data: Data = None) -> int:
    """Change a hook as TOML in your editor ($VISUAL or $EDITOR), or to what a file says."""
    row = _get(name, config, data)
    before = hook_of_row(row)
    times = {"name": name, "created_at_ms": row.created_at_ms, "updated_at_ms": row.updated_at_ms}
    with new_text(fields_toml(before), name, file, "callboard hooks edit") as (text, place):
        after = _parsed(text, place, times, name)
        if after != before:
            _update(after, config, data)
    print(f"{name} is as it was." if after == before else f"Changed {name}.")
    return ANSWERED


@hooks.command
def pause(name: Name, /, *, config: Config = None, data: Data = None) -> int:
    """Let a hook let nothing in until it is resumed."""
    _pause(name, config, data, paused=True)
    print(f"Paused {name}.")
    return ANSWERED


@hooks.command
def resume(name: Name, /, *, config: Config = None, data: Data = None) -> int:
    """Let a hook take deliveries again."""
    _pause(name, config, data, paused=False)
    print(f"Resumed {name}.")
    return ANSWERED


@hooks.command
def remove(name: Name, /, *, config: Config = None, data: Data = None) -> int:
    """Remove a hook; its sessions stay, and its secret until `callboard keys remove hook:NAME`."""
    has_secret = _get(name, config, data).has_secret
    _open(config, data).ask(lambda client: client.hooks.delete(name), lambda its: its.delete(name))
    print(f"Removed {name}.")
    if has_secret:
        print(
            runnable(
                f"Its secret is stored still: `callboard keys remove {key_name(name)}` removes it."
            )
        )
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
        complain("There are no dead letters. `callboard hooks list` says what waits to be sent.")
    return ANSWERED


@hooks.command(name="resend")
def resend(*names: LetterName, data: Data = None) -> int:
    """Send dead letters once more; those that are taken are dead no more."""
    resent = _ask(data, lambda client: client.hooks.resend(names))
    print(f"Sent {counted(resent.sent, 'letter')}.")
    if resent.hurried:
        print(
            f"{counted(resent.hurried, 'other letter')} that waited for the next attempt: sent now."
        )
    for letter in resent.letters:
        complain(f"{safe_line(letter.name)} is dead still: {safe_line(letter.problem)}.")
    return FAILED if resent.letters else ANSWERED


def _ask(data: Path | None, request: Callable[[Client], Awaitable[Result]]) -> Result:
    if (daemon := find_daemon(data_path(data))) is None:
        raise ConflictError("no daemon runs, and it alone posts to webhooks: `callboard serve`.")
    return ask_daemon(daemon, request)


async def _rows(client: Client) -> list[HookRow]:
    return [*await client.hooks.list()]


def _get(name: str, config: Path | None, data: Path | None) -> HookRow:
    return _open(config, data).ask(
        lambda client: client.hooks.get(name), lambda book: book.row(name)
    )


def _created(book: HookBook, hook: Hook) -> HookRow:
    book.create(hook)
    return book.row(hook.name)


def _update(hook: Hook, config: Path | None, data: Path | None) -> None:
    async def there(client: Client) -> None:
        await client.hooks.update(hook)

    _open(config, data).ask(there, lambda book: book.update(hook))


def _pause(name: str, config: Path | None, data: Path | None, *, paused: bool) -> None:
    before = hook_of_row(_get(name, config, data))
    _update(replace(before, paused=paused), config, data)


def _open(config: Path | None, data: Path | None) -> FileBackend[HookBook]:
    """Return where hooks are listed and changed: the daemon, or the files."""
    folder = data_path(data)

    def book() -> HookBook:
        file = config_file(config)
        store = open_key_store(folder, load_settings_of(file).keys, os.environ)
        rows = store.rows()
        stored = {row.binding.provider for row in rows if row.binding.origin == SECRET_PLACE}
        return HookBook(file, stored.__contains__)

    return FileBackend(serving_daemon(config, folder), book)


def _parsed(text: str, place: Path, defaults: Mapping[str, object], name: str) -> Hook:
    found = parse_fields(text, place, Hook, defaults)
    if found.name != name:
        raise ValidationError(
            f"{place}: name: a hook keeps its name; `callboard hooks add {found.name}` makes another.",
            field="name",
        )
    return found


def _url(row: HookRow, config: Path | None, data: Path | None) -> str:
    """Return where deliveries are posted to, as this machine sees it; a proxy may have another name."""
    if (daemon := serving_daemon(config, data_path(data))) is not None:
        return f"http://{urlsplit(daemon.url).netloc}{row.place}"
    server = load_settings_of(config_file(config)).server
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"http://{host}:{server.port}{row.place}"


def _cells(row: HookRow) -> tuple[str, ...]:
    what = f"{row.signature}, agent {row.agent}" if row.direction == "in" else ", ".join(row.events)
    fine = "ready" if row.direction == "in" else "signed" if row.has_secret else "not signed"
    state = row.problem or fine
    if row.waiting or row.dead:
        state += f"; {row.waiting} waiting, {row.dead} dead"
    return safe_line(row.name), row.direction, safe_line(row.place), what, safe_line(state)


def _letter_cells(letter: DeadLetter) -> tuple[str, ...]:
    name, problem = safe_line(letter.name), safe_line(letter.problem)
    return name, letter.type, minute(letter.at_ms), str(letter.attempts), problem
