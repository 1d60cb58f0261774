"""`callboard tool`: a tool is shown, and called without a model, here or in a daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.__main__ import main
from support.cli.command import Command, Finished
from support.cli.daemon_process import serving
from support.cli.in_process import fresh_home as fresh_home

NEW = '{"path": "new.txt", "content": "new"}'
OVER = '{"path": "old.txt", "content": "other"}'


@pytest.fixture
def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    (command.workspace / "old.txt").write_text("old")
    return command


async def call(command: Command, *tokens: str) -> tuple[Finished, dict[str, Any]]:
    done = await command("tool", "call", *tokens)
    assert done.out, done.err
    found: dict[str, Any] = json.loads(done.out)
    return done, found


async def it_is_called(command: Command) -> None:
    done, made = await call(command, "write_file", "--arguments", NEW)
    assert (done.code, made["status"], made["artifacts"][0]["id"]) == (0, "success", "new.txt")
    done, read = await call(
        command, "read_file", "--arguments", '{"path": "new.txt"}', "--continue", "--quiet"
    )
    assert (read["output"]["content"], read["session_id"], done.err) == (
        "new",
        made["session_id"],
        "",
    )
    done, allowed = await call(command, "write_file", "--arguments", OVER, "--policy", "auto")
    assert (done.code, allowed["status"]) == (0, "success")
    assert (command.workspace / "old.txt").read_text() == "other"
    done, unknown = await call(command, "nothing")
    assert (done.code, unknown["error"]["error_type"]) == (1, "tool_not_found")


async def test_a_tool_is_called_where_no_daemon_runs(command: Command) -> None:
    done, refused = await call(command, "write_file", "--arguments", OVER)
    assert (done.code, refused["status"]) == (1, "denied")  # nobody is at a terminal
    assert "nobody" in done.err
    await it_is_called(command)
    assert set(await command.outcomes()) == {"answered"}


async def test_odd_characters_of_an_outcome_are_escapes_of_json(command: Command) -> None:
    """They were escaped as in other texts, which made the outcome no JSON; the events had them as they are."""
    text = "a\x9b31mb\u202ec\xadd\u2028e\U000e0041"
    (command.workspace / "odd.txt").write_text(text)
    done, read = await call(command, "read_file", "--arguments", '{"path": "odd.txt"}')
    assert read["output"]["content"] == text
    shown = await command("show", "last", "--json")
    events = [json.loads(line)["event"] for line in shown.out.splitlines()]
    [result] = [json.loads(each["result"]) for each in events if each["type"] == "call_finished"]
    assert text in json.dumps(result, ensure_ascii=False)
    assert (done.out + shown.out).isascii()


async def test_a_tool_is_called_in_a_daemon(command: Command) -> None:
    async with serving(command, "--root", str(command.workspace)):
        # Denied at once, as without a daemon: nobody sits there, and who calls waits for the outcome.
        done, refused = await call(command, "write_file", "--arguments", OVER)
        assert (done.code, refused["status"]) == (1, "denied")
        await it_is_called(command)


async def test_a_person_is_asked_at_the_terminal(command: Command) -> None:
    tokens = ("tool", "call", "write_file", "--arguments", OVER)
    async with command.at_terminal(*tokens) as terminal:
        await terminal.expect("your answer:")
        await terminal.type("y\n")
        assert await terminal.end() == 0
    assert '"status":"success"' in terminal.seen
    assert (command.workspace / "old.txt").read_text() == "other"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("show", "read_fil"), "Did you mean"),
        (("call", "read_file", "--arguments", "[1]"), "is a JSON object"),
        (("call", "read_file", "--arguments", "{"), "is not JSON"),
        (("call", "read_file", "--attach", "x"), "are for a model"),
        (("call",), "requires an argument"),
    ],
)
def test_what_can_not_be_called_is_said(
    tokens: tuple[str, ...], said: str, fresh_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tool", *tokens]) != 0
    assert said in capsys.readouterr().err


def test_a_tool_is_shown_as_models_get_it(
    fresh_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tool", "show", "read_file"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["tier"] == "read_only"
    assert "path" in shown["parameters"]["properties"]
    assert "output" in shown
    assert main(["tool", "show", "read_file", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == shown
