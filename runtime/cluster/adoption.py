"""Adoption: sessions that were begun before their root had a name are given that root, and their place in it.

Their rows change, both in one transaction: the root in `owners`, and the folder in `sessions`, which becomes `NAME:PATH`. Events
stay as they were written: the first one of such a session says the absolute path for good, and whoever loads it reads the row
(`Registry.placed`). What is cut off goes on from the beginning: what has its place is not found again.

Only what nobody else uses is adopted: trees whose owner is this node, or gone. A tree of another node that lives works in that
node's folder, which this one does not know. Rows that others hold locked are left for the next round, so that nobody waits
for anybody here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from .nodes import Term
from .registry import IS_GONE, Database, Registry
from .roots import EVERYBODYS, NamedRoot, own_root, root_of_place

MAX_ADOPTED = 500
"""Sessions in one step: some tens of milliseconds, in which nobody claims them and none of them is written to."""


class Adoption:
    """One round through the sessions in the folder of a root. Its methods block on the database.

    Sessions at rest are found by their folder, and those with a turn by their turns: each by an index, a step further each
    time, so that a round reads each session of the folder once.

    Args:
        database: The connection.
        node_id: This node.
        root: The root.
    """

    def __init__(self, database: Database, node_id: str, root: NamedRoot) -> None:
        self._database = database
        self._rows = database.rows
        self._registry = Registry(database)
        self._node_id = node_id
        self._root = root
        self._folder: tuple[str, int] | None = (root.path, -1)
        self._turn = -1
        self.adopted = 0

    def step(self, life: Term) -> bool:
        """Adopt some; return whether there may be more."""
        listed = self._next_at_rest() if self._folder is not None else self._next_with_turns()
        if listed is None:
            return False
        if listed:
            self.adopted += self._adopt(life, listed)
        return True

    def _next_at_rest(self) -> list[str]:
        assert self._folder is not None
        path = self._root.path
        found = self._rows(
            "select session_id, workspace, last_event from sessions where is_active = 0"
            " and (workspace, last_event) > (?, ?) and workspace < ?"
            " and (workspace = ? or workspace >= ?) order by workspace, last_event limit ?",
            (*self._folder, f"{path}0", path, f"{path}/", MAX_ADOPTED),
        )
        self._folder = tuple(found[-1][1:]) if len(found) == MAX_ADOPTED else None
        return [session_id for session_id, *_ in found]

    def _next_with_turns(self) -> list[str] | None:
        path = self._root.path
        found = self._rows(
            "select s.session_id, t.session from turns t join sessions s on s.id = t.session"
            " where t.ended_at_ms is null and t.session > ?"
            " and (s.workspace = ? or s.workspace >= ? and s.workspace < ?) order by t.session limit ?",
            (self._turn, path, f"{path}/", f"{path}0", MAX_ADOPTED),
        )
        if not found:
            return None
        self._turn = found[-1][1]
        return [session_id for session_id, _ in found]

    def _adopt(self, life: Term, session_ids: Collection[str]) -> int:
        """Give these sessions their places where that is this node's to do; return how many it were."""
        listed, as_value = self._database.sql.listed, self._database.list_value
        free = self._database.sql.skip_locked
        with self._database.transaction():
            if not self._registry.holds(life):
                return 0
            path = self._root.path
            found = self._rows(  # without those that another node has given their places meanwhile
                f"select o.session_id from sessions o where {listed('o.session_id')}"
                f" and (o.workspace = ? or o.workspace >= ? and o.workspace < ?) {free}",
                (as_value(session_ids), path, f"{path}/", f"{path}0"),
            )
            held = {session_id for (session_id,) in found}
            sql = f"select session_id, tree from owners where {listed('session_id')}"
            trees = dict(self._rows(sql, (as_value(held),)))
            ours, gone = self._give_root({*trees.values()})
            placed = [each for each in held if trees.get(each) in ours or each not in trees]
            if not placed:
                return 0
            # The name and a colon, and what stands behind the folder and its slash.
            self._rows(
                "update sessions set workspace = ? || substr(workspace, cast(? as integer))"
                f" where {listed('session_id')}",
                (f"{self._root.name}:", len(self._root.path) + 2, as_value(placed)),
            )
            if gone:  # they may be another node's share now
                self._registry.tell(life)
        return len(placed)

    def _give_root(self, trees: Collection[str]) -> tuple[set[str], bool]:
        """Give trees the root; return which have it, and whether one was given it whose owner is gone."""
        listed, as_value = self._database.sql.listed, self._database.list_value
        sql = (
            f"select o.tree from owners o where {listed('o.tree')} {self._database.sql.skip_locked}"
        )
        held = Counter(tree for (tree,) in self._rows(sql, (as_value(trees),)))
        sql = f"select tree, count(*) from owners where {listed('tree')} group by tree"
        whole = [
            tree
            for tree, count in self._rows(sql, (as_value(trees),))
            if held[tree] == count  # nobody claims any of it meanwhile
        ]
        found = self._rows(
            f"select o.tree, o.root, o.node_id, {IS_GONE}, s.workspace from owners o"
            f" join sessions s on s.session_id = o.session_id where {listed('o.tree')} and o.session_id = o.tree",
            (as_value(whole),),
        )
        new = [row for row in found if self._is_ours(row)]
        if new:
            self._rows(
                f"update owners set root = ? where {listed('tree')}",
                (self._root.name, as_value([tree for tree, *_ in new])),
            )
        # Those that an earlier release gave the root have it, and not their place.
        having = {tree for tree, root, *_ in found if root == self._root.name}
        return having | {tree for tree, *_ in new}, any(is_gone for *_, is_gone, _ in new)

    def _is_ours(self, row: tuple[Any, ...]) -> bool:
        """Whether a tree is to have the root."""
        _, root, owner, is_gone, place = row
        is_here = place == self._root.path or place.startswith(f"{self._root.path}/")
        return (
            root in {EVERYBODYS, own_root(self._node_id)}
            and (is_gone or owner == self._node_id)
            and (is_here or root_of_place(place) == self._root.name)
        )
