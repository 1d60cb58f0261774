"""Locks on paths in shared roots: calls of sessions on several nodes that write the same file take turns."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from ...runtime.cluster.nodes import Term
from ...runtime.cluster.registry import Registry
from ...runtime.cluster.roots import NamedRoots
from ...runtime.definitions import Resource
from ...runtime.errors import NodeFenced, StorageError
from ...runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

LOST_PLACE = "this node has lost its place in the cluster, and comes back soon"
LOOK_SECONDS = 0.05
"""Between two attempts to take paths that another node holds, which tells nobody when it gives them back; and between
attempts to give some back."""
MAX_LOOK_SECONDS = 1.0
"""The longest pause between two attempts: a program holds its workspace for minutes, and each attempt is a transaction."""
GIVE_SECONDS = 2.0
"""How long a call's end waits for the database; after that, its paths are given back in the background."""


class SharedLocks:
    """What calls of this node hold in shared roots; rows in the database, which hold as long as the node's term.

    Only calls that write take any: a file is replaced in one step, so that whoever reads it needs none. On one machine,
    `runtime.kernel.locks` decides before that, among the calls of this node.

    Args:
        registry: The statements.
        roots: Of this node.
        life: Returns the node's present term.
        in_thread: Runs a statement.
    """

    def __init__(
        self,
        registry: Registry,
        roots: NamedRoots,
        life: Callable[[], Term | None],
        in_thread: Callable[[Callable[[], bool]], Awaitable[bool]],
    ) -> None:
        self._registry = registry
        self._roots = roots
        self._life = life
        self._in_thread = in_thread
        self._left: list[tuple[Term, str, str]] = []
        self._more = trio.Event()

    @asynccontextmanager
    async def holding(self, folder: str, resources: Sequence[Resource]) -> AsyncGenerator[None]:
        """Hold what of these paths in a workspace is written, against other nodes, while the block runs.

        Raises:
            NodeFenced: This node has no place in the cluster any more.
        """
        place = self._roots.shared_place(folder)
        paths = [each.path for each in resources if each.write]
        if not place or not paths:
            yield
            return
        if (life := self._life()) is None:
            raise NodeFenced(LOST_PLACE)
        holder = uuid.uuid4().hex
        try:
            pause = LOOK_SECONDS
            while not await self._take(life, place, holder, paths):
                await trio.sleep(pause)
                pause = min(pause * 1.5, MAX_LOOK_SECONDS)
            yield
        finally:
            with trio.move_on_after(GIVE_SECONDS, shield=True):
                await self._give_back(life, place, holder)

    async def serve(self) -> None:
        """Give back what could not be given back at once, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            left, self._left = self._left, []
            for each in left:
                await self._give_back(*each)
            await trio.sleep(LOOK_SECONDS)

    async def _take(self, life: Term, place: str, holder: str, paths: list[str]) -> bool:
        try:
            return await self._in_thread(
                lambda: self._registry.take_paths(life, place, holder, paths)
            )
        except StorageError as error:
            if isinstance(error, NodeFenced):
                raise
            return False  # the database is away: the lease ends this wait, or the database answers

    async def _give_back(self, life: Term, place: str, holder: str) -> None:
        is_given = False
        try:
            is_given = await self._in_thread(
                lambda: self._registry.give_paths_back(life, place, holder)
            )
        except StorageError as error:
            logger.error("paths in %s are given back later: %s", place, error)
        finally:
            if not is_given:
                self._left.append((life, place, holder))
                self._more.set()
