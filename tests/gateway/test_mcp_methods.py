"""`mcp/…` over the websocket and by `callboard mcp`: what is changed holds at once, and what is withheld is said."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlsplit
from urllib.request import Request, urlopen

import pytest
import trio
from msgspec.structs import replace

import callboard
from callboard.cli.app import execute
from callboard.cli.mcp.changed import hear_changed
from callboard.client.client import Client
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.config.keys.tokens import Role
from callboard.config.mcp.settings import McpDraft, McpSettings
from callboard.config.mcp.wire import LookAtMcpServer, McpLogin, McpOffer
from callboard.config.sections import ServerSettings
from callboard.embedding.runtime import host_of
from callboard.gateway.logins import DOCUMENT_PATH
from callboard.runtime.errors import (
    AuthError,
    ConflictError,
    NotFoundError,
    PermissionRefused,
    ValidationError,
)
from callboard.runtime.redaction import Secret
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import Daemon, open_client
from support.gateway.webhook_receiver import hook
from support.mcp.stage import FOLDER, PYTHON, fake, sent_to, web
from support.mcp.web import Issuer, serving
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
SHOWN = f'[sandbox]\nread_only = ["{FOLDER}"]\n'


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


def digests(offer: McpOffer) -> dict[str, str]:
    return {tool.original: tool.digest for tool in offer.tools}


async def added(client: Client, server: McpSettings) -> None:
    await client.mcp.add(server, digests(await client.mcp.look(server.name, server)))


async def called(client: Client, name: str, **arguments: Any) -> Any:
    return await client.call_tool(f"fake__{name}", arguments)


async def test_a_server_is_looked_at_accepted_changed_and_removed(tmp_path: Path) -> None:
    async with served(tmp_path, SHOWN) as (daemon, _), open_client(daemon) as client:
        assert await client.mcp.list() == []
        server = fake(tier="read_only")
        offer = await client.mcp.look("fake", server)
        assert (offer.digests, offer.offers_digest) == (digests(offer), offer.offers.digest)
        row = await client.mcp.add(server, {"say": digests(offer)["say"]})
        assert (row.source, row.state, row.tools) == ("managed", "not started", ("fake__say",))
        assert (await called(client, "say")).status == "success"  # at once
        [row] = await client.mcp.list()
        assert (row.state, row.withheld, "count" in row.new) == ("running", (), True)

        all_tools = digests(await client.mcp.look("fake"))
        await client.mcp.accept("fake", all_tools)
        assert (await called(client, "count")).status == "success"
        kept = (await client.mcp.get("fake")).settings
        assert {tool.accepted_by for tool in kept.tools} == {"token:test"}

        assert (await client.mcp.update(replace(kept, enabled=False))).state == "off"
        refused = await called(client, "say")
        assert refused.error["error_type"] == "tool_not_found"
        await client.mcp.update(replace(kept, enabled=True))
        assert (await called(client, "say")).status == "success"
        await client.mcp.remove("fake")
        assert await client.mcp.list() == []
        with pytest.raises(NotFoundError):
            await client.mcp.get("fake")


async def test_only_what_was_shown_can_be_accepted(tmp_path: Path) -> None:
    async with served(tmp_path, SHOWN) as (daemon, _), open_client(daemon) as client:
        server = fake()
        with pytest.raises(ConflictError, match="look at it again"):
            await client.mcp.add(server, {"say": 64 * "0"})  # nobody has looked
        offer = await client.mcp.look("fake", server)
        with pytest.raises(ConflictError, match="look at it again"):
            await client.mcp.add(server, {**digests(offer), "say": 64 * "0"})
        assert await client.mcp.list() == []
        await client.mcp.add(server, digests(offer))
        with pytest.raises(ConflictError, match="There is a server fake"):
            await client.mcp.add(server, digests(offer))
        draft = McpDraft(name="b", command=("x",), env={"API_TOKEN": "abc"})
        with pytest.raises(ValidationError, match="looks like a secret"):
            await client.request("mcp/look", LookAtMcpServer(name="b", server=draft), McpOffer)


async def test_a_withheld_tool_and_a_server_that_was_given_up_are_listed(tmp_path: Path) -> None:
    async with served(tmp_path, SHOWN) as (daemon, _), open_client(daemon) as client:
        await added(client, fake("--fault=changes", state=True, tier="read_only"))
        refused = await called(client, "say")  # starts it a second time
        assert refused.error["error_type"] == "tool_not_available"
        [row] = await client.mcp.list()
        assert (row.withheld, row.state) == (("fake__say",), "running")
        await client.mcp.accept("fake", digests(await client.mcp.look("fake")))
        assert (await called(client, "say")).status == "success"
        assert (await client.mcp.list())[0].withheld == ()

        for _ in range(5):
            await called(client, "die", always=True)
        found = await client.mcp.get("fake")
        assert (found.row.state, "code 7" in found.row.problem) == ("failed", True)
        assert (await called(client, "say")).status == "error"
        await client.mcp.restart("fake")
        assert (await called(client, "say")).status == "success"


async def test_roles_and_what_only_the_own_user_may_say(tmp_path: Path) -> None:
    async with served(tmp_path, SHOWN) as (daemon, local), open_client(daemon) as admin:
        await added(admin, fake())
        observer = daemon.credentials.create("eye", Role.OBSERVER).reveal()
        operator = daemon.credentials.create("hand", Role.OPERATOR).reveal()
        part = daemon.credentials.create("part", Role.OBSERVER, agents=("general",)).reveal()
        async with open_client(daemon, observer) as client:
            assert [(row.name, row.place) for row in await client.mcp.list()] == [("fake", "")]
            with pytest.raises(AuthError):
                await client.mcp.get("fake")
        async with open_client(daemon, operator) as client:
            assert (await client.mcp.get("fake")).row.place.startswith(PYTHON)
            for change in (client.mcp.look, client.mcp.restart, client.mcp.remove):
                with pytest.raises(AuthError):
                    await change("fake")
        async with open_client(daemon, part) as client:
            with pytest.raises(AuthError):
                await client.mcp.list()
        sold = McpSettings(name="other", url="https://a.example/", client_id="${env:THEIRS}")
        with pytest.raises(PermissionRefused, match="the daemon's own user"):
            await admin.mcp.look("other", sold)
        asking = replace(fake(name="other"), env={"X": "${env:THEIRS}"})
        with pytest.raises(PermissionRefused, match="the daemon's own user"):
            await admin.mcp.look("other", asking)
        with pytest.raises(PermissionRefused, match="the daemon's own user"):
            await admin.mcp.look("other", fake(name="other", read_only=("/srv",)))
        keyed = replace(fake(), env={"X": "${key:mine}"})
        await admin.mcp.update(keyed)
        moved = replace(keyed, command=("/bin/cat",))
        with pytest.raises(PermissionRefused, match="stored key mine of fake"):
            await admin.mcp.update(moved)
        async with open_client(daemon, local) as client:
            await client.mcp.update(moved)
            with pytest.raises(
                callboard.ToolError, match="THEIRS"
            ):  # it is looked up, and not there
                await client.mcp.look("other", asking)


# ── logins ───────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def with_a_login(home: Path, text: str = "") -> AsyncGenerator[tuple[Any, ...]]:
    with serving() as its:
        issuer = Issuer(its)
        shown = f'[network]\nallow = ["{its.endpoint}"]\n[mcp.web]\nurl = "{its.url}"\n{text}'
        async with served(home, shown) as (daemon, _), open_client(daemon) as client:
            yield its, issuer, daemon, client


async def browsed(url: str, **headers: str) -> int:
    """Go where a page leads, as a browser that a page of another site sent; return the last status."""
    sent = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", **headers}

    def go() -> int:
        try:
            with urlopen(Request(url, headers=sent), timeout=30) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code

    return await trio.to_thread.run_sync(go)


async def test_a_person_logs_in_through_the_daemon_once(tmp_path: Path) -> None:
    async with with_a_login(tmp_path) as (its, issuer, daemon, client):
        with pytest.raises(callboard.ToolError, match="callboard mcp login web"):
            await client.mcp.look("web")
        begun = await client.mcp.login("web")
        asked = dict(parse_qsl(urlsplit(begun.url).query))
        here = f"http://127.0.0.1:{daemon.gateway.port}/oauth/mcp"
        assert asked["redirect_uri"] == here
        assert await browsed(f"{here}?code=x&state=y") == 400
        assert await browsed(begun.url, **{"sec-fetch-mode": "no-cors"}) == 403
        assert await browsed(begun.url) == 200
        await client.mcp.finish_login(begun.login)
        assert await browsed(f"{here}?code=x&state={asked['state']}") == 400  # it holds once
        assert [tool.original for tool in (await client.mcp.look("web")).tools] == ["say"]
        with pytest.raises(NotFoundError, match="no such login"):
            await client.mcp.finish_login(begun.login)
        its.token = ""
        assert await client.mcp.login("web") == McpLogin()  # it wants none any more
        issuer.refuses, its.token = True, "at-none"
        refused = await client.mcp.login("web")
        assert await browsed(refused.url) == 200
        with pytest.raises(callboard.ToolError, match="the login was refused: access_denied"):
            await client.mcp.finish_login(refused.login)
        first, second = [await client.mcp.login("web") for _ in range(2)]
        with pytest.raises(NotFoundError):
            await client.mcp.finish_login(first.login)
        daemon.gateway.daemon.logins._logins[second.login].scope.cancel()
        with pytest.raises(callboard.ToolError, match="ended before it was done"):
            await client.mcp.finish_login(second.login)


async def test_a_public_daemon_says_who_it_is_and_gives_logins_back(tmp_path: Path) -> None:
    public = "https://board.example"
    text = f'[server]\npublic_url = "{public}"\n'
    async with with_a_login(tmp_path, text) as (its, issuer, daemon, client):
        issuer.takes_documents = True
        here = f"http://127.0.0.1:{daemon.gateway.port}"
        said = await trio.to_thread.run_sync(fetched, f"{here}{DOCUMENT_PATH}")
        assert said["client_id"] == f"{public}{DOCUMENT_PATH}"
        assert said["redirect_uris"] == [f"{public}/oauth/mcp"]
        begun = await client.mcp.login("web")
        asked = dict(parse_qsl(urlsplit(begun.url).query))
        assert (asked["client_id"], asked["redirect_uri"]) == (
            said["client_id"],
            f"{public}/oauth/mcp",
        )
        back = (await trio.to_thread.run_sync(sent_to, begun.url)).replace(public, here)
        assert await browsed(back, host="board.example") == 200
        await client.mcp.finish_login(begun.login)
        assert issuer.registered == 0
        assert await host_of(daemon.runtime).servers().log_out(web(its)) == ""
        assert [form["token_type_hint"] for form in issuer.revoked] == [
            "refresh_token",
            "access_token",
        ]
        assert issuer.revoked[1]["token"] == its.token


def fetched(url: str) -> Any:
    with urlopen(url, timeout=30) as answer:
        return json.load(answer)


async def test_only_where_a_browser_can_come_back_a_login_begins(tmp_path: Path) -> None:
    async with with_a_login(tmp_path) as (_, _, daemon, client):
        state = daemon.gateway.daemon
        state.settings = replace(state.settings, host="192.0.2.7")
        with pytest.raises(ConflictError, match="set public_url"):
            await client.mcp.login("web")
    for wrong in ("http://a.example", "https://a.example/b", "https://u:p@a.example", "a"):
        with pytest.raises(ValueError, match=r"public_url|base URL"):
            ServerSettings(public_url=wrong)


# ── by the command line ──────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def announced(
    home: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Daemon]:
    """A daemon in this process that commands find by its file."""
    monkeypatch.setenv("CALLBOARD_HOME", str(home))
    async with served(home, text) as (daemon, local):
        url = f"ws://127.0.0.1:{daemon.gateway.port}/ws"
        running = RunningDaemon(url=url, pid=os.getpid(), token=Secret(local), started_at_ms=0)
        with DaemonFile(home / "data", running):
            yield daemon


async def command(*words: str) -> int:
    return await trio.to_thread.run_sync(execute, ["mcp", *words])


async def test_commands_hold_in_the_daemon_when_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        announced(tmp_path, SHOWN, monkeypatch) as daemon,
        open_client(daemon) as client,
    ):
        server = ("--tier", "read_only", "--state", "--", *fake("--fault=changes").command)
        assert await command("add", "fake", "--yes", *server) == 0
        assert (await called(client, "count")).status == "success"
        capsys.readouterr()
        assert await command("list") == 0
        shown = capsys.readouterr()
        assert "running, 1 withheld" in shown.out
        assert "withheld until you have looked at them again" in shown.err
        assert "callboard mcp review fake" in shown.err
        assert await command("show", "fake") == 0
        assert "withheld: fake__say (read_only)" in capsys.readouterr().out
        assert await command("test", "fake") == 1
        assert "fake answers: fake 1, revision " in capsys.readouterr().out
        assert await command("review", "fake", "--yes") == 0
        assert (await called(client, "say")).status == "success"
        # Typed together, both hold: the program is another one.
        assert (await called(client, "change")).status == "success"
        assert await command("disable", "fake") == 0
        assert await command("enable", "fake") == 0
        [row] = await client.mcp.list()
        assert (row.state, row.new) == ("not started", ())
        assert await command("restart", "fake") == 0
        assert await command("remove", "fake") == 0
        assert await client.mcp.list() == []


async def test_a_sandbox_that_needs_a_restart_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with announced(tmp_path, "", monkeypatch) as daemon:
        (tmp_path / "config/callboard.toml").write_text(SHOWN)
        configuration = daemon.gateway.daemon.configuration
        assert configuration is not None
        await configuration.reload(host_of(daemon.runtime))
        with pytest.raises(
            callboard.ToolError, match=r"\[sandbox\] is older .* restart the daemon"
        ):
            await command("add", "fake", "--yes", "--", *fake().command)


async def test_a_changed_tool_is_said_to_chats_and_webhooks_once(tmp_path: Path) -> None:
    async with hook() as service:
        place = f"http://127.0.0.1:{service.port}/in"
        text = f'{SHOWN}[webhooks.board]\nurl = "{place}"\nevents = ["question"]\n'
        async with (
            served(tmp_path, text) as (daemon, _),
            open_client(daemon) as client,
            trio.open_nursery() as nursery,
        ):
            await added(client, fake("--fault=changes", state=True, tier="read_only"))
            said: list[str] = []
            nursery.start_soon(hear_changed, client, said.append)
            assert (await called(client, "count")).status == "success"  # it is started once more
            await until(lambda: len(said) == 1)
            assert "fake__say is withheld" in said[0]
            assert "callboard mcp review fake" in said[0]
            await service.wait(1)
            [body] = service.bodies
            assert (body["type"], body["server"], body["withheld"]) == (
                "server_changed",
                "fake",
                ["fake__say"],
            )
            assert "example.org" not in json.dumps(body)  # no words of the server
            assert body["change"].startswith("mcp_")
            await called(client, "count")  # nothing new to say
            await client.mcp.accept("fake", digests(await client.mcp.look("fake")))
            assert (await called(client, "say", text="x")).status == "success"
            [row] = await client.mcp.list()
            assert row.to_review == ""
            assert (len(said), len(service.bodies)) == (1, 1)
            nursery.cancel_scope.cancel()
