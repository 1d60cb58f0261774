"""Adoption: old sessions in the folder of a root get that root and their place, by the real statements on a played database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from callboard.runtime.cluster import adoption
from callboard.runtime.cluster.adoption import Adoption
from callboard.runtime.cluster.nodes import Joining, Term
from callboard.runtime.cluster.registry import Registry
from callboard.runtime.cluster.roots import NamedRoot
from callboard.runtime.errors import StorageError
from support.cluster.played_database import PlayedDatabase

ROOT = NamedRoot("projects", "/srv/projects")


class Failing(PlayedDatabase):
    """A database that fails at a statement that begins so."""

    fails_at = "nothing"

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if sql.startswith(self.fails_at):
            raise StorageError("it broke")
        return super().rows(sql, values)


class Meanwhile(Failing):
    """A database on which something else is done once, behind the first statement that lists sessions."""

    meanwhile: Callable[[], object] | None = None

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        found = super().rows(sql, values)
        meanwhile, is_list = self.meanwhile, "last_event from sessions where is_active = 0" in sql
        if meanwhile is not None and is_list:
            self.meanwhile = None
            meanwhile()
        return found


class Scene:
    def __init__(self) -> None:
        self.database = Meanwhile()
        self.registry = Registry(self.database)
        self._events = count(1)

    def join(self, name: str) -> Term:
        joining = Joining(node_id=name, url=f"http://{name}", version="1", roots=("projects",))
        return self.registry.join(joining, "key")

    def put(
        self,
        session_id: str,
        workspace: str,
        owner: Term | None,
        root: str = "",
        parent_id: str | None = None,
        *,
        has_turn: bool = False,
    ) -> None:
        self.database.add_session(session_id, parent_id=parent_id)
        self.database.rows(
            "update sessions set workspace = ?, last_event = ?, is_active = ? where session_id = ?",
            (workspace, next(self._events), has_turn, session_id),
        )
        if has_turn:
            self.database.rows(
                "insert into turns (session, turn_id, started_at_ms) select id, 't', 0 from sessions"
                " where session_id = ?",
                (session_id,),
            )
        if owner is not None:
            self.registry.own_new(owner, session_id, parent_id, root)

    def adopt(self, life: Term) -> int:
        round_ = Adoption(self.database, life.node_id, ROOT)
        while round_.step(life):
            pass
        return round_.adopted

    @property
    def places(self) -> dict[str, tuple[str, str | None]]:
        found = self.database.rows(
            "select s.session_id, s.workspace, o.root from sessions s left join owners o using (session_id)"
        )
        return {session_id: (place, root) for session_id, place, root in found}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_sessions_in_the_folder_get_the_root_and_their_place_with_those_below_them(
    scene: Scene,
) -> None:
    a = scene.join("a")
    scene.put("in", "/srv/projects/tea/pot", a)
    scene.put("child", "/srv/projects/tea/pot", a, parent_id="in")
    scene.put("root", "/srv/projects", a)
    scene.put("runs", "/srv/projects/cup", a, has_turn=True)
    scene.put("of_a", "/srv/projects/cup", a, root="@a")  # it was outside of the roots of then
    scene.put("unowned", "/srv/projects/tea", None)  # of the time before there was a cluster
    near = ("/srv/projects2/tea", "/srv/projects-old", "/srv/project", "/srv")
    for number, folder in enumerate(near):
        scene.put(f"near{number}", folder, a)
    assert scene.adopt(a) == 6
    assert scene.places == {
        "in": ("projects:tea/pot", "projects"),
        "child": ("projects:tea/pot", "projects"),
        "root": ("projects:", "projects"),
        "runs": ("projects:cup", "projects"),
        "of_a": ("projects:cup", "projects"),
        "unowned": ("projects:tea", None),  # its root follows from its place when it is claimed
        **{f"near{number}": (folder, "") for number, folder in enumerate(near)},
    }
    assert scene.adopt(a) == 0
    assert scene.registry.owned(a, ["in", "runs"]) == {"in", "runs"}  # whose they are stays
    owner, _ = scene.registry.claim_one(a, "unowned", ("", "@a", "projects"))
    assert owner is not None
    assert (owner.life, owner.root) == (a, "projects")


def test_what_another_node_uses_or_has_for_itself_is_left_to_it(scene: Scene) -> None:
    a, b = scene.join("a"), scene.join("b")
    scene.put("used", "/srv/projects/tea", b)
    scene.put("of_b", "/srv/projects/tea", b, root="@b")
    scene.put("other", "/srv/projects/tea", b, root="docs")
    before = scene.places
    assert scene.adopt(a) == 0
    assert scene.places == before
    scene.registry.leave(b)
    assert scene.adopt(a) == 1
    assert scene.places == {**before, "used": ("projects:tea", "projects")}
    assert scene.registry.nodes()[0].changed > 1, "the others look for what is their share now"


def test_what_an_earlier_release_gave_the_root_alone_gets_its_place(scene: Scene) -> None:
    a, b = scene.join("a"), scene.join("b")
    scene.put("in", "/srv/projects/tea", b, root="projects")
    assert scene.adopt(a) == 1
    assert scene.places == {"in": ("projects:tea", "projects")}


def test_a_round_reads_each_session_once_and_goes_on_where_one_was_cut_off(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "MAX_ADOPTED", 2)
    a, b = scene.join("a"), scene.join("b")
    for number in range(4):
        scene.put(f"left{number}", "/srv/projects/a", b)  # first in order, and never adopted
        scene.put(f"own{number}", "/srv/projects/b", a)
        scene.put(f"runs{number}", "/srv/projects/c", a, has_turn=True)
    cut_off = Adoption(scene.database, "a", ROOT)
    for _ in range(3):
        assert cut_off.step(a)
    assert cut_off.adopted == 2
    steps, again = 0, Adoption(scene.database, "a", ROOT)
    while again.step(a):
        steps += 1
    assert again.adopted == 6
    assert (
        steps == 6
    )  # of 6 at rest and 4 with turns, and the last one of each finds fewer than two
    assert {root for name, (_, root) in scene.places.items() if "left" not in name} == {"projects"}


@pytest.mark.parametrize("fails_at", ["update sessions", "update owners", "insert into cluster"])
def test_a_failure_in_the_middle_changes_nothing(scene: Scene, fails_at: str) -> None:
    a, b = scene.join("a"), scene.join("b")
    scene.put("in", "/srv/projects/tea", b)
    scene.registry.leave(b)
    before = scene.places
    scene.database.fails_at = fails_at
    with pytest.raises(StorageError):
        scene.adopt(a)
    assert scene.places == before
    scene.database.fails_at = "nothing"
    assert scene.adopt(a) == 1


def test_a_node_that_was_fenced_adopts_nothing(scene: Scene) -> None:
    a = scene.join("a")
    scene.put("in", "/srv/projects/tea", a)
    scene.registry.leave(a)
    assert scene.adopt(a) == 0
    assert scene.places == {"in": ("/srv/projects/tea", "")}


def test_what_another_node_adopts_at_the_same_time_keeps_its_place(scene: Scene) -> None:
    a, b = scene.join("a"), scene.join("b")
    scene.put("s", "/srv/projects/tea/pot", a)
    scene.registry.leave(a)
    c = scene.join("c")
    scene.database.meanwhile = lambda: scene.adopt(c)
    assert scene.adopt(b) == 0  # it had found it, and the other was faster
    assert scene.places == {"s": ("projects:tea/pot", "projects")}
