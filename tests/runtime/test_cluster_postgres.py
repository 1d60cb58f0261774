"""The statements of nodes on PostgreSQL itself, whose clock runs: what locks, clocks and connections add."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Thread
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from itertools import starmap

from callboard.runtime.cluster.adoption import Adoption
from callboard.runtime.cluster.membership import Claims, Membership
from callboard.runtime.cluster.nodes import Joining, Term
from callboard.runtime.cluster.placement import SLOTS
from callboard.runtime.cluster.postgres import PostgresDatabase
from callboard.runtime.cluster.registry import Registry
from callboard.runtime.cluster.roots import NamedRoot
from callboard.runtime.errors import ConflictError, StorageError
from callboard.runtime.store.postgres.address import address_of
from callboard.runtime.store.postgres.connection import connect
from callboard.runtime.store.postgres.schema import NODE_LOCKS
from support.cluster.nodes import wait_until
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres

WAIT_SECONDS = 30.0
TREES = 600 if os.environ.get("CALLBOARD_SOAK") else 150


class Peer:
    """A node with a connection of its own."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.database = PostgresDatabase(address_of(url))
        self.registry = Registry(self.database)
        joining = Joining(node_id=name, url=f"http://{name}", version="1")
        self.membership = Membership(self.registry, joining, time.monotonic)
        self.life = self.membership.join()
        self.claims = Claims(self.registry, name)

    def let_last(self, life: Term) -> None:
        """Have a lease that ends in no test, however slow the machine is."""
        self.database.rows(
            "update nodes set lease_until_ms = lease_until_ms + 600000 where node_id = ?",
            (life.node_id,),
        )

    def let_lapse(self, life: Term) -> None:
        """End a lease without waiting for it."""
        self.database.rows("update nodes set lease_until_ms = 0 where node_id = ?", (life.node_id,))

    def make_busy(self, session_id: str, parent_id: str | None = None) -> None:
        self.database.rows(
            "insert into sessions (session_id, title, agent, kind, workspace, message_count,"
            " last_message_preview, is_active, head_seq, last_event, created_at_ms, updated_at_ms)"
            " values (?, '', '', '', '', 0, '', 0, 1, 0, 0, 0)",
            (session_id,),
        )
        self.database.rows(
            "insert into inputs (session, input_id, source)"
            " select id, 'input', 'person' from sessions where session_id = ?",
            (session_id,),
        )
        self.registry.own_new(self.life, session_id, parent_id)


@pytest.fixture
def peers() -> Generator[tuple[Peer, Peer, Peer]]:
    needs_postgres()
    with new_database() as url:
        made = Peer(url, "a"), Peer(url, "b"), Peer(url, "c")
        # A server of tests has just been started, and fences nobody for as long as a lease.
        while not made[0].database.rows(f"select {made[0].database.sql.is_settled}")[0][0]:
            time.sleep(0.1)
        yield made
        for peer in made:
            peer.database.close()


def test_a_session_goes_from_a_fenced_node_to_one_other(peers: tuple[Peer, Peer, Peer]) -> None:
    a, b, c = peers
    sessions = [f"session_{number}" for number in range(40)]
    for session_id in sessions:
        a.make_busy(session_id)
    a.let_lapse(a.life)
    assert b.membership.beat()
    assert c.membership.beat()
    assert b.membership.members.nodes["a"].state == "fenced"
    by_b = b.claims.next(b.life, b.membership.members)
    by_c = c.claims.next(c.life, c.membership.members)
    assert sorted([*by_b, *by_c]) == sorted(sessions)
    assert by_b
    assert by_c
    assert not a.registry.holds(a.life)
    assert not a.membership.beat()
    assert a.membership.join() == Term("a", 2)
    assert b.registry.counts() == {"b": len(by_b), "c": len(by_c)}


@contextmanager
def long_commit(peer: Peer) -> Generator[None]:
    """A transaction as a commit is whose statements take long, and which is never idle."""
    peer.database.rows("set idle_in_transaction_session_timeout = 0")
    with peer.database.transaction():
        yield


def test_a_fence_waits_for_a_commit_that_is_under_way(peers: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = peers
    a.make_busy("s")
    with long_commit(a):
        assert a.registry.holds(a.life)
        while a.database.rows("select 1 from nodes where node_id = 'a' and lease_until_ms > "
                              f"{a.database.sql.now}"):  # fmt: skip
            a.database.rows("select pg_sleep(0.1)")
        with pytest.raises(StorageError, match="took too long"):
            b.registry.fence(a.life)
    assert b.registry.fence(a.life)
    with a.database.transaction():
        assert not a.registry.holds(a.life)


def test_a_long_commit_does_not_keep_its_node_from_renewing(peers: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = peers
    with long_commit(a):
        assert a.registry.holds(a.life)
        b.let_lapse(a.life)
        with pytest.raises(StorageError, match="took too long"):
            b.registry.fence(a.life)  # the commit is waited for
        assert b.registry.renew(a.life).is_held  # by another connection of the node
        assert not b.registry.fence(a.life)  # nothing to wait for: the lease is held
    assert a.registry.holds(a.life)


def test_a_name_is_taken_again_behind_a_commit_of_its_last_life(
    peers: tuple[Peer, Peer, Peer],
) -> None:
    a, b, _ = peers
    joining = Joining(node_id="a", url="http://a", version="1")
    with long_commit(a):
        assert a.registry.holds(a.life)
        b.let_lapse(a.life)
        with pytest.raises(StorageError, match="took too long"):
            b.registry.join(joining, "key")
    assert b.registry.join(joining, "key") == Term("a", 2)


def test_a_change_is_told_to_all_nodes(peers: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = peers
    while b.database.notified(0.1):
        pass  # that the nodes have joined
    assert a.registry.drain("a")
    assert b.database.notified(WAIT_SECONDS)
    b.membership.look()
    assert b.membership.members.nodes["a"].state == "draining"
    assert not b.database.notified(0.01)


def test_two_nodes_with_one_name(peers: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = peers
    other = Membership(
        b.registry, Joining(node_id="a", url="http://x", version="1"), time.monotonic
    )
    with pytest.raises(ConflictError, match="already, at http://a"):
        other.join()
    assert a.membership.beat()


def test_a_connection_that_broke_is_made_again(peers: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = peers
    ((pid,),) = a.database.rows("select pg_backend_pid()")
    b.database.rows("select pg_terminate_backend(?::int)", (pid,))
    with pytest.raises(StorageError):
        a.membership.beat()
    assert a.membership.beat()


def test_a_session_in_a_tree_is_claimed_with_it(peers: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = peers
    a.make_busy("root")
    a.registry.own_new(a.life, "child", "root")
    a.let_lapse(a.life)
    b.membership.beat()
    owner, claimed = b.registry.claim_one(b.life, "child")
    assert owner is not None
    assert owner.life == b.life
    assert sorted(claimed) == ["child", "root"]


def test_paths_are_taken_while_another_node_gives_the_last_of_them_back(
    peers: tuple[Peer, Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = peers
    place = "projects:tea"
    assert a.membership.beat()
    assert b.membership.beat()
    assert a.registry.take_paths(a.life, place, "one", ["docs"])
    gives_back = Thread(target=a.registry.give_paths_back, args=(a.life, place, "one"))
    rows = b.registry._rows
    waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"

    def rows_beside_a(sql: str, values: tuple[Any, ...] = ()) -> Any:
        found = rows(sql, values)
        if sql.startswith("insert into meta"):
            gives_back.start()
            while gives_back.is_alive() and not c.database.rows(waiting):
                time.sleep(0.01)
        return found

    monkeypatch.setattr(b.registry, "_rows", rows_beside_a)
    assert not b.registry.take_paths(b.life, place, "two", ["docs"])  # `a` holds them until then
    monkeypatch.undo()
    gives_back.join(WAIT_SECONDS)
    assert b.registry.take_paths(b.life, place, "two", ["docs"])


def test_waiting_sessions_are_counted_and_adopted_by_indexes(
    peers: tuple[Peer, Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _, c = peers
    assert a.membership.beat()
    assert c.membership.beat()
    folders = {"old": "/srv/projects/tea", "near": "/srv/projects-x", "named": "docs:tea"}
    for session_id, folder in folders.items():
        a.make_busy(session_id)
        sql = "update sessions set workspace = ?, last_event = id where session_id = ?"
        a.database.rows(sql, (folder, session_id))
    a.database.rows("update owners set root = 'docs' where session_id = 'named'")
    assert a.registry.waiting_counts() == {}
    a.membership.leave()
    ran: list[tuple[str, Any]] = []
    rows = c.database.rows

    def noted(sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        ran.append((sql, values))
        return rows(sql, values)

    monkeypatch.setattr(c.database, "rows", noted)
    registry = Registry(c.database)
    assert registry.waiting_counts() == {"docs": 1}
    adoption = Adoption(c.database, "c", NamedRoot("projects", "/srv/projects"))
    while adoption.step(c.life):
        pass
    assert adoption.adopted == 1
    found = rows("select s.workspace, o.root from sessions s join owners o using (session_id)")
    assert sorted(found) == [("/srv/projects-x", ""), ("docs:tea", "docs"), ("projects:tea", "projects")]  # fmt: skip
    monkeypatch.undo()
    looks = [each for each in ran if each[0].startswith(("select", "with"))]
    assert len(looks) > 6
    rows("set enable_seqscan = off")
    for sql, values in looks:
        plan = "\n".join(starmap(str, rows(f"explain {sql}", values)))
        for table in ("owners", "sessions", "turns"):
            assert f"Seq Scan on {table}" not in plan, (sql, plan)


class Crowd:
    """Nodes that take at once what a node that is gone has left, each by connections of its own.

    Attributes:
        taken: The claims, in the order in which they were answered: by which node, and which sessions.
        failed: What one of them could not do.
    """

    def __init__(self, url: str, nodes: dict[str, Peer]) -> None:
        self._url = url
        self._nodes = nodes
        self._begin = Barrier(2 * len(nodes) + 2)
        self.taken: list[tuple[str, list[str]]] = []
        self.failed: list[StorageError] = []

    def play(self, session_ids: Sequence[str]) -> None:
        work = [partial(self._adopt, name) for name in ("b", "c")]
        for number, name in enumerate(self._nodes):
            asked = list(session_ids)
            random.Random(number).shuffle(asked)
            work += [partial(self._claim, name), partial(self._ask, name, asked)]
        threads = [Thread(target=self._with_registry, args=(each,), daemon=True) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()

    def _with_registry(self, work: Callable[[PostgresDatabase], None]) -> None:
        database = PostgresDatabase(address_of(self._url))
        try:
            self._begin.wait()
            work(database)
        except StorageError as error:
            self.failed.append(error)
        finally:
            database.close()

    def _adopt(self, name: str, database: PostgresDatabase) -> None:
        for _ in range(3):
            adopt(database, self._nodes[name].life)

    def _claim(self, name: str, database: PostgresDatabase) -> None:
        registry, life = Registry(database), self._nodes[name].life
        while found := registry.claim(life, ["a"], range(SLOTS), ROOTS[name]):
            self.taken.append((name, found))

    def _ask(self, name: str, asked: Sequence[str], database: PostgresDatabase) -> None:
        registry, life = Registry(database), self._nodes[name].life
        for session_id in asked:
            _, found = registry.claim_one(life, session_id, ROOTS[name])
            if found:
                self.taken.append((name, found))


def adopt(database: PostgresDatabase, life: Term) -> None:
    adoption = Adoption(database, life.node_id, ROOT)
    while adoption.step(life):
        pass


ROOT = NamedRoot("projects", "/srv/projects")
ROOTS = {"b": ("", "projects"), "c": ("", "projects"), "d": ("",)}


def test_what_is_adopted_and_claimed_at_once_has_one_owner_which_has_its_root(
    peers: tuple[Peer, Peer, Peer],
) -> None:
    """Trees of a node that is gone: two nodes adopt and claim them, a third one without the root claims them."""
    a, b, c = peers
    d = Peer(a.url, "d")
    trees = [f"tree_{number}" for number in range(TREES)]
    children = [f"{tree}_child" for tree in trees]
    for tree, child in zip(trees, children, strict=True):
        a.make_busy(tree)
        a.make_busy(child, tree)
    a.database.rows("update sessions set workspace = '/srv/projects/tea'")
    a.database.rows(  # half of the trees are idle, and claimed by who asks
        "delete from inputs where session in (select id from sessions where session_id like '%0%' or"
        " session_id like '%5%')"
    )
    a.database.rows("update nodes set lease_until_ms = lease_until_ms + 60000 where node_id <> 'a'")
    a.registry.leave(a.life)
    crowd = Crowd(a.url, {"b": b, "c": c, "d": d})
    crowd.play([*trees, *children])
    assert crowd.failed == []
    taken = Counter(name for _, found in crowd.taken for name in found)
    assert set(taken) == {*trees, *children}
    assert [name for name, times in taken.items() if times > 1] == []
    for node in (b, c):
        adopt(node.database, node.life)  # what was locked is left to the next round
    rows = a.database.rows(
        "select o.tree, o.node_id, o.root, s.workspace from owners o join sessions s using (session_id)"
    )
    by_tree: dict[str, set[tuple[str, str, str]]] = {}
    for tree, *row in rows:
        by_tree.setdefault(tree, set()).add(tuple(row))
    assert {len(found) for found in by_tree.values()} == {1}
    adopted = {(node, "projects", "projects:tea") for node in "bc"}
    assert {row for found in by_tree.values() for row in found} <= {
        *adopted,
        (
            "d",
            "",
            "/srv/projects/tea",
        ),  # claimed before it was adopted, and left to the node that runs it
    }
    d.database.close()


STANDS = "select 1 from pg_stat_activity where pid = ? and xact_start is not null and state = 'active' and wait_event = 'ClientRead'"
FOR_LONG = f"{STANDS} and state_change < clock_timestamp() - interval '1200 milliseconds'"


@contextmanager
def half_sent(url: str, node: str) -> Generator[int]:
    """A commit of which a node has sent a part; gives the process of the database that has it."""
    with connect(address_of(url), writes=True) as sender:
        sender.execute(f"select pg_advisory_lock_shared({NODE_LOCKS}, hashtext('{node}'))".encode())
        raw, backend = sender.pgconn, sender.info.backend_pid
        raw.enter_pipeline_mode()
        raw.send_query_params(b"begin", [])
        holds = f"select 1 from nodes where node_id = '{node}' for key share"
        raw.send_query_params(holds.encode(), [])
        raw.send_flush_request()
        raw.flush()
        try:
            yield backend
        finally:
            raw.finish()


@pytest.mark.parametrize("name", ["", "application_name=board-in-production"])
def test_a_commit_that_a_stopped_node_has_sent_a_part_of_holds_nobody_up(
    peers: tuple[Peer, Peer, Peer], name: str
) -> None:
    a, b, _ = peers
    with half_sent(f"{a.url}{'&' if '?' in a.url else '?'}{name}", "a") as backend:
        b.let_last(a.life)
        wait_until(lambda: b.database.rows(FOR_LONG, (backend,)), "a commit that stands still")
        assert not b.registry.fence(a.life)  # it has its lease, and may just be slow
        b.registry.leave(b.life)
        assert b.database.rows(STANDS, (backend,))
        b.let_lapse(a.life)
        assert b.registry.fence(a.life)
        assert not b.database.rows(STANDS, (backend,))


def test_a_commit_of_a_node_that_lives_is_not_ended_for_another_one(
    peers: tuple[Peer, Peer, Peer],
) -> None:
    a, b, c = peers
    with half_sent(a.url, "a") as backend:
        b.let_last(a.life)
        wait_until(lambda: b.database.rows(FOR_LONG, (backend,)), "a commit that stands still")
        b.let_lapse(c.life)
        assert b.registry.fence(c.life)
        assert b.database.rows(STANDS, (backend,))
