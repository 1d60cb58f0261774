"""`callboard keys`: ask for a key and store it, list and remove keys."""

from __future__ import annotations

import getpass
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from ...config.base_url import may_carry_key
from ...config.files import load_settings
from ...config.keys.store import open_key_store
from ...config.sections import GIT_KEYS
from ...providers.catalog.key_book import KeyBook
from ...providers.catalog.keys import MAX_KEY_LENGTH, is_key
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import ValidationError
from ...runtime.redaction import Secret, redactor
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import KeyRow, Keys
from ..backend import FileBackend, serving_daemon
from ..exit_codes import ANSWERED
from ..parameters import Config, Data, Json, data_path, offered
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import counted

MASTER_KEY_MADE = (
    "Made a master key: {place}. It protects backups and copied databases, not against someone "
    "who can read your files. Without it the stored keys can't be used: keep a copy apart."
)

KeyOwner = Annotated[
    str,
    Parameter(completer=offered("providers"), help="The provider's name, as in PROVIDER/MODEL."),
]
Origin = Annotated[
    str | None, Parameter(help="For git: the server that it is for, like https://github.com.")
]

keys = App(name="keys", help="Store, list and remove the keys of providers.")


@keys.command(name="set")
def set_key(
    provider: KeyOwner, /, *, origin: Origin = None, config: Config = None, data: Data = None
) -> int:
    """Store a provider's key, encrypted; `git` stores the credential of a git server.

    It is asked for without being shown, or read from stdin when that is not a terminal. It is never
    an argument: those stand in the shell's history and in the list of processes.
    """
    backend = _open(config, data_path(data))
    place = backend.ask(
        lambda client: client.keys.place(provider, origin=origin),
        lambda book: book.place(provider, origin),
    )
    is_git = provider == GIT_KEYS
    key = asked_secret(
        f"Token, or USER:TOKEN, for git at {place.origin}: "
        if is_git
        else f"Key for {provider} ({place.origin}): "
    )
    stored = backend.ask(
        lambda client: client.keys.set(provider, key.reveal(), origin=origin),
        lambda book: book.put(provider, origin, key),
    )
    if stored.master_key is not None:
        print(MASTER_KEY_MADE.format(place=stored.master_key))
    done = "Replaced" if stored.is_replaced else "Stored"
    what = "credential" if is_git else "key"
    print(f"{done} the {what} of {provider} for {stored.origin}.")
    if stored.note:
        complain(stored.note)
    return ANSWERED


@keys.command(name="list")
def list_keys(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List who has a key, and where it comes from; never a key itself."""
    found = _open(config, data_path(data)).ask(
        lambda client: client.request("key/list", Nothing(), Keys), lambda book: book.keys()
    )
    if json:
        sys.stdout.writelines(map(_line, found.keys))
    else:
        write_list(("of", "for", "name", "from", "stored"), map(_cells, found.keys))
    if not found.keys:
        complain("There are no keys: `callboard keys set PROVIDER` stores one.")
    elif found.problem:
        complain(found.problem)
    return ANSWERED


@keys.command(name="remove")
def remove_key(provider: KeyOwner, /, *, config: Config = None, data: Data = None) -> int:
    """Remove a provider's stored keys, of all its origins."""
    removed = _open(config, data_path(data)).ask(
        lambda client: client.keys.remove(provider), lambda book: book.remove(provider)
    )
    for place in removed.origins:
        print(f"Removed the key of {provider} for {place}.")
    if removed.note:
        complain(removed.note)
    return ANSWERED


@keys.command
def rotate_master(*, config: Config = None, data: Data = None) -> int:
    """Make a new master key and encrypt every stored key again with it."""
    forbid_core_dumps()
    # In this process also while a daemon runs: the daemon looks the master key up each time.
    store = open_key_store(data_path(data), load_settings(config).keys, os.environ)
    count, place = store.rotate_master()
    print(f"Encrypted {counted(count, 'key')} again. The master key is {place}.")
    return ANSWERED


def _open(config: Path | None, data: Path) -> FileBackend[KeyBook]:
    forbid_core_dumps()
    daemon = serving_daemon(config, data)
    return FileBackend(daemon, lambda: KeyBook(data, load_settings(config), os.environ))


def _line(row: KeyRow) -> str:
    """Return the row as a line of JSON, with its time in ISO 8601."""
    fields = msgspec.structs.asdict(row)
    stored_at_ms, used = fields.pop("created_at_ms"), fields.pop("is_used")
    created = None if stored_at_ms is None else _when(stored_at_ms).isoformat(timespec="seconds")
    return json_line({**fields, "created": created, "used": used})


def _when(stored_at_ms: int) -> datetime:
    return datetime.fromtimestamp(stored_at_ms / 1000, UTC)


def asked_secret(question: str) -> Secret:
    """Read a key from the terminal, unseen, or from stdin; raise `ValidationError` when it can't be one."""
    if os.isatty(0):
        try:
            typed = getpass.getpass(question)
        except EOFError:
            typed = ""
    else:
        data = sys.stdin.buffer.read(MAX_KEY_LENGTH + 1) if sys.stdin is not None else b""
        typed = data.decode("ascii", "replace")
    key = typed.strip()
    if not key:
        raise ValidationError("No key was given, and nothing was stored.")
    secret = Secret(key)
    redactor.add(secret)
    if key[0] == key[-1] and key[0] in "\"'":
        redactor.add(Secret(key[1:-1]))
        raise ValidationError("The key is in quotes: give it without them. Nothing was stored.")
    if not is_key(key):
        raise ValidationError(
            "That is not a key: it is too long, or has a line break or another character that no key "
            "has. Nothing was stored."
        )
    return secret


def _cells(row: KeyRow) -> tuple[str, ...]:
    source = "stored" if row.variable is None else f"environment variable {row.variable}"
    created = "-" if row.created_at_ms is None else f"{_when(row.created_at_ms):%Y-%m-%d}"
    is_clear = row.origin.startswith("http://") and not may_carry_key(row.origin)
    note = "  (not sent: http)" if is_clear else "" if row.is_used else "  (not used)"
    provider, place = safe_line(row.provider), safe_line(row.origin)
    return provider, place, safe_line(row.name), source, f"{created}{note}"
