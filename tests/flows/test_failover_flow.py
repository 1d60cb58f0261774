"""The agent's next model goes on where the one before it failed: two servers, one conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard.config.files import parse_settings
from callboard.config.settings import Settings
from callboard.providers.testing.script import Step, cut_after, reply, status
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from support.stage import (
    Played,
    check_messages,
    check_records,
    make_workspace,
    open_in,
    play,
    play_in,
)

BUSY = status(503, {"error": {"message": "busy"}})
NO_KEY = status(401, {"error": {"message": "bad key"}})
WRITE = reply("I write.", calls=[("write_file", {"path": "a.txt", "content": "x"})])
DONE = reply("Done.")

CONFIG = """
model = "one/big"

[limits]
model_retries = 1
retry_wait_seconds = 0.02

[providers.one]
base_url = "{one}"

[providers.two]
base_url = "{two}"

[providers.locked]
base_url = "{two}"
key_env = "LOCKED_KEY"

[agents.general]
fallbacks = [{fallbacks}]
"""


class Stage(msgspec.Struct, frozen=True):
    """A runtime before two servers."""

    runtime: callboard.Runtime
    one: ScriptedServer
    two: ScriptedServer

    @property
    def asked(self) -> list[list[str]]:
        """The models that each server was asked for."""
        return [
            [request.body["model"] for request in server.requests]
            for server in (self.one, self.two)
        ]


@asynccontextmanager
async def open_two(
    folder: Path,
    one: Sequence[Step],
    two: Sequence[Step],
    *,
    fallbacks: Sequence[str] = ("two/small",),
    store: str = "memory",
    **options: Any,
) -> AsyncGenerator[Stage]:
    """Configured as a user would: `one/big`, and behind it the fallbacks."""
    async with open_scripted_server(one) as first, open_scripted_server(two) as second:
        named = ", ".join(f'"{name}"' for name in fallbacks)
        text = CONFIG.format(one=first.base_url, two=second.base_url, fallbacks=named)
        async with callboard.open_runtime(
            workspace=make_workspace(folder),
            settings=parse_settings(text, Path("callboard.toml")),
            data=folder / "data" if store == "disk" else None,
            environ={},
            strict=True,
            **options,
        ) as runtime:
            yield Stage(runtime, first, second)  # ruff: ignore[fallible-context-manager] as in stage
            await check_records(runtime)
        for server in (first, second):
            server.assert_complete()
            for request in server.requests:
                check_messages(request.body["messages"])


def told(played: Played, kind: type[Any]) -> list[Any]:
    return [event for event in played.events if isinstance(event, kind)]


async def test_the_next_model_answers_and_the_session_keeps_both(tmp_path: Path) -> None:
    one: list[Step] = [BUSY, BUSY, reply("I am back.")]
    async with open_two(tmp_path, one, [reply("I am two.")], store="disk") as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert played.text == "I am two."
        assert [each.model for each in told(played, callboard.AttemptFailed)] == ["big"]
        [switched] = told(played, callboard.ModelSwitched)
        assert (switched.provider, switched.model) == ("two", "small")
        assert "503" in switched.reason
        # The next turn begins with the first model again, which sees what the other one said.
        assert await session.run("And?") == "I am back."
        assert stage.asked == [["big"] * 3, ["small"]]
        assert stage.one.requests[-1].body["messages"][2]["content"] == "I am two."


async def test_it_goes_on_in_the_middle_of_a_turn_behind_the_results(tmp_path: Path) -> None:
    one: list[Step] = [WRITE, cut_after(500, DONE), cut_after(500, DONE)]
    async with open_two(tmp_path, one, [WRITE, DONE]) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert (played.ended.outcome, played.text) == ("answered", "I write.I write.Done.")
        assert len(played.results) == 2
        first = stage.two.requests[0].body["messages"]
        assert [message["role"] for message in first] == ["system", "user", "assistant", "tool"]
        assert first == stage.one.requests[-1].body["messages"]
        assert [message.provider for message in told(played, callboard.MessageCompleted)] == [
            "one", "two", "two",
        ]  # fmt: skip


async def test_a_wrong_key_rules_its_provider_out_for_later_turns(tmp_path: Path) -> None:
    async with open_two(tmp_path, [NO_KEY], [reply("2"), reply("2, 2"), reply("2, 3")]) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        [aside] = told(played, callboard.ProviderSetAside)
        assert (aside.provider, aside.seconds) == ("one", 30)
        played = await play(session, "Again.")
        [switched] = told(played, callboard.ModelSwitched)
        assert "one is set aside for 30 s" in switched.reason
        assert "bad key" in switched.reason
        # The other sessions of the runtime know it too.
        assert await (await stage.runtime.create_session()).run("And you?") == "2, 3"


async def test_two_models_of_one_provider(tmp_path: Path) -> None:
    gone = status(404, {"error": {"message": "no such model"}})
    async with open_two(tmp_path, [gone, DONE], [], fallbacks=["one/small"]) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.text == "Done."
        assert stage.asked == [["big", "small"], []]
        assert told(played, callboard.ProviderSetAside) == []


async def test_a_fallback_without_its_key_is_passed_over(tmp_path: Path) -> None:
    async with open_two(
        tmp_path, [BUSY, BUSY], [DONE], fallbacks=["locked/m", "two/small"]
    ) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        [switched] = told(played, callboard.ModelSwitched)
        assert switched.provider == "two"
        assert "LOCKED_KEY" in switched.reason


async def test_when_none_is_left_all_are_named(tmp_path: Path) -> None:
    async with open_two(
        tmp_path, [BUSY, BUSY], [NO_KEY], fallbacks=["two/small", "locked/m"]
    ) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert (played.ended.outcome, played.ended.error_type) == ("failed", "auth")
        message = played.ended.message
        assert "bad key" in message
        assert "Asked: one/big twice, two/small once." in message
        assert "LOCKED_KEY" in message


async def test_an_own_agent_and_a_model_of_the_program_may_have_fallbacks(tmp_path: Path) -> None:
    agent = callboard.Agent(name="own", fallbacks=("two/small", "rehearsal/rehearsal"))
    model = callboard.ScriptedModel([lambda _: 1 / 0])  # type: ignore[list-item, return-value]
    async with open_two(tmp_path, [], [BUSY, BUSY], agents=[agent], model=model) as stage:
        played = await play(await stage.runtime.create_session(agent="own"), "What time is it?")
        assert played.ended.outcome == "answered"
        assert [each.provider for each in told(played, callboard.ModelSwitched)] == [
            "two", "rehearsal",
        ]  # fmt: skip


async def test_a_fallback_is_at_its_provider_also_behind_a_base_url(tmp_path: Path) -> None:
    gone = status(404, {"error": {"message": "no such model"}})
    async with (
        open_scripted_server([gone, gone]) as here,
        open_two(
            tmp_path, [], [DONE], fallbacks=["custom/other", "two/small"], model="m",
            base_url=here.base_url,
        ) as stage,
    ):  # fmt: skip
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.text == "Done."
        # `custom` is the provider of that URL: its other model is asked there.
        assert [request.body["model"] for request in here.requests] == ["m", "other"]
        assert stage.asked == [[], ["small"]]


async def test_an_unknown_provider_is_told_at_the_start(tmp_path: Path) -> None:
    settings = Settings(agents={"general": callboard.Agent(fallbacks=("to/m",))})
    with pytest.raises(callboard.CallboardError, match=r"general.*no provider 'to'") as refused:
        async with open_in(tmp_path, "rehearsal", settings=settings):
            pass
    assert refused.value.type == "not_found"


@pytest.mark.parametrize("name", ["openai", "/m", "p/", ""])
def test_a_fallback_that_names_no_model_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="PROVIDER/MODEL"):
        callboard.Agent(fallbacks=(name,))
    with pytest.raises(ValueError, match="write a list"):
        callboard.Agent(fallbacks="openai/gpt-5-mini")  # type: ignore[arg-type]
