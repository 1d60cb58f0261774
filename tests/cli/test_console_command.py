"""`callboard console` prints a link that logs a browser in once, and puts no ticket where others read it."""

from __future__ import annotations

import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest
import trio

import callboard
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.config.keys.console_logins import ConsoleLogins
from callboard.config.keys.tokens import Credentials, Role, local_credential
from callboard.config.sections import ServerSettings
from callboard.gateway.console import pages
from callboard.gateway.gateway import open_gateway
from callboard.gateway.lifecycle import websocket_url
from support.cli.command import Command, Finished
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here
from support.gateway.browser import Browser, build
from support.gateway.daemon_scene import Daemon

RunHere = Callable[..., Awaitable[Finished]]


class Place(NamedTuple):
    """A daemon that commands find, and a browser that is not logged in there."""

    command: Command
    browser: Browser


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Place]:
    command = Command(tmp_path)
    data = command.home / "data"
    monkeypatch.setattr(pages, "FOLDER", build(tmp_path / "dist"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    local, token = local_credential()
    async with (
        callboard.open_runtime(model="rehearsal", workspace=tmp_path) as runtime,
        open_gateway(runtime, ServerSettings(port=0), data, local=local) as gateway,
    ):
        running = RunningDaemon(
            url=websocket_url("127.0.0.1", gateway.port), pid=1, token=token, started_at_ms=0
        )
        with DaemonFile(data, running):
            daemon = Daemon(gateway, runtime, Credentials(data), token.reveal())
            yield Place(command, Browser(daemon))


async def test_the_link_that_is_printed_logs_a_browser_in_once(
    place: Place, run_here: RunHere
) -> None:
    done = await run_here(place.command, "console")
    assert done.code == 0
    link = urlsplit(done.out.strip())
    assert f"{link.scheme}://{link.netloc}{link.path}" == f"{place.browser.origin}/"
    assert link.query == ""  # a fragment is in no request and in no log
    ticket = link.fragment.removeprefix("ticket=")
    assert "once, within 60 seconds" in done.err
    assert (await place.browser.log_in(ticket=ticket)).status == 200
    assert (await place.browser.log_in(ticket=ticket)).status == 401
    assert await place.browser.opens() == 101


async def test_a_browser_is_opened_by_a_page_of_its_own_and_sees_no_ticket_in_its_arguments(
    place: Place, run_here: RunHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setenv("DISPLAY", ":0")
    done = await run_here(place.command, "console", "--no-open")
    assert (done.code, opened) == (0, [])
    done = await run_here(place.command, "console")
    (url,) = opened
    assert "ticket" not in url
    page = trio.Path(unquote(urlsplit(url).path))
    assert f'content="0; url={done.out.strip()}"' in await page.read_text()
    assert stat.S_IMODE((await page.stat()).st_mode) == 0o600
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert "open the link yourself" in (await run_here(place.command, "console")).err


async def test_a_browser_may_be_given_a_lower_role(place: Place, run_here: RunHere) -> None:
    done = await run_here(place.command, "console", "--role", "observer")
    ticket = done.out.strip().partition("#ticket=")[2]
    made = await place.browser.log_in(ticket=ticket)
    assert '"role":"observer"' in made.body


async def test_browsers_are_listed_and_logged_out_with_the_tokens(
    place: Place, run_here: RunHere
) -> None:
    browser, command = place.browser, place.command
    await browser.log_in(ticket=browser.ticket())
    assert "console of local" in (await run_here(command, "token", "list")).out
    assert (await run_here(command, "token", "revoke", "console of local")).code == 0
    assert await browser.opens() == 401
    assert "console of local" not in (await run_here(command, "token", "list")).out


async def test_without_a_daemon_it_says_how_to_start_one_and_logins_are_listed_all_the_same(
    tmp_path: Path, run_here: RunHere
) -> None:
    command = Command(tmp_path)
    done = await run_here(command, "console")
    assert done.code == 1
    assert "callboard serve" in done.err
    data = command.home / "data"
    Credentials(data).create("phone", Role.OBSERVER)
    (phone,) = Credentials(data).list()
    ConsoleLogins(data).create(phone, Role.OBSERVER, is_remembered=True)
    listed = await run_here(command, "token", "list")
    assert "console of phone" in listed.out
    assert (await run_here(command, "token", "revoke", "console of phone")).code == 0
    assert "console of phone" not in (await run_here(command, "token", "list")).out
    assert "phone" in (await run_here(command, "token", "list")).out
