"""Servers that answer a call with a task, in a real sandbox: it is followed, cancelled, and asked about after a restart."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from callboard.embedding.runtime import Runtime
from callboard.tools.mcp.tasks import book as task_book
from callboard.tools.mcp.tasks import handle
from callboard.tools.mcp.tasks.book import FILE_NAME, TaskBook
from support.mcp.stage import accepted, fake, open_stage
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import leap_when, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_sandbox()
    monkeypatch.setattr(handle, "POLL_SECONDS", 0.01)


async def server_in(data: Path) -> Any:
    return await accepted(fake("--era=modern", "--tasks", state=True), data=data)


def noted(data: Path, name: str) -> list[str]:
    """What the server has written down."""
    path = data / "mcp/fake" / name
    return path.read_text().splitlines() if path.exists() else []


async def job(runtime: Runtime, how: str, session: Any = None) -> Any:
    return await runtime.call_tool("fake__job", {"how": how}, session=session)


def open_tasks(data: Path) -> list[str]:
    file = data / FILE_NAME
    its = msgspec.json.decode(file.read_bytes())["tasks"] if file.exists() else {}
    return [each["task_id"] for each in its.values()]


async def test_a_task_is_followed_to_its_result(tmp_path: Path) -> None:
    async with open_stage(await server_in(tmp_path), data=tmp_path) as runtime:
        found = await job(runtime, "good")
        assert (found.status, found.output) == ("success", "done: good")
        for how, why in (
            ("bad", "done: bad"),
            ("fail", "its task failed: it broke"),
            ("stopped", "its task was cancelled there"),
            ("sample", "asks for what callboard does not give"),
            ("long", "no name of at most 500 printable characters"),
            ("hidden", "no name of at most 500 printable characters"),
        ):
            failed = await job(runtime, how)
            assert failed.error["error_type"] == "execution_error"
            assert why in failed.error["message"]
    # Of these nothing will come.
    assert [each[:6] for each in noted(tmp_path, "cancelled")] == ["task-5", "xxxxxx", "\u202ex"]
    assert open_tasks(tmp_path) == []


async def test_what_a_task_asks_is_put_to_people_once(tmp_path: Path) -> None:
    async with open_stage(await server_in(tmp_path), data=tmp_path) as runtime:
        found = await job(runtime, "ask")  # nobody is there
        assert json.loads(found.output) == {"one": {"action": "decline"}}
    assert len(noted(tmp_path, "answers")) == 1


async def test_a_call_that_is_cancelled_or_late_cancels_its_task(
    tmp_path: Path, leaping_clock: trio.testing.MockClock
) -> None:
    server = await server_in(tmp_path)
    async with open_stage(server, data=tmp_path) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(job, runtime, "wait")
            await until(lambda: len(noted(tmp_path, "asked")) > 1)
            nursery.cancel_scope.cancel()
        assert (noted(tmp_path, "cancelled"), open_tasks(tmp_path)) == (["task-1"], [])
    late = msgspec.structs.replace(server, timeout_seconds=60)
    async with open_stage(late, data=tmp_path) as runtime:
        asked = len(noted(tmp_path, "asked"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leap_when, lambda: len(noted(tmp_path, "asked")) > asked + 1, 60)
            found = await job(runtime, "wait")
        assert found.status == "timeout"
        assert (noted(tmp_path, "cancelled")[1:], open_tasks(tmp_path)) == (["task-2"], [])


async def test_a_server_that_dies_is_asked_about_its_task(tmp_path: Path) -> None:
    async with open_stage(await server_in(tmp_path), data=tmp_path) as runtime:
        (tmp_path / "mcp/fake/starts").unlink()  # so that this start is its first
        assert (await job(runtime, "die")).output == "done: die"
        assert noted(tmp_path, "begun") == ["die"]


async def test_after_a_restart_the_same_call_asks_about_its_task(tmp_path: Path) -> None:
    server = await server_in(tmp_path)
    copy = tmp_path / "copy"
    async with open_stage(server, data=tmp_path) as runtime:
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(job, runtime, "wait", session)
            await until(lambda: open_tasks(tmp_path) == ["task-1"])
            shutil.copy2(tmp_path / FILE_NAME, copy)
            nursery.cancel_scope.cancel()
    copy.rename(tmp_path / FILE_NAME)  # as it is left by a process that was killed
    (tmp_path / "mcp/fake/go").write_text("on")
    async with open_stage(server, data=tmp_path) as runtime:
        other = await job(runtime, "wait")  # another session has nothing to do with it
        assert (other.output, noted(tmp_path, "begun")) == ("done: wait", ["wait", "wait"])
        found = await job(runtime, "wait", session.session_id)
        assert (found.output, noted(tmp_path, "begun")) == ("done: wait", ["wait", "wait"])
        assert noted(tmp_path, "asked")[-1] == "task-1"
        again = await job(runtime, "wait", session.session_id)  # it has been asked about
        assert (again.output, len(noted(tmp_path, "begun"))) == ("done: wait", 3)


async def test_a_task_that_the_server_forgot_has_an_unknown_outcome(tmp_path: Path) -> None:
    server = await server_in(tmp_path)
    digest = next(pin.digest for pin in server.tools if pin.original == "job")
    async with open_stage(server, data=tmp_path) as runtime:
        session = (await runtime.create_session()).session_id
        with TaskBook(tmp_path).note(session, "fake", digest, {"how": "good"}) as note:
            await note.begun("task-0")
        lost = await job(runtime, "good", session)
        assert lost.error["error_type"] == "interrupted"
        assert "whether it was done is not known" in lost.error["message"]
        assert noted(tmp_path, "begun") == []
        assert (await job(runtime, "good", session)).output == "done: good"


# ── the book alone ───────────────────────────────────────────────────────────────────────────────


async def test_two_equal_calls_at_once_are_two_tasks(tmp_path: Path) -> None:
    book = TaskBook(tmp_path)
    with book.note("s", "fake", "d", {"a": 1, "b": 2}) as first:
        await first.begun("one")
        with book.note("s", "fake", "d", {"b": 2, "a": 1}) as second:
            assert await second.find() is None
            await second.begun("two")
            await second.over()
        assert await first.find() == "one"
    with book.note("s", "fake", "d", {"b": 2, "a": 1}) as third:
        assert await third.find() == "one"
    with book.note("s", "fake", "d", {"a": 1}) as other:
        assert await other.find() is None


async def test_the_most_and_longest_tasks_are_read_back(tmp_path: Path) -> None:
    book, longest = TaskBook(tmp_path), "\U0001f600" * handle.MAX_ID_CHARS
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(task_book, "write_private", lambda *_, **__: None)  # all but the last
        for number in range(task_book.MAX_TASKS):
            await book.put(f"{number:064}", longest)
    await book.put("0" * 64, longest)
    assert (tmp_path / FILE_NAME).stat().st_size < task_book.MAX_BYTES
    assert len(open_tasks(tmp_path)) == task_book.MAX_TASKS
    assert await TaskBook(tmp_path).find("0" * 64) == longest


async def test_the_book_is_bounded_and_a_bad_one_is_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_book, "MAX_TASKS", 2)
    book = TaskBook(tmp_path)
    for number in range(4):
        with book.note("s", "fake", "d", number) as note:
            await note.begun(str(number))
    assert open_tasks(tmp_path) == ["2", "3"]
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    with monkeypatch.context() as patched:
        patched.setattr(task_book, "KEPT_SECONDS", -1)
        with TaskBook(tmp_path).note("s", "fake", "d", 3) as note:
            assert await note.find() is None
    (tmp_path / FILE_NAME).write_text("{")
    with TaskBook(tmp_path).note("s", "fake", "d", 3) as note:
        assert await note.find() is None
        assert "the open tasks of servers are not known" in caplog.text
        await note.begun("3")
    assert open_tasks(tmp_path) == ["3"]
    with TaskBook(None).note("s", "fake", "d", 3) as note:
        await note.begun("3")
        assert await note.find() == "3"
