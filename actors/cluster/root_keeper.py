"""What a node does for its named roots: it agrees with the other nodes on them, and has old sessions belong to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import trio

from ...runtime.cluster.adoption import Adoption
from ...runtime.cluster.nodes import Term
from ...runtime.cluster.registry import Database, Registry
from ...runtime.cluster.roots import NamedRoots, is_named, root_of_place
from ...runtime.cluster.shared_root import (
    check_database,
    check_form,
    form_of,
    read_form,
    take_back,
)
from ...runtime.errors import ConflictError, StorageError
from ...runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

ADOPT_AGAIN_SECONDS = 1.0
"""Behind a failure of the database; until then, sessions work where they did."""


class RootKeeper:
    """The named roots of a node, as far as the database has something about them.

    Args:
        database: A connection.
        node_id: The node.
        roots: Its roots.
        life: Returns the node's present term.
        in_thread: Runs what blocks on the connection.
    """

    def __init__(
        self,
        database: Database,
        node_id: str,
        roots: NamedRoots,
        life: Callable[[], Term | None],
        in_thread: Callable[[Callable[[], bool]], Awaitable[bool]],
    ) -> None:
        self._database = database
        self._registry = Registry(database)
        self._node_id = node_id
        self._roots = roots
        self._life = life
        self._in_thread = in_thread
        self._nodes_changed = trio.Event()
        self._nodes_changed.set()

    def agree(self, life: Term) -> None:
        """Look whether the roots are what they are on other nodes. Blocks on the database and the disk.

        Raises:
            ConflictError: One is not, or a shared one is another database's.
            StorageError: A marker can't be read or written, or the database does not answer.
        """
        for root in self._roots.all:
            own, is_new = form_of(root)
            known = self._registry.agree(life, root.name, msgspec.json.encode(own).decode())
            try:
                check_form(root, own, read_form(known))
            except ConflictError:
                if is_new:
                    take_back(root)
                raise
            if root.is_shared:
                check_database(root, self._registry.database_id(), self._database.name)

    def place_on_record(self, session_id: str, place: str) -> str:
        """Return the place of a session, of which an event may say a folder of the time before its root had a name.

        Blocks on the database.

        Raises:
            ConflictError: It has a root, and not yet a place in it.
            StorageError: The database does not answer.
        """
        found = self._registry.placed(session_id)
        if found is None:
            return place
        here, root = self._roots.place_of(found[0]), found[1]
        if is_named(root) and root_of_place(here) != root:
            if root_of_place(found[0]):
                return found[0]  # the node lacks the root, or has it elsewhere; others say so
            raise ConflictError(
                f"session {session_id} is one of the root {root}, and works in {found[0]!r}, which is not below that root on "
                f"node {self._node_id}: an earlier release gave it the root and left it its folder. Start a node whose root "
                f"{root} holds that folder: it gives the session its place in the root, and all nodes with the root find it.",
                kind="root",
            )
        return here

    def nodes_changed(self) -> None:
        """Have sessions adopted of nodes that are gone now."""
        self._nodes_changed.set()

    async def serve(self) -> None:
        """Have sessions of the time before there were roots belong to those that their folders lie in, until cancelled."""
        while True:
            await self._nodes_changed.wait()
            self._nodes_changed = trio.Event()
            for root in self._roots.all:
                adoption = Adoption(self._database, self._node_id, root)
                try:
                    while (life := self._life()) is not None and await self._in_thread(
                        partial(adoption.step, life)
                    ):
                        pass
                except StorageError as error:
                    logger.error("sessions in %s do not belong to a root yet: %s", root.path, error)
                    await trio.sleep(ADOPT_AGAIN_SECONDS)
                    self._nodes_changed.set()
                if adoption.adopted:
                    logger.info("%d sessions belong to root %s now", adoption.adopted, root.name)
