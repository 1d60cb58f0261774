"""Named roots: what is on record for a folder, and which folder another node reads there."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.runtime.cluster.membership import Members
from callboard.runtime.cluster.nodes import Node
from callboard.runtime.cluster.roots import (
    EVERYBODYS,
    NamedRoot,
    NamedRoots,
    missing_root,
    own_root,
    root_of_place,
)
from callboard.runtime.errors import ConflictError


def roots(path: str = "/srv/projects", node: str = "a") -> NamedRoots:
    return NamedRoots(node, [NamedRoot("projects", path), NamedRoot("docs", "/srv/docs")])


def test_a_folder_below_a_root_is_on_record_by_its_name_and_each_node_reads_its_own() -> None:
    place = roots().place_of("/srv/projects/tea/pot")
    assert place == "projects:tea/pot"
    assert roots("/data/work", "b").folder_of(place) == "/data/work/tea/pot"
    assert roots().folder_of(roots().place_of("/srv/projects")) == "/srv/projects"


@pytest.mark.parametrize("folder", ["/srv/projects2/tea", "/srv", "/home/me/tea", "/"])
def test_a_folder_outside_stays_what_it_is(folder: str) -> None:
    assert roots().place_of(folder) == folder
    assert roots().folder_of(folder) == folder


def test_a_folder_with_a_colon_in_its_name_is_read_back() -> None:
    folder = "/srv/projects/a:b/c"
    assert roots().folder_of(roots().place_of(folder)) == folder
    assert root_of_place("/srv/a:b") == ""


@pytest.mark.parametrize("place", ["projects:../etc", "projects:a/../../etc", "projects:/etc"])
def test_a_place_that_leads_out_of_its_root_is_no_folder(place: str) -> None:
    assert roots().folder_of(place) == place
    with pytest.raises(ConflictError, match="no folder of the root projects on node a"):
        roots().checked_folder(place)


def test_a_link_out_of_a_root_is_refused_and_one_inside_is_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "tea").mkdir(parents=True)
    outside.mkdir()
    (root / "out").symlink_to(outside)
    (root / "in").symlink_to(root / "tea")
    named = NamedRoots("a", [NamedRoot("projects", str(root))])
    with pytest.raises(ConflictError, match="a link leads out of it"):
        named.checked_folder("projects:out")
    assert named.checked_folder("projects:in") == str(root / "tea")
    assert named.checked_folder("projects:new") == str(root / "new")


def test_a_place_of_a_root_that_a_node_lacks_stays_a_name_and_is_no_folder() -> None:
    assert roots().folder_of("other:tea") == "other:tea"
    with pytest.raises(ConflictError) as caught:
        roots().checked_folder("other:tea")
    assert caught.value.kind == "root"


def test_what_a_session_belongs_to() -> None:
    assert roots().root_of("projects:tea") == "projects"
    assert roots().root_of("/home/me/tea") == "@a"
    assert NamedRoots("a").root_of("/home/me/tea") == EVERYBODYS  # a cluster of the old form
    assert roots().owned == (EVERYBODYS, "@a", "projects", "docs")


def node(name: str, *its: str, state: str = "live") -> Node:
    return Node(
        node_id=name, term=1, state=state, url=f"http://{name}", version="1", capacity=1,  # type: ignore[arg-type]
        roots=its, started_at_ms=0, lease_until_ms=0, changed=1,
    )  # fmt: skip


def test_a_session_is_given_only_to_a_node_that_is_up_and_has_its_root() -> None:
    nodes = [node("a", "projects"), node("b", "projects"), node("c"), node("d", "docs")]
    members = Members(1, {each.node_id: each for each in nodes})
    sessions = [f"s{number}" for number in range(50)]
    chosen = {members.chosen("projects", session) for session in sessions}
    assert {each.node_id for each in chosen if each is not None} == {"a", "b"}
    assert {each.node_id for each in [members.chosen("docs", "s")] if each} == {"d"}
    assert members.chosen("other", "s") is None
    alone = members.chosen(own_root("c"), "s")
    assert alone is not None
    assert alone.node_id == "c"
    assert members.roots == {EVERYBODYS, "@a", "@b", "@c", "@d", "projects", "docs"}


def test_a_node_that_is_ending_is_given_nothing() -> None:
    nodes = [node("a", "projects", state="draining"), node("b")]
    members = Members(1, {each.node_id: each for each in nodes})
    assert members.chosen("projects", "s") is None
    assert members.chosen(EVERYBODYS, "s") == nodes[1]


def test_all_nodes_choose_the_same_one() -> None:
    nodes = [node(name, "projects") for name in "abcde"]
    one = Members(1, {each.node_id: each for each in nodes})
    other = Members(1, {each.node_id: each for each in reversed(nodes)})
    sessions = [f"s{number}" for number in range(100)]
    assert [one.chosen("projects", s) for s in sessions] == [
        other.chosen("projects", s) for s in sessions
    ]


def test_who_waits_is_told_for_what_and_what_to_do() -> None:
    assert "--root projects=FOLDER" in missing_root("projects")
    assert "Start node b" in missing_root("@b")
