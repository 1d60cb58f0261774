"""Settings that a program makes are checked like those of a file: every field of every struct."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard.config.files import load_settings
from callboard.config.mcp.settings import McpSettings, PinnedTool, PromptArgument, ServerPrompt
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.config.prices import LongPrice, Price
from callboard.config.sections import (
    PluginSettings,
    RootSettings,
    SandboxSettings,
    ServerSettings,
    Webhook,
)
from callboard.config.settings import ProviderSettings, Settings
from callboard.config.validation import checked
from callboard.gateway.gateway import open_gateway
from callboard.runtime.budget import Budget
from callboard.runtime.definitions import Verdict
from callboard.runtime.errors import ValidationError
from callboard.runtime.hooks.hook import Hook
from callboard.runtime.schedules.schedule import Schedule
from support.changed_settings import CHANGED_TEXT, STANDING_TEXT
from support.stage import open_local_stage

NEEDED: dict[type[Any], dict[str, Any]] = {
    Condition: {"path": "a"},
    PlacedRule: {"rule": Rule(verdict=Verdict.ASK, tool="x"), "place": "rules[1]"},
    PluginSettings: {"name": "x"},
    Price: {"input": 1.0, "output": 1.0},
    Hook: {"name": "x", "prompt": "x"},
    LongPrice: {"tokens": 1000, "input": 1.0, "output": 1.0},
    ProviderSettings: {"name": "x", "base_url": "http://127.0.0.1:1/v1"},
    Webhook: {"name": "x", "url": "https://hooks.example/x"},
    McpSettings: {"name": "x", "command": ("x",)},
    PinnedTool: {"name": "x__y", "original": "y"},
    PromptArgument: {"name": "x"},
    ServerPrompt: {"name": "x"},
    RootSettings: {"path": "/srv"},
    Rule: {"verdict": Verdict.ASK, "tool": "x"},
    Schedule: {"name": "x", "prompt": "Go.", "every": "1h"},
}
"""What has no default."""


def structs(kind: Any) -> Iterator[type[Any]]:
    """A struct and all that lie in it, each once."""
    waiting, found = [kind], set()
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found.add(kind)
                yield kind
                waiting += [field.type for field in msgspec.structs.fields(kind)]
        else:
            waiting += getattr(kind, "__args__", ())


FIELDS = [
    (kind, field.name, field.encode_name)
    for kind in (*structs(Settings), *structs(callboard.Agent))
    for field in msgspec.structs.fields(kind)
    if field.type is not Any
]


class Foreign:
    """Of no type that a setting has."""


def test_the_table_has_every_section() -> None:
    assert {SandboxSettings, ServerSettings, callboard.Agent, Budget, Rule} <= {
        k for k, *_ in FIELDS
    }
    assert len(FIELDS) > 100


@pytest.mark.parametrize(("kind", "name", "written"), FIELDS)
def test_a_value_of_another_type_is_named(kind: type[Any], name: str, written: str) -> None:
    given = kind(**NEEDED.get(kind, {}))
    assert checked(given, "given") == given
    msgspec.structs.force_setattr(given, name, Foreign())
    with pytest.raises(ValidationError, match="Nothing of it was used") as refused:
        checked(given, "given")
    assert (refused.value.field or "").startswith(f"given.{written}")


def test_what_a_file_gives_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "callboard.toml"
    for text in (STANDING_TEXT, *CHANGED_TEXT.values()):
        file.write_text(text)
        settings = load_settings(file)
        assert checked(settings, "settings") == settings


@pytest.mark.parametrize("minimum", ["partial", "full"])
async def test_a_text_for_a_choice_is_the_choice(tmp_path: Path, minimum: Any) -> None:
    settings = Settings(sandbox=SandboxSettings(minimum=minimum))
    steps = [callboard.reply("Here.")]
    async with open_local_stage(tmp_path, steps, settings=settings) as (runtime, _):
        session = await runtime.create_session()
        assert await session.run("Are you there?") == "Here."


@pytest.mark.parametrize(
    ("sandbox", "field", "words"),
    [
        ({"minimum": "partly"}, "minimum", "choices: full, partial, none"),
        ({"minimum": "none"}, "minimum", "nothing that a model asks for runs without a sandbox"),
        ({"cpu_seconds": "600"}, "cpu_seconds", "expected int, got str"),
        ({"file_bytes": 1}, "file_bytes", ">= 1048576"),
        ({"processes": True}, "processes", "expected int, got bool"),
        ({"network": 1}, "network", "expected bool, got int"),
    ],
)
async def test_a_program_hears_at_once_what_is_wrong(
    tmp_path: Path, sandbox: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ValidationError, match=words) as refused:
        async with open_local_stage(
            tmp_path, [], settings=Settings(sandbox=SandboxSettings(**sandbox))
        ):
            pass
    assert refused.value.field == f"settings.sandbox.{field}"


async def test_agents_and_the_door_are_checked_too(tmp_path: Path) -> None:
    agent = callboard.Agent(name="a", max_output_tokens=0)
    with pytest.raises(ValidationError, match=r"agents\[1\].max_output_tokens: expected int >= 1"):
        async with open_local_stage(tmp_path, [], agents=[agent]):
            pass
    strict = callboard.Agent(name="a", policy="strict")  # type: ignore[arg-type]
    async with open_local_stage(tmp_path, [], agents=[strict]) as (runtime, _):
        await runtime.create_session(agent="a")
        with pytest.raises(ValidationError, match=r"settings\.port: expected int"):
            async with open_gateway(runtime, ServerSettings(port="1"), tmp_path):  # type: ignore[arg-type]
                pass
