"""A provider's key is sent to its provider, and stands nowhere else."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.config.settings import ProviderSettings, Settings
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.redaction import redact
from callboard.runtime.store.sqlite_store import open_reader
from support.stage import open_in

KEY = "canary-7f3a9c51d2e84b06"


@callboard.tool
async def leak() -> str:
    """Fails with the key in its words."""
    raise RuntimeError(f"refused with {KEY}")


async def test_a_key_is_in_the_request_and_in_no_log_record_or_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    steps = [reply(calls=[("leak", {})]), reply("Done.")]
    async with open_scripted_server(steps) as server:
        options: dict[str, Any] = {"base_url": server.base_url, "tools": [leak], "policy": "auto"}
        environ = {"CALLBOARD_API_KEY": KEY}
        async with open_in(tmp_path, "m", "disk", environ=environ, **options) as runtime:
            await (await runtime.create_session()).run("Go.")
        assert all(KEY in r.headers["authorization"] for r in server.requests)
        assert KEY not in str([r.body for r in server.requests])
    assert "the tool leak crashed" in caplog.text
    assert KEY not in caplog.text
    reader = await open_reader(tmp_path / "data")
    [call] = await reader.calls()
    await reader.aclose()
    assert "refused with" in (call.result or "")
    for file in (tmp_path / "data").iterdir():
        assert KEY.encode() not in file.read_bytes()


async def test_the_key_of_a_provider_that_is_not_asked_is_masked_too(tmp_path: Path) -> None:
    house = ProviderSettings(
        name="house", base_url="https://models.house.example/v1", key_env="HOUSE_KEY"
    )
    keys = {"HOUSE_KEY": f"house-{KEY}", "GROQ_API_KEY": f"groq-{KEY}", "OTHER": f"other-{KEY}"}
    shown = " ".join(keys.values())
    assert redact(shown) == shown
    async with callboard.open_runtime(
        model="rehearsal",
        workspace=tmp_path,
        environ=keys,
        settings=Settings(providers={"house": house}),
    ):
        assert redact(shown) == f"*** *** other-{KEY}"
