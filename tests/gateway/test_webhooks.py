"""Webhooks hear of questions and turns, again until they take it; nothing that may be anybody's secret."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.sections import NotifySettings, Webhook
from callboard.config.settings import Settings
from callboard.gateway.feeds import webhooks
from callboard.gateway.feeds.dead_letters import Letter
from callboard.gateway.feeds.webhooks import webhook_guard
from callboard.providers.testing.script import fail
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.hooks.signatures import checked
from callboard.runtime.http.address_guard import AddressRefused
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_client, open_daemon
from support.gateway.hook_scene import SECRET as SECRET_OF_HOOKS
from support.gateway.hook_scene import open_hooked
from support.gateway.webhook_receiver import hook
from support.waits import until

SECRET = "a-word-of-the-model"
DELETE = callboard.reply(calls=[("delete_file", {"path": SECRET})])
ASK = callboard.reply(calls=[("ask_user", {"question": SECRET})])


def notifying(port: int) -> Settings:
    return Settings(notify=NotifySettings(webhook=f"http://127.0.0.1:{port}/in?key=x"))


async def test_a_question_is_posted_and_says_nothing_of_what_is_in_it() -> None:
    script = callboard.ScriptedModel([DELETE, ASK])
    async with hook() as service:
        async with open_daemon(script, configured=notifying(service.port)) as daemon:
            async with open_client(daemon) as client:
                session = await client.create_session()
                await client.prompt(session.session_id, "Delete it.")
                await service.wait(1)
                (row,) = await client.approvals()
                await client.answer(row.approval_id, "deny")
                await service.wait(2)
    assert service.heads[0].startswith("POST /in?key=x HTTP/1.1")
    first, second = service.bodies
    assert (first["type"], first["kind"], first["tool"]) == (
        "question_waits",
        "approval",
        "delete_file",
    )
    assert (first["question_id"], first["session_id"]) == (row.approval_id, session.session_id)
    assert (second["kind"], second["tool"], second["tier"]) == ("question", "ask_user", None)
    assert SECRET not in str(service.bodies)


async def test_a_service_that_fails_is_tried_again_and_a_redirect_is_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhooks, "WAIT_SECONDS", (0.01, 0.01))
    script = callboard.ScriptedModel([DELETE, DELETE, ASK])
    async with hook(503, 200, 307, 200) as service:
        async with open_daemon(script, configured=notifying(service.port)) as daemon:
            async with open_client(daemon) as client:
                session = await client.create_session()
                await client.prompt(session.session_id, "Delete it.")
                for count in (2, 3):
                    await service.wait(count)
                    (row,) = await client.approvals()
                    await client.answer(row.approval_id, "deny")
                await service.wait(4)
    first, again, redirected, other = [body["question_id"] for body in service.bodies]
    assert first == again != redirected == row.approval_id != other


def telling(**ports: int) -> Settings:
    """Settings with a webhook for each name."""
    return Settings(
        webhooks={
            name: Webhook(
                name=name,
                url=f"http://127.0.0.1:{port}/{name}",
                events=("turn",) if name != "failures" else ("failure",),
            )
            for name, port in ports.items()
        }
    )


async def test_the_end_of_a_turn_is_posted_and_nothing_of_what_was_said() -> None:
    script = callboard.ScriptedModel([callboard.reply(SECRET), fail("out of order")])
    async with hook() as service, hook() as failures:
        settings = telling(every=service.port, failures=failures.port)
        async with open_daemon(script, configured=settings) as daemon:
            session = await daemon.runtime.create_session()
            await session.run("Say it.")
            await service.wait(1)
            with suppress(callboard.CallboardError):
                await session.run("And again.")
            await service.wait(2)
            await failures.wait(1)
    assert [body["outcome"] for body in service.bodies] == ["answered", "failed"]
    assert [body["outcome"] for body in failures.bodies] == ["failed"]
    first, second = service.bodies
    assert (first["type"], first["session_id"]) == ("turn_ended", session.session_id)
    assert first["turn_id"] != second["turn_id"] == failures.bodies[0]["turn_id"]
    assert SECRET not in str(service.bodies)


async def test_what_is_posted_is_signed_by_standard_webhooks(tmp_path: Path) -> None:
    async with hook() as service:
        text = f'[webhooks.board]\nurl = "http://127.0.0.1:{service.port}/in"\nevents = ["turn"]\n'
        async with open_hooked(tmp_path, text) as daemon:
            session = await daemon.runtime.create_session()
            await session.run("What time is it?")
            await service.wait(1)
    lines = (line.partition(": ") for line in service.heads[0].split("\r\n")[1:])
    headers = {name.lower(): value for name, _, value in lines}
    now = float(headers["webhook-timestamp"])
    found = checked("standard", SECRET_OF_HOOKS, headers, service.raw[0], now)
    assert found is not None
    assert found.identity == service.bodies[0]["turn_id"]
    assert found.event == "turn_ended"
    assert checked("standard", SECRET_OF_HOOKS, headers, service.raw[0] + b" ", now) is None


async def test_what_nobody_takes_is_kept_on_disk_and_can_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "WAIT_SECONDS", (0.01, 0.01))
    async with hook(500, 503, 500) as service:
        options: dict[str, Any] = {"configured": telling(board=service.port), "data": tmp_path}
        async with open_daemon(**options) as daemon:
            told = daemon.gateway.daemon.webhooks
            session = await daemon.runtime.create_session()
            await session.run("What time is it?")
            await until(lambda: len(told.dead) == 1)
            (letter,) = told.dead
            assert (letter.attempts, letter.problem) == (3, "status 500")
        async with open_daemon(**options) as daemon:
            told = daemon.gateway.daemon.webhooks
            await until(lambda: len(told.dead) == 1)
            with pytest.raises(NotFoundError):
                await told.resend(["board/other"])
            service.statuses = [404]
            (again,) = await told.resend([letter.name])
            assert (again.attempts, again.problem) == (4, "status 404")
            assert await told.resend([letter.name]) == []
            assert told.dead == ()
        async with open_daemon(**options) as daemon:
            assert daemon.gateway.daemon.webhooks.dead == ()
    assert {body["turn_id"] for body in service.bodies} == {letter.identity}
    assert len(service.bodies) == 5


@pytest.mark.parametrize("paused", [False, True])
async def test_who_sends_again_at_the_same_time_sends_and_keeps_each_once(paused: bool) -> None:
    """A paused webhook is sent nothing; of one that does not answer well only the first letter is tried."""
    async with hook(503, 503, 503, 503) as service:
        url = f"http://127.0.0.1:{service.port}/"
        board = Webhook(name="board", url=url, paused=paused)
        async with open_daemon(configured=Settings(webhooks={"board": board})) as daemon:
            told = daemon.gateway.daemon.webhooks
            for number in (1, 2):
                told._dead.add(
                    Letter(
                        identity=f"turn_{number}",
                        webhook="board",
                        type="turn_ended",
                        session_id="",
                        body="{}",
                        at_ms=1,
                    )
                )
            names = [letter.name for letter in told.dead]
            refused: list[ConflictError] = []

            async def send() -> None:
                try:
                    await told.resend(names)
                except ConflictError as error:
                    refused.append(error)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                nursery.start_soon(send)
            assert sorted(letter.name for letter in told.dead) == names
            assert len(service.bodies) == (0 if paused else 1)
            assert len(refused) == (0 if paused else 1)


async def test_a_receiver_that_is_away_delays_no_other_and_waits_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MAX_WAITING", 2)
    monkeypatch.setattr(webhooks, "WAIT_SECONDS", (3600.0,))
    async with hook(500, 500) as away, hook() as there:
        settings = telling(away=away.port, there=there.port)
        options: dict[str, Any] = {"configured": settings, "data": tmp_path}
        async with open_daemon(**options) as daemon:
            session = await daemon.runtime.create_session()
            for _ in range(4):
                await session.run("What time is it?")
            await there.wait(4)
            told = daemon.gateway.daemon.webhooks
            assert told.state("away") == (2, 2, "status 500")
            assert [letter.webhook for letter in told.dead] == ["away", "away"]
        # What only waited is sent when the next daemon starts.
        async with open_daemon(**options) as daemon:
            await away.wait(4)
            await until(lambda: daemon.gateway.daemon.webhooks.state("away") == (0, 2, ""))


@pytest.mark.parametrize("proof", ["test", "letter", "resend"])
async def test_a_receiver_that_is_back_has_all_that_waits_at_once(
    proof: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test, a new letter or `resend` is enough; nobody waits for the next attempt of an old letter."""
    monkeypatch.setattr(webhooks, "WAIT_SECONDS", (3600.0,))
    async with hook(503, 503) as board:
        async with (
            open_daemon(configured=telling(board=board.port)) as daemon,
            open_client(daemon) as client,
        ):
            told = daemon.gateway.daemon.webhooks
            session = await daemon.runtime.create_session()
            for number in (1, 2):
                await session.run("What time is it?")
                await board.wait(number)  # each is tried as soon as it is there
            await until(lambda: told.state("board") == (2, 0, "status 503"))
            (row,) = await client.hooks.list()
            assert (row.waiting, row.problem) == (2, "status 503")
            if proof == "test":
                assert await client.hooks.test("board") == ""
            elif proof == "letter":
                await session.run("What time is it?")
            else:
                resent = await client.hooks.resend()
                assert (resent.sent, resent.hurried) == (0, 2)
            await board.wait(4 if proof == "resend" else 5)
            await until(lambda: told.state("board") == (0, 0, ""))
    turns = [body["turn_id"] for body in board.bodies if body["type"] == "turn_ended"]
    assert turns[-2:] == turns[:2]


async def test_one_letter_that_is_never_taken_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhooks, "WAIT_SECONDS", (3600.0,))
    async with hook(500, 200, 500) as board:
        async with open_daemon(configured=telling(board=board.port)) as daemon:
            told = daemon.gateway.daemon.webhooks
            session = await daemon.runtime.create_session()
            await session.run("What time is it?")
            await board.wait(1)
            await session.run("What time is it?")
            await board.wait(3)
            await until(lambda: told.state("board") == (0, 1, "status 500"))
    bad, good, again = [body["turn_id"] for body in board.bodies]
    assert bad == again == told.dead[0].identity != good


async def test_a_test_that_fails_says_why() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with (
            open_daemon(configured=telling(board=port)) as daemon,
            open_client(daemon) as client,
        ):
            (row,) = await client.hooks.list()
            assert row.place == f"http://127.0.0.1:{port}/…"
            problem = await client.hooks.test("board")
    assert problem == f"127.0.0.1:{port} refused the connection"


async def test_clients_list_test_and_send_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "WAIT_SECONDS", ())
    async with hook(500, 404, 200) as service:
        async with open_daemon(configured=telling(board=service.port)) as daemon:
            token = daemon.new_token("eye", Role.OBSERVER)
            async with open_client(daemon) as client, open_client(daemon, token) as eye:
                (row,) = await client.hooks.list()
                assert (row.direction, row.place) == ("out", f"http://127.0.0.1:{service.port}/…")
                known = await client.wait_lists({"hooks": 0})
                session = await client.create_session()
                await client.prompt(session.session_id, "What time is it?")
                assert await client.wait_lists(known) != known
                (letter,) = await client.hooks.dead()
                assert (letter.webhook, letter.problem) == ("board", "status 500")
                assert letter.session_id == session.session_id
                assert await client.hooks.test("board") == "status 404"
                assert (await client.hooks.resend()).sent == 1
                assert await client.hooks.dead() == []
                assert (await client.hooks.resend()).letters == []
                for asked in (eye.hooks.list(), eye.hooks.dead(), eye.hooks.resend()):
                    with pytest.raises(callboard.CallboardError, match="takes the role"):
                        await asked
    assert [body["type"] for body in service.bodies] == ["turn_ended", "test", "turn_ended"]


class Names(trio.abc.HostnameResolver):
    """Every name leads to this machine."""

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


async def test_a_name_that_leads_to_no_public_address_has_to_be_allowed() -> None:
    trio.socket.set_custom_hostname_resolver(Names())
    async with hook() as service:
        inside = "hooks.example", service.port
        with pytest.raises(AddressRefused):
            await webhook_guard(inside, ()).connect(*inside)
        with pytest.raises(AddressRefused):
            await webhook_guard(inside, [("127.0.0.1", service.port)]).connect(*inside)
        for guard, host in (
            (webhook_guard(inside, [inside]), inside[0]),
            (webhook_guard(("127.0.0.1", service.port), ()), "127.0.0.1"),
            (webhook_guard(("localhost", service.port), ()), "localhost"),
        ):
            stream = await guard.connect(host, service.port)
            await stream.aclose()
            with pytest.raises(AddressRefused):
                await guard.connect(host, service.port + 1)


@pytest.mark.parametrize(
    ("url", "is_good"),
    [
        ("https://hooks.example/services/x?y=1", True),
        ("https://hooks.example:8443/", True),
        ("http://127.0.0.1:9000/in", True),
        ("http://[::1]:9000/in", True),
        ("http://localhost/in", True),
        ("http://hooks.example/in", False),
        ("ftp://hooks.example/in", False),
        ("https://user:pass@hooks.example/in", False),
        ("https://hooks.example/in#here", False),
        ("https://hooks.example:99999/in", False),
        ("https://hooks.example/a b", False),
        ("https://", False),
        ("hooks.example", False),
    ],
)
def test_where_a_notice_may_go(url: str, is_good: bool) -> None:
    if is_good:
        assert NotifySettings(webhook=url).webhook == Webhook(name="x", url=url).url
        return
    with pytest.raises(ValueError, match="webhook: ") as problem:
        NotifySettings(webhook=url)
    assert "pass" not in str(problem.value)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"webhook": url}, NotifySettings)
