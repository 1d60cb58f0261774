"""`callboard memory`: what sessions remember, seen and taken back by the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.sections import MemorySearch, MemorySettings
from callboard.config.settings import Settings
from callboard.providers.testing.script import reply
from callboard.runtime.memory.vector_file import FILE_NAME
from support.cli.command import Command

NOTES = (
    {"text": "The build needs make.", "tags": ["build"]},
    {"text": "Tea is\nat \x1b[31mfour."},
)


@pytest.fixture
async def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    calls = [("memory_store", note) for note in NOTES]
    async with command.open_runtime([reply(calls=calls), reply("Ok.")]) as runtime:
        await (await runtime.create_session()).run("Remember.")
    return command


async def test_memories_are_listed_and_searched(command: Command) -> None:
    listed = await command("memory", "list")
    assert listed.code == 0
    assert len(listed.out.splitlines()) == 2
    assert "general  [build]  The build needs make." in listed.out
    assert "Tea is at " in listed.out
    assert "\x1b" not in listed.out
    found = await command("memory", "search", "building", "--json")
    assert [line["text"] for line in found.lines] == ["The build needs make."]
    assert (await command("memory", "search", "build", "--agent", "other")).out == ""


async def test_a_memory_is_forgotten_for_good(command: Command) -> None:
    (memory,) = (await command("memory", "search", "tea", "--json")).lines
    short = memory["memory_id"].removeprefix("memory_")[:8]
    done = await command("memory", "forget", short)
    assert done.code == 0
    assert done.out.startswith(f"forgotten: {memory['memory_id']}")
    assert (await command("memory", "search", "tea")).out == ""
    assert len((await command("memory", "list", "--json")).lines) == 1
    again = await command("memory", "forget", memory["memory_id"])
    assert again.code == 1
    assert "There is no memory" in again.err
    shown = await command("show", "last")
    assert f"{memory['memory_id']} is forgotten (by terminal)" in shown.out


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (("search", "'("), "no word"),
        (("list", "--limit", "0"), "at least 1"),
        (("forget", "memory_"), "is the beginning of 2 memories"),
        (("forget", ""), "There is no memory"),
    ],
)
async def test_what_can_not_be_done_is_said(
    command: Command, tokens: tuple[str, ...], why: str
) -> None:
    refused = await command("memory", *tokens)
    assert refused.code in {1, 2}
    assert why in refused.err


async def test_before_the_first_session_there_is_nothing(tmp_path: Path) -> None:
    fresh = Command(tmp_path)
    listed = await fresh("memory", "list")
    assert (listed.code, listed.out) == (0, "")
    assert "no session has been stored" in listed.err


async def test_a_search_is_by_meaning_when_that_is_configured(command: Command) -> None:
    """Control: by words, and as long as no runtime has made the vectors, nothing is found."""
    search = ("memory", "search", "Which hot drink do we have?")
    assert "Nothing was found." in (await command(*search)).err
    command.configure('[memory]\nsearch = "vectors"\n')
    assert "Nothing was found." in (await command(*search)).err
    assert not (command.home / "data" / FILE_NAME).exists()
    settings = Settings(memory=MemorySettings(search=MemorySearch.VECTORS))
    again = reply(calls=[("memory_store", NOTES[1])])  # on record already; its vector is made
    async with command.open_runtime([again, reply("Ok.")], settings=settings) as runtime:
        await (await runtime.create_session()).run("Remember.")
    found = await command(*search)
    assert found.code == 0
    assert "Tea is at " in found.out
