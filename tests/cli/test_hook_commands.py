"""`callboard hooks`, with a daemon and without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio

from support.cli.command import Command
from support.cli.daemon_process import serving
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import pipe as pipe
from support.cli.in_process import run_here as run_here
from support.gateway.hook_scene import SECRET
from support.portal.doors import RunHere

CONFIGURATION = """
[hooks.ci]
prompt = "Look."
[webhooks.board]
url = "http://127.0.0.1:{port}/a-secret-path"
events = ["turn"]
"""


async def said(command: Command, *line: str, piped: bytes = b"", code: int = 0) -> str:
    """What a command writes: its output, or its errors if those are expected."""
    ended = await command(*line, stdin=piped)
    assert ended.code == code, ended
    return ended.err if code else ended.out


async def test_hooks_are_listed_tested_and_sent_again(tmp_path: Path) -> None:
    statuses = [404, 200, 404, 200]  # a test, another one, the end of a turn, and it once more

    async def take(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            answer = (
                f"HTTP/1.1 {statuses.pop(0)} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            await stream.send_all(answer.encode())

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, take, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        command = Command(tmp_path)
        command.configure(CONFIGURATION.format(port=listener.socket.getsockname()[1]))
        out = await said(command, "hooks", "list")
        assert "callboard keys set hook:ci" in out
        assert "no daemon runs" in await said(command, "hooks", "test", "board", code=1)
        await said(command, "keys", "set", "hook:ci", piped=SECRET.encode())
        too_short = await said(command, "keys", "set", "hook:ci", piped=b"short", code=1)
        assert "16 characters" in too_short
        assert "no hook 'other'" in await said(
            command, "keys", "set", "hook:other", piped=SECRET.encode(), code=1
        )
        rows = (await command("hooks", "list", "--json")).lines
        assert [(row["name"], row["direction"], row["has_secret"]) for row in rows] == [
            ("ci", "in", True),
            ("board", "out", False),
        ]
        assert "a-secret-path" not in str(rows)
        assert SECRET not in str(rows)
        async with serving(command, "--root", str(command.workspace)):
            assert "status 404" in await said(command, "hooks", "test", "board", code=1)
            assert "took it" in await said(command, "hooks", "test", "board")
            assert "no webhook 'other'" in await said(command, "hooks", "test", "other", code=1)
            await said(command, "run", "What time is it?")

            async def is_dead() -> bool:
                return "404" in await said(command, "hooks", "dead", "--json")

            while not await is_dead():
                pass
            assert "1 dead" in await said(command, "hooks", "list")
            assert "Sent 1 letter" in await said(command, "hooks", "resend")
            assert await said(command, "hooks", "dead", "--json") == ""
        nursery.cancel_scope.cancel()


async def test_a_person_is_told_what_a_new_hook_lacks_and_what_a_removed_one_leaves(
    tmp_path: Path, run_here: RunHere, pipe: Callable[[bytes], None]
) -> None:
    command = Command(tmp_path)
    command.configure('[hooks.theirs]\nprompt = "Look."\n')

    async def say(*words: str, code: int = 0) -> str:
        ended = await run_here(command, *words)
        assert ended.code == code, ended
        return ended.err if code else ended.out

    out = await say("hooks", "add", "ci", "The build {event} ended.", "--signature", "github")
    assert "POST http://127.0.0.1:8790/hooks/ci" in out
    assert "callboard keys set hook:ci" in out
    assert "no daemon runs" in out
    pipe(SECRET.encode())
    await say("keys", "set", "hook:ci")
    out = await say("hooks", "show", "ci")
    assert 'signature = "github"' in out
    assert SECRET not in out
    assert "callboard keys remove hook:ci" in await say("hooks", "remove", "ci")
    out = await say("hooks", "add", "ci", "Again.")
    assert "It has a secret" in out
    for words in (("pause",), ("remove",), ("edit", "--file", str(tmp_path / "theirs.toml"))):
        (tmp_path / "theirs.toml").write_text('prompt = "Mine."')
        err = await say("hooks", words[0], "theirs", *words[1:], code=1)
        assert "callboard.toml, line " in err
