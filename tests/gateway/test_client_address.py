"""A wrong URL and a wrong token are told before anything is sent, and no token is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from callboard.client.address import authorization, read_address
from callboard.client.client import connect
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.config.files import data_folder
from callboard.runtime.errors import AuthError, NotFoundError, ValidationError
from callboard.runtime.redaction import Secret
from support.gateway.daemon_scene import Daemon, open_daemon


@pytest.mark.parametrize(
    ("url", "header", "port", "path"),
    [
        ("ws://127.0.0.1:8790/ws", "127.0.0.1:8790", 8790, "/ws"),
        ("WSS://Example.org", "example.org", 443, "/"),
        ("ws://example.org:80/a/b", "example.org", 80, "/a/b"),
        ("ws://[::1]:8790/ws", "[::1]:8790", 8790, "/ws"),
        ("ws://bücher.example:1/ws", "xn--bcher-kva.example:1", 1, "/ws"),
    ],
)
def test_an_address_is_read(url: str, header: str, port: int, path: str) -> None:
    address = read_address(url)
    assert (address.host_header, address.port, address.path) == (header, port, path)
    assert read_address(address.url) == address


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "begin with ws:// or wss://"),
        ("127.0.0.1:8790/ws", "begin with ws:// or wss://"),
        ("https://127.0.0.1:8790/ws", "but with https://"),
        ("ws:///ws", "names no host"),
        ("ws://:8790/ws", "names no host"),
        ("ws://a..b/ws", "names no host"),
        ("ws://" + "a" * 64 + "/ws", "names no host"),
        ("ws://[::1/ws", "can't be read"),
        ("ws://127.0.0.1:0/ws", "port 0"),
        ("ws://127.0.0.1:70000/ws", "can't be read"),
        ("ws://127.0.0.1:port/ws", "can't be read"),
        ("ws://127.0.0.1:8790/ü", "not ASCII"),
        ("ws://127.0.0.1:8790/ws\r\nX: y", "blanks"),
        (" ws://127.0.0.1:8790/ws", "blanks"),
        ("ws://127.0.0.1:8790/\0", "blanks"),
        ("ws://127.0.0.1:8790/ws?token=cb_hidden", "where a token would be seen"),
        ("ws://cb_hidden@127.0.0.1:8790/ws", "where a token would be seen"),
        ("ws://127.0.0.1:8790/ws#cb_hidden", "where a token would be seen"),
        ("cb_hidden", "begin with ws:// or wss://"),
    ],
)
async def test_a_url_that_is_none_of_a_daemon_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why) as refused:
        async with connect(url, "cb_token"):
            pass
    assert "ws://127.0.0.1:8790/ws" in str(refused.value), "what to do"
    assert "cb_hidden" not in str(refused.value)


@pytest.mark.parametrize("token", ["cb_a\n", "cb_a\r\nX: y", " ", "cb a", "cb_ü", "cb_\0", "\tcb"])
async def test_a_token_that_can_be_none_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(AuthError, match="copy it whole") as refused:
        async with connect("ws://127.0.0.1:8790/ws", token):
            pass
    assert token not in str(refused.value).replace(" ", "") or not token.strip()


async def test_a_right_token_is_the_header() -> None:
    assert authorization(Secret("cb_right")) == [(b"authorization", b"Bearer cb_right")]
    async with open_daemon() as daemon:
        async with connect(daemon.url, daemon.token) as client:
            assert client.is_connected
        for other in ("", "cb_other"):
            with pytest.raises(AuthError, match=daemon.url):
                async with connect(daemon.url, other):
                    pass


async def test_without_a_url_it_is_the_daemon_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match="`callboard serve` starts one"):
        async with connect():
            pass
    async with open_daemon() as daemon:
        running = RunningDaemon(url=daemon.url, pid=1, token=Secret(daemon.token), started_at_ms=1)
        with DaemonFile(data_folder(), running):
            async with connect() as client:
                assert client.welcome.role == "admin"
            with pytest.raises(AuthError, match=daemon.url):
                async with connect(token="cb_other"):
                    pass
        with pytest.raises(AuthError, match=daemon.url):
            async with connect(daemon.url):  # another one's address gets no token of this user
                pass


async def test_it_goes_on_with_the_next_daemon_which_has_another_place_and_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))

    async with trio.open_nursery() as nursery:
        first, of_first = await nursery.start(_daemon_here)
        async with connect() as client:
            await client.create_session(title="before")
            of_first.cancel()
            second, of_second = await nursery.start(_daemon_here)
            assert second.url != first.url
            assert second.token != first.token
            await client.create_session(title="after")
            assert [row.title for row in await client.sessions()] == ["after"]
        of_second.cancel()


async def _daemon_here(task_status: trio.TaskStatus[tuple[Daemon, trio.CancelScope]]) -> None:
    with trio.CancelScope() as scope:
        async with open_daemon() as daemon:
            running = RunningDaemon(
                url=daemon.url, pid=1, token=Secret(daemon.token), started_at_ms=1
            )
            with DaemonFile(data_folder(), running):
                task_status.started((daemon, scope))
                await trio.sleep_forever()
