"""Nodes with named roots: a session runs only where its root is, and waits while that is nowhere."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.cli.cluster.commands import status
from callboard.cli.show.sessions import sessions, show
from callboard.cli.store.undo import session_and_changes
from callboard.client.client import connect
from callboard.client.subscriptions import RemoteEvents
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import ClusterSettings, RootSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.gateway.relays.accepted import NodeConnection
from callboard.providers.testing.script import reply
from callboard.runtime.changes.file_versions import NOTHING, Change, PathStep
from callboard.runtime.cluster.placement import winner_of
from callboard.runtime.cluster.roots import NamedRoots
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError, ValidationError
from callboard.runtime.events import Stored, TurnEnded
from callboard.runtime.wire.rpc import RpcRequest, rpc_error
from callboard.tools.workspace.atomic_write import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from support.cluster.served import effects_of, nodes_of, served
from support.cluster.served_node import node_of, open_served
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


async def knows(folder: Path, node: str, token: str) -> None:
    """Wait until a node knows a token that was made at another one."""
    file = Credentials(folder / node)
    await until(lambda: file.find(token) is not None)


def rows(url: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql.encode()).fetchall()


async def hear(events: RemoteEvents, heard: list[Stored]) -> None:
    async for event in events:
        heard += [event] if isinstance(event, Stored) else []


def turns(heard: list[Stored]) -> int:
    return sum(isinstance(each.event, TurnEnded) for each in heard)


def ended(url: str) -> int:
    ((count,),) = rows(url, "select count(*) from turns where ended_at_ms is not null")
    assert isinstance(count, int)
    return count


def gaps(url: str) -> list[tuple[object, ...]]:
    """Sessions whose events are not numbered 1, 2, 3, …"""
    wrong = "having count(*) <> max(seq) or min(seq) <> 1"
    return rows(url, f"select session from events group by session {wrong}")


async def test_a_session_moves_only_to_a_node_with_its_root_and_waits_while_there_is_none(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {node: made(tmp_path / f"at_{node}" / "tea") for node in "abd"}
    roots = {node: f"projects={folder.parent}" for node, folder in folders.items()}
    with ExitStack() as stack:
        a, b = (stack.enter_context(served(url, node, tmp_path, roots[node])) for node in "ab")
        c = stack.enter_context(served(url, "c", tmp_path))
        with trio.fail_after(WAIT_SECONDS):
            for node in "bc":
                await knows(tmp_path, node, a.token)
            async with connect(a.url, a.token) as client:
                row = await client.create_session(workspace=str(folders["a"]))
            assert row.workspace == str(folders["a"])
            session = row.session_id
            place = "select s.workspace, o.root from sessions s join owners o using (session_id)"
            assert rows(url, place) == [("projects:tea", "projects")]
            async with connect(b.url, a.token) as client:
                assert (await client.session(session)).workspace == str(folders["b"])
                page = await client.find_sessions(workspace=str(folders["b"]))
                assert [each.session_id for each in page.sessions] == [session]
            async with connect(c.url, a.token) as client:
                with pytest.raises(ValidationError, match="not below a root"):
                    await client.create_session(workspace=str(folders["a"]))
                assert (await client.session(session)).workspace == "projects:tea"
                for number in range(3):  # c relays it to a
                    await client.prompt(session, f"Count {number}.")
                a.kill()
                await until(lambda: ended(url) == 3)
                assert nodes_of(tmp_path)[-1] == "b"
                for number in range(3):  # and to b
                    await client.prompt(session, f"Count on {number}.")
                b.kill()
                with pytest.raises(ConflictError, match="has the root projects") as refused:
                    await client.prompt(session, "And you?")
                assert refused.value.kind == "root"
                assert "--root projects=FOLDER" in str(refused.value)
                assert ended(url) < 6
                assert (await client.session(session)).waiting_for == "projects"
                assert [each.waiting_for for each in await client.sessions()] == ["projects"]
                seen = (await client.status()).cluster
                assert seen is not None
                assert seen.waiting == {"projects": 1}
                assert "--root projects=FOLDER" in str(seen.problems)
                assert status(store=url) == 0  # c is live
                shown = capsys.readouterr().out
                assert (
                    "1 session waits for a node with the root projects (waiting_for_node)" in shown
                )
                assert "roots projects" in shown
                async with (
                    client.events(session, after_seq=0) as events,
                    trio.open_nursery() as nursery,
                ):
                    heard: list[Stored] = []
                    nursery.start_soon(hear, events, heard)
                    on_record = (await client.session(session)).head_seq
                    await until(lambda: len(heard) == on_record)  # while it waits
                    stack.enter_context(served(url, "d", tmp_path, roots["d"]))
                    await until(lambda: ended(url) == 6)  # by itself: nobody asks
                    await client.prompt(session, "And now?")
                    assert (await client.session(session)).waiting_for == ""
                    await until(lambda: ended(url) == 7)
                    await until(
                        lambda: isinstance(heard[-1].event, TurnEnded) and turns(heard) == 7
                    )
                    assert [each.seq for each in heard] == list(range(1, len(heard) + 1))
                    nursery.cancel_scope.cancel(reason="all was heard")
        assert nodes_of(tmp_path)[-1] == "d"
        assert "c" not in nodes_of(tmp_path)
        assert set(effects_of(tmp_path).values()) == {1}
        assert gaps(url) == []


async def test_an_idle_session_is_claimed_by_a_node_with_its_root_whichever_node_is_asked(
    url: str, tmp_path: Path
) -> None:
    folder = made(tmp_path / "projects" / "tea")
    roots = {"projects": str(folder.parent)}
    async with (
        open_served(url, "b", tmp_path, roots=roots) as b,
        open_served(url, "c", tmp_path) as c,
    ):
        async with open_served(url, "a", tmp_path, roots=roots) as a:
            session = await a.runtime.create_session(workspace=folder)
            alone = await a.runtime.create_session(workspace=tmp_path / "work")
        with trio.fail_after(WAIT_SECONDS):
            await knows(tmp_path, "c", c.token)
            async with connect(c.url, c.token) as client:
                assert await client.ask(session.session_id, "Who are you?") == "By b."
                with pytest.raises(ConflictError, match="Start node a") as refused:
                    await client.prompt(alone.session_id, "Who are you?")
                assert refused.value.kind == "root"
            with pytest.raises(ConflictError, match="Start node a"):
                await (await b.runtime.get_session(alone.session_id)).run("Who are you?")
        async with open_served(url, "a", tmp_path, roots=roots, token=a.token) as a:
            assert await (await a.runtime.get_session(alone.session_id)).run("Who?") == "By a."


CAPACITIES = {"a": 1, "b": 1000}


async def idle_sessions(url: str, folder: Path, count: int) -> list[str]:
    """Make sessions of a node that ends, which are the share of `b`."""
    found: list[str] = []
    async with open_served(url, "gone", folder) as gone:
        while len(found) < count:
            session = await gone.runtime.create_session()
            if winner_of(session.session_id, CAPACITIES) == "b":
                found.append(session.session_id)
    return found


async def break_off(connection: NodeConnection, *_: object) -> None:
    connection.close(1011, "it ends here", at_once=True)


async def fail(connection: NodeConnection, request: RpcRequest, *_: object) -> None:
    error = StorageError("the disk is away")
    connection._answer_error(request.id, rpc_error(error))


async def take_for_ever(*_: object) -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize("way", ["there", "silent", break_off, fail, take_for_ever])
async def test_an_idle_session_is_left_to_a_node_of_greater_capacity_that_can_take_it(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str | Callable[..., Awaitable[None]],
) -> None:
    """Asked for at the smaller one; which takes it all the same when the larger one does not."""
    if callable(way):
        monkeypatch.setattr(NodeConnection, "_claim", way)
    with ExitStack() as stack:
        reached_at = ""
        if way == "silent":  # connections wait for somebody who takes them
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            reached_at = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with (
            open_served(url, "a", tmp_path) as a,
            open_served(url, "b", tmp_path, capacity=CAPACITIES["b"], reached_at=reached_at) as b,
        ):
            made = await idle_sessions(url, tmp_path, 6)
            shares = [each for each in made if winner_of(each, {"a": 1, "b": 1000}) == "b"]
            first, second = shares[:2]  # the smaller one's own share is a thousandth
            with trio.fail_after(WAIT_SECONDS):
                await knows(tmp_path, "b", a.token)
                async with connect(a.url, a.token) as client:
                    await client.rename(
                        first, "Asked for"
                    )  # nothing of it is sent where it is not claimed
                    said = await client.ask(first, "Who are you?")
                    assert said == ("By b." if way == "there" else "By a.")
                async with connect(b.url, a.token) as client:
                    assert await client.ask(second, "Who are you?") == "By b."  # it may itself


async def test_where_no_node_names_a_root_all_is_as_before(url: str, tmp_path: Path) -> None:
    async with open_served(url, "b", tmp_path) as b:
        async with open_served(url, "a", tmp_path) as a:
            session = await a.runtime.create_session()
        assert rows(url, "select root from owners") == [("",)]
        assert rows(url, "select workspace from sessions") == [(str(tmp_path / "work"),)]
        with trio.fail_after(WAIT_SECONDS):
            assert await (await b.runtime.get_session(session.session_id)).run("Who?") == "By b."


async def test_sessions_of_a_cluster_that_had_no_roots_belong_to_them_from_then_on(
    url: str, tmp_path: Path
) -> None:
    folder, elsewhere = made(tmp_path / "projects" / "tea"), made(tmp_path / "at_b" / "tea")
    async with open_served(url, "a", tmp_path) as a:
        inside = await a.runtime.create_session(workspace=folder)
        await a.runtime.create_session()
    roots = {"projects": str(folder.parent)}
    place = "select s.workspace, o.root from sessions s join owners o using (session_id) order by 2"
    adopted = [(str(tmp_path / "work"), ""), ("projects:tea", "projects")]
    writes = reply(calls=[("write_file", {"path": "by_b.txt", "content": "b"})])
    with trio.fail_after(WAIT_SECONDS):
        async with open_served(url, "a", tmp_path, roots=roots, token=a.token) as a:
            await until(lambda: rows(url, place) == adopted)
            async with connect(a.url, a.token) as client:
                page = await client.find_sessions(workspace=str(folder))
                assert [each.session_id for each in page.sessions] == [inside.session_id]
                async with client.events(inside.session_id, after_seq=0) as events:
                    first = await anext(events)  # what was written stays as it was
                assert isinstance(first, Stored)
                assert getattr(first.event, "workspace", None) == str(folder)
        async with open_served(url, "c", tmp_path) as c:
            with pytest.raises(ConflictError, match="has the root projects"):
                await (await c.runtime.get_session(inside.session_id)).run("Who?")
        steps = [writes, reply("By b.")]
        roots = {"projects": str(elsewhere.parent)}
        async with open_served(url, "b", tmp_path, roots=roots, steps=steps) as b:
            session = await b.runtime.get_session(inside.session_id)
            assert await session.run("Write.") == "By b."
            assert (elsewhere / "by_b.txt").exists()
            assert list(folder.iterdir()) == []
            # As an earlier release left it: with the root, and with the folder of then.
            old = await b.runtime.create_session(workspace=elsewhere)
            sql = (
                f"update sessions set workspace = '{folder}' where session_id = '{old.session_id}'"
            )
            rows(url, f"{sql} returning 1")
            with pytest.raises(ConflictError, match="not below that root on node b") as refused:
                await node_of(b).folder_of(old.session_id, str(elsewhere))
            assert refused.value.kind == "root"


async def test_a_fork_and_an_import_belong_where_their_folder_is(url: str, tmp_path: Path) -> None:
    folder = made(tmp_path / "projects" / "tea")
    async with open_served(url, "a", tmp_path, roots={"projects": str(folder.parent)}) as a:
        session = await a.runtime.create_session(workspace=folder)
        with trio.fail_after(WAIT_SECONDS):
            await session.run("Who?")
            async with connect(a.url, a.token) as client:
                fork = await client.fork(session.session_id)
                file = await client.export_session(session.session_id)
                imported = await client.import_session(file, workspace=str(folder))
                for name in (fork.session_id, imported):
                    assert (await client.session(name)).workspace == str(folder)
                    assert await client.ask(name, "Who?") == "By a."
    found = rows(url, "select o.root, s.workspace from owners o join sessions s using (session_id)")
    assert found == [("projects", "projects:tea")] * 3


async def test_commands_on_the_data_folder_of_a_node_know_its_folders_and_what_waits(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "projects" / "tea")
    async with open_served(url, "b", tmp_path) as b:
        async with open_served(url, "a", tmp_path, roots={"projects": str(folder.parent)}) as a:
            session = await a.runtime.create_session(workspace=folder, title="Tea")
        monkeypatch.chdir(folder)
        await trio.to_thread.run_sync(partial(sessions, data=tmp_path / "a"))
        shown = capsys.readouterr().out
        assert session.session_id in shown
        assert "(waits for a node with the root projects) Tea" in shown
        assert "/projects/tea" in shown
        await trio.to_thread.run_sync(partial(show, session.session_id, data=tmp_path / "b"))
        shown = capsys.readouterr().out
        assert "- workspace: projects:tea" in shown
        assert "- waits for a node with the root projects" in shown
        row = await b.runtime.store.session(session.session_id)
        assert row is not None
        (row,) = await b.runtime.store.with_waiting([row])
        assert row.waiting_for == "projects"


async def start(url: str, node: str, folder: Path, roots: Mapping[str, str | RootSettings]) -> None:
    """Start a node without a door, and end it."""
    settings = callboard.Settings(
        store=StoreSettings(url=url), cluster=ClusterSettings(node=node), roots=dict(roots)
    )
    options: Any = {"model": callboard.ScriptedModel([]), "environ": {}, "settings": settings}
    async with callboard.open_runtime(data=folder / node, workspace=folder / "work", **options):
        pass


def sharing(folder: Path) -> dict[str, str | RootSettings]:
    return {"projects": RootSettings(path=str(folder), shared=True)}


async def test_what_calls_changed_in_a_shared_root_is_undone_on_another_node(
    url: str, tmp_path: Path
) -> None:
    folder = made(tmp_path / "projects" / "tea")
    (folder / "notes.txt").write_text("before", encoding="utf-8")
    write = reply(calls=[("write_file", {"path": "notes.txt", "content": "after"})])
    roots = sharing(folder.parent)
    async with open_served(url, "b", tmp_path, roots=roots) as b:
        async with open_served(url, "a", tmp_path, roots=roots, steps=[write, reply("Done.")]) as a:
            session = await a.runtime.create_session(workspace=folder)
            assert await session.run("Write.") == "Done."
            idle = await a.runtime.create_session(workspace=folder)
            with pytest.raises(NotFoundError, match="which in a cluster may be another one"):
                await idle.undo()
        assert (folder / "notes.txt").read_text(encoding="utf-8") == "after"
        _, known, _ = await session_and_changes(tmp_path / "b", session.session_id)
        assert [each.change.session_id for each in known] == [session.session_id]
        with trio.fail_after(WAIT_SECONDS):
            async with connect(b.url, b.token) as client:
                assert await client.ask(session.session_id, "Who?") == "By b."
                await client.undo(session.session_id)
        assert (folder / "notes.txt").read_text(encoding="utf-8") == "before"
        for closed in (folder.parent, tmp_path, folder.parent / ".callboard"):
            with pytest.raises(ValidationError, match="is closed to sessions"):
                await b.runtime.create_session(workspace=closed)


async def test_a_root_that_is_not_what_it_is_on_other_nodes_is_refused(
    url: str, tmp_path: Path
) -> None:
    folder, other = made(tmp_path / "projects"), made(tmp_path / "other")
    async with open_served(url, "a", tmp_path, roots=sharing(folder)):
        for roots, words in (
            (sharing(other), "not the file system that the other nodes have"),
            ({"projects": str(folder)}, "say shared = true here too"),
        ):
            with pytest.raises(ConflictError, match=words) as refused:
                await start(url, "b", tmp_path, roots)
            assert refused.value.kind == "root"
        assert list((other / ".callboard").iterdir()) == []  # no marker in it
        assert rows(url, "select state from nodes where node_id = 'b'") == [("ended",)]
        await start(url, "b", tmp_path, sharing(folder))
    await start(url, "b", tmp_path, sharing(other))  # nobody is up who has the other one


async def test_a_root_that_is_no_folder_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="can't be a root for sessions: it is no folder"):
        await start(url, "a", tmp_path, {"projects": str(tmp_path / "gone")})


async def test_a_session_whose_folder_leads_out_of_the_root_elsewhere_does_not_run_there(
    url: str, tmp_path: Path
) -> None:
    at_a, at_b = made(tmp_path / "a_root" / "tea"), made(tmp_path / "b_root")
    outside = made(tmp_path / "outside")
    (at_b / "tea").symlink_to(outside)
    async with open_served(url, "b", tmp_path, roots={"projects": str(at_b)}) as b:
        async with open_served(url, "a", tmp_path, roots={"projects": str(at_a.parent)}) as a:
            session = await a.runtime.create_session(workspace=at_a)
        with trio.fail_after(WAIT_SECONDS):
            with pytest.raises(ConflictError, match="a link leads out of it"):
                await (await b.runtime.get_session(session.session_id)).run("Who?")
            (at_b / "tea").unlink()
            (at_b / "tea").mkdir()
            assert await (await b.runtime.get_session(session.session_id)).run("Who?") == "By b."


async def test_no_undo_and_no_sweep_follows_a_link_out_of_a_root(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path / "projects")
    folder, outside = made(root / "tea"), made(tmp_path / "outside")
    write = reply(calls=[("write_file", {"path": "notes.txt", "content": "after"})])
    (outside / "notes.txt").write_text("after", encoding="utf-8")
    options: Any = {"roots": {"projects": str(root)}, "steps": [write, reply("Done.")]}
    async with open_served(url, "a", tmp_path, **options) as a:
        session = await a.runtime.create_session(workspace=folder)
        assert await session.run("Write.") == "Done."
        host = host_of(a.runtime)
        # What a crash in the middle of a change leaves: a temporary file, in a folder that the log names.
        change = Change(
            change_id="change_cut_off",
            session_id=session.session_id,
            call_id="call",
            at_ms=1,
            actions=(PathStep(b"x.txt", NOTHING, NOTHING),),
        )
        with host.plan.versions.log(session.session_id).draft() as draft:
            draft.commit(change)
        left = f"{TEMPORARY_PREFIX}{'ab' * 8}{TEMPORARY_SUFFIX}"
        for place in (folder, outside):
            (place / left).touch()

        def swap() -> None:
            folder.rename(root / "kept")
            folder.symlink_to(outside)

        def put_back() -> None:
            folder.unlink()
            (root / "kept").rename(folder)

        checked = NamedRoots.checked_folder

        def swapped_then(roots: NamedRoots, place: str) -> str:
            found = checked(roots, place)
            swap()
            return found

        with trio.fail_after(WAIT_SECONDS):
            swap()
            with pytest.raises(ConflictError, match="a link leads out of it"):
                await session.undo()
            await host.undoing.clear_unfinished([session.session_id])
            put_back()
            for act in (session.undo, partial(host.undoing.clear_unfinished, [session.session_id])):
                monkeypatch.setattr(NamedRoots, "checked_folder", swapped_then)
                with suppress(ValidationError):  # the sweep only logs it
                    assert await act() is None
                put_back()
                monkeypatch.undo()
            assert sorted(each.name for each in outside.iterdir()) == sorted([left, "notes.txt"])
            assert (folder / left).exists()
            await host.undoing.clear_unfinished([session.session_id])  # the controls
            assert not (folder / left).exists()
            await session.undo(force=True)
            assert not (folder / "notes.txt").exists()


async def test_a_shared_root_of_two_databases_is_refused_to_the_second(
    url: str, tmp_path: Path
) -> None:
    folder = made(tmp_path / "projects")
    await start(url, "a", tmp_path, sharing(folder))
    with new_database() as other:
        with pytest.raises(ConflictError, match="in use by another database") as refused:
            await start(other, "x", tmp_path, sharing(folder))
        assert refused.value.kind == "root"
        assert str(folder / ".callboard" / "database.json") in str(refused.value)
        (folder / ".callboard" / "database.json").unlink()
        await start(other, "x", tmp_path, sharing(folder))
    with pytest.raises(ConflictError, match="in use by another database"):
        await start(url, "a", tmp_path, sharing(folder))


async def test_calls_on_two_nodes_that_write_one_file_of_a_shared_root_take_turns(
    url: str, tmp_path: Path
) -> None:
    folder = made(tmp_path / "projects" / "tea")
    roots, running, most = sharing(folder.parent), [0], [0]
    both = trio.Event()

    def keys(arguments: Any) -> list[callboard.Resource]:
        return [callboard.Resource("count.txt", write=arguments.writes)]

    @callboard.tool(effect="once", resources=keys)
    async def touch(writes: bool) -> str:
        """Says how many run at once."""
        running[0] += 1
        most[0] = max(most[0], running[0])
        if running[0] == 2:
            both.set()
        if not writes:
            await both.wait()
        await trio.sleep(0.1)
        running[0] -= 1
        return "touched"

    def steps() -> list[Any]:
        words = [{"writes": True}, {"writes": False}]
        return [step for word in words for step in (reply(calls=[("touch", word)]), reply("Done."))]

    options: Any = {"roots": roots, "tools": [touch]}
    async with (
        open_served(url, "a", tmp_path, steps=steps(), **options) as a,
        open_served(url, "b", tmp_path, steps=steps(), **options) as b,
    ):
        sessions = [await each.runtime.create_session(workspace=folder) for each in (a, b)]
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                for session in sessions:
                    nursery.start_soon(session.run, "Write.")
            assert most == [1]
            async with trio.open_nursery() as nursery:  # the same two, reading, run side by side
                for session in sessions:
                    nursery.start_soon(session.run, "Read.")
            assert most == [2]
        assert rows(url, "select key from meta where key like 'held %'") == []
