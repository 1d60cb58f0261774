"""Providers over the wire: keys go in, and never out."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.keys.store import open_key_store
from callboard.config.settings import ProviderSettings, Settings
from callboard.providers.catalog.connection_test import ConnectionReport
from callboard.runtime.errors import AuthError, ConflictError, NotFoundError, ValidationError
from callboard.runtime.wire.fields import Nothing
from callboard.runtime.wire.providers import (
    KeyStored,
    ListModels,
    ModelList,
    ProviderRow,
    Providers,
    SelectedModel,
    SetKey,
    TryProvider,
)
from support.gateway.daemon_scene import open_client, open_daemon, open_greeted

KEY = "sk-canary-0123456789abcdefghijklmn"


def settings() -> Settings:
    plain = ProviderSettings(name="plain", base_url="http://plain.example/v1")
    return Settings(providers={"plain": plain})


def row_of(providers: Providers, name: str) -> ProviderRow:
    return next(row for row in providers.providers if row.name == name)


async def test_a_key_goes_in_and_never_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path / "home"))
    data = tmp_path / "home" / "data"
    environ = {"CALLBOARD_HOME": str(tmp_path / "home")}
    async with open_daemon(data=data, environ=environ, configured=settings()) as daemon:
        async with open_client(daemon) as client:
            before = await client.request("provider/list", Nothing(), Providers)
            assert row_of(before, "openai").key == "missing"
            params = SetKey("openai", KEY)
            stored = await client.request("provider/set_key", params, KeyStored)
            assert stored.origin == "https://api.openai.com:443"
            after = await client.request("provider/list", Nothing(), Providers)
            assert row_of(after, "openai").key == "stored"
            for name, key, kind in (
                ("openai", "two\nlines", ValidationError),
                ("openai", "", ValidationError),
                ("nobody", KEY, NotFoundError),
                ("plain", KEY, AuthError),
            ):
                with pytest.raises(kind):
                    await client.request("provider/set_key", SetKey(name, key), KeyStored)
        async with open_greeted(daemon) as raw:
            heard = [await raw.call("provider/list"), await raw.call("runtime/status")]
            heard.append(await raw.call("provider/set_key", provider="openai", key=[KEY]))
            assert heard[-1]["error"]["code"] == -32602
    kept = open_key_store(data, settings().keys, environ).get(
        "openai", "https://api.openai.com:443"
    )
    assert kept is not None
    assert kept.reveal() == KEY
    assert KEY not in str(heard) + caplog.text


async def test_a_runtime_in_memory_stores_no_key() -> None:
    async with open_daemon(environ={}) as daemon, open_client(daemon) as client:
        with pytest.raises(ConflictError, match="in memory"):
            await client.request("provider/set_key", SetKey("openai", KEY), KeyStored)


async def test_models_are_listed_and_a_provider_is_tried() -> None:
    async with open_daemon(environ={}) as daemon, open_client(daemon) as client:
        found = await client.request("model/list", ListModels("rehearsal"), ModelList)
        assert [model.choice for model in found.models] == ["rehearsal/rehearsal"]
        default = await client.request("model/default", Nothing(), SelectedModel)
        assert default.model == daemon.runtime.model
        with pytest.raises(NotFoundError):
            await client.request("model/refresh", ListModels("nobody"), ModelList)
        params = TryProvider(provider="openai")
        report = await client.request("provider/test", params, ConnectionReport)
        assert not report.works
        assert "key" in report.message
