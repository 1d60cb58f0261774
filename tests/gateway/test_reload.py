"""A daemon takes another configuration while it runs: whole or not at all."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.client.client import Client, connect
from callboard.config.files import load_settings
from callboard.config.keys.tokens import Credentials, Role
from callboard.config.sections import ServerSettings
from callboard.config.setting_rows import needs_restart
from callboard.config.settings import Settings
from callboard.embedding.configuration import Configuration
from callboard.embedding.runtime import host_of
from callboard.gateway.gateway import Gateway, open_gateway
from callboard.runtime.errors import AuthError, ConflictError, NotFoundError, ValidationError
from callboard.runtime.http.address_guard import AddressRefused
from callboard.runtime.wire.agents import AgentList, AgentRow, OneAgent
from callboard.runtime.wire.approvals import CheckPolicy, PolicyAnswer
from callboard.runtime.wire.daemon import Reloaded
from callboard.runtime.wire.fields import Nothing
from callboard.runtime.wire.sessions import SetAgent
from support.changed_settings import CHANGED_TEXT, STANDING_TEXT

PATIENCE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def _own_log_level() -> Iterator[None]:
    logger = logging.getLogger("callboard")
    level = logger.level
    yield
    logger.setLevel(level)


class Scene:
    """A daemon whose file a test writes."""

    def __init__(self, file: Path, gateway: Gateway, client: Client) -> None:
        self.file = file
        self.gateway = gateway
        self.client = client

    @property
    def runtime(self) -> callboard.Runtime:
        return self.gateway.daemon.runtime

    async def reload(self, text: str) -> Reloaded:
        self.file.write_text(text)
        return await self.client.request("config/reload", Nothing(), Reloaded)


@asynccontextmanager
async def served(
    tmp_path: Path, text: str = "", model: Any = "rehearsal", **options: Any
) -> AsyncGenerator[Scene]:
    file = tmp_path / "callboard.toml"
    file.write_text(text)
    data = tmp_path / "data"
    settings = load_settings(file)
    token = Credentials(data).create("test", Role.ADMIN).reveal()
    async with callboard.open_runtime(
        model=model,
        workspace=tmp_path,
        settings=settings,
        environ={"HOME": str(tmp_path)},
        **{"on_approval": "deny", **options},
    ) as runtime:
        async with open_gateway(runtime, ServerSettings(port=0), data) as gateway:
            gateway.daemon.configuration = Configuration(lambda: load_settings(file), (file,))
            async with connect(f"ws://127.0.0.1:{gateway.port}/ws", token) as client:
                yield Scene(file, gateway, client)


@asynccontextmanager
async def listening() -> AsyncGenerator[int]:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        yield listener.socket.getsockname()[1]


def value(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


async def test_every_setting_changed_live_holds_or_is_said_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.embedding.runtime.memory_index", lambda *_: None)
    async with served(tmp_path, STANDING_TEXT) as scene:
        host = host_of(scene.runtime)
        assert len(CHANGED_TEXT) > 40
        for name, text in CHANGED_TEXT.items():
            told = await scene.reload(text)
            wanted = value(load_settings(scene.file), name)
            if needs_restart(name):
                assert (told.changed, told.state.waiting) == ((), (name,)), name
                assert value(host.settings, name) != wanted
            else:
                assert (told.changed, told.state.waiting) == ((name,), ()), name
                assert value(host.settings, name) == wanted
            await scene.reload(STANDING_TEXT)
            assert (await scene.client.status()).config is not None
            assert host.limits.max_repeats == 25
            if name.startswith("limits.") and not needs_restart(name):
                await scene.reload(text)
                assert getattr(host.limits, name.partition(".")[2]) == wanted
                await scene.reload(STANDING_TEXT)


async def test_a_broken_file_changes_nothing_and_is_told_until_it_is_mended(tmp_path: Path) -> None:
    good = 'model = "rehearsal"\n[limits]\nmax_repeats = '
    async with served(tmp_path, good + "25", model=None) as scene:
        await scene.reload(good + "7")
        for broken in (
            "[limits]\nmax_repeats = 8\nidle_secondz = 3",
            "[limits\n",
            'model = "nobody/nothing"\n[limits]\nmax_repeats = 8',
            good + '8\n[agents.x]\nfallbacks = ["nobody/nothing"]',
        ):
            with pytest.raises((ValidationError, NotFoundError)):
                await scene.reload(broken)
            assert host_of(scene.runtime).limits.max_repeats == 7
            status = await scene.client.status()
            assert status.config is not None
            assert status.config.problem
            assert status.config.revision == 2
        await scene.reload(good + "9")
        status = await scene.client.status()
        assert status.config is not None
        assert (status.config.revision, status.config.problem) == (3, "")


async def test_rules_agents_prices_and_hosts_hold_for_what_comes_next(tmp_path: Path) -> None:
    script = [
        callboard.reply(calls=[("get_current_time", {})]),
        callboard.reply("It was listed."),
        callboard.reply(calls=[("get_current_time", {})]),
        callboard.reply("It was not."),
    ]
    async with (
        served(tmp_path, model=callboard.ScriptedModel(script)) as scene,
        listening() as port,
    ):
        session = await scene.runtime.create_session()
        await session.run("List it.")
        with pytest.raises(NotFoundError):
            await scene.runtime.create_session(agent="reader")
        guard = host_of(scene.runtime).guard
        assert guard is not None
        with pytest.raises(AddressRefused):
            await guard.connect("127.0.0.1", port)
        await scene.reload(
            f'[network]\nallow = ["127.0.0.1:{port}", "127.0.0.1:{scene.gateway.port}"]\n'
            '[agents.reader]\nprompt = "You read."\n'
            '[prices."local/ScriptedModel"]\ninput = 1.0\noutput = 2.0\n'
            '[[rules]]\ntool = "get_current_time"\nverdict = "deny"\n'
        )
        await session.run("List it again.")
        first, second = reversed(await scene.runtime.store.calls())
        assert (first.status, second.status) == ("success", "denied")
        await scene.runtime.create_session(agent="reader")
        await (await guard.connect("127.0.0.1", port)).aclose()
        with pytest.raises(AddressRefused):  # the daemon itself stays out of reach
            await guard.connect("127.0.0.1", scene.gateway.port)
        assert host_of(scene.runtime).force.prices.price("local", "ScriptedModel") is not None


GOING = '[agents.goer]\nprompt = "Go."\npolicy = "auto"\ntools = ["delete_file", "delegate"]\n'


async def verdict(scene: Scene, session_id: str) -> str:
    """What `policy/check` says about deleting a file."""
    call = CheckPolicy(session_id=session_id, tool="delete_file", arguments='{"path": "old.txt"}')
    return (await scene.client.request("policy/check", call, PolicyAnswer)).verdict


async def test_whoever_asks_about_agents_gets_those_in_force(tmp_path: Path) -> None:
    """A verdict that says `allow` about a call that would wait is worse than none."""
    (tmp_path / "old.txt").write_text("old")
    call = callboard.reply(calls=[("delete_file", {"path": "old.txt"})])
    model = callboard.ScriptedModel([call, callboard.reply("Asked.")])
    async with served(tmp_path, GOING, model=model) as scene:
        session = await scene.runtime.create_session(agent="goer")
        assert await verdict(scene, session.session_id) == "allow"
        await scene.reload(GOING.replace("auto", "strict") + '[agents.late]\nprompt = "Late."\n')
        assert await verdict(scene, session.session_id) == "ask"
        await session.run("Go.")  # the control: nobody is there who could say yes
        assert [row.status for row in await scene.runtime.store.calls()] == ["denied"]
        listed = await scene.client.request("agent/list", Nothing(), AgentList)
        assert {each.name: each.policy for each in listed.agents} == {
            "general": "balanced", "goer": "strict", "late": "balanced",
        }  # fmt: skip
        got = await scene.client.request("agent/get", OneAgent("goer"), AgentRow)
        assert got.policy == "strict"
        change = SetAgent((session.session_id,), "late")
        await scene.client.request("session/set_agent", change, Nothing)
        row = await scene.runtime.store.session(session.session_id)
        assert row is not None
        assert row.agent == "late"
        await scene.reload("")
        with pytest.raises(NotFoundError):
            await scene.client.request("agent/get", OneAgent("goer"), AgentRow)
        with pytest.raises(NotFoundError, match="no agent"):
            await scene.client.request("session/set_agent", change, Nothing)
        # Its agent is gone: General Assistant answers for it, whose policy asks.
        assert await verdict(scene, session.session_id) == "ask"


async def test_a_verdict_about_a_session_below_counts_those_above(tmp_path: Path) -> None:
    task = {"kind": "branch", "task": "Tidy up."}
    strict = GOING + '[agents.head]\nprompt = "Lead."\npolicy = "strict"\n'
    model = callboard.ScriptedModel(
        [
            callboard.reply(calls=[("delegate", task)]),
            callboard.reply("Tidy."),
            callboard.reply("So."),
        ]
    )
    (tmp_path / "old.txt").write_text("old")
    async with served(tmp_path, strict, model=model, on_approval="allow") as scene:
        head = await scene.runtime.create_session(agent="head")
        await head.run("Go.")
        alone = await scene.runtime.create_session(agent="goer")
        tree = await scene.runtime.store.session_tree([head.session_id])
        change = SetAgent((tree[1],), "goer")
        await scene.client.request("session/set_agent", change, Nothing)
        assert await verdict(scene, alone.session_id) == "allow"  # the control
        assert await verdict(scene, tree[1]) == "ask"


@pytest.mark.parametrize("denied", ["delete_file", "get_current_time"])
async def test_a_rule_that_comes_while_a_question_is_open_counts(
    tmp_path: Path, denied: str
) -> None:
    old = tmp_path / "old.txt"
    old.write_text("old")
    script = [callboard.reply(calls=[("delete_file", {"path": "old.txt"})]), callboard.reply("So.")]
    model = callboard.ScriptedModel(script)
    async with served(tmp_path, model=model, on_approval="wait") as scene:
        session = await scene.runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "Delete it.")
            with trio.fail_after(PATIENCE_SECONDS):
                while not (rows := await scene.runtime.approvals()):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            await scene.reload(
                f'[[rules]]\ntool = "{denied}"\nverdict = "deny"\nreason = "Closed."'
            )
            if denied == "delete_file":
                with pytest.raises(ConflictError, match=r"policy denies .*Closed"):
                    await scene.client.answer(rows[0].approval_id, "allow")
                await scene.client.answer(rows[0].approval_id, "deny")
            else:
                await scene.client.answer(rows[0].approval_id, "allow")
    assert old.exists() is (denied == "delete_file")


async def test_providers_and_the_default_model_hold_for_what_comes_next(tmp_path: Path) -> None:
    async with served(tmp_path, model=None, text='model = "rehearsal"') as scene:
        assert scene.runtime.model == "rehearsal/rehearsal"
        await scene.reload(
            'model = "house/qwen"\n[providers.house]\nbase_url = "http://127.0.0.1:9/v1"\n'
        )
        assert scene.runtime.model == "house/qwen"
        await scene.reload('model = "rehearsal"')
        assert scene.runtime.model == "rehearsal/rehearsal"


async def test_the_door_and_the_log_take_theirs(tmp_path: Path) -> None:
    async with served(tmp_path) as scene:
        await scene.reload('[server]\nlog_level = "error"\nroots = ["/srv"]\nport = 1')
        assert logging.getLogger("callboard").level == logging.ERROR
        assert scene.gateway.daemon.roots == ("/srv",)
        status = await scene.client.status()
        assert status.config is not None
        assert status.config.waiting == ("server.port",)


async def test_a_file_that_changes_is_read_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as scene, trio.open_nursery() as nursery:
        configuration = scene.gateway.daemon.configuration
        assert configuration is not None
        has_looked, look = trio.Event(), configuration._signature

        async def looked() -> Any:
            try:
                return await look()
            finally:
                has_looked.set()

        monkeypatch.setattr(configuration, "_signature", looked)
        nursery.start_soon(configuration.watch, host_of(scene.runtime))
        await has_looked.wait()  # at the old one, before there is a new one
        for text, seen in (("[limits]\nmax_repeats = 7", 7), ("", 25)):
            replaced = scene.file.with_suffix(".new")
            replaced.write_text(text)
            replaced.replace(scene.file)
            with trio.fail_after(PATIENCE_SECONDS):
                while True:
                    await trio.sleep(0.05)
                    if host_of(scene.runtime).limits.max_repeats == seen:
                        break
        nursery.cancel_scope.cancel()


async def test_only_an_administrator_has_it_read_again(tmp_path: Path) -> None:
    async with served(tmp_path) as scene:
        credentials = Credentials(tmp_path / "data")
        token = credentials.create("approver", Role.APPROVER).reveal()
        async with connect(f"ws://127.0.0.1:{scene.gateway.port}/ws", token) as client:
            with pytest.raises(AuthError, match="admin"):
                await client.request("config/reload", Nothing(), Reloaded)
        scene.gateway.daemon.configuration = None
        with pytest.raises(ConflictError, match="belongs to a program"):
            await scene.reload("")


async def test_what_was_read_on_request_is_not_read_again_by_who_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.embedding.configuration.LOOK_SECONDS", 0.01)
    reads: list[int] = []
    looks: list[int] = []

    def load() -> Settings:
        reads.append(len(looks))
        return load_settings(tmp_path / "callboard.toml")

    def look(path: Path) -> tuple[int, int, int]:
        looks.append(len(reads))
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    async def until(numbers: list[int], least: int) -> None:
        while len(numbers) < least:  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
            await trio.sleep(0.005)

    monkeypatch.setattr("callboard.embedding.configuration._signature_of", look)
    async with served(tmp_path) as scene, trio.open_nursery() as nursery:
        daemon = scene.gateway.daemon
        configuration = daemon.configuration = Configuration(load, (scene.file,))
        nursery.start_soon(configuration.watch, host_of(scene.runtime))
        await until(looks, 2)
        await scene.reload("[limits]\nmax_repeats = 7")
        await until(looks, len(looks) + 8)
        assert len(reads) == 1
        scene.file.write_text("[limits]\nmax_repeats = 8  # by an editor")
        with trio.fail_after(PATIENCE_SECONDS):
            await until(reads, 2)
        nursery.cancel_scope.cancel()


async def test_files_that_were_just_read_are_read_again_only_when_they_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Several commands that come at once each ask for it."""
    async with served(tmp_path, "[server]\nlog_level = 'info'\n") as scene:
        os.utime(scene.file, (1, 1))  # so old that its time tells of a change
        for revision, text in ((1, None), (1, None), (2, "[limits]\nmax_repeats = 7\n")):
            if text is not None:
                scene.file.write_text(text)
            told = await scene.client.request("config/reload", Nothing(), Reloaded)
            assert told.state.revision == revision
    assert sum("holds; changed" in record.getMessage() for record in caplog.records) == 2


async def test_an_answer_by_id_is_judged_by_what_its_agent_was_when_that_is_gone(
    tmp_path: Path,
) -> None:
    """Changed arguments were refused as a call of a session that may do nothing."""
    (work := tmp_path / "work").mkdir()
    for name in ("old.txt", "older.txt"):
        (work / name).write_text("old")
    strict = GOING.replace("auto", "strict")
    script = [callboard.reply(calls=[("delete_file", {"path": "old.txt"})]), callboard.reply("So.")]
    kept: dict[str, Any] = {"on_approval": "wait", "data": tmp_path / "kept"}
    (tmp_path / "callboard.toml").write_text(strict)
    settings, model = load_settings(tmp_path / "callboard.toml"), callboard.ScriptedModel(script)
    async with callboard.open_runtime(model=model, settings=settings, **kept) as runtime:
        session = await runtime.create_session(agent="goer", workspace=work)
        await session.submit("Delete it.")
        with trio.fail_after(PATIENCE_SECONDS):
            while not (rows := await runtime.approvals()):  # noqa: ASYNC110
                await trio.sleep(0.01)
    edited = callboard.ApprovalAnswer(decision="allow", arguments='{"path": "older.txt"}')
    foreign = callboard.ApprovalAnswer(decision="allow", arguments='{"path": 1}')
    async with served(tmp_path, strict, model=callboard.ScriptedModel([]), **kept) as scene:
        await scene.reload("")
        with pytest.raises(callboard.CallboardError):  # the control
            await scene.client.answer(rows[0].approval_id, foreign)
        await scene.client.answer(rows[0].approval_id, edited)
        [row] = await scene.runtime.store.approvals(approval_id=rows[0].approval_id)
        assert row.state == "allowed"
