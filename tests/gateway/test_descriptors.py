"""The limit of open files, and how many connections that leaves."""

from __future__ import annotations

import resource

import pytest

from callboard.gateway.door.descriptors import (
    RESERVED,
    connections_with_room,
    raise_limit,
    room_after_raising,
)
from support.gateway.daemon_scene import open_daemon, open_greeted
from support.gateway.raw_door import answer_to, handshake, head_of


class Limit:
    """The limit of a system that is not this one's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> None:
        self.now = soft, hard
        monkeypatch.setattr(resource, "getrlimit", lambda _: self.now)
        monkeypatch.setattr(resource, "setrlimit", self._set)

    def _set(self, _: int, limits: tuple[int, int]) -> None:
        self.now = limits


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        pytest.param(1024, 4096, 2000 + RESERVED, id="raised to what is needed"),
        pytest.param(1024, 2048, 2048, id="raised as far as it goes"),
        pytest.param(1024, resource.RLIM_INFINITY, 2000 + RESERVED, id="without a hard one"),
        pytest.param(8192, 8192, 8192, id="enough already"),
        pytest.param(resource.RLIM_INFINITY, resource.RLIM_INFINITY, -1, id="no limit"),
    ],
)
def test_the_limit_is_raised(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: int
) -> None:
    limit = Limit(monkeypatch, soft, hard)
    raise_limit(2000)
    assert limit.now == (then, hard)


@pytest.mark.parametrize(
    ("soft", "hard", "room", "after"),
    [
        (1024, 4096, 512, 2000),
        (2048, 2048, 1024, 1024),
        (4096, 4096, 2000, 2000),
        (-1, -1, 2000, 2000),
    ],
)
def test_as_many_come_in_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    soft: int,
    hard: int,
    room: int,
    after: int,
) -> None:
    Limit(monkeypatch, soft, hard)
    assert connections_with_room(2000) == room
    assert ("LimitNOFILE" in caplog.text) == (room < 2000)
    assert room_after_raising(2000) == after


async def test_a_connection_without_room_for_it_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.gateway.door.server.connections_with_room", lambda _: 1)
    async with open_daemon() as daemon, open_greeted(daemon):
        assert (await answer_to(daemon, head_of(handshake(daemon)))).status == 503
