"""A node of a cluster, as tasks around the decisions of `runtime.cluster.membership`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import trio

from ...runtime.cluster.diagnosis import cluster_rows, node_rows, problems_of
from ...runtime.cluster.fence import NodeFence
from ...runtime.cluster.lease import LEASE_SECONDS, QUIET_SECONDS
from ...runtime.cluster.membership import Claims, Members, Membership
from ...runtime.cluster.nodes import Joining, Owner, Term, elsewhere
from ...runtime.cluster.placement import rank
from ...runtime.cluster.registry import GRANTS, LATE_MS, NODES, TOKENS, Database, Registry
from ...runtime.cluster.roots import NamedRoots, missing_root, root_of_place
from ...runtime.cluster.shared_root import OWN_FOLDER, is_closed
from ...runtime.cluster.tickets import Tickets
from ...runtime.errors import (
    AuthError,
    CallboardError,
    ConflictError,
    NodeFenced,
    NotFoundError,
    RecordLost,
    StorageError,
    ValidationError,
)
from ...runtime.redaction import Secret, redacting_logger, redactor
from ...runtime.store.interface import Store
from ...runtime.wire.daemon import ClusterNodeRow, ClusterState
from .root_keeper import RootKeeper
from .shared_locks import LOST_PLACE, SharedLocks

logger = redacting_logger(__name__)

AGAIN_SECONDS = 0.1
"""Between two attempts to reach a database that does not answer."""
JOIN_SECONDS = LEASE_SECONDS + 1.0
"""A node that was killed has its name back when the lease of its last life has run out."""

STATE_SECONDS = 2.0
"""Who asks for the state of the cluster gets what was known before, when the database takes longer than that."""
LEAVE_SECONDS = 5.0
"""Who asks for a session of a node that is ending waits so long for its end, which takes a second or two."""

_Result = TypeVar("_Result")


class WaitingDatabase(Database, Protocol):
    """What a node's own connection can do beside statements."""

    def notified(self, seconds: float) -> frozenset[str]:
        """Wait until the database says that something has changed; return what, and nothing if nothing did in time."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def since_boot() -> float:
    """Return seconds that go on while the machine is suspended: a lease runs out then, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ClusterNode:
    """This node's term, its lease, and the sessions that it owns.

    Args:
        beats: A connection that waits for nothing but renewals and notices.
        claims: Another one.
        paths: A third one, for what calls hold in shared roots: whoever waits there holds up nobody else.
        joining: What the node says of itself.
        open_store: Opens the store, with a fence in each commit; it may keep something in a folder.
        clock: Counts the lease, in seconds.
        roots: The named roots of the node.

    Attributes:
        roots: The named roots of the node.
        locks: What its calls hold in shared roots.
        take_over: Recovers sessions that this node has claimed, as after a crash, and notes them by `own`.
        tokens_changed: Set when another node may have changed the tokens; who acts on it puts a new one there.
        members_changed: Set when nodes have come, gone or changed; who acts on it puts a new one there.
        reload_grants: Reads what people allowed to be remembered, once another node may have changed that.
        placed: Called with a session that is loaded, and the folder that it works in.
        renewed: Called when the lease ends later than before.
        lost: Called when the lease ends without word from the database: what acts must stop.
        away_since: The wall clock's time in seconds since when the database does not answer; `None` while it does.
        away_changed: Set when that has changed; who waits for it puts a new one there.
        is_draining: Set when this node is to give its sessions away.
    """

    def __init__(
        self,
        beats: WaitingDatabase,
        claims: WaitingDatabase,
        paths: WaitingDatabase,
        joining: Joining,
        open_store: Callable[[NodeFence, Path | None], Awaitable[Store]],
        *,
        clock: Callable[[], float] = since_boot,
        roots: NamedRoots | None = None,
    ) -> None:
        self.roots = roots or NamedRoots(joining.node_id)
        self._clock = clock
        self._membership = Membership(Registry(beats), joining, clock)
        self._registry = Registry(claims)
        self._claims = Claims(self._registry, joining.node_id)
        self._databases = beats, claims, paths
        self._owned: set[str] = set()
        self._open_store = open_store
        self._fence = NodeFence(
            joining.node_id,
            lambda: self.life,
            self._owned.add,
            self._owned.discard,
            beats.sql,
            self.roots,
        )
        self._changed = trio.Event()
        self._grants_changed = trio.Event()
        self._known = self.members
        self._store: Store | None = None
        self._beats = Registry(beats)
        self._record_changed = trio.Event()
        self._record: tuple[int, str] | None = None  # the timeline and epoch of this life
        self._one = trio.CapacityLimiter(1)
        self._claiming = trio.Lock()
        self._unrecovered: list[str] = []  # by a failure, which is tried again
        self._tickets = Tickets()
        self._waiting = trio.CapacityLimiter(1)
        self.locks = SharedLocks(Registry(paths), self.roots, lambda: self.life, self._wait)
        self._keeper = RootKeeper(
            claims, joining.node_id, self.roots, lambda: self.life, self._look
        )
        self._beating = trio.CapacityLimiter(1)
        self.node_id = joining.node_id
        self.take_over: Callable[[Sequence[str]], Awaitable[None]] = _nobody
        self.tokens_changed = trio.Event()
        self.members_changed = trio.Event()
        self.reload_grants: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        self.placed: Callable[[str, str], None] = lambda session_id, folder: None
        self.renewed: Callable[[], None] = _nothing
        self.lost: Callable[[], None] = _nothing
        self.away_since: float | None = None
        self.away_changed = trio.Event()
        self.is_draining = trio.Event()

    async def open_store(self, folder: Path | None) -> Store:
        """Open the store that this node shares with others; nothing can be written there before it has joined."""
        self._store = store = await self._open_store(self._fence, folder)
        store.owned = self.owns
        return store

    # ── what the runtime asks ────────────────────────────────────────────────────────────────────

    @property
    def life(self) -> Term | None:
        """The present term; `None` before the node has joined and after it was fenced."""
        return self._membership.life

    @property
    def members(self) -> Members:
        """The nodes, as of the latest word."""
        return self._membership.members

    @property
    def problem(self) -> str:
        """Why nothing new begins here, for people; empty while the database answers."""
        if self.away_since is None:
            return ""
        seconds = time.time() - self.away_since
        return (
            f"the database of the cluster has not answered node {self.node_id} for {seconds:.0f} s: sessions stand "
            "still, and go on when it does"
        )

    def owns(self, session_id: str) -> bool:
        """Whether this node runs the session."""
        return session_id in self._owned

    def own(self, session_id: str) -> None:
        """Note a session that this node has just made."""
        self._owned.add(session_id)

    def may_begin(self) -> bool:
        """Whether an effect may begin: the lease has time left, by this node's own count."""
        return self._membership.lease.stand(self._clock()) == "held"

    def acts_until(self) -> float:
        """Return when what acts here must have ended, by the clock of this node's lease."""
        return self._membership.lease.until

    @property
    def own_folders(self) -> dict[str, Path]:
        """For each shared root, callboard's own folder in it."""
        return {
            each.path: Path(each.path) / OWN_FOLDER for each in self.roots.all if each.is_shared
        }

    async def claim(self, session_id: str) -> None:
        """Make this node the owner, if there is none, and recover the session; see `Owners.claim`."""
        owner = await self.other_owner(session_id, LEAVE_SECONDS)
        if owner is not None:
            raise elsewhere(session_id, owner)

    async def other_owner(
        self, session_id: str, patience: float = 0.0, *, passes_on: bool = False
    ) -> Owner | None:
        """Return which other node owns a session; `None` once it is this node's, which claims it if nobody has it.

        One that `is_gone` owns nothing: it is the node that is to claim the session, which this one may not, for it
        lacks the session's root, or leaves to it.

        Args:
            session_id: The session.
            patience: How long to wait for the end of an owner that is ending, in seconds.
            passes_on: Whether a session that nobody has may be left to a node of greater capacity, whose share it is.

        Raises:
            NotFoundError: There is no such session.
            NodeFenced: This node owns nothing any more.
            ConflictError: Its owner is gone, and no node that is up has its root.
        """
        life = self.life
        if life is None:
            raise NodeFenced(LOST_PLACE)
        began = trio.current_time()
        while True:
            members = self.members if passes_on else Members()
            is_left = partial(self._is_left, members, session_id)
            async with self._claiming:  # whoever has claimed it before recovers it first
                if session_id in self._owned:
                    return None
                owner, claimed = await self._in_thread(
                    partial(self._registry.claim_one, life, session_id, self.roots.owned, is_left),
                    self._one,
                )
                if owner is None:
                    raise NotFoundError(f"There is no session {session_id}.")
                if owner.life == life:
                    # It is on record as this node's, and yet nothing has recovered it here.
                    await self._take_over([*claimed, *({session_id} - {*claimed})])
                    self._owned.add(session_id)
                    return None
            if owner.is_gone and (claimant := self._claimant(members, session_id, owner)):
                return claimant
            # An owner that does not renew is gone, and the session this node's within a moment; so it is of one that ends.
            is_late = owner.is_gone or owner.left_ms <= LATE_MS
            waits = LEASE_SECONDS if is_late else patience if owner.is_leaving else 0.0
            if trio.current_time() >= began + waits:
                if owner.is_gone:  # it could have been claimed, unless this node's lease has ended
                    raise NodeFenced(LOST_PLACE)
                return owner
            await trio.sleep(AGAIN_SECONDS)

    def _is_left(self, members: Members, session_id: str, owner: Owner) -> bool:
        """Whether a session that nobody has is left to a node of greater capacity."""
        return members.larger(self.node_id, owner.root, session_id) is not None

    def _claimant(self, members: Members, session_id: str, owner: Owner) -> Owner | None:
        """Return which other node is to claim a session; raise `ConflictError` if this one may not, and there is none."""
        if owner.root in self.roots.owned:
            chosen = members.larger(self.node_id, owner.root, session_id)
            if chosen is None:
                return None
        elif (chosen := self.members.chosen(owner.root, session_id)) is None:
            raise ConflictError(f"Session {session_id} {missing_root(owner.root)}.", kind="root")
        return msgspec.structs.replace(owner, life=chosen.life, url=chosen.url)

    def place_of(self, folder: str) -> str:
        """Return what is on record for a folder of this node, as other nodes read it; see `Owners`."""
        for root in self.roots.all:
            if is_closed(root, folder):
                raise ValidationError(
                    f"{folder} is closed to sessions: callboard keeps the file versions of the shared root {root.name} in "
                    f"{root.path}/{OWN_FOLDER}. Choose another folder below {root.path}.",
                    field="workspace",
                )
        return self.roots.place_of(folder)

    async def folder_of(self, session_id: str, place: str) -> str:
        """Return the folder of a session's place on record; raise `CallboardError` if none may work there."""
        if place.startswith("/") and self.roots.names:
            place = await self._in_thread(
                partial(self._keeper.place_on_record, session_id, place), self._one
            )
        if place.startswith("/"):  # outside of all named roots
            await trio.lowlevel.checkpoint()
            folder = self.place_of(place)
        else:
            folder = await trio.to_thread.run_sync(self.roots.checked_folder, place)
            self.place_of(folder)
        self.placed(session_id, folder)
        return folder

    def is_confined(self, folder: str) -> bool:
        """Whether a folder of this node is in a named root; see `Owners`."""
        return bool(root_of_place(self.roots.place_of(folder)))

    # ── other nodes ──────────────────────────────────────────────────────────────────────────────

    def is_up(self, life: Term) -> bool:
        """Whether a life of another node goes on, as far as this one has heard."""
        known = self.members.nodes.get(life.node_id)
        if known is None or known.term < life.term:
            return True  # it has joined just now
        return known.term == life.term and known.state in ("live", "draining")

    def ticket_for(self, life: Term) -> Secret:
        """Return what this node shows another one, once; raise `NodeFenced` without a place in the cluster."""
        if (own := self.life) is None:
            raise NodeFenced(LOST_PLACE)
        return self._tickets.new(own, life, self._membership.key)

    def is_answer(self, ticket: Secret, proof: str) -> bool:
        """Whether a node that was shown a ticket has answered as only one of this cluster can."""
        return self._tickets.is_proof(ticket, proof, self._membership.key)

    async def admit(self, ticket: str) -> tuple[Term, str]:
        """Return which node shows a ticket, and what proves to it that this one is of the cluster.

        Raises:
            AuthError: It is no ticket of a node that is up, or not for this one, or was shown before.
            StorageError: The database does not answer.
        """
        sender = self._tickets.sender(ticket)
        key = None
        if sender is not None and self.life is not None:
            key = await self._in_thread(partial(self._registry.node_key, sender), self._one)
        proof = None
        if key is not None and self.life is not None:
            proof = self._tickets.accept(ticket, self.life, Secret(key))
        if sender is None or proof is None:
            raise AuthError("this is not the ticket of a node of this cluster")
        return sender, proof

    async def settled_times(self) -> dict[str, str]:
        """Return what all nodes have settled of each schedule."""
        return await self._in_thread(self._registry.settled, self._one)

    async def settle_times(self, entries: Collection[tuple[str, int, str]]) -> None:
        """Tell all nodes what is settled of schedules; see `Registry.settle`."""
        await self._in_thread(partial(self._registry.settle, entries), self._one)

    async def tokens(self) -> dict[str, str]:
        """Return the credentials of the cluster; see `Registry.tokens`."""
        return await self._in_thread(self._registry.tokens, self._one)

    async def change_tokens(self, new: Mapping[str, str], revoked: Collection[str]) -> None:
        """Add credentials for all nodes, and revoke others; see `Registry.change_tokens`."""
        await self._in_thread(partial(self._registry.change_tokens, new, revoked), self._one)

    async def state(self) -> ClusterState:
        """Return the cluster as this node sees it: of the database, or of what it said last while that is away."""
        rows: tuple[ClusterNodeRow, ...] = ()
        waiting: dict[str, int] = {}
        if self.away_since is None:
            # Abandoned, the thread keeps its place at the connection until the statements have ended.
            with trio.move_on_after(STATE_SECONDS), suppress(StorageError):
                rows, waiting = await trio.to_thread.run_sync(
                    self._rows, limiter=self._one, abandon_on_cancel=True
                )
        away = self.away_since
        return ClusterState(
            node=self.node_id,
            is_held=self.may_begin(),
            nodes=rows or node_rows([(each, None) for each in self.members.nodes.values()], {}),
            problems=problems_of(rows, waiting),
            waiting=waiting,
            away_since_ms=None if away is None else int(away * 1000),
        )

    def _rows(self) -> tuple[tuple[ClusterNodeRow, ...], dict[str, int]]:
        return cluster_rows(self._registry)

    def place_for(self, key: str) -> int:
        """Return how many live nodes come before this one for what one of them is to do."""
        return rank(self.node_id, key, self.members.live.keys())

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────

    async def join(self) -> None:
        """Begin a life; wait for the end of an earlier one of this name.

        Raises:
            ConflictError: Another node of this name lives, or a root is not what it is on other nodes.
            StorageError: The database can't be used, or the marker of a shared root.
        """
        deadline = trio.current_time() + JOIN_SECONDS
        while True:
            try:
                life = await self._in_thread(self._membership.join, self._beating)
            except (ConflictError, StorageError):  # a database that starts is there in a moment
                if trio.current_time() > deadline:
                    raise
                await trio.sleep(AGAIN_SECONDS)
            else:
                redactor.add(self._membership.key)
                logger.info("node %s joined, term %d", *life)
                break
        if self.roots.names:
            try:
                await self._in_thread(partial(self._keeper.agree, life), self._one)
            except CallboardError:
                await self.leave()  # noqa: ASYNC120  a cancel ends it as well
                raise

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Renew the lease, and claim what is this node's share, until cancelled.

        Raises:
            NodeFenced: Others have the sessions, or the record lacks what was acknowledged (`RecordLost`). Whatever
                this process does for them must end.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_lease, name="watch the lease")
            nursery.start_soon(self._claim_shares, name="claim sessions")
            nursery.start_soon(self._follow_grants, name="follow grants")
            nursery.start_soon(self._follow_record, name="follow the record")
            if self.roots.names:
                nursery.start_soon(self._keeper.serve, name="adopt sessions")
                nursery.start_soon(self.locks.serve, name="give paths back")
            task_status.started()
            await self._renew()

    async def begin_leaving(self) -> None:
        """Tell the other nodes that this one gives its sessions away soon; bounded by the database's answer."""
        try:
            await self._in_thread(partial(self._registry.drain, self.node_id), self._one)
        except StorageError as error:
            logger.error("the other nodes are not told that this one is ending: %s", error)

    async def leave(self) -> None:
        """End the life in order, so that others claim at once what it owned; bounded by the database's answer."""
        try:
            await self._in_thread(self._membership.leave, self._beating)
        except StorageError as error:
            logger.error(
                "the other nodes learn of this one's end when its lease runs out: %s", error
            )

    def close(self) -> None:
        """Close the connections; nothing uses them any more."""
        for database in self._databases:
            database.close()

    async def _renew(self) -> None:
        while True:
            try:
                goes_on = await self._in_thread(self._membership.beat, self._beating)
                if not goes_on:
                    raise NodeFenced(
                        f"node {self.node_id} was away for longer than its lease of {LEASE_SECONDS:g} s, and "
                        "others have taken its sessions; it comes back with its next term"
                    )
                self.renewed()
                self._heard()
                if self._record is None or self._record[0] != self._membership.timeline:
                    self._record_changed.set()
                changed = await self._in_thread(
                    partial(self._databases[0].notified, self._membership.pause), self._beating
                )
                if GRANTS in changed:
                    self._grants_changed.set()
                if TOKENS in changed:
                    self.tokens_changed.set()
                if NODES in changed:
                    await self._in_thread(self._membership.look, self._beating)
                    self._heard()
                    self._record_changed.set()
            except StorageError as error:
                if isinstance(error, NodeFenced):
                    raise
                if self.away_since is None:
                    self.away_since = time.time()
                    self.away_changed.set()
                    logger.error("the database of the cluster does not answer: %s", error)
                await trio.sleep(AGAIN_SECONDS)

    def _heard(self) -> None:
        if self.away_since is not None:
            logger.warning(
                "the database answers again, after %.1f s", time.time() - self.away_since
            )
            self.away_since = None
            self.away_changed.set()
        own = self.members.nodes.get(self.node_id)
        if own is not None and own.state == "draining":
            self.is_draining.set()
        if self._claims.are_due(self.members):
            self._changed.set()
        if self.members is not self._known:
            self._known = self.members
            self.members_changed.set()
            self._keeper.nodes_changed()

    async def _watch_lease(self) -> None:
        """Say when the lease has run out, each time that it does."""
        lease = self._membership.lease
        while True:
            await trio.sleep(max(lease.until - self._clock(), 0))
            if lease.until > self._clock():
                continue  # it was renewed meanwhile
            self.lost()
            while lease.until <= self._clock():  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
                await trio.sleep(QUIET_SECONDS / 3)

    async def _follow_grants(self) -> None:
        while True:
            await self._grants_changed.wait()
            self._grants_changed = trio.Event()
            try:
                await self.reload_grants()
            except CallboardError as error:
                logger.error("grants that other nodes changed are not known yet: %s", error)
                await trio.sleep(AGAIN_SECONDS)
                self._grants_changed.set()

    async def _follow_record(self) -> None:
        """Look whether the record is still the same, where a standby has taken over and where a node says that it is not."""
        while True:
            await self._record_changed.wait()
            self._record_changed = trio.Event()
            timeline = self._membership.timeline
            try:
                if self._record is not None and self._record[0] != timeline:
                    assert self._store is not None, "a node opens its store before it joins"
                    await self._store.check_record()
                epoch = await self._in_thread(self._beats.epoch, self._beating)
            except RecordLost:
                raise
            except StorageError as error:
                logger.error("whether the record is whole is not known yet: %s", error)
                await trio.sleep(AGAIN_SECONDS)
                self._record_changed.set()
                continue
            if self._record is not None and self._record[1] != epoch:
                raise RecordLost(
                    "a standby took over the database without events that another node had put on record: node "
                    f"{self.node_id} begins anew, and its clients are told by another epoch"
                )
            self._record = timeline, epoch

    async def _claim_shares(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            life = self.life
            try:
                while life is not None and (
                    self._unrecovered or self._claims.are_due(self.members)
                ):
                    async with self._claiming:
                        claimed = await self._in_thread(
                            partial(self._claims.next, life, self.members), self._one
                        )
                        await self._take_over(claimed)
            except CallboardError as error:
                logger.error("sessions of other nodes are not claimed yet: %s", error)
                await trio.sleep(AGAIN_SECONDS)
                self._changed.set()

    async def _take_over(self, session_ids: Sequence[str]) -> None:
        """Recover sessions that the database has given to this node; only then they are its own here."""
        taken = [*self._unrecovered, *(set(session_ids) - {*self._unrecovered})]
        if not taken:
            return
        logger.info("%d sessions of nodes that are gone are taken over", len(taken))
        self._unrecovered = taken
        await self.take_over([name for name in taken if name not in self._owned])
        self._unrecovered = []

    async def _look(self, work: Callable[[], bool]) -> bool:
        return await self._in_thread(work, self._one)

    async def _wait(self, work: Callable[[], bool]) -> bool:
        return await self._in_thread(work, self._waiting)

    async def _in_thread(
        self, work: Callable[[], _Result], limiter: trio.CapacityLimiter
    ) -> _Result:
        # Not abandoned: a connection is used by one thread at a time, and each statement is bounded.
        return await trio.to_thread.run_sync(work, limiter=limiter)


async def _nobody(_: Sequence[str]) -> None:
    await trio.lowlevel.checkpoint()


def _nothing() -> None:
    pass
