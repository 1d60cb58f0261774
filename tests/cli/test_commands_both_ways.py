"""Commands do and print the same whether a daemon has the store or nobody does."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.cli.run.choice import RunOptions
from callboard.cli.run.flags import RunFlags
from callboard.cli.run.remote import check_options
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import ApprovalAsked
from callboard.runtime.messages import ApprovalAnswer
from support.cli.command import Command, Finished
from support.cli.daemon_process import serving
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here

WRITE = ("write_file", {"path": "a.txt", "content": "second\n"})
REMEMBER = ("memory_store", {"text": "The kettle is blue.", "tags": ["tea"]})
DELETE = ("delete_file", {"path": "b.txt"})

ID = re.compile(r"\b(session|approval|grant|call|turn|input|message|undo|stream)_[0-9a-z]{12,}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.+]\d\d(:\d\d|\d+))?Z?")
SPAN = re.compile(r"\b\d[\d,.]* (ms|s|min|h|d)\b")
NUMBER = re.compile(r'("(?:at_ms|\w+_ms)"):\d+')

PLACE = ("--base-url", "https://models.example/v1")

TUNED = ("--policy", "auto", "--thinking", "low", "--temperature", "0.5", "--max-tokens", "100")

STEPS: tuple[tuple[str, ...], ...] = (
    ("sessions",),
    ("show", "last"),
    ("show", "last", "--json"),
    ("approvals",),
    ("approvals", "--all", "--json"),
    ("grants",),
    ("grants", "revoke", "GRANT"),
    ("grants", "revoke", "GRANT"),
    ("grants", "--all"),
    ("undo", "last", "--list"),
    ("undo", "last", "--dry-run"),
    ("undo", "last", "--yes"),
    ("undo", "nothing"),
    ("memory", "list"),
    ("memory", "search", "kettle"),
    ("memory", "forget", "memory_"),
    ("memory", "forget", "memory_"),
    ("memory", "list", "--json"),
    ("usage",),
    ("tools",),
    ("models", "rehearsal"),
    ("models", "nobody"),
    ("models", "gemini"),
    ("models", "--json"),
    ("models", "default"),
    ("models", "default", "nobody/x"),
    ("models", "default", "rehearsal/rehearsal", "--json"),
    ("models", "default"),
    ("models", "default", "--unset"),
    ("keys", "list"),
    ("keys", "list", "--json"),
    ("keys", "remove", "openai"),
    ("keys", "set", "git"),
    ("providers",),
    ("providers", "add", "house", *PLACE, "--key-env", "HOUSE_KEY"),
    ("providers", "add", "house", *PLACE),
    ("providers", "edit", "house", "--model", "m", "--models", "m, n", "--json"),
    ("providers", "edit", "house"),
    ("providers", "edit", "house", "--base-url", "https://other.example/v1"),
    ("providers", "edit", "nobody", "--model", "m"),
    ("providers", "deactivate", "house"),
    ("providers", "activate", "house", "--json"),
    ("providers", "test", "openai"),
    ("providers", "test", "nobody"),
    ("providers",),
    ("providers", "remove", "house"),
    ("providers", "remove", "house"),
    ("providers", "--json"),
    ("policy", "check", "delete_file", '{"path": "b.txt"}'),
    ("run", "What time is it in Tokyo? Save it to now.txt and read it back."),
    ("run", "--json", "List the files here."),
    ("run", "--continue", "What time is it in Paris?"),
    ("run", "--agent", "nobody", "Hello"),
    ("run", *TUNED, "What time is it in Tokyo?"),
    ("run", "--budget", "calls=1", "What time is it in Tokyo? Save it to late.txt."),
    ("show", "last"),
    ("token", "create", "phone", "--role", "observer", "--agent", "general"),
    ("token", "create", "phone"),
    ("token", "create", "local"),
    ("token", "list"),
    ("token", "rotate", "phone"),
    ("token", "revoke", "phone"),
    ("token", "revoke", "phone"),
    ("token", "list", "--json"),
    ("backup", "BACKUP"),
    ("backup", "BACKUP"),
)


async def filled(folder: Path) -> Command:
    """A home with a session that did things, and has a grant and a memory; and one that asks."""
    command = Command(folder)
    (command.workspace / "a.txt").write_text("first\n")
    (command.workspace / "b.txt").write_text("b\n")

    async def allow(request: callboard.ApprovalRequest) -> ApprovalAnswer:
        remember = "session" if "session" in request.scopes else None
        return ApprovalAnswer(decision="allow", remember=remember, answered_by="terminal")

    steps = [reply(calls=[WRITE]), reply(calls=[REMEMBER]), reply("Done.")]
    async with command.open_runtime(steps, on_approval=allow) as runtime:
        await (await runtime.create_session(title="tidy")).run("Write.")
        assert await runtime.grants()
    return command


Say = Callable[..., Awaitable[Finished]]


@pytest.fixture
def say(run_here: Say) -> Say:
    async def run(command: Command, *tokens: str) -> Finished:
        runs_alone = tokens[0] in {"run", "attach"}  # for their signals
        return await (command(*tokens) if runs_alone else run_here(command, *tokens))

    return run


async def run_step(say: Say, command: Command, step: tuple[str, ...]) -> Finished:
    names = {"BACKUP": str(command.workspace.parent / "b.db")}
    if "GRANT" in step:
        (grant,) = (await say(command, "grants", "--all", "--json")).lines
        names["GRANT"] = grant["grant_id"]
    return await say(command, *(names.get(token, token) for token in step))


def plain(command: Command, text: str) -> list[str]:
    """What is printed without what differs from one run to the next."""
    text = text.replace(str(command.workspace.parent), "FOLDER")
    text = re.sub(r"…\S*/[ab]/work\b", "FOLDER/work", text)  # a path is shown by its end
    seen: dict[str, str] = {}
    text = ID.sub(lambda found: seen.setdefault(found[0], f"{found[1]}_{len(seen)}"), text)
    text = re.sub(
        r',"(duration_ms|finished_at_ms|first_ms)":\d+', "", text
    )  # left out when it is 0
    text = NUMBER.sub(r"\1:0", SPAN.sub("T", MOMENT.sub("WHEN", text)))
    text = re.sub(r"cb_[\w-]{20,}|\b[0-9a-f]{32,}\b|\b[\d,]+ bytes", "SECRET", text)
    text = re.sub(r',"request":\{[^}]*\}', "", text)  # by which a client's request is known again
    return [line for line in text.splitlines() if '"text_delta"' not in line]


async def test_each_command_both_ways(tmp_path: Path, say: Say) -> None:
    alone, served = await filled(tmp_path / "a"), await filled(tmp_path / "b")
    async with serving(served, "--root", str(served.workspace)):
        for step in STEPS:
            here, there = [await run_step(say, each, step) for each in (alone, served)]
            assert plain(served, there.out) == plain(alone, here.out), step
            assert plain(served, there.err) == plain(alone, here.err), step
            assert there.code == here.code, step
    for command in (alone, served):
        assert (command.workspace / "a.txt").read_text() == "first\n"
        assert (command.workspace / "now.txt").exists()
        assert not (command.workspace / "late.txt").exists()


async def test_what_the_daemon_could_not_go_on_with_is_refused(tmp_path: Path, say: Say) -> None:
    command = Command(tmp_path)
    managed = command.home / "config" / "managed.toml"
    async with serving(command):
        assert (await say(command, "providers", "add", "house", *PLACE)).code == 0
        assert (await say(command, "models", "default", "house/m")).code == 0
        before = managed.read_text()
        for words in (("remove", "house"), ("deactivate", "house")):
            refused = await say(command, "providers", *words)
            assert (refused.code, refused.out) == (1, "")
            assert "With this change the daemon could not work: " in refused.err
        assert managed.read_text() == before
        # A file that is named is that file, whoever runs.
        other = tmp_path / "other" / "callboard.toml"
        other.parent.mkdir(mode=0o700)
        other.write_text("")
        assert (
            await say(command, "providers", "add", "x", *PLACE, "--config", str(other))
        ).code == 0
        assert managed.read_text() == before


async def asking(folder: Path) -> Command:
    """A home with a session whose call waits for an answer."""
    command = Command(folder)
    (command.workspace / "b.txt").write_text("b\n")
    async with command.open_runtime([reply(calls=[DELETE])], on_approval="wait") as runtime:
        session = await runtime.create_session()
        async with session.follow() as events:
            await session.submit("Delete b.txt.")
            async for event in events:
                if isinstance(event, ApprovalAsked):
                    break
    return command


@pytest.mark.parametrize("word", ["approve", "deny"])
async def test_an_answer_given_to_the_daemon_goes_on_at_once(
    tmp_path: Path, say: Say, word: str
) -> None:
    alone, served = await asking(tmp_path / "a"), await asking(tmp_path / "b")
    async with serving(served):
        said = []
        for command in (alone, served):
            (question,) = (await say(command, "approvals", "--json")).lines
            done = await say(command, word, question["approval_id"])
            assert done.code == 0
            said.append(plain(command, done.out))
            again = await say(command, word, question["approval_id"])
            assert again.code == 1
            assert "is not open" in again.err
        # Where it goes on differs, and is said.
        assert said[0][:-1] == said[1][:-1]
        assert "callboard run --continue" in said[0][-1]
        assert "the daemon goes on with it; `callboard attach session_" in said[1][-1]
        followed = await served("attach", "last", "--until-idle")
        assert followed.code == 0
    assert (alone.workspace / "b.txt").exists()
    assert (served.workspace / "b.txt").exists() == (word == "deny")


async def test_a_run_outside_the_roots_says_how_to_let_it_in(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with serving(command):
        refused = await command("run", "What time is it in Tokyo?")
        assert refused.code == 1
        assert f"callboard serve --root {command.workspace}" in refused.err
        async with command.at_terminal("run", "What time is it in Tokyo?") as terminal:
            await terminal.expect("Let its sessions work there? [y/N] ")
            await terminal.type("y\n")
            assert await terminal.end() == 0
        assert (await command("run", "What time is it in Tokyo?")).code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"flags": RunFlags(base_url="http://127.0.0.1:9/v1")},
            "--base-url is not for a run in the daemon: name",
        ),
        ({"is_recorded": True}, "callboard record is not for a run in the daemon"),
        ({"prompt": None, "flags": RunFlags(policy="strict")}, "are for the turn of a prompt"),
        ({"prompt": None, "flags": RunFlags(temperature=1.0)}, "are for the turn of a prompt"),
    ],
)
def test_what_is_the_daemons_own_is_not_chosen_by_a_run(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConflictError, match=said):
        check_options(RunOptions(**{"prompt": "Hello", **options}))
    flags = RunFlags(
        model="a/b", policy="strict", temperature=1.0, thinking="low", max_tokens=10,
        fallback=("openai/x",),
    )  # fmt: skip
    check_options(RunOptions(prompt="Hello", flags=flags))


async def test_such_a_run_begins_nothing(tmp_path: Path, say: Say) -> None:
    command = Command(tmp_path)
    async with serving(command, "--root", str(command.workspace)):
        refused = await command("run", "--base-url", "http://127.0.0.1:9/v1", "Hello")
        assert refused.code == 1
        assert "--base-url is not for a run in the daemon" in refused.err
        assert "callboard providers add NAME" in refused.err
        assert (await say(command, "sessions")).out == ""


async def test_a_restore_waits_for_the_daemon_to_end(tmp_path: Path, say: Say) -> None:
    command = await filled(tmp_path / "a")
    backup = str(tmp_path / "b.db")
    assert (await say(command, "backup", backup)).code == 0
    async with serving(command):
        refused = await say(command, "restore", backup, "--yes")
        assert refused.code == 1
        assert "callboard stop" in refused.err
    unsure = await say(command, "restore", backup)
    assert (unsure.code, unsure.out) == (2, "")
    done = await say(command, "restore", backup, "--yes")
    assert done.code == 0
    assert "What was there before is " in done.out
    (row,) = (await say(command, "sessions", "--json")).lines
    assert row["title"] == "tidy"


async def test_the_protocol_is_printed(tmp_path: Path, say: Say) -> None:
    command = Command(tmp_path)
    listed = await say(command, "protocol")
    assert "session/prompt          operator  Prompt a session" in listed.out
    schema = json.loads((await say(command, "protocol", "--json-schema")).out)
    names = re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema))
    assert names
    assert set(names) <= set(schema["$defs"])
    prompt = schema["methods"]["session/prompt"]
    assert prompt["role"] == "operator"
    assert prompt["params"]["required"] == ["session_id", "content"]
    update = schema["notifications"]["session/update"]["params"]
    assert update["required"] == ["session_id", "event"]
