"""The fence in each commit: whether this node may write, and to which sessions, in the transaction that writes.

Where nothing is wrong, these are statements whose results nobody waits for: they fail in the database where the node
was fenced, or does not own a session. Then the commit is made again, and here it is looked at what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ..errors import ConflictError
from ..events import SessionCreated
from ..store.tables.connection import SqlConnection
from .nodes import Term
from .placement import slot_of
from .registry import LEASE_MS, OWN_CHILD, OWN_NEW, UP, ClusterSql
from .roots import NamedRoots


class NodeFence:
    """Checks the commits of one node.

    Args:
        node_id: The node.
        life: Returns the node's present term.
        own: Is told of each session that a commit of this node makes.
        disown: Is told of those among them that turned out to be another node's.
        sql: The words of the database.
        roots: Of the node: it makes no session of another one.
    """

    def __init__(
        self,
        node_id: str,
        life: Callable[[], Term | None],
        own: Callable[[str], None],
        disown: Callable[[str], None],
        sql: ClusterSql,
        roots: NamedRoots | None = None,
    ) -> None:
        self.node_id = node_id
        self._life = life
        self._own = own
        self._disown = disown
        self._roots = roots or NamedRoots("")
        is_mine = f"node_id = ? and term = ? and {UP}"
        held = f"select 1 from nodes where {is_mine} and lease_until_ms > {sql.now} {sql.shared}"
        owned = "from owners where session_id in (select value from json_each(?)) and node_id = ? and term = ?"
        self._held = held
        self._owned = f"select session_id {owned}"
        self._expects_held = f"select as_expected((select count(*) from ({held}) held), 1)"
        self._expects_owned = f"select as_expected((select count(*) {owned}), ?)"
        listed = "o.session_id in (select value from json_each(?))"
        self._lock = (
            f"select o.session_id from owners o where {listed} order by o.session_id {sql.locked}"
        )
        self._others = (
            f"select o.session_id from owners o join nodes n on n.node_id = o.node_id and n.term = o.term"
            f" where {listed} and n.{UP} and not (o.node_id = ? and o.term = ?)"
        )
        self._renew = (
            f"update nodes set lease_until_ms = {sql.now} + {LEASE_MS} where {is_mine} returning 1"
        )

    def check(
        self,
        connection: SqlConnection,
        session_ids: Sequence[str],
        created: Mapping[str, SessionCreated],
        *,
        expects: bool,
    ) -> Mapping[str, ConflictError]:
        """Run the first statements of a commit; return the sessions whose appends are refused, and why.

        Args:
            connection: Inside the transaction.
            session_ids: The sessions that the commit writes to.
            created: Those that it makes, each with its first event.
            expects: See the module.
        """
        life = self._life()
        if life is None:
            self._forget(created)
            return dict.fromkeys(session_ids, _fenced())
        listed = msgspec.json.encode(session_ids).decode()
        if expects:
            connection.execute(self._expects_held, tuple(life))
            self._own_new(connection, life, created)
            connection.execute(self._expects_owned, (listed, *life, len(session_ids)))
            return {}
        if not self._holds(connection, life):
            self._forget(created)
            return dict.fromkeys(session_ids, _fenced())
        self._own_new(connection, life, created)
        owned = {name for (name,) in connection.execute(self._owned, (listed, *life)).fetchall()}
        self._forget(created.keys() - owned)
        return {name: _not_owned(name) for name in session_ids if name not in owned}

    def check_purge(
        self, connection: SqlConnection, session_ids: Sequence[str]
    ) -> ConflictError | None:
        """Return why sessions may not be removed in this transaction: a node that lives owns one of them."""
        life = self._life()
        if life is None or not self._holds(connection, life):
            return _fenced()
        listed = msgspec.json.encode(session_ids).decode()
        connection.execute(self._lock, (listed,)).fetchall()  # nobody claims them meanwhile
        found = connection.execute(self._others, (listed, *life)).fetchone()
        return None if found is None else _not_owned(found[0], "removed")

    def _holds(self, connection: SqlConnection, life: Term) -> bool:
        """Whether the node may write until the transaction ends.

        A lease that ran out, and that nobody has fenced, is renewed: here, since a commit that waited for the
        database comes before the next renewal.
        """
        return (
            connection.execute(self._held, tuple(life)).fetchone() is not None
            or connection.execute(self._renew, tuple(life)).fetchone() is not None
        )

    def _forget(self, session_ids: Iterable[str]) -> None:
        for session_id in session_ids:
            self._disown(session_id)

    def _own_new(
        self, connection: SqlConnection, life: Term, created: Mapping[str, SessionCreated]
    ) -> None:
        for session_id, event in created.items():
            if event.parent_id:
                connection.execute(OWN_CHILD, (session_id, *life, event.parent_id))
            else:
                root = self._roots.root_of(event.workspace)
                if root not in self._roots.owned:
                    continue  # not this node's, as the next statement finds
                values = (session_id, session_id, *life, slot_of(session_id), root)
                connection.execute(OWN_NEW, values)
            self._own(session_id)


def _fenced() -> ConflictError:
    return ConflictError(
        "Nothing was stored: this node was away for longer than its lease, and others may have its sessions.",
        kind="owner",
    )


def _not_owned(session_id: str, done: str = "stored") -> ConflictError:
    return ConflictError(
        f"Nothing was {done}: session {session_id} belongs to another node.", kind="owner"
    )
