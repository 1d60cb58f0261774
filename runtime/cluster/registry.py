"""The cluster's tables: which nodes there are, until when they may act, and who owns which session.

All that decides between nodes is in these statements, and each is one transaction. A lease is counted on the
database's clock alone. **The fence is the moment that counts**: whoever finds a lease lapsed makes the node
`fenced`, and waits with that for a commit of the node that is under way. Before it, the node's commits are
taken; behind it, none is. A lease that lapsed without a fence can be renewed: nobody took anything.

A session is owned together with those above and below it (its *tree*), which store inputs and answers in one
another: they move as one. Who takes a tree locks the row of its topmost session first.

The statements are common SQL, and `ClusterSql` holds what differs: so the simulation runs them on a
database of its own, with a clock of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import starmap
from typing import Any, Protocol

import msgspec

from ..errors import ConflictError
from .lease import LEASE_SECONDS, RENEW_SECONDS
from .nodes import HELD, HeldPaths, Joining, Node, Owner, Renewal, Term
from .placement import slot_of
from .roots import EVERYBODYS, own_root, root_of_place

MAX_CLAIM = 64
"""Sessions in one claim: each is recovered then, some tens of milliseconds of work, and others may help meanwhile."""

NODES, GRANTS, TOKENS = "nodes", "grants", "tokens"
ALL = frozenset({NODES, GRANTS, TOKENS})
"""What the database tells all nodes of when it has changed: nodes, what people allowed to be remembered, tokens."""

LEASE_MS = int(LEASE_SECONDS * 1000)
UP = "state in ('live', 'draining')"
"""Of a row of nodes: its term goes on."""
LATE_MS = int((LEASE_SECONDS - 2 * RENEW_SECONDS) * 1000)
"""With less than this left of its lease, a node has missed a renewal."""
MAX_AHEAD_MS = 60_000
"""What a node has settled further ahead than this, by the database's clock, it settled by a clock that was wrong."""
_KEPT_MS = 7 * 24 * 3600 * 1000
"""How long a node that is gone stays listed."""

_NODE = (
    "node_id, term, state, url, version, capacity, roots, started_at_ms, lease_until_ms, changed"
)
OWN_NEW = "insert into owners values (?, ?, ?, ?, ?, ?) on conflict do nothing"
OWN_CHILD = (
    "insert into owners select ?, tree, ?, ?, slot, root from owners where session_id = ?"
    " on conflict do nothing"
)
IS_GONE = (
    f"not exists (select 1 from nodes n where n.node_id = o.node_id and n.term = o.term and n.{UP})"
)
"""Of a row `o` of owners: its owner's life has ended, or it has let go of the session (term 0)."""
_IS_BUSY = (
    "s.is_detached = 1"
    " or exists (select 1 from inputs i where i.session = s.id)"
    " or exists (select 1 from turns t where t.session = s.id and t.ended_at_ms is null)"
    " or exists (select 1 from approvals a where a.session = s.id and a.state = 'waiting')"
)
"""Of a row `s` of sessions: something of it waits or runs. The others can wait until somebody asks.

A detached session is one only until its parent has its answer on record. A question that waits behind the end
of its turn is a deferred one: its node expires it, or answers it by a grant.
"""

_ROOTS = (
    "with recursive named (root) as (select (select min(root) from owners where root <> '') union all"
    " select (select min(o.root) from owners o where o.root <> '' and o.root > named.root) from named"
    " where named.root is not null) select root from named where root is not null"
)
"""The roots of sessions, each by one step in the index `owners_by_root`: sessions are many, and roots few."""


class ClusterSql(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between databases.

    Attributes:
        now: The database's clock in Unix milliseconds, read each time and not once in a transaction.
        is_settled: Whether the database has been up for as long as a lease: when it was started just now, or a
            standby has taken over, it may have forgotten renewals that it has granted.
        timeline: Which life of its record the database is in: another one begins where a standby takes over.
        shared: Keeps a row of nodes from being fenced until the transaction ends; the lease may be renewed meanwhile.
        excluding: Locks a row of nodes, and waits for whoever holds it by `shared`.
        end_stopped: Ends what the node which is the next value has left in the middle of a commit when it was stopped there.
        skip_locked: Locks the rows of `o` that nobody else holds.
        locked: Locks the rows of `o`, and waits for whoever holds them.
        one_of: Whether a column is in the list that is the next value, as a condition.
        tell: Tells all nodes that one has changed, once the transaction has ended.
    """

    now: str
    is_settled: str
    shared: str
    skip_locked: str
    one_of: str
    timeline: str = "1"
    tell: str = ""
    locked: str = ""
    excluding: str = ""
    end_stopped: str = ""

    def listed(self, column: str) -> str:
        """Return the condition that a column is in the list which is the next value."""
        return self.one_of.format(column=column)


class Database(Protocol):
    """A connection that runs one statement after another; it raises `StorageError` when it can't."""

    sql: ClusterSql
    name: str
    """For people, without secrets."""

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement with `?` for its values, and return its rows."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Return a block whose statements are one transaction; an exception takes them back."""
        ...

    def list_value(self, values: Collection[object]) -> object:
        """Return a list as `ClusterSql.one_of` takes it."""
        ...


class Registry:
    """The statements about nodes and owners, over one connection. Nothing here keeps state."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = database.sql
        self._rows = database.rows

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def join(self, node: Joining, key: str) -> Term:
        """Begin the next life of a node, with a lease; raise `ConflictError` while one of its name lives.

        Args:
            node: What it says of itself.
            key: By which the others know it in this life; see `tickets`.
        """
        with self._database.transaction():
            forgotten = self._rows(
                "delete from nodes where state in ('fenced', 'ended')"
                f" and lease_until_ms < {self._sql.now} - ? and node_id <> ? returning node_id",
                (_KEPT_MS, node.node_id),
            )
            for each in forgotten:
                self._rows("delete from node_keys where node_id = ?", tuple(each))
            values = (
                node.url,
                node.version,
                node.capacity,
                msgspec.json.encode(node.roots).decode(),
            )
            has_lapsed = f"lease_until_ms <= {self._sql.now} and {self._sql.is_settled}"
            self._end_stopped(node.node_id)
            self._wait_for_commits(f"node_id = ? and {UP} and {has_lapsed}", (node.node_id,))
            found = self._rows(
                f"insert into nodes ({_NODE})"
                f" values (?, 1, 'live', ?, ?, ?, ?, {self._sql.now}, {self._sql.now} + ?, 0)"
                " on conflict (node_id) do update set term = nodes.term + 1, state = 'live',"
                " url = excluded.url, version = excluded.version, capacity = excluded.capacity,"
                " roots = excluded.roots, started_at_ms = excluded.started_at_ms,"
                " lease_until_ms = excluded.lease_until_ms"
                " where nodes.state in ('fenced', 'ended')"
                f" or (nodes.{has_lapsed})"
                " returning term",
                (node.node_id, *values, LEASE_MS),
            )
            if not found:
                ((url,),) = self._rows("select url from nodes where node_id = ?", (node.node_id,))
                raise ConflictError(
                    f"A node named {node.node_id} is in this cluster already, at {url}. Give this one a "
                    "name of its own: [cluster] node in callboard.toml, or --node."
                )
            self._rows(
                "insert into node_keys values (?, ?, ?) on conflict (node_id) do update"
                " set term = excluded.term, key = excluded.key",
                (node.node_id, found[0][0], key),
            )
            self._tell_change(node.node_id)
        return Term(node.node_id, found[0][0])

    def node_key(self, life: Term) -> str | None:
        """Return the key of a life whose lease goes on; `None` for any other."""
        found = self._rows(
            "select k.key from node_keys k join nodes n on n.node_id = k.node_id and n.term = k.term"
            f" where k.node_id = ? and k.term = ? and n.{UP} and n.lease_until_ms > {self._sql.now}",
            tuple(life),
        )
        return found[0][0] if found else None

    def renew(self, life: Term) -> Renewal:
        """Lengthen the lease of a node that nobody has fenced; say whose run out."""
        held = self._rows(
            f"update nodes set lease_until_ms = {self._sql.now} + ?"
            f" where node_id = ? and term = ? and {UP} returning 1",
            (LEASE_MS, *life),
        )
        seen = self._rows(
            f"select c.generation, {self._sql.timeline}, c.timeline, n.node_id, n.term,"
            f" n.lease_until_ms - {self._sql.now} from cluster c"
            f" left join nodes n on n.{UP} and n.lease_until_ms <= {self._sql.now} + ?",
            (LATE_MS,),
        )
        generation, timeline, noted = seen[0][:3]
        if timeline != noted:
            self._rows(
                f"update cluster set timeline = ?, timeline_since_ms = {self._sql.now} where timeline <> ?",
                (timeline, timeline),
            )
        lapsing = tuple((Term(name, term), left) for *_, name, term, left in seen if name)
        return Renewal(bool(held), generation, lapsing, timeline)

    def epoch(self) -> str:
        """Return the epoch of the record: another one is in force where the record has lost something."""
        ((epoch,),) = self._rows("select value from meta where key = 'epoch'")
        return str(epoch)

    def nodes(self, *, after: int = 0) -> list[Node]:
        """Return the nodes that were changed after a generation."""
        found = self._rows(
            f"select {_NODE} from nodes where changed > ? order by node_id", (after,)
        )
        return [_node(row) for row in found]

    def seen(self) -> list[tuple[Node, int]]:
        """Return all nodes, each with the milliseconds that are left of its lease by the database's clock."""
        sql = f"select {self._sql.now}"
        now_ms: int = self._rows(sql)[0][0]
        return [(node, node.lease_until_ms - now_ms) for node in self.nodes()]

    def fence(self, life: Term) -> bool:
        """End a life whose lease has run out, for good; return whether this has done it.

        It waits for a commit of that node that is under way.
        """
        has_lapsed = f"lease_until_ms <= {self._sql.now} and {self._sql.is_settled}"
        where = f"{UP} and {has_lapsed} and node_id = ? and term = ?"
        self._end_stopped(life.node_id)
        return self._change("state = 'fenced'", where, tuple(life), ends=True)

    def drain(self, node_id: str) -> bool:
        """Have a node give its sessions away; return whether one of this name is live."""
        return self._change("state = 'draining'", "state = 'live' and node_id = ?", (node_id,))

    def leave(self, life: Term) -> None:
        """End a life in order: what it still owns may be claimed at once."""
        what = f"state = 'ended', lease_until_ms = {self._sql.now}"
        self._change(what, f"{UP} and node_id = ? and term = ?", tuple(life), ends=True)

    def _end_stopped(self, node_id: str) -> None:
        """End a commit of a node whose lease has run out, if it was stopped in the middle of it."""
        if self._sql.end_stopped:
            sql = (
                f"{self._sql.end_stopped} and exists (select 1 from nodes where node_id = ? and {UP}"
                f" and lease_until_ms <= {self._sql.now})"
            )
            self._rows(sql, (node_id, node_id))

    def _wait_for_commits(self, where: str, values: tuple[object, ...]) -> None:
        """Wait for commits of nodes that are under way, and keep others from beginning until the transaction ends.

        An update of the row alone would not: it is told apart from a renewal, which waits for no commit.
        """
        if self._sql.excluding:
            self._rows(f"select 1 from nodes where {where} {self._sql.excluding}", values)

    def _change(
        self, what: str, where: str, values: tuple[object, ...], *, ends: bool = False
    ) -> bool:
        """Change a node, and tell all; where that `ends` its life, behind its commits."""
        with self._database.transaction():
            if ends:
                self._wait_for_commits(where, values)
            sql = f"update nodes set {what} where {where} returning node_id"
            found = self._rows(sql, values)
            for (node_id,) in found:
                self._tell_change(node_id)
        return bool(found)

    def tell(self, life: Term) -> None:
        """Have all nodes look for sessions that are their share, once the transaction has ended."""
        self._tell_change(life.node_id)

    def _tell_change(self, node_id: str) -> None:
        # Last in its transaction: the row is locked until that ends, so that generations become visible
        # in their order, and nobody waits for it for long.
        ((generation,),) = self._rows(
            "insert into cluster (id, generation, timeline, timeline_since_ms)"
            f" values (1, 1, {self._sql.timeline}, 0)"
            " on conflict (id) do update set generation = cluster.generation + 1 returning generation"
        )
        self._rows("update nodes set changed = ? where node_id = ?", (generation, node_id))
        if self._sql.tell:
            self._rows(self._sql.tell)

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def holds(self, life: Term) -> bool:
        """Whether a node may write now; in a transaction, nobody can fence it before that ends."""
        sql = (
            f"select 1 from nodes where node_id = ? and term = ? and {UP}"
            f" and lease_until_ms > {self._sql.now} {self._sql.shared}"
        )
        return bool(self._rows(sql, tuple(life)))

    def owned(self, life: Term, session_ids: Iterable[str]) -> set[str]:
        """Return which of these sessions a life owns."""
        sql = f"select session_id from owners where {self._sql.listed('session_id')}"
        values = (self._database.list_value(list(session_ids)), *life)
        return {name for (name,) in self._rows(f"{sql} and node_id = ? and term = ?", values)}

    def own_new(self, life: Term, session_id: str, parent_id: str | None, root: str = "") -> None:
        """Make a life the owner of a session that its transaction creates.

        One with a parent gets the parent's tree and root.
        """
        if parent_id:
            self._rows(OWN_CHILD, (session_id, *life, parent_id))
        else:
            self._rows(OWN_NEW, (session_id, session_id, *life, slot_of(session_id), root))

    def claim(
        self, life: Term, gone: Collection[str], slots: Collection[int], roots: Collection[str]
    ) -> list[str]:
        """Take over busy trees of nodes that are gone; fewer sessions than `MAX_CLAIM` are all that there were.

        Args:
            life: Whose they become, if it may own any.
            gone: Names of the nodes.
            slots: The share of this node.
            roots: The roots of the sessions.
        """
        listed = self._sql.listed
        with self._database.transaction():
            if not self.holds(life):
                return []
            found = self._rows(
                "select o.tree from owners b join sessions s on s.session_id = b.session_id"
                " join owners o on o.session_id = b.tree"
                f" where {listed('b.slot')} and {listed('b.node_id')} and {listed('b.root')}"
                f" and ({_IS_BUSY}) and {IS_GONE} limit ? {self._sql.skip_locked}",
                (*(self._database.list_value(each) for each in (slots, gone, roots)), MAX_CLAIM),
            )
            return self._take(life, {tree for (tree,) in found}, roots)

    def _take(self, life: Term, trees: Collection[str], roots: Collection[str]) -> list[str]:
        """Make a life the owner of trees that nobody has; return their sessions.

        The row of each tree's own session is locked by now, and by it the tree: whoever waited for it, or found it as it was
        before, looks here whether it is still nobody's. A statement that waits does not look at other tables again.
        """
        if not trees:
            return []
        listed = self._sql.listed
        found = self._rows(
            f"update owners as o set node_id = ?, term = ? where {listed('o.tree')} and {listed('o.root')}"
            f" and {IS_GONE} returning session_id",
            (*life, self._database.list_value(trees), self._database.list_value(roots)),
        )
        return [session_id for (session_id,) in found]

    def claim_one(
        self,
        life: Term,
        session_id: str,
        roots: Collection[str] = (EVERYBODYS,),
        is_left: Callable[[Owner], bool] = lambda owner: False,
    ) -> tuple[Owner | None, list[str]]:
        """Take a session whose owner is gone, with its tree, if it is of one of these roots.

        One that `is_left` to another node is not taken. Return who owns it now, `None` if there is no such session; and
        all that was taken just now.
        """
        claimed: list[str] = []
        with self._database.transaction():
            if self.holds(life):
                owner = self.owner(session_id)
                if owner is None:
                    self._own_unknown(session_id)
                    owner = self.owner(session_id)
                if owner is None or not owner.is_gone or is_left(owner):
                    return owner, claimed
                found = self._rows(
                    "select o.tree from owners o where o.session_id = (select tree from owners"
                    f" where session_id = ?) {self._sql.locked}",
                    (session_id,),
                )
                claimed = self._take(life, [tree for (tree,) in found], roots)
            return self.owner(session_id), claimed

    def _own_unknown(self, session_id: str) -> None:
        """List a tree of sessions that came into the store without an owner, as owned by nobody."""
        above = self._rows(
            "with recursive up (name, above, depth) as ("
            "select session_id, parent_id, 0 from sessions where session_id = ? union all"
            " select s.session_id, s.parent_id, depth + 1 from sessions s join up on s.session_id = up.above)"
            " select name, workspace from up join sessions on session_id = name order by depth desc limit 1",
            (session_id,),
        )
        for tree, place in above:
            self._rows(
                "insert into owners with recursive down (name) as ("
                "select session_id from sessions where session_id = ? union all"
                " select s.session_id from sessions s join down on s.parent_id = down.name)"
                " select name, ?, '', 0, ?, ? from down where true on conflict do nothing",
                (tree, tree, slot_of(tree), root_of_place(place)),
            )

    def owner(self, session_id: str) -> Owner | None:
        """Return who owns a session."""
        found = self._rows(
            "select o.node_id, o.term, coalesce(n.url, ''), o.root,"
            f" coalesce(n.lease_until_ms - {self._sql.now}, 0),"
            f" coalesce(n.term = o.term and n.state = 'draining', false), {IS_GONE} from owners o"
            " left join nodes n on n.node_id = o.node_id where o.session_id = ?",
            (session_id,),
        )
        return Owner(Term(*found[0][:2]), *found[0][2:]) if found else None

    def placed(self, session_id: str) -> tuple[str, str] | None:
        """Return the place of a session on record, and its root; `None` without an owner."""
        found = self._rows(
            "select s.workspace, o.root from sessions s join owners o on o.session_id = s.session_id"
            " where s.session_id = ?",
            (session_id,),
        )
        return (found[0][0], found[0][1]) if found else None

    def waiting_counts(self) -> dict[str, int]:
        """Return how many sessions have an owner that is gone, of each root that no live node has.

        Those of everybody's are left out.
        """
        live = self._rows("select node_id, roots from nodes where state = 'live'")
        had = {own_root(node_id) for node_id, _ in live}
        had.update(*(msgspec.json.decode(roots) for _, roots in live))
        counts: dict[str, int] = {}
        for (root,) in self._rows(_ROOTS):
            if root not in had:
                sql = (
                    f"select count(*) from owners o where o.root = ? and o.root <> '' and {IS_GONE}"
                )
                ((count,),) = self._rows(sql, (root,))
                counts.update({root: count} if count else {})
        return counts

    def agree(self, life: Term, name: str, form: str) -> str:
        """Have a root be of a form on all nodes, if nodes that are up do not hold it to another; return which it is."""
        key = f"root {name}"
        with self._database.transaction():
            self._rows("insert into meta values (?, ?) on conflict do nothing", (key, form))
            ((known,),) = self._rows("select value from meta where key = ?", (key,))
            if known == form:
                return form
            others = self._rows(f"select roots from nodes where {UP} and node_id <> ?", life[:1])
            if any(name in msgspec.json.decode(roots) for (roots,) in others):
                return str(known)
            self._rows("update meta set value = ? where key = ?", (form, key))
        return form

    def database_id(self) -> str:
        """Return by what this database is known, which it keeps wherever it is moved."""
        new = uuid.uuid4().hex
        self._rows("insert into meta values ('database', ?) on conflict do nothing", (new,))
        ((known,),) = self._rows("select value from meta where key = 'database'")
        return str(known)

    def let_go(self, life: Term, session_ids: Iterable[str]) -> None:
        """Give sessions up that their owner has stopped: whose share they are may claim them."""
        with self._database.transaction():
            listed = self._sql.listed("session_id")
            values = (self._database.list_value(list(session_ids)), *life)
            self._rows(
                f"update owners set term = 0 where {listed} and node_id = ? and term = ?", values
            )
            self._tell_change(life.node_id)

    # ── paths in shared roots ────────────────────────────────────────────────────────────────────

    def take_paths(self, life: Term, place: str, holder: str, paths: Sequence[str]) -> bool:
        """Hold paths of a workspace for one call; return whether nobody of another life holds one that overlaps.

        What a life holds that is over counts for nothing.
        """
        with self._database.transaction():
            if not self.holds(life):
                return False
            held = self._held(place)
            own = [each for each in held if each.holder == holder]
            if any(each.life != life and each.meets(paths) for each in held):
                return False
            if not own:
                self._keep_held(place, [*held, HeldPaths(*life, holder, tuple(paths))])
        return True

    def give_paths_back(self, life: Term, place: str, holder: str) -> bool:
        """Hold the paths of a call no more; `True`, also where none were held."""
        with self._database.transaction():
            held = self._held(place)
            self._keep_held(place, [each for each in held if each.holder != holder])
        return True

    def _held(self, place: str) -> list[HeldPaths]:
        """Return what is held in a place, and lock that until the transaction ends."""
        key = f"held {place}"
        sql = "insert into meta values (?, '[]') on conflict (key) do update set value = meta.value returning value"
        ((text,),) = self._rows(
            sql, (key,)
        )  # in one statement: who gives the last back removes the row
        held = HELD.decode(text)
        if not held:
            return held
        up = set(starmap(Term, self._rows(f"select node_id, term from nodes where {UP}")))
        return [each for each in held if each.life in up]

    def _keep_held(self, place: str, held: Sequence[HeldPaths]) -> None:
        key = f"held {place}"
        if held:
            text = msgspec.json.encode(held).decode()
            self._rows("update meta set value = ? where key = ?", (text, key))
        else:
            self._rows("delete from meta where key = ?", (key,))

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────

    def tokens(self) -> dict[str, str]:
        """Return the credentials of the cluster as JSON, by the digest of the token; a revoked one is empty."""
        return dict(self._rows("select digest, credential from tokens"))

    def change_tokens(self, new: Mapping[str, str], revoked: Collection[str]) -> None:
        """Add credentials, unless they were revoked once, and revoke others."""
        with self._database.transaction():
            for digest, credential in sorted(new.items()):
                sql = "insert into tokens values (?, ?) on conflict do nothing"
                self._rows(sql, (digest, credential))
            if revoked:
                listed = self._sql.listed("digest")
                values = (self._database.list_value(list(revoked)),)
                self._rows(f"update tokens set credential = '' where {listed}", values)

    # ── schedules ────────────────────────────────────────────────────────────────────────────────

    def settled(self) -> dict[str, str]:
        """Return what is settled of each schedule, as the node that settled it wrote that."""
        sql = f"select name, entry from schedule_times where until_ms <= {self._sql.now} + ?"
        return dict(self._rows(f"{sql} order by until_ms desc", (MAX_AHEAD_MS,)))

    def settle(self, entries: Collection[tuple[str, int, str]]) -> None:
        """Write what is settled of schedules; what is settled up to a later time stays, if that is not in the future.

        Args:
            entries: For each its name, up to when it is settled in Unix milliseconds, and all that is to be kept.
        """
        with self._database.transaction():
            for entry in sorted(entries):
                self._rows(
                    "insert into schedule_times values (?, ?, ?) on conflict (name) do update"
                    " set until_ms = excluded.until_ms, entry = excluded.entry"
                    " where excluded.until_ms >= schedule_times.until_ms"
                    f" or schedule_times.until_ms > {self._sql.now} + ?",
                    (*entry, MAX_AHEAD_MS),
                )

    def counts(self) -> dict[str, int]:
        """Return how many sessions each node owns in its present life."""
        sql = "select o.node_id, count(*) from owners o join nodes n on n.node_id = o.node_id and n.term = o.term"
        return dict(self._rows(f"{sql} group by o.node_id"))


def _node(row: tuple[Any, ...]) -> Node:
    node_id, term, state, url, version, capacity, roots, started, until, changed = row
    return Node(
        node_id=node_id,
        term=term,
        state=state,
        url=url,
        version=version,
        capacity=capacity,
        roots=tuple(msgspec.json.decode(roots)),
        started_at_ms=started,
        lease_until_ms=until,
        changed=changed,
    )
