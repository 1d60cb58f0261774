"""Shared roots: the marker that is written once, what nodes agree on, and where file versions lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.runtime.changes.shared_versions import SharedVersions
from callboard.runtime.changes.version_log import FOLDER
from callboard.runtime.cluster.nodes import Joining
from callboard.runtime.cluster.registry import Registry
from callboard.runtime.cluster.roots import NamedRoot
from callboard.runtime.cluster.shared_root import (
    DATABASE,
    MARKER,
    OWN_FOLDER,
    RootForm,
    check_database,
    check_form,
    form_of,
    is_closed,
    read_form,
    take_back,
)
from callboard.runtime.errors import ConflictError, StorageError
from support.cluster.played_database import PlayedDatabase


def shared(folder: Path) -> NamedRoot:
    folder.mkdir(exist_ok=True)
    return NamedRoot("projects", str(folder), is_shared=True)


def test_the_marker_is_written_once_and_read_by_all(tmp_path: Path) -> None:
    root = shared(tmp_path / "a")
    first, is_new = form_of(root)
    assert is_new
    assert first.path == root.path
    assert form_of(root) == (first, False)
    other, _ = form_of(shared(tmp_path / "b"))
    assert other.mark != first.mark
    assert [file.name for file in (tmp_path / "a" / OWN_FOLDER).iterdir()] == [MARKER]
    take_back(root)
    assert form_of(root)[0].mark != first.mark


def test_a_shared_root_is_one_databases(tmp_path: Path) -> None:
    root = shared(tmp_path / "a")
    form_of(root)
    check_database(root, "one", "postgresql://db/one")
    check_database(root, "one", "postgresql://elsewhere/one")  # it was moved
    with pytest.raises(
        ConflictError, match=r"by another database .*db/one.* is postgresql://db/two"
    ):
        check_database(root, "two", "postgresql://db/two")
    (tmp_path / "a" / OWN_FOLDER / DATABASE).write_bytes(b"{")
    with pytest.raises(StorageError, match="is damaged"):
        check_database(root, "one", "postgresql://db/one")
    registry = Registry(PlayedDatabase())
    assert registry.database_id() == registry.database_id()
    assert registry.database_id() != Registry(PlayedDatabase()).database_id()


def test_a_root_that_is_not_shared_has_no_marker(tmp_path: Path) -> None:
    assert form_of(NamedRoot("projects", str(tmp_path))) == (RootForm(), False)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_or_closed_marker_is_said(tmp_path: Path) -> None:
    root = shared(tmp_path / "a")
    form_of(root)
    (tmp_path / "a" / OWN_FOLDER / MARKER).write_bytes(b"{")
    with pytest.raises(StorageError, match="is damaged"):
        form_of(root)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / OWN_FOLDER).touch()
    with pytest.raises(StorageError, match="can't be read or written"):
        form_of(shared(tmp_path / "b"))


@pytest.mark.parametrize(
    ("own", "known", "words"),
    [
        (RootForm("m", "/a"), RootForm("n", "/a"), "not the file system that the other nodes have"),
        (RootForm("m", "/a"), RootForm("m", "/b"), "other nodes have it at /b"),
        (RootForm("m", "/a"), RootForm(), "shared here, and not on the other nodes"),
        (RootForm(), RootForm("m", "/a"), "shared on the other nodes that are up"),
        (RootForm("m", "/a"), read_form("{"), "another one"),
    ],
)
def test_a_root_that_differs_is_refused(own: RootForm, known: RootForm, words: str) -> None:
    root = NamedRoot("projects", "/a", is_shared=bool(own.mark))
    with pytest.raises(ConflictError, match=words) as refused:
        check_form(root, own, known)
    assert refused.value.kind == "root"
    check_form(root, own, own)


def test_nodes_agree_on_a_root_and_change_it_when_no_other_has_it() -> None:
    registry = Registry(PlayedDatabase())

    def join(name: str, *roots: str) -> None:
        joining = Joining(node_id=name, url=f"http://{name}", version="1", roots=roots)
        lives[name] = registry.join(joining, "key")

    lives: dict[str, object] = {}
    join("a", "projects")
    join("c")
    a, c = lives["a"], lives["c"]
    assert registry.agree(a, "projects", "one") == "one"  # type: ignore[arg-type]
    assert registry.agree(a, "projects", "two") == "two"  # type: ignore[arg-type]
    assert registry.agree(c, "projects", "three") == "two"  # type: ignore[arg-type]
    registry.leave(a)  # type: ignore[arg-type]
    assert registry.agree(c, "projects", "three") == "three"  # type: ignore[arg-type]
    assert registry.agree(c, "docs", "one") == "one"  # type: ignore[arg-type]


def test_callboards_own_folder_and_what_holds_it_are_closed() -> None:
    root = NamedRoot("projects", "/srv/p", is_shared=True)
    for closed in ("/srv/p", "/srv", "/srv/p/.callboard", "/srv/p/.callboard/x"):
        assert is_closed(root, closed)
        assert not is_closed(NamedRoot("projects", "/srv/p"), closed)
    for opened in ("/srv/p/tea", "/srv/p/.callboard2", "/srv/q", "/srv/p/tea/.callboard"):
        assert not is_closed(root, opened)


def test_versions_of_a_session_lie_where_it_works_and_are_found_by_another_node(
    tmp_path: Path,
) -> None:
    root = str(tmp_path / "root")
    own = {root: tmp_path / "root" / OWN_FOLDER}
    a, b = (SharedVersions(tmp_path / node, own) for node in "ab")
    a.place("inside", f"{root}/tea")
    a.place("outside", str(tmp_path / "elsewhere"))
    for name in ("inside", "outside"):
        with a.log(name).draft() as draft:
            draft.is_committed = True
    assert (own[root] / FOLDER / "inside.log").exists()
    assert (tmp_path / "a" / FOLDER / "outside.log").exists()
    assert a.sessions() == ["outside"], "what lies in a shared folder may be of another database"
    assert b.sessions() == []
    b.forget(["inside", "outside"])
    assert not (own[root] / FOLDER / "inside.log").exists()
    assert a.sessions() == ["outside"]
