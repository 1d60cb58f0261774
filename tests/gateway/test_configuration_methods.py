"""Providers, models, keys, prices and settings, changed and read while the daemon runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.client.client import Client, connect
from callboard.config.managed import load_managed
from callboard.config.setting_rows import all_settings
from callboard.embedding.runtime import host_of
from callboard.providers.catalog.book import ProviderBook
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.errors import (
    AuthError,
    CallboardError,
    ConflictError,
    NotFoundError,
    PermissionRefused,
    ValidationError,
)
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.providers import (
    ChangeProvider,
    KeyStored,
    ModelChosen,
    NewProvider,
    ProviderChanged,
    SetKey,
)
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import open_client, open_greeted

KEY = "sk-canary-0123456789abcdefghijklmn"
WEBHOOK = "https://hooks.example/services/T0-canary-in-the-path"


async def create(client: Client, name: str, base_url: str, **fields: Any) -> ProviderChanged:
    params = NewProvider(name=name, base_url=base_url, **fields)
    return await client.request("provider/create", params, ProviderChanged)


async def update(client: Client, name: str, **fields: Any) -> ProviderChanged:
    params = ChangeProvider(provider=name, **fields)
    return await client.request("provider/update", params, ProviderChanged)


async def names(client: Client) -> dict[str, bool]:
    return {row.name: row.is_active for row in await client.providers.list()}


# ── providers and models ─────────────────────────────────────────────────────────────────────────


async def test_a_provider_answers_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async with (
        open_scripted_server([reply("Good evening.")], models=("m",)) as server,
        served(tmp_path) as (daemon, _),
        open_client(daemon) as client,
    ):
        session = await client.create_session()
        with pytest.raises(NotFoundError):
            await client.models.choose("house/m")
        added = await create(client, "house", server.base_url, models=("m",))
        assert added.provider is not None
        assert (added.provider.source, added.provider.key) == ("managed", "none")
        assert await client.models.choose("house/m") == ModelChosen("house/m", "managed")
        default = await client.models.default()
        assert default.model == "house/m"
        assert await client.ask(session.session_id, "Hello?") == "Good evening."
        assert load_managed(tmp_path / "config").model == "house/m"


async def test_models_that_are_not_listed_are_added_and_removed(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        await create(client, "house", "http://127.0.0.1:9/v1")
        for model in ("a", "b"):
            found = await client.models.add("house", model)
        assert found.provider is not None
        assert found.provider.models == ("a", "b")
        with pytest.raises(ConflictError):
            await client.models.add("house", "a")
        gone = await client.models.remove("house", "a")
        assert gone.provider is not None
        assert gone.provider.models == ("b",)
        with pytest.raises(NotFoundError):
            await client.models.remove("house", "a")


async def test_what_the_daemon_could_not_go_on_with_changes_nothing(tmp_path: Path) -> None:
    text = '[providers.own]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "o"\n'
    async with served(tmp_path, text) as (daemon, _), open_client(daemon) as client:
        await create(client, "house", "http://127.0.0.1:9/v1", model="m")
        await client.models.choose("house/m")
        before = load_managed(tmp_path / "config")
        for change in (
            lambda: client.providers.delete("house"),
            lambda: update(client, "house", is_active=False),
            lambda: client.models.choose("openai/gpt"),  # which has no key
        ):
            with pytest.raises(ConflictError, match="With this change the daemon could not work: "):
                await change()
            assert load_managed(tmp_path / "config") == before
            status = await client.status()
            assert (status.model, status.config and status.config.problem) == ("house/m", "")
        for change in (
            lambda: update(client, "own", model="x"),
            lambda: client.providers.delete("own"),
            lambda: create(client, "own", "http://127.0.0.1:9/v1"),
            lambda: create(client, "openai", "http://127.0.0.1:9/v1"),
        ):
            with pytest.raises(ConflictError):
                await change()
        for fields in ({}, {"base_url": "nonsense"}, {"dialect": "soap"}, {"base_url": " "}):
            with pytest.raises(ValidationError):
                await update(client, "house", **fields)
        assert load_managed(tmp_path / "config") == before
        await client.models.choose("own/o")
        await update(client, "house", is_active=False)
        assert (await names(client))["house"] is False
        await client.providers.delete("house")
        assert "house" not in await names(client)


async def test_another_commands_change_is_not_taken_back(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        await create(client, "house", "http://127.0.0.1:9/v1", model="m")
        await client.models.choose("house/m")
        book = ProviderBook(tmp_path / "config" / "callboard.toml", tmp_path / "data", {})

        def remove_and_be_late() -> ProviderChanged:
            return book.delete("house")

        configuration = daemon.gateway.daemon.configuration
        assert configuration is not None
        reload = configuration.reload

        async def late(*args: Any) -> Any:
            if "other" not in load_managed(tmp_path / "config").providers:
                book.create(NewProvider(name="other", base_url="http://127.0.0.1:9/v1"))
            return await reload(*args)

        configuration.reload = late  # type: ignore[assignment, method-assign]
        its = daemon.gateway.daemon
        with pytest.raises(ConflictError):
            await configuration.change(remove_and_be_late, host_of(its.runtime))
        assert "other" in load_managed(tmp_path / "config").providers


async def test_a_programs_own_server_has_nothing_to_change(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        daemon.gateway.daemon.configuration = None
        with pytest.raises(ConflictError, match="belongs to a program"):
            await create(client, "house", "http://127.0.0.1:9/v1")
        with pytest.raises(ConflictError, match="belongs to a program"):
            await client.models.chosen()
        assert "openai" in await names(client)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


async def test_only_commands_of_the_daemons_user_say_which_variable_goes_where(
    tmp_path: Path,
) -> None:
    async with (
        served(tmp_path) as (daemon, local),
        open_client(daemon) as elsewhere,
        connect(daemon.url, local) as here,
    ):
        with pytest.raises(PermissionRefused, match="the daemon's own user"):
            await create(elsewhere, "house", "https://evil.example", key_env="SOME_SECRET")
        with pytest.raises(PermissionRefused, match="the daemon's own user"):
            await update(elsewhere, "openai", key_env="SOME_SECRET")
        assert load_managed(tmp_path / "config").providers == {}
        added = await create(here, "house", "https://models.example/v1", key_env="HOUSE_KEY")
        assert added.provider is not None
        assert added.provider.key_env == "HOUSE_KEY"
        # Nor does a move take the key along.
        moved = await update(elsewhere, "house", base_url="https://evil.example/v1")
        assert moved.provider is not None
        assert moved.provider.key_env is None
        assert "is not sent to https://evil.example:443" in moved.notes[0]


async def test_a_key_is_used_and_forgotten_at_once(tmp_path: Path) -> None:
    text = 'model = "house/m"\n[providers.house]\nkey_env = "HOUSE_KEY"\n'
    async with open_scripted_server([], models=("m",)) as server:
        text += f'base_url = "{server.base_url}"\n'
        async with served(tmp_path, 'model = "rehearsal/rehearsal"\n') as (daemon, _):
            async with open_client(daemon) as client:
                (tmp_path / "config" / "callboard.toml").write_text(text)
                with pytest.raises(AuthError, match="needs a key"):
                    await client.upkeep.reload()
                # The key comes ahead of what needs it.
                await create_without_key(tmp_path, server.base_url, client)
                stored = await client.keys.set("house", KEY)
                assert stored.is_replaced is False
                place = await client.keys.place("house")
                assert place.origin == stored.origin
                await client.models.choose("house/m")
                endpoint = daemon.runtime._models.target(None).endpoint
                assert endpoint is not None
                assert endpoint.key is not None
                assert endpoint.key.reveal() == KEY
                replaced = await client.keys.set("house", KEY[::-1])
                assert replaced.is_replaced is True
                endpoint = daemon.runtime._models.target(None).endpoint
                assert endpoint is not None
                assert endpoint.key is not None
                assert endpoint.key.reveal() == KEY[::-1]
                listed = await client.keys.list()
                [row] = [row for row in listed if row.provider == "house"]
                assert (row.source, row.is_used) == ("stored", True)
                assert KEY not in repr(listed) + repr(stored)
                removed = await client.keys.remove("house")
                assert removed.origins == (stored.origin,)
                with pytest.raises(AuthError):
                    daemon.runtime._models.target(None)
                status = await client.status()
                assert status.model == ""
                assert "needs a key" in status.model_reason
                with pytest.raises(NotFoundError):
                    await client.keys.remove("house")


async def create_without_key(home: Path, base_url: str, client: Client) -> None:
    text = f'[providers.house]\nkey_env = "HOUSE_KEY"\nbase_url = "{base_url}"\n'
    (home / "config" / "callboard.toml").write_text(text)
    await client.upkeep.reload()


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        (SetKey("nobody", KEY), NotFoundError),
        (SetKey("git", KEY), ValidationError),
        (SetKey("git", KEY, "http://git.example"), AuthError),
        (SetKey("openai", KEY, "https://evil.example"), ValidationError),
        (SetKey("openai", f"{KEY}\nX: y"), ValidationError),
        (SetKey("searxng", KEY), NotFoundError),
    ],
)
async def test_a_key_that_is_not_stored_is_in_no_error(
    tmp_path: Path, params: SetKey, kind: type[CallboardError]
) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        with pytest.raises(kind) as raised:
            await client.request("provider/set_key", params, KeyStored)
        assert KEY not in str(raised.value)
        assert await client.keys.list() == []
        stored = await client.keys.set("git", KEY, origin="https://git.example/me")
        assert stored.origin == "https://git.example:443"


# ── prices and settings ──────────────────────────────────────────────────────────────────────────


async def test_what_is_refused_of_a_provider_names_its_field(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _), open_client(daemon) as client:
        for field, name, url in (
            ("base_url", "house", "ftp://nowhere"),
            ("base_url", "house", " "),
            ("name", "a b", "http://127.0.0.1:9/v1"),
        ):
            with pytest.raises(ValidationError) as refused:
                await create(client, name, url)
            assert refused.value.field == field
        made = await create(client, "house", "http://127.0.0.1:9/v1")
        assert made.provider is not None


async def test_all_settings_are_told_and_no_secret(tmp_path: Path) -> None:
    text = f'[notify]\nwebhook = "{WEBHOOK}"\n[limits]\nidle_seconds = 7\n'
    text += '[prices."house/m"]\ninput = 1\noutput = 2\n'
    async with served(tmp_path, text) as (daemon, _), open_client(daemon) as client:
        found = await client.settings.list()
        rows = {row.name: row for row in found}
        assert list(rows) == list(all_settings())
        assert rows["limits.idle_seconds"].value == 7
        assert rows["server.port"].needs_restart
        assert not rows["limits.idle_seconds"].needs_restart
        assert rows["notify.webhook"].value == "https://hooks.example/…"
        assert "canary" not in msgspec.json.encode(found).decode()
        prices = await client.upkeep.prices()
        assert (prices[0].model, prices[0].is_own, prices[0].price.input) == ("house/m", True, 1)
        assert any(row.model.startswith("openai/") and not row.is_own for row in prices)


async def test_each_setting_says_where_it_stands(tmp_path: Path) -> None:
    text = '# mine\npolicy = "strict"\n\n[limits]\nidle_seconds = 7\n'
    async with served(tmp_path, text) as (daemon, _), open_client(daemon) as client:

        async def place(name: str) -> str:
            return (await client.settings.get(name)).place

        assert await place("policy") == "callboard.toml, line 2"
        assert await place("limits.idle_seconds") == "callboard.toml, line 5"
        assert await place("limits.max_repeats") == ""
        made = await client.settings.set("limits.max_repeats", 7)
        assert made.place.startswith("managed.toml, line ")
        await client.settings.set("limits.max_repeats", None)
        assert await place("limits.max_repeats") == ""
        # Somebody mends the file: what holds was read before, and nothing is known of the file.
        (tmp_path / "config" / "callboard.toml").write_text("policy = ")
        assert await place("policy") == ""


async def test_an_observer_reads_no_settings(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, _):
        token = daemon.new_token("eye", Role.OBSERVER)
        async with open_greeted(daemon, token) as raw:
            assert "error" in await raw.call("settings/get")
            assert "error" in await raw.call("key/list")
            assert "result" in await raw.call("price/list")
            assert "result" in await raw.call("model/chosen")
