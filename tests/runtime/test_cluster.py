"""Nodes, leases, fences and claims: the real statements and decisions, on a database whose clock is set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import starmap

import msgspec
import pytest

from callboard.runtime.cluster.lease import OwnLease
from callboard.runtime.cluster.membership import Claims, Members, Membership
from callboard.runtime.cluster.nodes import Joining, Term
from callboard.runtime.cluster.placement import SLOTS, Placement, rank, slot_of
from callboard.runtime.cluster.registry import MAX_CLAIM, Registry
from callboard.runtime.errors import ConflictError, StorageError
from support.cluster.played_database import SQLITE, PlayedDatabase


class Cluster:
    """Nodes on one played database; the clock of each node runs with the database's, however it is set."""

    def __init__(self) -> None:
        self.database = PlayedDatabase()
        self.registry = Registry(self.database)

    def node(
        self, name: str, *, roots: tuple[str, ...] = (), skew: float = 0.0, capacity: int = 1
    ) -> Member:
        joining = Joining(
            node_id=name, url=f"http://{name}", version="1", roots=roots, capacity=capacity
        )
        membership = Membership(self.registry, joining, lambda: self.database.now_ms / 1000 + skew)
        membership.join()
        return Member(self, membership, Claims(self.registry, name))

    def own(self, member: Member, *session_ids: str, is_busy: bool = True, root: str = "") -> None:
        for session_id in session_ids:
            self.database.add_session(session_id, is_busy=is_busy)
            self.registry.own_new(member.life, session_id, None, root)

    def claim_one(self, life: Term, session_id: str) -> tuple[Term | None, list[str]]:
        owner, claimed = self.registry.claim_one(life, session_id)
        return (None if owner is None else owner.life), claimed

    def owner(self, session_id: str) -> Term:
        owner = self.registry.owner(session_id)
        assert owner is not None
        return owner.life

    def wait(self, seconds: float, *beating: Member) -> None:
        """Let time pass while these nodes renew their leases."""
        until = self.database.now_ms + int(seconds * 1000)
        while self.database.now_ms < until:
            self.database.now_ms = min(self.database.now_ms + 400, until)
            for member in beating:
                member.membership.beat()


class Member:
    def __init__(self, cluster: Cluster, membership: Membership, claims: Claims) -> None:
        self.membership = membership
        self.claims = claims
        self._cluster = cluster

    @property
    def life(self) -> Term:
        assert self.membership.life is not None
        return self.membership.life

    @property
    def stand(self) -> str:
        return self.membership.lease.stand(self._cluster.database.now_ms / 1000)

    def claim_all(self) -> list[str]:
        claimed: list[str] = []
        while self.claims.are_due(self.membership.members):
            claimed += self.claims.next(self.life, self.membership.members)
        return claimed

    def may_append(self, session_id: str) -> bool:
        """What the store asks in the transaction of an append."""
        registry = self._cluster.registry
        return registry.holds(self.life) and session_id in registry.owned(self.life, [session_id])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_renews_is_never_fenced(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.wait(30, a, b)
    assert a.membership.beat()
    assert b.membership.beat()
    assert {node.state for node in cluster.registry.nodes()} == {"live"}


def test_a_node_that_says_nothing_is_fenced_when_its_lease_has_run_out(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.wait(1.2, b)
    assert not cluster.registry.fence(a.life)  # it may be late, and is not gone
    cluster.wait(0.8, b)
    assert b.membership.members.nodes["a"].state == "fenced"
    assert not a.membership.beat()
    assert a.membership.life is None
    assert a.stand == "over"


def test_a_lease_that_lapsed_without_a_fence_is_renewed(cluster: Cluster) -> None:
    a = cluster.node("a")
    cluster.own(a, "s")
    cluster.wait(60)
    assert not a.may_append("s")
    assert a.membership.beat()
    assert a.may_append("s")


def test_a_fenced_node_comes_back_with_the_next_term(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    first = a.life
    cluster.wait(2, b)
    assert not a.membership.beat()
    assert a.membership.join() == Term("a", first.term + 1)
    assert a.membership.beat()


def test_two_nodes_with_one_name_are_one_too_many(cluster: Cluster) -> None:
    a = cluster.node("a")
    with pytest.raises(ConflictError, match="already, at http://a"):
        cluster.node("a")
    cluster.wait(0.4, a)
    cluster.wait(1.6)  # the first one is gone
    assert cluster.node("a").life == Term("a", 2)


def test_the_key_of_a_node_goes_when_the_node_is_forgotten(cluster: Cluster) -> None:
    def keys() -> list[str]:
        rows = cluster.database.rows("select node_id from node_keys order by node_id", ())
        return list(starmap(str, rows))

    cluster.node("a").membership.leave()
    cluster.node("b")
    assert keys() == ["a", "b"]
    cluster.database.now_ms += 8 * 24 * 3600 * 1000
    cluster.node("c")
    assert keys() == ["b", "c"]  # b may come back: nobody has fenced it
    assert "a" not in {node.node_id for node in cluster.registry.nodes()}


def test_a_name_is_not_taken_over_while_the_database_may_have_forgotten_renewals(
    cluster: Cluster,
) -> None:
    cluster.node("a")
    cluster.wait(2)
    cluster.database.sql = msgspec.structs.replace(SQLITE, is_settled="false")
    cluster.registry = Registry(cluster.database)
    with pytest.raises(ConflictError, match="already, at http://a"):
        cluster.node("a")
    cluster.database.sql = SQLITE
    cluster.registry = Registry(cluster.database)
    assert cluster.node("a").life == Term("a", 2)


def test_a_node_that_left_makes_room_for_its_name_at_once(cluster: Cluster) -> None:
    a = cluster.node("a")
    a.membership.leave()
    assert cluster.node("a").life.term == 2


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
def test_clocks_that_differ_by_an_hour_change_nothing(cluster: Cluster, skew: float) -> None:
    a, b = cluster.node("a", skew=skew), cluster.node("b", skew=-skew)
    cluster.wait(10, a, b)
    assert {node.state for node in cluster.registry.nodes()} == {"live"}
    cluster.wait(2, a)
    assert a.membership.members.nodes["b"].state == "fenced"


def test_the_own_count_ends_before_that_of_the_database() -> None:
    lease = OwnLease(1.5)
    lease.renewed(asked_at=10.0)
    stands = [lease.stand(at) for at in (10.0, 11.09, 11.11, 11.39, 11.41)]
    assert stands == ["held", "held", "ending", "ending", "over"]
    lease.renewed(asked_at=9.0)  # an answer that was overtaken shortens nothing
    assert lease.stand(11.0) == "held"
    lease.lose()
    assert lease.stand(10.0) == "over"


def test_without_a_database_a_lease_runs_out_by_itself(cluster: Cluster) -> None:
    a = cluster.node("a")
    cluster.database.is_down = True
    with pytest.raises(StorageError):
        a.membership.beat()
    cluster.database.now_ms += 1_600
    assert a.stand == "over"
    cluster.database.is_down = False
    assert a.membership.beat()
    assert a.stand == "held"


# ── fencing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_zombie_appends_nothing(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.own(a, "s")
    zombie = a.life
    assert a.may_append("s")
    cluster.wait(2, b)
    assert b.claim_all() == ["s"]
    assert not cluster.registry.holds(zombie)
    assert cluster.registry.owned(zombie, ["s"]) == set()
    assert b.may_append("s")


def test_the_next_life_of_a_node_does_not_write_for_the_one_before(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.own(a, "idle", is_busy=False)
    cluster.wait(2, b)
    a.membership.beat()
    a.membership.join()
    assert not a.may_append("idle")
    assert cluster.claim_one(a.life, "idle") == (a.life, ["idle"])
    assert a.may_append("idle")


# ── claims ───────────────────────────────────────────────────────────────────────────────────────


def test_the_sessions_of_a_node_that_is_gone_are_shared_by_the_others(cluster: Cluster) -> None:
    a, b, c = cluster.node("a"), cluster.node("b"), cluster.node("c")
    sessions = [f"session_{number}" for number in range(5 * MAX_CLAIM)]
    cluster.own(a, *sessions)
    cluster.wait(2, b, c)
    by_b, by_c = b.claim_all(), c.claim_all()
    assert sorted([*by_b, *by_c]) == sorted(sessions)
    assert len(by_b) > MAX_CLAIM
    assert len(by_c) > MAX_CLAIM


def test_idle_sessions_wait_until_somebody_asks(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.own(a, "busy")
    cluster.own(a, "idle", is_busy=False)
    gone = a.life
    cluster.wait(2, b)
    assert b.claim_all() == ["busy"]
    assert cluster.owner("idle") == gone
    assert cluster.claim_one(b.life, "idle") == (b.life, ["idle"])


def test_a_detached_session_is_taken_until_its_parent_has_its_answer(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    for parent in ("waits", "knows"):
        cluster.own(a, parent, is_busy=False)
        cluster.database.add_session(f"{parent}_below", parent_id=parent)
        cluster.registry.own_new(a.life, f"{parent}_below", parent)
        cluster.database.detach(f"{parent}_below", is_delivered=parent == "knows")
    gone = a.life
    cluster.wait(2, b)
    assert sorted(b.claim_all()) == ["waits", "waits_below"]
    assert cluster.owner("knows") == cluster.owner("knows_below") == gone


def test_a_deferred_question_that_waits_is_taken_with_its_session(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    for state in ("waiting", "denied", "expired"):
        cluster.own(a, state, is_busy=False)
        cluster.database.defer(state, state)
    gone = a.life
    cluster.wait(2, b)
    assert b.claim_all() == ["waiting"]
    assert cluster.owner("denied") == cluster.owner("expired") == gone


def test_a_session_of_a_living_node_is_not_taken(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.own(a, "s")
    cluster.wait(0.4, a, b)
    assert b.claim_all() == []
    assert cluster.claim_one(b.life, "s") == (a.life, [])


def test_a_fenced_node_claims_nothing(cluster: Cluster) -> None:
    a, b, c = cluster.node("a"), cluster.node("b"), cluster.node("c")
    cluster.own(a, "s")
    life, members = b.life, b.membership.members
    cluster.wait(2, c)
    assert b.claims.next(life, members) == []
    assert cluster.claim_one(life, "s") == (a.life, [])
    assert c.claim_all() == ["s"]


def test_a_tree_moves_as_one(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.own(a, "root", is_busy=False)
    cluster.database.add_session("child", parent_id="root", is_busy=True)
    cluster.registry.own_new(a.life, "child", "root")
    cluster.wait(2, b)
    assert sorted(b.claim_all()) == ["child", "root"]


def test_a_session_that_came_without_an_owner_is_taken_with_its_tree(cluster: Cluster) -> None:
    a = cluster.node("a")
    cluster.database.add_session("root")
    cluster.database.add_session("child", parent_id="root")
    owner, claimed = cluster.claim_one(a.life, "child")
    assert owner == a.life
    assert sorted(claimed) == ["child", "root"]
    assert cluster.owner("root") == a.life
    assert cluster.registry.claim_one(a.life, "nobody") == (None, [])


def test_only_a_node_that_has_the_root_takes_a_session(cluster: Cluster) -> None:
    a = cluster.node("a", roots=("projects",))
    b, c = cluster.node("b"), cluster.node("c", roots=("projects",))
    cluster.own(a, "s", root="projects")
    cluster.wait(2, b, c)
    assert b.claim_all() == []
    assert c.claim_all() == ["s"]


def test_a_session_waits_for_a_node_that_has_its_root(cluster: Cluster) -> None:
    a = cluster.node("a", roots=("projects",))
    b = cluster.node("b")
    cluster.own(a, "s", root="projects")
    cluster.wait(2, b)
    assert b.claim_all() == []
    c = cluster.node("c", roots=("projects",))
    assert c.claim_all() == ["s"]


def test_a_drained_node_gives_away_what_it_has_stopped(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.own(a, "s", "t")
    assert cluster.registry.drain("a")
    assert not cluster.registry.drain("nobody")
    cluster.wait(0.4, a, b)
    assert a.membership.members.nodes["a"].state == "draining"
    assert b.claim_all() == []  # they still run there
    cluster.registry.let_go(a.life, ["s"])
    cluster.wait(0.4, a, b)
    assert b.claim_all() == ["s"]
    a.membership.leave()
    cluster.wait(0.4, b)
    assert b.claim_all() == ["t"]


def test_whoever_dies_while_it_claims_leaves_the_rest_to_the_others(cluster: Cluster) -> None:
    nodes = {name: cluster.node(name) for name in "abcde"}
    sessions = [f"session_{number}" for number in range(200)]
    cluster.own(nodes["a"], *sessions)
    living = [nodes[name] for name in "bcde"]
    cluster.wait(2, *living)
    living[0].claim_all()  # and dies
    living = living[1:]
    cluster.wait(2, *living)
    for member in living:
        member.claim_all()
    owned = [name for member in living for name in cluster.registry.owned(member.life, sessions)]
    assert sorted(owned) == sorted(sessions)


# ── placement ────────────────────────────────────────────────────────────────────────────────────


def test_when_a_node_goes_only_its_slots_move() -> None:
    placement, nodes = Placement(), dict.fromkeys("abcdefgh", 1)
    placement.set_nodes(nodes)
    before = {name: set(placement.slots(name)) for name in nodes}
    assert sum(map(len, before.values())) == SLOTS
    del nodes["a"]
    placement.set_nodes(nodes)
    after = {name: set(placement.slots(name)) for name in nodes}
    assert all(before[name] <= after[name] for name in nodes)
    assert sum(map(len, after.values())) == SLOTS
    # Each of the others takes about a seventh.
    assert all(40 < len(after[name] - before[name]) < 120 for name in nodes)


def test_slots_are_the_same_however_a_node_came_to_know_the_others() -> None:
    grown, whole = Placement(), Placement()
    for names in ("a", "ab", "abc", "bc", "bcd"):
        grown.set_nodes(dict.fromkeys(names, 1))
    whole.set_nodes(dict.fromkeys("bcd", 1))
    assert [grown.slots(name) for name in "bcd"] == [whole.slots(name) for name in "bcd"]
    assert grown.node_of("session_1") == whole.node_of("session_1")


def test_a_node_with_twice_the_capacity_has_twice_the_slots() -> None:
    placement = Placement()
    placement.set_nodes({"small": 1, "large": 2})
    assert 1.8 < len(placement.slots("large")) / len(placement.slots("small")) < 2.2


def test_a_slot_follows_from_the_id_alone() -> None:
    assert slot_of("session_6f1k") == slot_of("session_6f1k")
    assert Placement().node_of("session_6f1k") is None


def test_few_nodes_fence_one_and_they_are_others_for_another() -> None:
    names = [f"node-{number}" for number in range(100)]
    first = {key: min(names, key=lambda name: rank(name, key, names)) for key in ("x", "y", "z")}
    assert len(set(first.values())) > 1
    assert sorted(rank(name, "x", names) for name in names) == list(range(100))


def test_a_session_is_claimed_on_request_only_for_a_root_that_the_node_has(
    cluster: Cluster,
) -> None:
    a, b = cluster.node("a", roots=("projects",)), cluster.node("b")
    cluster.own(a, "s", root="projects", is_busy=False)
    cluster.wait(2, b)
    gone = a.life
    owner, claimed = cluster.registry.claim_one(b.life, "s", ("", "@b"))
    assert owner is not None
    assert (owner.life, owner.root, owner.is_gone, claimed) == (gone, "projects", True, [])
    c = cluster.node("c", roots=("projects",))
    owner, claimed = cluster.registry.claim_one(c.life, "s", ("", "@c", "projects"))
    assert owner is not None
    assert (owner.life, owner.is_gone, claimed) == (c.life, False, ["s"])


def test_a_busy_session_goes_on_when_a_node_with_its_root_comes(cluster: Cluster) -> None:
    a, b = cluster.node("a", roots=("projects",)), cluster.node("b")
    cluster.own(a, "s", root="projects")
    cluster.own(a, "alone", root="@a")
    cluster.wait(2, b)
    assert b.claim_all() == []
    assert cluster.registry.waiting_counts() == {"projects": 1, "@a": 1}
    c = cluster.node("c", roots=("projects",))
    assert c.claim_all() == ["s"]
    again = cluster.node("a", roots=("projects",))
    assert again.claim_all() == ["alone"]
    assert cluster.registry.waiting_counts() == {}


def test_a_session_without_an_owner_belongs_to_the_root_that_its_place_names(
    cluster: Cluster,
) -> None:
    a = cluster.node("a")
    for session_id in ("placed", "plain"):
        cluster.database.add_session(session_id)
    cluster.database.rows(
        "update sessions set workspace = 'projects:tea' where session_id = 'placed'"
    )
    owner, claimed = cluster.registry.claim_one(a.life, "placed", ("", "@a"))
    assert owner is not None
    assert (owner.root, owner.is_gone, claimed) == ("projects", True, [])
    assert cluster.claim_one(a.life, "plain") == (a.life, ["plain"])


def chosen_of(members: Members, session_ids: Sequence[str]) -> Counter[str]:
    found = (members.chosen("", name) for name in session_ids)
    return Counter(node.node_id for node in found if node is not None)


def test_who_is_to_claim_a_session_is_who_takes_it_over_when_it_is_busy(cluster: Cluster) -> None:
    """By the same shares, which follow from the capacities."""
    nodes = [cluster.node("a"), cluster.node("b"), cluster.node("c", capacity=6)]
    for node in nodes:
        node.membership.look()
    names = [f"session_{number}" for number in range(800)]
    placement = Placement()
    placement.set_nodes({"a": 1, "b": 1, "c": 6})
    members = nodes[0].membership.members
    assert chosen_of(members, names) == Counter(placement.node_of(name) for name in names)
    assert 0.7 < chosen_of(members, names)["c"] / len(names) < 0.8


def test_a_node_leaves_idle_sessions_to_larger_ones_and_to_no_others(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    c = cluster.node("c", roots=("projects",), capacity=3)
    for node in (a, b, c):
        node.membership.look()
    members = a.membership.members
    names = [f"session_{number}" for number in range(400)]
    left = [members.larger("a", "", name) for name in names]
    assert {node.node_id for node in left if node is not None} == {"c"}
    assert 0.7 < sum(node is not None for node in left) / len(names) < 0.8
    assert [name for name in names if members.larger("c", "", name)] == []  # it is the largest
    assert [name for name in names if members.larger("a", "docs", name)] == []  # it lacks that root
    cluster.registry.drain("c")
    a.membership.look()
    assert [name for name in names if a.membership.members.larger("a", "", name)] == []


def test_a_session_that_is_left_to_another_node_is_not_taken(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    cluster.own(a, "s", is_busy=False)
    cluster.database.add_session("unknown")
    cluster.registry.leave(a.life)
    for name in ("s", "unknown"):
        owner, claimed = cluster.registry.claim_one(b.life, name, ("",), lambda owner: True)
        assert owner is not None
        assert (owner.is_gone, claimed) == (True, [])
        assert cluster.claim_one(b.life, name) == (b.life, [name])
        owner, claimed = cluster.registry.claim_one(b.life, name, ("",), lambda owner: True)
        assert owner is not None
        assert (owner.life, claimed) == (b.life, [])  # it has an owner, and nothing is left


def test_an_older_release_reads_the_roots_of_a_node(cluster: Cluster) -> None:
    cluster.node("a", roots=("projects", "docs"))
    ((text,),) = cluster.database.rows("select roots from nodes")
    assert tuple(msgspec.json.decode(text)) == ("projects", "docs")  # all that it does with it


# ── paths in shared roots ────────────────────────────────────────────────────────────────────────


def test_paths_are_held_against_other_nodes_and_given_back(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    registry, place = cluster.registry, "projects:tea"
    assert registry.take_paths(a.life, place, "one", ["docs"])
    assert registry.take_paths(a.life, place, "one", ["docs"])  # an answer was lost
    assert registry.take_paths(
        a.life, place, "two", ["docs/pot"]
    )  # its own calls: it decides itself
    for paths in (["docs"], ["docs/pot"], [""], ["other", "docs/a/b"]):
        assert not registry.take_paths(b.life, place, "three", paths)
    assert registry.take_paths(b.life, place, "three", ["docs2", "other"])
    assert registry.take_paths(b.life, "projects:cup", "four", ["docs"])
    for holder in ("one", "two", "two"):
        assert registry.give_paths_back(a.life, place, holder)
    assert registry.take_paths(b.life, place, "five", ["docs/pot"])
    for place, holder in (("projects:tea", "three"), ("projects:tea", "five")):
        registry.give_paths_back(b.life, place, holder)
    registry.give_paths_back(b.life, "projects:cup", "four")
    assert cluster.database.rows("select * from meta where key like 'held %'") == []


def test_what_a_dead_node_held_counts_for_nothing_once_it_is_fenced(cluster: Cluster) -> None:
    a, b = cluster.node("a"), cluster.node("b")
    zombie, place = a.life, "projects:tea"
    assert cluster.registry.take_paths(zombie, place, "one", ["docs"])
    cluster.wait(1, b)
    assert not cluster.registry.take_paths(b.life, place, "two", ["docs"])
    cluster.wait(2, b)
    assert cluster.registry.take_paths(b.life, place, "two", ["docs"])
    assert not cluster.registry.take_paths(zombie, place, "three", ["else"])
    a.membership.join()
    assert not cluster.registry.take_paths(a.life, place, "four", ["docs"])
