"""What the documents of the daemon say to type works as it stands."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.client.administration import (
    ClientAgents,
    ClientHooks,
    ClientKeys,
    ClientMemories,
    ClientModels,
    ClientProviders,
    ClientSchedules,
    ClientSettings,
    ClientTokens,
    ClientUpkeep,
)
from callboard.client.servers import ClientMcp
from callboard.config.daemon_file import find_daemon
from callboard.providers.testing.script import reply
from support.cli.command import PATIENCE_SECONDS, Command
from support.cli.daemon_process import serving
from support.gateway.daemon_scene import open_daemon

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {
    "agents": ClientAgents,
    "schedules": ClientSchedules,
    "hooks": ClientHooks,
    "mcp": ClientMcp,
    "settings": ClientSettings,
    "memories": ClientMemories,
    "providers": ClientProviders,
    "models": ClientModels,
    "keys": ClientKeys,
    "tokens": ClientTokens,
    "upkeep": ClientUpkeep,
}
DELETE = ("delete_file", {"path": "old.txt"})


def blocks(document: str, language: str, chapter: str = "") -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    if chapter:
        text = re.split(r"^## ", text.partition(f"## {chapter}\n")[2], flags=re.MULTILINE)[0]
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(block: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "callboard"]


async def test_the_quick_start_works_when_it_is_pasted(tmp_path: Path) -> None:
    command = Command(tmp_path)
    first, second = blocks("README.md", "sh", "As a daemon")[:2]
    [serve] = commands(first)
    assert commands(blocks("docs/daemon.md", "sh", "A quick start")[1]) == commands(second)
    # On another port than the usual one, which may be taken where tests run.
    async with serving(command, *serve[1:]):
        for words in commands(second):
            if words[0] == "attach":  # it stays until it is left
                async with command.at_terminal(*words) as terminal:
                    await terminal.expect("in the daemon")
                    await command("run", "--continue", "What time is it in Paris?")
                    await terminal.expect("Paris")
                    await terminal.type("\x03")
                    assert await terminal.end() in {0, 130}
                continue
            done = await command(*words)
            assert (words, done.code, done.err) == (words, 0, done.err)
    assert find_daemon(command.home / "data") is None


@pytest.mark.parametrize("number", range(3))
async def test_the_programs_of_the_clients_document_run(tmp_path: Path, number: int) -> None:
    programs = blocks("docs/client.md", "python")
    assert len(programs) == 3
    is_asked = "approvals" in programs[number]
    model: Any = "rehearsal"
    if is_asked:
        model = callboard.ScriptedModel([reply(calls=[DELETE]), reply("Then not.")])
        (tmp_path / "old.txt").write_text("old\n")
    async with open_daemon(model, workspace=tmp_path) as daemon:
        if is_asked:
            session = await daemon.runtime.create_session()
            await session.submit("Delete it.")
        with trio.fail_after(PATIENCE_SECONDS):
            done = await trio.run_process(
                [sys.executable, "-W", "error", "-c", programs[number], daemon.url, daemon.token],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        assert (done.stderr.decode(), done.returncode) == ("", 0)
        out = done.stdout.decode()
        assert ("delete_file (" if is_asked else "Tokyo is") in out
        if is_asked:
            [row] = await daemon.runtime.approvals(state=None)
            assert row.state == "denied"
            assert (tmp_path / "old.txt").exists()


def test_the_document_lists_every_request_of_the_client() -> None:
    text = (ROOT / "docs/client.md").read_text(encoding="utf-8")
    rows = {
        row[1].strip().strip("`"): set(re.findall(r"`(\w+)`", row[2]))
        for line in text.splitlines()
        if len(row := line.split("|")) == 4
    }
    for name, group in GROUPS.items():
        assert rows[name] == {each for each in vars(group) if not each.startswith("_")}
    own = {each for each in dir(callboard.Client) if not each.startswith("_")}
    listed = set().union(*(names for name, names in rows.items() if name not in GROUPS))
    assert listed == own - {"run", "request", *GROUPS}
