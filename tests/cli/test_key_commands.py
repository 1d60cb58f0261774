"""`callboard keys`, and the commands that use what it stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.__main__ import main
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.disk.data_lock import DataLock
from support.cli.command import Command, Terminal
from support.cli.in_process import fresh_home as fresh_home
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import pipe as pipe

KEY = "sesame-4711-opens"

CONFIGURATION = """
[providers.plain]
base_url = "http://10.0.0.5:8000/v1"
[providers.house]
base_url = "https://models.house.example/v1"
key_env = "HOUSE_KEY"
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(fresh_home: Path) -> Path:
    (fresh_home / "config").mkdir()
    (fresh_home / "config" / "callboard.toml").write_text(CONFIGURATION)
    return fresh_home


def listed(capsys: Captured) -> list[dict[str, Any]]:
    assert main(["keys", "list", "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_key_is_stored_listed_and_removed(home: Path, pipe: Any, capsys: Captured) -> None:
    pipe(f"  {KEY}\n".encode())
    assert main(["keys", "set", "openai"]) == 0
    said = capsys.readouterr().out
    assert "not against someone who can read your files" in said
    assert str(next((home / "config").glob("master-*.key"))) in said
    assert "Stored the key of openai for https://api.openai.com:443." in said
    pipe(KEY.encode())
    assert main(["keys", "set", "openai"]) == 0
    assert capsys.readouterr().out.startswith("Replaced the key of openai")
    assert main(["keys", "list"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.split()[:4] == ["openai", "https://api.openai.com:443", "api_key", "stored"]
    [entry] = listed(capsys)
    assert entry["source"] == "stored"
    assert entry["used"] is True
    assert entry["created"].endswith("+00:00")
    assert KEY not in str(entry)
    assert main(["keys", "rotate-master"]) == 0
    assert "1 key again" in capsys.readouterr().out
    assert main(["keys", "remove", "openai"]) == 0
    assert "Removed the key of openai" in capsys.readouterr().out
    assert main(["keys", "remove", "openai"]) == 1
    assert "No key is stored for 'openai'" in capsys.readouterr().err
    assert listed(capsys) == []


def test_keys_of_the_environment_are_said_to_be_there(
    home: Path, pipe: Any, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_KEY", KEY)
    pipe(b"another-key")
    assert main(["keys", "set", "house"]) == 0
    assert "HOUSE_KEY is set too, and wins" in capsys.readouterr().err
    from_environment, stored = listed(capsys)
    assert from_environment["variable"] == "HOUSE_KEY"
    assert (from_environment["used"], stored["used"]) == (True, False)
    assert main(["keys", "list"]) == 0
    out = capsys.readouterr().out
    assert "environment variable HOUSE_KEY" in out
    assert "(not used)" in out
    assert KEY not in out
    assert main(["keys", "remove", "house"]) == 0
    assert "not callboard's to change" in capsys.readouterr().err
    assert main(["keys", "remove", "house"]) == 1
    assert "HOUSE_KEY is set" in capsys.readouterr().err


def test_a_key_for_an_origin_that_moved_is_not_used(
    home: Path, pipe: Any, capsys: Captured
) -> None:
    pipe(KEY.encode())
    assert main(["keys", "set", "house"]) == 0
    moved = CONFIGURATION.replace("models.house.example", "evil.example")
    (home / "config" / "callboard.toml").write_text(moved)
    capsys.readouterr()
    [entry] = listed(capsys)
    assert (entry["origin"], entry["used"]) == ("https://models.house.example:443", False)


@pytest.mark.parametrize(
    ("provider", "text", "said"),
    [
        ("nobody", KEY.encode(), "no provider 'nobody'"),
        ("plain", KEY.encode(), "in clear text"),
        ("openai", b"", "No key was given"),
        ("openai", b" \n\n", "No key was given"),
        ("openai", b"one\r\ntwo: 3", "That is not a key"),
        ("openai", b'"sesame-4711"', "The key is in quotes"),
        ("openai", b"'sesame-4711'\n", "The key is in quotes"),
        ("openai", b"sesame" * 5000, "That is not a key"),
        ("openai", "sesame-ä".encode(), "That is not a key"),
    ],
)
def test_what_cant_be_stored_is_refused(
    home: Path, pipe: Any, capsys: Captured, provider: str, text: bytes, said: str
) -> None:
    pipe(text)
    assert main(["keys", "set", provider]) == 1
    out, err = capsys.readouterr()
    assert said in err
    assert "sesame" not in out + err
    assert not (home / "data").exists()


def test_nothing_stored_is_said_so(home: Path, capsys: Captured) -> None:
    assert main(["keys", "list"]) == 0
    assert "There are no keys" in capsys.readouterr().err
    assert main(["keys", "rotate-master"]) == 1
    assert "no stored keys yet" in capsys.readouterr().err
    assert not (home / "data").exists()


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["keys", "bogus"], '"bogus"'),
        (["keys", "set"], "PROVIDER"),
        (["keys", "list", "--jsn"], "--jsn"),
        (["keys", "remove", "a", "b"], "'b'"),
        (["keys", "set", "openai", KEY], "never the key"),
        (["keys", "set", "openai", f"--key={KEY}"], "never the key"),
        (["keys", "set", f"--key={KEY}", "openai"], "never the key"),
    ],
)
def test_wrong_usage(home: Path, tokens: list[str], said: str, capsys: Captured) -> None:
    assert main(tokens) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert "See: callboard keys" in err
    assert err.count("\n") == 1
    assert KEY not in out + err
    assert not (home / "data").exists()


def test_a_locked_store_stops_a_run_and_is_seen_in_the_list(
    home: Path, pipe: Any, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(KEY.encode())
    assert main(["keys", "set", "openai"]) == 0
    next((home / "config").glob("master-*.key")).unlink()
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    capsys.readouterr()
    # Named or not: a run does not go on with another model, or without a key.
    for tokens in (["--model", "openai/gpt-5"], []):
        assert main(["run", *tokens, "Go"]) == 1
        assert "The stored keys are locked" in capsys.readouterr().err
    assert main(["keys", "list"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("openai ")
    assert "locked" in err
    # A model that needs none still answers.
    assert main(["run", "--model", "rehearsal", "What time is it?"]) == 0
    assert main(["keys", "remove", "openai"]) == 0


async def test_a_key_is_typed_without_being_shown(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with command.at_terminal("keys", "set", "openai") as terminal:
        await terminal.expect("Key for openai (https://api.openai.com:443): ")
        await terminal.type(f"{KEY}\n")
        await terminal.expect("Stored the key of openai")
        assert await terminal.end() == 0
        assert KEY not in terminal.seen
    async with command.at_terminal("keys", "set", "openai") as terminal:
        await terminal.expect("Key for openai")
        # A signal in the moment between the prompt and the read waits for the next one: Python looks
        # at signals before the system call, and again only when that is interrupted.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupt_until_it_ends, terminal)
            assert await terminal.end() == 130
            nursery.cancel_scope.cancel()


async def interrupt_until_it_ends(terminal: Terminal) -> None:
    while True:
        await terminal.type("\x03")
        await trio.sleep(2)  # longer than an interrupted command takes to end


async def test_keys_are_changed_while_a_runtime_holds_the_store(tmp_path: Path) -> None:
    command = Command(tmp_path)
    data = command.home / "data"
    data.mkdir()
    lock = DataLock(data)
    try:
        assert (await command("keys", "set", "openai", stdin=KEY.encode())).code == 0
        assert (await command("keys", "list")).out.startswith("openai")
    finally:
        lock.release()


async def test_a_run_takes_the_stored_key_and_the_environments_before_it(tmp_path: Path) -> None:
    command = Command(tmp_path)
    async with open_scripted_server([reply("One."), reply("Two.")]) as server:
        house = f'[providers.house]\nbase_url = "{server.base_url}"\nkey_env = "HOUSE_KEY"\n'
        command.configure(house)
        refused = await command("run", "--model", "house/m", "Go")
        assert refused.code == 1
        assert "set HOUSE_KEY, or store one with `callboard keys set house`" in refused.err
        assert (await command("keys", "set", "house", stdin=KEY.encode())).code == 0
        assert (await command("run", "--model", "house/m", "Go")).code == 0
        other = {"HOUSE_KEY": "environment-key"}
        assert (await command("run", "--model", "house/m", "Go", environ=other)).code == 0
        keys = [request.headers["authorization"] for request in server.requests]
    assert keys == [f"Bearer {KEY}", "Bearer environment-key"]


def test_no_workspace_holds_the_folder_of_the_master_key(
    home: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, work = tmp_path / "elsewhere" / "data", tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(tmp_path)
    tokens = ["run", "--model", "rehearsal", "--data", str(data), "--workspace"]
    for folder in (home, home / "config"):
        assert main([*tokens, str(folder), "What time is it?"]) == 1
        assert "can't be the workspace" in capsys.readouterr().err
    assert main([*tokens, str(work), "What time is it?"]) == 0
