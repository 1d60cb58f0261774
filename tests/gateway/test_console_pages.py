"""The console's files are answered from a table in memory, as a closed page, and nothing else is."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from callboard.config.sections import ServerSettings
from callboard.gateway.console import pages
from callboard.gateway.console.pages import read_table
from support.gateway.browser import Browser, build
from support.gateway.daemon_scene import open_client, open_daemon
from support.gateway.door_scene import request
from support.gateway.raw_door import open_stream, read_end


@asynccontextmanager
async def open_browser(monkeypatch: pytest.MonkeyPatch, folder: Path) -> AsyncGenerator[Browser]:
    monkeypatch.setattr(pages, "FOLDER", folder)
    async with open_daemon() as daemon:
        yield Browser(daemon)


async def test_the_page_is_served_closed_and_its_parts_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with open_browser(monkeypatch, build(tmp_path / "dist")) as browser:
        page = await browser.get("/")
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert policy.endswith("trusted-types callboard dompurify")
        assert "unsafe" not in policy
        assert "*" not in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        assert page.headers["cross-origin-resource-policy"] == "same-origin"
        assert page.headers["permissions-policy"].startswith("camera=(), microphone=()")
        part = await browser.get("/console/assets/a-1.js")
        assert part.status == 200
        assert part.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert (await browser.get("/console/icon.svg")).headers["content-type"] == "image/svg+xml"
        assert (await browser.get("/console/manifest.json")).status == 200


async def test_what_is_kept_by_a_browser_is_not_sent_again_and_gzip_only_where_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with open_browser(monkeypatch, build(tmp_path / "dist")) as browser:
        path = "/console/assets/a-1.js"
        part = await browser.get(path, accept_encoding="gzip;q=0, br")
        assert "content-encoding" not in part.headers
        head = request(
            browser.daemon, path, method="GET", authorization=None, accept_encoding="br, gzip"
        )
        async with open_stream(browser.daemon) as stream:
            await stream.send_all(head)
            await stream.send_eof()
            received = await read_end(stream)
        packed_head, _, packed = received.partition(b"\r\n\r\n")
        assert b"content-encoding: gzip" in packed_head
        assert gzip.decompress(packed).decode() == part.body
        assert len(packed) < len(part.body) // 4
        async with open_stream(browser.daemon) as stream:
            again = request(
                browser.daemon,
                path,
                method="GET",
                authorization=None,
                if_none_match=part.headers["etag"],
            )
            await stream.send_all(again)
            await stream.send_eof()
            received = await read_end(stream)
        assert received.startswith(b"HTTP/1.1 304")
        assert received.endswith(b"\r\n\r\n")
        assert b"content-length" not in received


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/console",
        "/console/",
        "/console/assets/",
        "/console/assets/../index.html",
        "/console/assets/..%2fsecret.key",
        "/console/assets/%2e%2e/secret.key",
        "/console/assets//etc/passwd",
        "/console/assets/a-1.js/",
        "/console/secret.key",
        "/secret.key",
    ],
)
async def test_no_path_reaches_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    async with open_browser(monkeypatch, build(tmp_path / "dist")) as browser:
        assert (await browser.get(path)).status == 404
        assert (await browser.get("/console/assets/a-1.js")).status == 200


async def test_a_link_elsewhere_leads_here_and_a_foreign_page_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with open_browser(monkeypatch, build(tmp_path / "dist")) as browser:
        away = {"sec_fetch_site": "cross-site"}
        assert (await browser.get("/", **away, sec_fetch_mode="navigate")).status == 200
        assert (await browser.get("/", **away, sec_fetch_mode="no-cors")).status == 403
        assert (await browser.get("/console/assets/a-1.js", **away)).status == 403
        assert (await browser.get("/", host="evil.example")).status == 421


async def test_without_a_console_there_is_none_and_no_ticket_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with open_browser(monkeypatch, build(tmp_path / "dist")) as browser:
        state = browser.daemon.gateway.daemon
        assert (await browser.get("/")).status == 200
        ticket = browser.ticket()
        state.take_settings(msgspec.structs.replace(state.settings, console=False))
        assert (await browser.get("/")).status == 404
        assert (await browser.log_in(ticket=ticket)).status == 404
        assert state.console.link("ws://x/ws") == ""
        async with open_client(browser.daemon) as client:
            with pytest.raises(Exception, match="serves no console"):
                await client.tokens.console_ticket()
            state.take_settings(ServerSettings(port=0))
            assert (await client.tokens.console_ticket()).seconds == 60
            assert state.console.link("ws://x/ws").startswith("http://x/#ticket=")


async def test_a_build_without_a_console_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with open_browser(monkeypatch, tmp_path / "nothing") as browser:
        missing = await browser.get("/")
        assert (missing.status, "has no console" in missing.body) == (404, True)


async def test_the_files_are_read_once_and_only_when_somebody_asks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reads: list[Path] = []

    def read(folder: Path) -> dict[str, pages.ConsoleFile]:
        reads.append(folder)
        return read_table(folder)

    monkeypatch.setattr(pages, "read_table", read)
    async with open_browser(monkeypatch, build(tmp_path / "dist")) as browser:
        assert reads == []
        for _ in range(3):
            assert (await browser.get("/")).status == 200
        assert len(reads) == 1
        await trio.to_thread.run_sync((tmp_path / "dist" / "index.html").unlink)
        assert (await browser.get("/")).status == 200


def test_a_folder_of_something_else_is_not_taken_for_a_console(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = build(tmp_path / "dist")
    assert set(read_table(folder)) == {
        "index.html",
        "assets/a-1.js",
        "icon.svg",
        "manifest.json",
    }
    monkeypatch.setattr(pages, "MAX_TABLE_BYTES", 100)
    assert read_table(folder) == {}
