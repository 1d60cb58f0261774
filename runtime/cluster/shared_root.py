"""Shared roots: one file system on all nodes that have them, which is looked at rather than believed.

A shared root has the folder `.callboard`, with a marker that its first node writes once. The database has the same mark. A node
whose folder has another one, or none, has another file system there. No session works in the root itself or in that
folder, where the file versions of its sessions lie too, so that an undo works on whichever node owns the session.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from ..disk.private_folder import make_folders, sync_path
from ..errors import ConflictError, StorageError
from ..text import UNDECODABLE
from .roots import NamedRoot

OWN_FOLDER = ".callboard"
"""In a shared root: callboard's own, closed to sessions."""
MARKER = "root.json"


DATABASE = "database.json"
"""Beside the marker: which database's nodes have the root."""


class RootForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """What all nodes that have a root agree on; empty for one that each has for itself.

    Attributes:
        mark: What the marker of a shared root says.
        path: Where it is, the same on all nodes: marks of untrusted content, and remembered answers, name paths.
    """

    mark: str = ""
    path: str = ""


class RootDatabase(msgspec.Struct, frozen=True):
    """Whose a shared root is.

    Attributes:
        database: What the database says of itself, which it keeps wherever it is moved.
        address: Where it was when the root became its own; for people.
    """

    database: str
    address: str


_DATABASE: msgspec.json.Decoder[RootDatabase] = msgspec.json.Decoder(RootDatabase)
_FORM: msgspec.json.Decoder[RootForm] = msgspec.json.Decoder(RootForm)
_Written = TypeVar("_Written", RootForm, RootDatabase)


def form_of(root: NamedRoot) -> tuple[RootForm, bool]:
    """Return the form of a root here, and whether its marker was written just now. Blocks on the disk.

    Raises:
        StorageError: The marker can't be read or written.
    """
    if not root.is_shared:
        return RootForm(), False
    known, is_new = _written_once(root, MARKER, RootForm(uuid.uuid4().hex), _FORM)
    return RootForm(known.mark, root.path), is_new


def check_database(root: NamedRoot, database: str, address: str) -> None:
    """Raise `ConflictError` where a shared root is another database's; one that is nobody's becomes this one's. Blocks.

    Raises:
        StorageError: What says so can't be read or written.
    """
    own = RootDatabase(database, address)
    known, _ = _written_once(root, DATABASE, own, _DATABASE)
    if known.database != database:
        file = Path(root.path) / OWN_FOLDER / DATABASE
        raise ConflictError(
            f"[roots] {root.name} = {root.path}: this shared root is in use by another database ({known.address}), and this "
            f"node's is {address}. Sessions of the two would not see each other's locks and file versions. Name another root "
            f"here. If that database is no longer in use, and this one has its place, remove {file}, and start again.",
            kind="root",
        )


def _written_once(
    root: NamedRoot, name: str, content: _Written, decoder: msgspec.json.Decoder[_Written]
) -> tuple[_Written, bool]:
    """Return what a file of callboard's folder says, and whether that is the content, written just now."""
    file = Path(root.path) / OWN_FOLDER / name
    is_new = False
    try:
        if not file.exists():
            make_folders(file.parent)
            new = file.with_name(f"{name}.{uuid.uuid4().hex}")
            new.touch(0o600)
            new.write_bytes(msgspec.json.encode(content))
            sync_path(new)
            with suppress(FileExistsError):  # another node may be first
                os.link(new, file)
                is_new = True
            new.unlink()
            sync_path(file.parent)
        return decoder.decode(file.read_bytes()), is_new
    except OSError as error:
        raise StorageError(
            f"{file}, the marker of the shared root {root.name}, can't be read or written: {error}. All nodes need to "
            "write there, as one user."
        ) from error
    except UNDECODABLE as error:
        raise StorageError(
            f"{file}, the marker of the shared root {root.name}, is damaged: put a copy of it back."
        ) from error


def take_back(root: NamedRoot) -> None:
    """Remove a marker that was written just now, where the root turned out to be another one. Blocks."""
    (Path(root.path) / OWN_FOLDER / MARKER).unlink(missing_ok=True)


def check_form(root: NamedRoot, own: RootForm, known: RootForm) -> None:
    """Raise `ConflictError` where a root is not what the other nodes that have it agree on."""
    if own == known:
        return
    where = f"[roots] {root.name} = {root.path}"
    if not known.mark:
        why = "it is shared here, and not on the other nodes that are up: say shared = true on all of them, or on none"
    elif not own.mark:
        why = "it is shared on the other nodes that are up: say shared = true here too, or name another root"
    elif own.mark != known.mark:
        why = (
            "it is not the file system that the other nodes have there: its marker "
            f"({OWN_FOLDER}/{MARKER}) is another one. Mount theirs there, or name another root"
        )
    else:
        why = f"other nodes have it at {known.path}: a shared root has one path on all nodes; mount it there"
    raise ConflictError(f"{where}: {why}.", kind="root")


def read_form(text: str) -> RootForm:
    """Return a form as the database has it; one that can't be read is none that a root may have."""
    try:
        return _FORM.decode(text)
    except UNDECODABLE:
        return RootForm("?", "?")


def is_closed(root: NamedRoot, folder: str) -> bool:
    """Whether a folder is closed to sessions: callboard's own in a shared root, and whatever holds that."""
    own = f"{root.path}/{OWN_FOLDER}"
    return root.is_shared and (own.startswith(f"{folder}/") or f"{folder}/".startswith(f"{own}/"))
