"""Shared roots: one file system on all nodes that have them, which is looked at rather than believed.

A shared root has the folder `.callboard`, with a marker that its first node writes once. The database has the same mark. A node
whose folder has another one, or none, has another file system there. No session works in the root itself or in that
folder, where the file versions of its sessions lie too, so that an undo works on whichever node owns the session.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import msgspec

from ..disk.private_folder import make_folders, sync_path
from ..errors import ConflictError, StorageError
from ..text import UNDECODABLE
from .roots import NamedRoot

OWN_FOLDER = ".callboard"
"""In a shared root: callboard's own, closed to sessions."""
MARKER = "root.json"


class RootForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """What all nodes that have a root agree on; empty for one that each has for itself.

    Attributes:
        mark: What the marker of a shared root says.
        path: Where it is, the same on all nodes: marks of untrusted content, and remembered answers, name paths.
    """

    mark: str = ""
    path: str = ""


_FORM: msgspec.json.Decoder[RootForm] = msgspec.json.Decoder(RootForm)


def form_of(root: NamedRoot) -> tuple[RootForm, bool]:
    """Return the form of a root here, and whether its marker was written just now. Blocks on the disk.

    Raises:
        StorageError: The marker can't be read or written.
    """
    if not root.is_shared:
        return RootForm(), False
    file = Path(root.path) / OWN_FOLDER / MARKER
    try:
        if not file.exists():
            make_folders(file.parent)
            new = file.with_name(f"{MARKER}.{uuid.uuid4().hex}")
            new.touch(0o600)
            new.write_bytes(msgspec.json.encode(RootForm(uuid.uuid4().hex)))
            sync_path(new)
            try:
                os.link(new, file)  # another node may be first
                is_new = True
            except FileExistsError:
                is_new = False
            new.unlink()
            sync_path(file.parent)
        else:
            is_new = False
        mark = _FORM.decode(file.read_bytes()).mark
    except OSError as error:
        raise StorageError(
            f"{file}, the marker of the shared root {root.name}, can't be read or written: {error}. All nodes need to "
            "write there, as one user."
        ) from error
    except UNDECODABLE as error:
        raise StorageError(
            f"{file}, the marker of the shared root {root.name}, is damaged: put a copy of it back."
        ) from error
    return RootForm(mark, root.path), is_new


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
