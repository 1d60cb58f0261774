"""The named roots of a node: folders below which the sessions of a cluster work.

A root has one name on all nodes that have it, and a folder of its own on each. On record a session of a root works in
`NAME:PATH`, its *place*, which each of those nodes reads as a folder below its own. A place that is an absolute path is outside
of all named roots, and is of use where its folder is: on the node that began the session.

A node that names no root is in a cluster of the old form, whose nodes have all folders alike: its sessions are
everybody's. They have the root `""`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

import msgspec

from ..errors import ConflictError
from ..redaction import redacting_logger
from ..text import UNDECODABLE

logger = redacting_logger(__name__)

FILE_NAME = "callboard.roots"
"""In the data folder of a node with named roots: where each is."""
_KEPT: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])

EVERYBODYS = ""
"""The root of sessions that each node may own."""
_OWN = "@"


class NamedRoot(msgspec.Struct, frozen=True):
    """A root: its name, its folder here as a real path, and whether that is one file system on all nodes."""

    name: str
    path: str
    is_shared: bool = False


def own_root(node_id: str) -> str:
    """Return the root of what is outside of all named ones, and so of use on this node alone."""
    return f"{_OWN}{node_id}"


def node_of_root(root: str) -> str:
    """Return which node alone has a root; empty for a named one, and for everybody's."""
    return root[1:] if root.startswith(_OWN) else ""


def is_named(root: str) -> bool:
    """Whether a root has a name of its own: not everybody's, nor what one node alone has."""
    return bool(root) and not root.startswith(_OWN)


def root_of_place(place: str) -> str:
    """Return the root of a place on record; empty for an absolute path."""
    name, colon, _ = place.partition(":")
    return name if colon and not place.startswith("/") else ""


def waits_for(root: str) -> str:
    """Say in a few words for what a session waits: the rest of `SESSION …`."""
    if node := node_of_root(root):
        return f"waits for node {node}"
    return f"waits for a node with the root {root}"


def missing_root(root: str) -> str:
    """Say why a session waits, and what to do; the rest of a sentence that names it."""
    if node := node_of_root(root):
        return (
            f"waits for node {node} (waiting_for_node): it works in a folder outside of all named roots, which only that "
            f"node has. Start node {node}: the session then goes on by itself"
        )
    return (
        f"waits for a node that has the root {root} (waiting_for_node): none that is up has it. Start one with "
        f"`callboard serve --root {root}=FOLDER`, or name the root in [roots] of its callboard.toml: the session "
        "then goes on by itself"
    )


class NamedRoots:
    """The roots of one node, and what becomes of the folders of sessions there.

    Args:
        node_id: The node.
        roots: Its roots; none lies in another.
    """

    def __init__(self, node_id: str, roots: Sequence[NamedRoot] = ()) -> None:
        self._node_id = node_id
        self._roots = {root.name: root for root in roots}

    @property
    def all(self) -> tuple[NamedRoot, ...]:
        """The roots."""
        return tuple(self._roots.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the roots."""
        return tuple(self._roots)

    @property
    def owned(self) -> tuple[str, ...]:
        """The roots of the sessions that this node may own."""
        return (EVERYBODYS, own_root(self._node_id), *self._roots)

    def root_of(self, place: str) -> str:
        """Return the root of a session that begins here in a place."""
        outside = own_root(self._node_id) if self._roots else EVERYBODYS
        return root_of_place(place) or outside

    def place_of(self, folder: str) -> str:
        """Return what is on record for a folder of this node; the folder itself outside of all roots."""
        for root in self._roots.values():
            if folder == root.path:
                return f"{root.name}:"
            if folder.startswith(f"{root.path}/"):
                return f"{root.name}:{folder[len(root.path) + 1 :]}"
        return folder

    def folder_of(self, place: str) -> str:
        """Return the folder of a place on this node; the place itself where this node does not have its root.

        Only names are looked at: links are what `checked_folder` looks for.
        """
        root = self._roots.get(root_of_place(place))
        if root is None:
            return place
        below = place.partition(":")[2]
        if below.startswith("/") or ".." in below.split("/") or "\0" in below:
            return place
        return os.path.join(root.path, below) if below else root.path

    def shared_place(self, folder: str) -> str:
        """Return the place of a folder in a shared root; empty for any other folder."""
        place = self.place_of(folder)
        root = self._roots.get(root_of_place(place))
        return place if root is not None and root.is_shared else ""

    def checked_folder(self, place: str) -> str:
        """Return the folder of a place on this node; blocks on the disk.

        Raises:
            ConflictError: It is not below its root here, by the name or because a link leads out of it.
        """
        folder = self.folder_of(place)
        name = root_of_place(place)
        if not name:
            return folder
        real = os.path.realpath(folder)
        root = self._roots.get(name)
        if root is None or folder == place or root_of_place(self.place_of(real)) != name:
            raise ConflictError(
                f"the session works in {place!r}, and that is no folder of the root {name} on node {self._node_id}: "
                "a link leads out of it, or the path does. Have the folder lie below the root.",
                kind="root",
            )
        return real


def keep_roots(folder: Path, roots: NamedRoots) -> None:
    """Note the roots of a node in its data folder, for commands that read the record by themselves. Blocks.

    A failure is logged: then they show places.
    """
    file = folder / FILE_NAME
    kept = {root.name: root.path for root in roots.all}
    try:
        if not kept:
            file.unlink(missing_ok=True)
        elif roots_in(folder).all != tuple(starmap(NamedRoot, kept.items())):
            new = folder / f"{FILE_NAME}.new"
            new.touch(0o600)
            new.write_bytes(msgspec.json.encode(kept))
            os.replace(new, file)
    except OSError as error:
        logger.error("%s: commands don't know the roots of this node: %s", file, error)


def roots_in(folder: Path) -> NamedRoots:
    """Return the roots of the node of a data folder, as its last start noted them; none where that can't be read."""
    try:
        kept = _KEPT.decode((folder / FILE_NAME).read_bytes())
    except (OSError, *UNDECODABLE):
        return NamedRoots("")
    return NamedRoots("", list(starmap(NamedRoot, kept.items())))


def checked_in(data: Path, workspace: str) -> tuple[str, bool]:
    """Return a session's folder as the node of a data folder has its calls work there, and whether it is in a root.

    Blocks on the disk.

    Raises:
        ConflictError: A link leads out of its root.
    """
    roots = roots_in(data)
    place = roots.place_of(workspace)
    is_in_root = bool(root_of_place(place))
    return (roots.checked_folder(place) if is_in_root else workspace), is_in_root
