"""A delivery may come to any node of a cluster, whichever owns the session; it is one input all the same."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from callboard.config.sections import ServerSettings
from callboard.embedding.runtime import host_of
from callboard.gateway.hooks import deliveries, passed_on
from callboard.gateway.hooks.passed_on import PASSED_ON
from callboard.runtime.events import InputAccepted
from support.cluster.line import BOTH, Line, open_line
from support.cluster.served_node import node_of
from support.gateway.daemon_scene import Daemon
from support.gateway.hook_scene import (
    by_bearer,
    by_github,
    by_standard,
    deliver,
    made,
    open_hooked,
)
from support.gateway.raw_door import Answer
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0
AT_ONCE = 6
HOOKS = """
[hooks.same]
signature = "standard"
prompt = "Something came."
session = "same"
max_per_minute = 4
[hooks.each]
signature = "github"
prompt = "Look at {delivery}."
[hooks.bearer]
prompt = "Something came."
session = "same"
"""


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as found:
        yield found


@asynccontextmanager
async def two_nodes(url: str, folder: Path) -> AsyncGenerator[tuple[Daemon, Daemon, Line]]:
    """Nodes a and b; what goes from a to b goes over a line."""
    async with open_line() as line:
        place = f"127.0.0.1:{line.port}"
        server = ServerSettings(port=0, allowed_hosts=(place,))
        (folder / "a").mkdir()
        (folder / "b").mkdir()
        async with (
            open_hooked(folder / "a", HOOKS, node_at=("a", url)) as a,
            open_hooked(
                folder / "b",
                HOOKS,
                node_at=("b", url),
                reached_at=f"http://{place}",
                server=server,
            ) as b,
        ):
            line.target = b.gateway.port
            with trio.fail_after(WAIT_SECONDS):
                await until(lambda: all(len(node_of(each).members.live) == 2 for each in (a, b)))
                yield a, b, line


async def inputs(daemon: Daemon, session_id: str) -> list[str]:
    events = await daemon.runtime.store.events(session_id)
    return [each.event.input_id for each in events if isinstance(each.event, InputAccepted)]


def now() -> int:
    return int(time.time())


async def test_a_delivery_for_a_session_of_another_node_is_taken_there(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b, _):
        session, first = made(await deliver(b, "same", b"{}", by_standard(b"{}", now(), "one")))
        assert node_of(b).owns(session)
        second = made(await deliver(a, "same", b"{}", by_standard(b"{}", now(), "two")))
        again = made(await deliver(a, "same", b"{}", by_standard(b"{}", now(), "two")))
        assert second == again
        assert second[0] == session
        assert node_of(b).owns(session)
        assert await inputs(a, session) == [first, second[1]]
        # The header of what signs by a token goes along.
        other = made(await deliver(b, "bearer", b"{}", by_bearer("one")))
        assert made(await deliver(a, "bearer", b"{}", by_bearer("two")))[0] == other[0]


async def test_a_wrong_signature_gets_nowhere(url: str, tmp_path: Path) -> None:
    async with two_nodes(url, tmp_path) as (a, b, _):
        session, first = made(await deliver(b, "same", b"{}", by_standard(b"{}", now(), "one")))
        wrong = by_standard(b"{}", now(), "two", secret="another-secret-0123456789")
        assert (await deliver(a, "same", b"{}", wrong)).status == 401
        passed = {**wrong, PASSED_ON.replace("-", "_"): "1"}
        assert (await deliver(b, "same", b"{}", passed)).status == 401
        assert await inputs(a, session) == [first]


async def test_the_same_delivery_at_two_nodes_at_once_is_one_input(
    url: str, tmp_path: Path
) -> None:
    answers: list[Answer] = []

    async def send(daemon: Daemon) -> None:
        answers.append(await deliver(daemon, "each", b"{}", by_github(b"{}")))

    async with two_nodes(url, tmp_path) as (a, b, _):
        async with trio.open_nursery() as nursery:
            for daemon in [a, b] * AT_ONCE:
                nursery.start_soon(send, daemon)
        ((session, name),) = {made(each) for each in answers}
        assert await inputs(a, session) == [name]


async def test_a_delivery_is_passed_on_once(url: str, tmp_path: Path) -> None:
    async with two_nodes(url, tmp_path) as (a, b, _):
        session, _ = made(await deliver(b, "same", b"{}", by_standard(b"{}", now(), "one")))
        headers = {**by_standard(b"{}", now(), "two"), PASSED_ON.replace("-", "_"): "1"}
        answer = await deliver(a, "same", b"{}", headers)
        assert answer.status == 503
        assert "changes its node" in answer.body
        assert len(await inputs(a, session)) == 1


async def test_a_node_without_that_hook_is_named_to_nobody_outside(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_nodes(url, tmp_path) as (a, b, _):
        made(await deliver(b, "same", b"{}", by_standard(b"{}", now(), "one")))
        del host_of(b.runtime).settings.hooks["same"]
        answer = await deliver(a, "same", b"{}", by_standard(b"{}", now(), "two"))
        assert answer.status == 503
        assert "give all nodes of the cluster the same hooks" in caplog.text


async def test_an_owner_that_is_cut_off_is_waited_for_and_the_sender_may_try_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_nodes(url, tmp_path) as (a, b, line):
        session, first = made(await deliver(b, "same", b"{}", by_standard(b"{}", now(), "one")))
        line.cut(*BOTH)
        signed: dict[str, Any] = by_standard(b"{}", now(), "two")
        with monkeypatch.context() as impatient:
            impatient.setattr(passed_on, "PATIENCE_SECONDS", 0.3)
            impatient.setattr(deliveries, "PATIENCE_SECONDS", 0.5)
            answer = await deliver(a, "same", b"{}", signed)
        assert answer.status == 503
        assert dict(answer.headers)["retry-after"] == "5"
        line.mend()
        again = made(await deliver(a, "same", b"{}", signed))
        assert await inputs(a, session) == [first, again[1]]


async def test_a_delivery_counts_in_the_rate_of_who_takes_it(url: str, tmp_path: Path) -> None:
    async with two_nodes(url, tmp_path) as (a, b, _):
        statuses = []
        for number in range(6):
            signed = by_standard(b"{}", now(), f"{number}")
            statuses.append((await deliver(a if number else b, "same", b"{}", signed)).status)
        assert statuses == [202, 202, 202, 202, 429, 429]  # four in a minute
