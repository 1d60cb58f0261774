"""Who is let in by the head of a request: names, origins, tokens."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
import trio

from callboard.client.client import connect
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import ServerSettings
from callboard.gateway.door.http import BadHead, RequestHead
from callboard.gateway.door.rate_limits import (
    BAD_TOKEN_SECONDS,
    MAX_BAD_TOKENS,
    MAX_REMEMBERED,
    RateLimits,
    peer_name,
)
from callboard.gateway.door.rules import door_rules
from callboard.runtime.errors import AuthError
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_client, open_daemon, open_greeted
from support.gateway.raw_door import (
    answer_to,
    code_of_end,
    handshake,
    head_of,
    open_stream,
    read_answer,
    upgrade,
)
from support.waits import leap, until

ROUTES = ("/", "/ws", "/healthz", "/readyz", "/metrics", "/v1/chat/completions", "/nothing")


# ── names and targets ────────────────────────────────────────────────────────────────────────────


async def test_case_32_only_its_own_names_reach_a_daemon() -> None:
    async with open_daemon() as daemon:
        port = daemon.gateway.port
        for host, status in (
            (f"127.0.0.1:{port}", 101),
            (f"localhost:{port}", 101),
            (f"LOCALHOST:{port}", 101),
            (f"[::1]:{port}", 101),
            ("evil.test", 421),
            (f"evil.test:{port}", 421),
            ("127.0.0.1", 421),
            (f"127.0.0.1:{port + 1}", 421),
            (f"localhost.evil.test:{port}", 421),
            (f"127.0.0.1:{port}/x?", 400),
            ("[::1]@evil", 400),
            (f"evil@127.0.0.1:{port}", 400),
            (f"127.0.0.1:{port}#x", 400),
            (f"127.0.0.1:{port}, evil.test", 400),
            (f"127.0.0.1 :{port}", 400),
            (None, 400),
            ("", 400),
        ):
            # A wrong name is refused before anybody looks at the token.
            for token in (f"Bearer {daemon.token}", None):
                expected = 401 if status == 101 and token is None else status
                assert await upgrade(daemon, host=host, authorization=token) == expected, host


async def test_case_32_two_names_and_another_names_in_the_target_reach_nothing() -> None:
    async with open_daemon() as daemon:
        port = daemon.gateway.port
        right, wrong = ("host", f"127.0.0.1:{port}"), ("host", "evil.test")
        for pair in ([right, wrong], [wrong, right], [right, right]):
            rest = handshake(daemon, host=None)
            assert (await answer_to(daemon, head_of([*pair, *rest]))).status == 400
        targets: tuple[tuple[str, int], ...] = (
            ("/ws", 101),
            ("/ws?", 400),
            (f"/ws?token={daemon.token}", 400),
            ("http://evil.test/ws", 400),
            (f"http://127.0.0.1:{port}/ws", 400),
            ("*", 400),
            ("/ws/", 404),
            ("//ws", 404),
            ("/%77s", 404),
            ("/x/../ws", 404),
            ("/ws#x", 404),
        )
        for target, status in targets:
            assert await upgrade(daemon, target) == status, target


async def test_case_33_pages_of_other_origins_do_not_connect() -> None:
    async with open_daemon() as daemon:
        port = daemon.gateway.port
        for origin, status in (
            (None, 101),
            (f"http://127.0.0.1:{port}", 101),
            (f"http://localhost:{port}", 101),
            ("http://evil.test", 403),
            ("null", 403),
            ("", 403),
            (f"http://127.0.0.1:{port + 1}", 403),
            ("http://127.0.0.1", 403),
            (f"https://127.0.0.1:{port}", 403),
            (f"http://localhost:{port}.evil.test", 403),
            (f"http://localhost:{port}/", 403),
            (f"HTTP://LOCALHOST:{port}", 403),
            (f"http://127.0.0.1:{port} http://evil.test", 403),
        ):
            assert await upgrade(daemon, origin=origin) == status, origin
        twice = [
            *handshake(daemon, origin=f"http://localhost:{port}"),
            ("origin", "http://evil.test"),
        ]
        assert (await answer_to(daemon, head_of(twice))).status == 400
        assert await upgrade(daemon, sec_fetch_site="cross-site") == 403
        assert await upgrade(daemon, sec_fetch_site="same-origin") == 101


async def test_an_owner_names_other_hosts_and_origins() -> None:
    settings = ServerSettings(
        port=0, allowed_hosts=("board.example",), allowed_origins=("https://board.example",)
    )
    async with open_daemon(settings=settings) as daemon:
        ours = {"host": "board.example", "origin": "https://board.example"}
        assert await upgrade(daemon, **ours) == 101
        assert await upgrade(daemon, **ours | {"host": "Board.Example"}) == 101
        assert await upgrade(daemon, **ours | {"host": "other.example"}) == 421
        assert await upgrade(daemon, **ours | {"origin": "https://other.example"}) == 403
        assert await upgrade(daemon, **ours | {"origin": "https://Board.example"}) == 403


def test_a_server_on_every_address_has_local_names_alone() -> None:
    for address in ("0.0.0.0", "::"):
        rules = door_rules(address, 8790)
        assert "localhost:8790" in rules.hosts
        with pytest.raises(BadHead):
            rules.check(_head_with_host("192.0.2.7:8790"))
    rules = door_rules("192.0.2.7", 8790)
    rules.check(_head_with_host("192.0.2.7:8790"))
    with pytest.raises(BadHead):
        rules.check(_head_with_host("localhost:8790"))


def _head_with_host(host: str) -> RequestHead:
    return RequestHead(method="GET", target="/", headers=(("host", host),), received=b"")


async def test_case_34_a_strangers_page_changes_nothing_and_reads_nothing() -> None:
    async with open_daemon() as daemon:
        host = ("host", f"127.0.0.1:{daemon.gateway.port}")
        form = ("content-type", "application/x-www-form-urlencoded")
        evil = ("origin", "http://evil.test")
        body = b'{"jsonrpc":"2.0","id":1,"method":"session/new"}'
        for route in ROUTES:
            for method, extra in (
                ("POST", [form, evil]),
                ("POST", [("content-type", "text/plain"), ("sec-fetch-site", "cross-site")]),
                ("GET", [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]),
                ("OPTIONS", [evil, ("access-control-request-method", "POST")]),
            ):
                headers = [host, *extra, ("content-length", str(len(body)))]
                answer = await answer_to(daemon, head_of(headers, route, method) + body)
                assert answer.status == 403, (route, method)
                assert not [name for name in answer.headers if name.startswith("access-control")]
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                own = [host, ("content-length", str(len(body)))]
                answer = await answer_to(daemon, head_of(own, route, method) + body)
                assert answer.status in {401, 404, 405, 426}, (route, method)
                assert not [name for name in answer.headers if name.startswith("access-control")]
        assert await daemon.runtime.sessions() == []
        answer = await answer_to(daemon, head_of([host], "/healthz"))
        assert (answer.status, answer.body) == (200, "ok\n")
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_an_odd_handshake_is_told_what_is_odd() -> None:
    async with open_daemon() as daemon:
        for changes, status in (
            ({"sec_websocket_version": "8"}, 426),
            ({"sec_websocket_version": None}, 426),
            ({"sec_websocket_key": None}, 400),
            ({"sec_websocket_key": "short"}, 400),
            ({"connection": "keep-alive"}, 400),
            ({"connection": "keep-alive, Upgrade"}, 101),
            ({"upgrade": "WebSocket"}, 101),
            ({"upgrade": "h2c"}, 426),
            ({"upgrade": None}, 426),
        ):
            sent = head_of(handshake(daemon, **changes))
            assert (await answer_to(daemon, sent)).status == status, changes
        post = head_of(handshake(daemon), method="POST")
        assert (await answer_to(daemon, post)).status == 400
        early = head_of(handshake(daemon)) + b"\x81\x80\0\0\0\0"
        assert (await answer_to(daemon, early)).status == 400
        for garbage in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"hello\r\n\r\n",
            b"\0" * 100,
        ):
            assert (await answer_to(daemon, garbage + b"\r\n\r\n")).status == 400


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────


async def test_case_36_what_is_not_a_token_opens_nothing() -> None:
    async with open_daemon() as daemon:
        token, digest = daemon.token, daemon.credentials.list()[0].digest
        for authorization in (
            None,
            "",
            "Bearer",
            "Bearer ",
            "Bearer null",
            "Bearer undefined",
            "Bearer None",
            "Bearer *",
            f"Bearer {token[:-1]}",
            f"Bearer {token}x",
            f"Bearer {token.upper()}",
            f"Bearer {digest}",
            f"Bearer {token},{token}",
            f"Basic {token}",
            f"Token {token}",
            token,
            f'{{"token":"{token}"}}',
            "Bearer " + "x" * 10_000,
        ):
            status = await upgrade(daemon, authorization=authorization)
            assert status in {401, 429}, authorization
        two = [*handshake(daemon), ("authorization", "Bearer cb_other")]
        assert (await answer_to(daemon, head_of(two))).status in {401, 429}
        mixed = handshake(daemon, sec_websocket_protocol=f"callboard, callboard.token.{token}x")
        assert (await answer_to(daemon, head_of(mixed))).status in {401, 429}
        cookie = handshake(daemon, authorization=None, cookie=f"token={token}")
        assert (await answer_to(daemon, head_of(cookie))).status in {401, 429}
        assert await upgrade(daemon, authorization=f"Bearer {token}") == 101
        assert await upgrade(daemon, authorization=f"bearer {token}") == 101


async def test_a_browser_names_its_token_as_a_subprotocol_and_never_gets_it_back() -> None:
    async with open_daemon() as daemon:
        token = f"callboard.token.{daemon.token}"
        named = handshake(daemon, authorization=None, sec_websocket_protocol=f"callboard, {token}")
        answer = await answer_to(daemon, head_of(named))
        assert (answer.status, answer.headers["sec-websocket-protocol"]) == (101, "callboard")
        for other in (token, f"chat, {token}"):
            named = handshake(daemon, authorization=None, sec_websocket_protocol=other)
            answer = await answer_to(daemon, head_of(named))
            assert answer.status == 400
            assert daemon.token not in answer.body + str(answer.headers)
        assert (
            "sec-websocket-protocol"
            not in (await answer_to(daemon, head_of(handshake(daemon)))).headers
        )


async def test_case_36_without_readable_tokens_nobody_comes_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_daemon() as daemon:
        path = daemon.credentials.path
        whole = path.read_bytes()
        path.unlink()
        assert await upgrade(daemon) == 401
        assert await upgrade(daemon, authorization=None) == 401
        caplog.clear()
        path.write_bytes(b'{"credentials":[{"name":"test"')
        path.chmod(0o600)
        assert [await upgrade(daemon) for _ in range(3)] == [503] * 3
        told = [r.message for r in caplog.records if "nobody can connect" in r.message]
        assert len(told) == 1  # not for each who knocks
        path.write_bytes(whole)
        path.chmod(0o604)
        assert await upgrade(daemon) == 503
        path.chmod(0o600)
        assert await upgrade(daemon) == 101


async def test_case_37_a_rotated_token_ends_its_connections() -> None:
    async with open_daemon() as daemon:
        old = daemon.new_token("phone", Role.OPERATOR)
        async with open_client(daemon) as admin, open_greeted(daemon, old) as phone:
            session = (await phone.call("session/new"))["result"]["session_id"]
            await phone.call("session/subscribe", session_id=session)
            async with open_greeted(daemon) as raw:
                new = (await raw.call("token/rotate", name="phone"))["result"]["token"]
                assert await code_of_end(phone) == 1008
                assert "result" in await raw.call("runtime/status")  # whose token it is not
            with pytest.raises(AuthError):
                async with connect(daemon.url, old):
                    pass
            async with open_client(daemon, new) as again:
                assert (await again.session(session)).session_id == session
            await until(lambda: len(daemon.gateway.daemon.connections) == 1)
            assert (await admin.status()).connections == 1


@pytest.mark.parametrize("change", ["rotate", "revoke", "limit", "remove the file"])
async def test_case_37_whoever_changes_the_file_ends_connections_too(change: str) -> None:
    async with open_daemon() as daemon:
        token = daemon.new_token("phone", Role.OPERATOR)
        other = daemon.new_token("desk", Role.OPERATOR)
        async with open_greeted(daemon, token) as phone, open_greeted(daemon, other) as desk:
            elsewhere = Credentials(daemon.credentials.path.parent)
            await trio.to_thread.run_sync(_change, elsewhere, change)
            assert await code_of_end(phone) == 1008
            if change != "remove the file":
                assert "result" in await desk.call("runtime/status")


def _change(credentials: Credentials, change: str) -> None:
    match change:
        case "rotate":
            credentials.rotate("phone")
        case "revoke":
            credentials.revoke("phone")
        case "limit":
            text = credentials.path.read_text()
            assert '"name":"phone","role":"operator"' in text
            new = text.replace(
                '"name":"phone","role":"operator"', '"name":"phone","role":"observer"'
            )
            path = Path(f"{credentials.path}.new")
            path.write_text(new)
            path.chmod(0o600)
            path.replace(credentials.path)
        case _:
            credentials.path.unlink()


async def test_case_38_wrong_tokens_are_limited_and_the_right_one_still_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with open_daemon() as daemon:
        statuses = []
        for n in range(40):
            changes = {"authorization": f"Bearer cb_{n}", "x-token": f"cb_{n}", "cookie": f"t={n}"}
            if n % 2:
                changes["origin"] = f"http://127.0.0.1:{daemon.gateway.port}"
            statuses.append(await upgrade(daemon, **changes))
        assert statuses == [401] * MAX_BAD_TOKENS + [429] * 30
        told = [r.message for r in caplog.records if "wrong tokens" in r.message]
        assert told == [f"{MAX_BAD_TOKENS} wrong tokens came from 127.0.0.1 within a minute"]
        assert await upgrade(daemon) == 101
        assert await upgrade(daemon, authorization=None) == 429
        async with open_client(daemon) as client:
            assert await client.sessions() == []


async def test_the_limit_of_wrong_tokens_holds_for_a_minute_and_for_every_spelling(
    mock_clock: trio.testing.MockClock,
) -> None:
    peers = RateLimits(10, 10)
    names = [peer_name("127.0.0.1"), peer_name("::ffff:127.0.0.1"), peer_name("::ffff:7f00:1")]
    assert set(names) == {"127.0.0.1"}
    assert peer_name("2001:db8::1") == peer_name("2001:db8::2%eth0") != peer_name("2001:db8:0:1::1")
    for n in range(MAX_BAD_TOKENS):
        assert not peers.is_locked_out("127.0.0.1")
        peers.sent_bad_token(names[n % 3])
    assert peers.is_locked_out("127.0.0.1")
    assert not peers.is_locked_out("127.0.0.2")
    mock_clock.jump(BAD_TOKEN_SECONDS + 1)
    assert not peers.is_locked_out("127.0.0.1")
    for n in range(3 * MAX_REMEMBERED):
        peers.sent_bad_token(f"peer {n}")
    assert peers.remembered == MAX_REMEMBERED


# ── heads that cost something ────────────────────────────────────────────────────────────────────


async def test_case_41_large_heads_are_refused() -> None:
    async with open_daemon() as daemon:
        right = handshake(daemon)
        for extra, status in (
            ([("x-pad", "y" * 8_000)], 101),
            ([("x-pad", "y" * 17_000)], 431),
            ([(f"x-{n}", "y") for n in range(90)], 101),
            ([(f"x-{n}", "y") for n in range(300)], 431),
        ):
            assert (await answer_to(daemon, head_of([*right, *extra]))).status == status
        endless = b"GET /" + b"x" * 100_000
        assert (await answer_to(daemon, endless)).status == 431


async def test_case_41_half_a_head_and_one_that_drips_have_their_time(
    leaping_clock: trio.testing.MockClock,
) -> None:
    settings = ServerSettings(port=0, head_seconds=10)
    async with open_daemon(settings=settings) as daemon, open_client(daemon) as client:
        whole = head_of(handshake(daemon))

        async def drip(stream: trio.SocketStream) -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                for byte in whole:
                    await stream.send_all(bytes((byte,)))
                    await trio.sleep(0.02)

        async with (
            open_stream(daemon) as silent,
            open_stream(daemon) as half,
            open_stream(daemon) as dripping,
            trio.open_nursery() as nursery,
        ):
            await half.send_all(whole[: len(whole) // 2])
            nursery.start_soon(drip, dripping)
            assert await upgrade(daemon) == 101  # so that those are in that came before
            await trio.testing.wait_all_tasks_blocked()
            leap(10)
            for stream in (silent, half, dripping):
                assert (await read_answer(stream)).status == 408
                assert (await client.status()).connections == 1
            nursery.cancel_scope.cancel()
        assert await upgrade(daemon) == 101


async def test_case_41_who_says_nothing_gives_way_to_who_comes() -> None:
    settings = ServerSettings(port=0, max_connections=20, max_peer_connections=20, head_seconds=60)
    async with open_daemon(settings=settings) as daemon, open_client(daemon) as client:
        async with AsyncExitStack() as idle:
            for _ in range(100):
                stream = await idle.enter_async_context(open_stream(daemon))
                await stream.send_all(b"GET / HTTP/1.1\r\n")
            for _ in range(30):
                assert await upgrade(daemon) == 101
                assert (await client.status()).connections >= 1


async def test_connections_with_a_token_give_way_to_nobody() -> None:
    settings = ServerSettings(port=0, max_connections=3, max_peer_connections=3)
    async with open_daemon(settings=settings) as daemon:
        async with open_client(daemon) as first, open_client(daemon), open_client(daemon) as third:
            assert await upgrade(daemon) == 503
            for client in (first, third):
                assert (await client.status()).connections == 3
        while await upgrade(daemon) != 101:  # noqa: ASYNC110  nothing tells of it
            await trio.sleep(0.01)
