"""The short forms of a client: one for each method, which do what the method does."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.client.client import Client, connect
from callboard.gateway.methods.all import all_methods
from callboard.providers.testing.script import reply
from callboard.runtime.errors import AuthError, BudgetError, ConflictError, NotFoundError
from callboard.runtime.events import InputAccepted, TurnStarted
from callboard.runtime.history import text_of
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import open_client, open_daemon

SOURCES = Path(callboard.__file__).parent
WRITE = ("write_file", {"path": "now.txt", "content": "late"})


OF_COMMANDS = {"model/lend", "session/give_options"}
"""What commands ask that share sessions."""


def test_each_method_has_a_short_form() -> None:
    text = "".join(path.read_text() for path in (SOURCES / "client").glob("*.py"))
    asked = set(re.findall(r'"([a-z]+/[a-z_]+)"', text))
    assert {method.name for method in all_methods()} - asked <= OF_COMMANDS


@asynccontextmanager
async def talking(*replies: str) -> AsyncGenerator[tuple[Client, str]]:
    """A client, and a session whose model gives these answers."""
    model = callboard.ScriptedModel([reply(text) for text in replies])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        yield client, (await client.create_session(title="Talk")).session_id


async def test_an_answer_is_that_of_its_own_input() -> None:
    model = callboard.ScriptedModel([reply("one"), reply("two"), reply("three")])
    async with (
        open_daemon(model) as daemon,
        open_client(daemon) as client,
        open_client(daemon) as other,
    ):
        session_id = (await client.create_session()).session_id
        assert await client.ask(session_id, "First?") == "one"
        answers: dict[str, str] = {}

        async def ask(asking: Client, name: str) -> None:
            answers[name] = await asking.ask(session_id, name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client, "second")
            nursery.start_soon(ask, other, "third")
        assert sorted(answers.values()) == ["three", "two"]
        inputs: dict[str, str] = {}
        turns: dict[str, str] = {}
        said: dict[str, str] = {}
        for stored in await daemon.runtime.store.events(session_id, after_seq=0, limit=100):
            match stored.event:
                case InputAccepted(input_id=input_id, text=text):
                    inputs[input_id] = text
                case TurnStarted(turn_id=turn_id, input_ids=(input_id,)):
                    turns[turn_id] = inputs[input_id]
                case callboard.MessageCompleted(turn_id=turn_id) as message:
                    said[turns[turn_id]] = text_of(message.parts)
        assert said == {"First?": "one", **answers}


async def test_a_turn_that_is_not_answered_is_its_error() -> None:
    async with talking("one") as (client, session_id):
        with pytest.raises(BudgetError):
            await client.ask(session_id, "Hello", budget=callboard.Budget(model_calls=0))
        with pytest.raises(NotFoundError):
            await client.ask("session_none", "Hello")
        assert await client.ask(session_id, "Hello") == "one"


async def test_changes_are_listed_and_undone(tmp_path: Path) -> None:
    model = callboard.ScriptedModel([reply(calls=[WRITE]), reply("Done.")])
    options: dict[str, Any] = {"workspace": tmp_path / "work", "data": tmp_path / "data"}
    (tmp_path / "work").mkdir()
    async with (
        open_daemon(model, on_approval="allow", **options) as daemon,
        open_client(daemon) as client,
    ):
        session = await daemon.runtime.create_session()
        assert await client.ask(session.session_id, "Write.") == "Done."
        [change] = await client.changes(session.session_id)
        assert change.paths == ("now.txt",)
        dry = await client.undo(session.session_id, dry_run=True)
        assert dry.undo_id == ""
        assert (tmp_path / "work" / "now.txt").exists()
        assert (await client.undo(session.session_id)).call_ids == (change.call_id,)
        assert not (tmp_path / "work" / "now.txt").exists()


async def test_providers_models_and_keys_are_kept(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        await client.providers.create("house", "http://127.0.0.1:9/v1", models=["m"])
        changed = await client.providers.update("house", model="m")
        assert changed.provider is not None
        assert changed.provider.model == "m"
        await client.models.add("house", "n")
        assert {model.choice for model in (await client.models.list("house")).models} >= {
            "house/m",
            "house/n",
        }
        await client.models.remove("house", "n")
        report = await client.providers.test("house")
        assert (report.works, report.fault) == (False, "tcp")
        assert (await client.models.choose("house/m")).source == "managed"
        assert (await client.models.chosen()).model == "house/m"
        assert (await client.models.default()).model == "house/m"
        await client.models.choose(None)
        assert (await client.keys.place("openai")).origin == "https://api.openai.com:443"
        await client.keys.set("openai", "sk-0123456789abcdefghij")
        assert [row.provider for row in await client.keys.list()] == ["openai"]
        rows = {row.name: row for row in await client.providers.list()}
        assert (rows["openai"].key, rows["house"].is_active) == ("stored", True)
        await client.keys.remove("openai")
        assert await client.keys.list() == []
        await client.providers.delete("house")
        assert "house" not in {row.name for row in await client.providers.list()}


async def test_upkeep_and_tokens(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        assert (await client.upkeep.reload()).state.revision == 1
        assert {row.name for row in await client.settings.list()} >= {"limits.idle_seconds"}
        assert any(row.model.startswith("openai/") for row in await client.upkeep.prices())
        (tmp_path / "root").mkdir()
        assert await client.upkeep.add_root(str(tmp_path / "root")) == await client.upkeep.roots()
        token = await client.tokens.create("phone", "observer", agents=["general"])
        async with connect(daemon.url, token) as phone:
            assert await phone.sessions() == []
        assert await client.tokens.rotate("phone") != token
        await client.tokens.revoke("phone")
        assert [row.name for row in await client.tokens.list()] == ["test"]
        with pytest.raises(AuthError):
            async with connect(daemon.url, token):
                pass
        with pytest.raises(ConflictError):
            await client.tokens.create("test", "admin")


async def test_a_text_that_is_no_text_is_refused_by_what_it_is() -> None:
    """A file's name that is not UTF-8 gets into a prompt; it ended the whole connection's owner with a group of errors."""
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await client.create_session()
        with pytest.raises(
            callboard.ValidationError, match=r"it has '\\udce9', which is no character"
        ):
            await client.prompt(session.session_id, "What is in caf\udce9?")
        assert await client.ask(session.session_id, "What is in café?")
