"""Two halves let a page in, and neither alone: each attack on a login beside the login that works."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from callboard.config.keys import console_logins
from callboard.config.keys.console_logins import ConsoleLogins
from callboard.config.keys.tokens import local_credential
from callboard.gateway.console import logins, pages
from callboard.runtime.errors import PermissionRefused, StorageError
from callboard.runtime.wire.fields import Role
from support.gateway.browser import Browser, build, open_page
from support.gateway.daemon_scene import open_client, open_daemon, open_greeted
from support.gateway.raw_door import PATIENCE, answer_to, code_of_end, handshake, head_of
from support.waits import until

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
async def browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[Browser]:
    """At a daemon with a console, not logged in yet."""
    monkeypatch.setattr(pages, "FOLDER", build(tmp_path / "dist"))
    async with open_daemon() as daemon:
        yield Browser(daemon)


# ── a login, and its halves ──────────────────────────────────────────────────────────────────────


async def test_a_ticket_opens_a_page_that_acts_as_who_made_it(browser: Browser) -> None:
    made = await browser.log_in(ticket=browser.ticket())
    assert (made.status, msgspec.json.decode(made.body)["name"]) == (200, "local")
    port = browser.daemon.gateway.port
    assert browser.set_cookie.startswith(f"callboard_{port}=")
    assert browser.set_cookie.endswith("; HttpOnly; SameSite=Strict; Path=/ws")
    assert made.headers["cache-control"] == "no-store"
    async with open_page(browser) as page:
        assert page.welcome["role"] == "admin"
        assert "session/prompt" in page.welcome["methods"]
        made_session = await page.call("session/new", title="of the page")
        assert "result" in made_session


@pytest.mark.parametrize(
    "without",
    [
        {"cookie": None},
        {"cookie": "callboard_1=stolen"},
        {"sec_websocket_protocol": "callboard"},
        {"sec_websocket_protocol": "callboard, callboard.page."},
        {"sec_websocket_protocol": "callboard, callboard.page.guessed"},
        {"origin": None},
    ],
)
async def test_one_half_alone_is_refused(browser: Browser, without: dict[str, str | None]) -> None:
    await browser.log_in(ticket=browser.ticket())
    assert await browser.opens(**without) == 401
    assert await browser.opens() == 101


async def test_halves_of_two_logins_and_two_of_a_kind_are_refused(browser: Browser) -> None:
    await browser.log_in(ticket=browser.ticket())
    first = browser.cookie
    await browser.log_in(ticket=browser.ticket())
    assert await browser.opens(cookie=first) == 401
    assert await browser.opens(cookie=f"{first}; {browser.cookie}") == 401
    twice = f"callboard, callboard.page.{browser.key}, callboard.page.{browser.key}"
    assert await browser.opens(sec_websocket_protocol=twice) == 401
    with_token = f"Bearer {browser.daemon.token}"
    assert await browser.opens(authorization=with_token) == 401
    assert await browser.opens(cookie=f"other=1; {browser.cookie}; x=y") == 101


async def test_a_program_on_another_port_gets_a_cookie_that_opens_nothing(browser: Browser) -> None:
    # A browser sends cookies of 127.0.0.1 to all of its ports, and an agent may have started a server on one.
    await browser.log_in(ticket=browser.ticket())
    stolen = browser.cookie
    for port in (browser.daemon.gateway.port + 1, 80):
        assert await browser.opens(cookie=stolen, origin=f"http://127.0.0.1:{port}") == 403
    assert await browser.opens(cookie=stolen, sec_websocket_protocol="callboard") == 401
    assert await browser.opens() == 101


async def test_a_cookie_lets_nobody_in_by_http(browser: Browser) -> None:
    await browser.log_in(ticket=browser.ticket())
    for path in ("/v1/models", "/metrics"):
        with_cookie = await browser.get(path, cookie=browser.cookie, origin=browser.origin)
        assert with_cookie.status == 401
        as_key = await browser.get(path, authorization=f"Bearer {browser.key}")
        assert as_key.status == 401
        bearer = f"Bearer {browser.daemon.token}"
        assert (await browser.get(path, authorization=bearer)).status == 200


# ── tickets ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_ticket_opens_once(browser: Browser) -> None:
    ticket = browser.ticket()
    assert (await browser.log_in(ticket=ticket)).status == 200
    again = await browser.log_in(ticket=ticket)
    assert (again.status, "callboard console" in again.body) == (401, True)
    assert (await browser.log_in(ticket=browser.ticket())).status == 200


async def test_a_ticket_is_over_after_a_minute(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, soon = browser.ticket(), browser.ticket()
    now = trio.current_time()
    monkeypatch.setattr(logins, "_now", lambda: now + 61)
    assert (await browser.log_in(ticket=late)).status == 401
    monkeypatch.setattr(logins, "_now", lambda: now + 59)
    assert (await browser.log_in(ticket=soon)).status == 200


async def test_a_ticket_of_a_token_that_was_revoked_since_opens_nothing(browser: Browser) -> None:
    for is_revoked in (True, False):
        name = f"phone-{is_revoked}"
        token = browser.daemon.new_token(name, Role.OBSERVER)
        async with open_client(browser.daemon, token) as client:
            ticket = (await client.tokens.console_ticket()).ticket
        if is_revoked:
            browser.daemon.credentials.revoke(name)
        assert (await browser.log_in(ticket=ticket)).status == (401 if is_revoked else 200)


async def test_tickets_that_nobody_follows_do_not_gather(browser: Browser) -> None:
    first = browser.ticket()
    rest = [browser.ticket() for _ in range(logins.MAX_TICKETS)]
    assert (await browser.log_in(ticket=first)).status == 401
    assert (await browser.log_in(ticket=rest[0])).status == 200


async def test_a_page_can_not_log_another_browser_in(browser: Browser) -> None:
    await browser.log_in(ticket=browser.ticket())
    async with open_page(browser) as page:
        refused = await page.call("console/ticket")
        assert "can't log another browser in" in refused["error"]["message"]
        async with open_greeted(browser.daemon) as raw:  # a program with a token can
            assert "ticket" in (await raw.call("console/ticket"))["result"]


# ── the door of a login ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": None}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"content_type": FORM}, 415),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": None}, 415),
        ({"host": "evil.example"}, 421),
    ],
)
async def test_a_foreign_page_and_a_form_log_nobody_in_or_out(
    browser: Browser, headers: dict[str, str | None], status: int
) -> None:
    wanted = {"token": browser.daemon.token}
    refused = await browser.post("/console/session", wanted, **headers)
    assert (refused.status, "set-cookie" in refused.headers) == (status, False)
    assert (await browser.log_in(**wanted)).status == 200
    leaving = {"key": browser.key}
    assert (await browser.post("/console/logout", leaving, **headers)).status == status
    assert await browser.opens() == 101


async def test_an_origin_that_may_connect_may_not_log_in(browser: Browser) -> None:
    state = browser.daemon.gateway.daemon
    friend = "https://board.example"
    settings = msgspec.structs.replace(state.settings, allowed_origins=(friend,))
    state.take_settings(settings)
    wanted = {"token": browser.daemon.token}
    assert (await browser.post("/console/session", wanted, origin=friend)).status == 403
    own = msgspec.structs.replace(settings, public_url=friend)
    state.take_settings(own)
    made = await browser.post("/console/session", wanted, origin=friend)
    assert made.status == 200
    assert made.headers["set-cookie"].startswith("__Secure-callboard_")
    assert "; Secure" in made.headers["set-cookie"]
    key = msgspec.json.decode(made.body)["key"]
    cookie = made.headers["set-cookie"].partition(";")[0]
    names = f"callboard, callboard.page.{key}"
    assert await browser.opens(origin=friend, cookie=cookie, sec_websocket_protocol=names) == 101
    assert await browser.opens(cookie=cookie, sec_websocket_protocol=names) == 401


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"ticket": "a", "token": "b"},
        {"ticket": 1},
        {"token": "x", "more": 1},
        b"[]",
        b"{",
        b"\xff",
        {"token": "x", "role": "king"},
    ],
)
async def test_what_no_page_sends_is_refused(browser: Browser, wanted: Any) -> None:
    assert (await browser.post("/console/session", wanted)).status == 400
    long = {"token": "x" * logins.MAX_BODY_BYTES}
    assert (await browser.post("/console/session", long)).status == 413
    assert (await browser.log_in(token=browser.daemon.token)).status == 200


async def test_wrong_tickets_and_halves_count_as_wrong_tokens(browser: Browser) -> None:
    await browser.log_in(token=browser.daemon.token)
    tries = [await browser.log_in(ticket=str(each)) for each in range(5)]
    assert [each.status for each in tries] == [401] * 5
    assert [await browser.opens(cookie="x=y") for _ in range(6)] == [401] * 5 + [429]
    assert (await browser.log_in(token="cb_wrong")).status == 429
    assert await browser.opens() == 101  # a right one is let in, whatever came from its address


# ── as whom, and for how long ────────────────────────────────────────────────────────────────────


async def test_a_login_has_the_role_and_the_limits_of_its_token_or_less(browser: Browser) -> None:
    token = browser.daemon.new_token("phone", Role.OPERATOR, agents=("nobody",))
    assert (await browser.log_in(token=token, role="admin")).status == 403
    assert (await browser.log_in(token=token)).status == 200
    async with open_client(browser.daemon) as client:
        await client.create_session(agent="general")
    async with open_page(browser) as page:
        assert page.welcome["role"] == "operator"
        listed = await page.call("session/list")
        assert listed["result"]["sessions"] == []
    assert (await browser.log_in(token=token, role="observer")).status == 200
    async with open_page(browser) as page:
        assert page.welcome["role"] == "observer"
        assert "session/prompt" not in page.welcome["methods"]
        refused = await page.call("session/new")
        assert "error" in refused
    with pytest.raises(PermissionRefused):
        async with open_client(browser.daemon, token) as client:
            await client.tokens.console_ticket("admin")


@pytest.mark.parametrize("ends_by", ["rotate", "revoke"])
@pytest.mark.parametrize("role", [None, "observer"])
async def test_a_token_that_is_rotated_or_revoked_takes_its_browsers_along(
    browser: Browser, ends_by: str, role: str | None
) -> None:
    token = browser.daemon.new_token("phone", Role.OPERATOR)
    await browser.log_in(token=token, role=role)
    async with open_page(browser) as page, open_client(browser.daemon) as client:
        names = [row.name for row in await client.tokens.list()]
        assert names == ["test", "phone", "console of phone"]
        await getattr(client.tokens, ends_by)("phone")
        assert await code_of_end(page) == 1008
        assert await browser.opens() == 401
        assert "console of phone" not in [row.name for row in await client.tokens.list()]


async def test_a_token_whose_file_another_process_changed_takes_its_browsers_along(
    browser: Browser,
) -> None:
    token = browser.daemon.new_token("phone", Role.OPERATOR)
    await browser.log_in(token=token, role="observer")
    async with open_page(browser) as page:
        assert (await page.call("session/list"))["result"]["sessions"] == []
        browser.daemon.credentials.revoke("phone")
        assert await code_of_end(page) == 1008


async def test_who_logs_out_is_out_and_the_others_stay(browser: Browser) -> None:
    await browser.log_in(token=browser.daemon.token)
    other = Browser(browser.daemon)
    await other.log_in(token=browser.daemon.token)
    async with open_page(browser) as page:
        left = await browser.post("/console/logout", {"key": browser.key})
        assert left.status == 200
        assert "Max-Age=0" in left.headers["set-cookie"]
        assert await code_of_end(page) == 1008
        assert await browser.opens() == 401
        assert await other.opens() == 101
        # A key that is none ends nothing, and is not told apart from one.
        assert (await browser.post("/console/logout", {"key": browser.key})).status == 200


async def test_browsers_are_logged_out_by_their_name_in_the_list_of_tokens(
    browser: Browser,
) -> None:
    await browser.log_in(ticket=browser.ticket())
    token = browser.daemon.new_token("phone", Role.OBSERVER)
    phone = Browser(browser.daemon)
    await phone.log_in(token=token)
    async with open_client(browser.daemon) as client:
        rows = {row.name: row for row in await client.tokens.list()}
        assert rows["console of local"].role is Role.ADMIN
        assert rows["console of phone"].role is Role.OBSERVER
        await client.tokens.revoke("console of local")
        assert await browser.opens() == 401
        assert await phone.opens() == 101
        with pytest.raises(Exception, match="no token"):
            await client.tokens.revoke("console of local")


@pytest.mark.parametrize(("remember", "days"), [(False, 0.5), (True, 30)])
async def test_an_unused_login_ends_after_a_night_and_a_remembered_one_after_a_month(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, remember: bool, days: float
) -> None:
    start = console_logins.now_ms()
    rest = int(days * 24 * 3600 * 1000)
    await browser.log_in(ticket=browser.ticket(), remember=remember)
    assert ("Max-Age" in browser.set_cookie) is remember
    kept = ConsoleLogins(browser.daemon.credentials.path.parent)
    late = start + rest - 60_000
    monkeypatch.setattr(console_logins, "now_ms", lambda: late)
    async with open_page(browser):
        with trio.fail_after(PATIENCE):  # it is seen then, and lasts as long again
            await until(lambda: [each.used_at_ms for each in kept.list()] == [late])
    monkeypatch.setattr(console_logins, "now_ms", lambda: start + 2 * rest - 120_000)
    assert await browser.opens() == 101
    monkeypatch.setattr(console_logins, "now_ms", lambda: start + 4 * rest)
    assert await browser.opens() == 401


async def test_a_login_of_this_user_outlives_the_daemon_and_its_own_token(
    browser: Browser,
) -> None:
    await browser.log_in(ticket=browser.ticket())
    state = browser.daemon.gateway.daemon
    state.local, _ = local_credential()  # as the next daemon on this folder makes one
    assert await browser.opens() == 101
    state.local = None
    assert await browser.opens() == 401


async def test_logins_are_kept_as_digests_for_their_owner_alone(browser: Browser) -> None:
    await browser.log_in(ticket=browser.ticket())
    path = browser.daemon.credentials.path.with_name("console.json")
    kept = path.read_text()
    assert browser.key not in kept
    assert browser.cookie.partition("=")[2] not in kept
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_damaged_file_lets_no_page_in_and_says_what_to_do(browser: Browser) -> None:
    await browser.log_in(ticket=browser.ticket())
    path = browser.daemon.credentials.path.with_name("console.json")
    content = path.read_bytes()
    path.write_bytes(b"{")
    assert await browser.opens() == 503
    with pytest.raises(StorageError, match="Remove it"):
        ConsoleLogins(path.parent).list()
    browser.daemon.new_token("phone", Role.OBSERVER)
    async with open_client(browser.daemon) as client:
        await client.tokens.revoke("phone")  # which must never wait for that file
    assert [each.name for each in browser.daemon.credentials.list()] == ["test"]
    path.write_bytes(content)
    assert await browser.opens() == 101
    # Programs with a token never needed it.
    answered = await answer_to(browser.daemon, head_of(handshake(browser.daemon)))
    assert answered.status == 101


def test_the_browser_that_was_away_longest_gives_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = count(console_logins.now_ms())
    monkeypatch.setattr(console_logins, "now_ms", lambda: next(times))
    book, (local, _) = ConsoleLogins(tmp_path), local_credential()
    credential = msgspec.structs.replace(local, name="n" * 64)  # as long as a name may be
    made = [
        book.create(credential, Role.ADMIN, is_remembered=True)
        for _ in range(console_logins.MAX_LOGINS)
    ]
    assert book.use(made[0][0])
    book.create(credential, Role.ADMIN, is_remembered=True)
    kept = [each.key for each in book.list()]
    assert len(kept) == console_logins.MAX_LOGINS
    assert made[0][0].key in kept
    assert made[1][0].key not in kept
    assert not book.use(made[1][0])
    assert (tmp_path / console_logins.FILE_NAME).stat().st_size < console_logins.MAX_FILE_BYTES


async def test_a_login_that_ends_while_its_page_opens_ends_the_page(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.log_in(ticket=browser.ticket())
    state = browser.daemon.gateway.daemon
    admitted = state.console.admitted

    async def admitted_late(*halves: Any) -> Any:
        found = await admitted(*halves)
        await state.console.end(lambda _: True)  # between the check and the open websocket
        return found

    monkeypatch.setattr(state.console, "admitted", admitted_late)
    async with open_page(browser, greets=False) as page:
        assert await code_of_end(page) == 1008
    with trio.fail_after(PATIENCE):
        await until(lambda: not state.connections)
