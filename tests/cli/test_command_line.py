"""What needs no turn: reading, help, wrong usage, bad input; in this process, through `main`."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from cyclopts import App

import callboard
from callboard.__main__ import main
from callboard.cli.app import COMMANDS, complete_parser
from callboard.cli.help_page import GROUPS, MAX_WIDTH
from callboard.cli.run.flags import EXAMPLE
from callboard.providers.testing.script import reply
from callboard.tools.builtin import builtin_tools
from support.cli.in_process import own_logging as own_logging


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    return tmp_path / "data"


async def record(data: Path, *prompts: str) -> list[str]:
    """A session for each prompt; gives their ids."""
    model = callboard.ScriptedModel([reply("As you say.") for _ in prompts])
    ids = []
    async with callboard.open_runtime(
        model=model, data=data, workspace=data.parent / "work"
    ) as runtime:
        for prompt in prompts:
            session = await runtime.create_session()
            await session.run(prompt)
            ids.append(session.session_id)
    return ids


@pytest.fixture
def ids(data: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (data.parent / "work").mkdir()
    monkeypatch.chdir(data.parent / "work")
    return trio.run(record, data, "First thing", "Second\x1b thing")


Captured = pytest.CaptureFixture[str]


def test_sessions_are_listed_the_latest_first(ids: list[str], capsys: Captured) -> None:
    assert main(["sessions"]) == 0
    second, first = capsys.readouterr().out.splitlines()
    assert first.startswith(ids[0])
    assert first.endswith("  First thing")
    assert second.startswith(ids[1])
    assert "\x1b" not in second
    assert main(["sessions", "--limit", "1", "--json"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["session_id"] == ids[1]


def test_a_session_is_found_by_its_name(ids: list[str], capsys: Captured) -> None:
    bare = ids[0].removeprefix("session_")
    for name in (ids[0], ids[0][:-4], bare[:8]):
        assert main(["show", name]) == 0
        assert "## You\n\nFirst thing\n" in capsys.readouterr().out
    assert main(["show", "last"]) == 0
    assert "As you say." in capsys.readouterr().out
    assert main(["show", "session_"]) == 1
    said = capsys.readouterr().err
    assert "beginning of 2 sessions" in said
    assert ids[0] in said
    for name in ("nothing", ""):
        assert main(["show", name]) == 1
        assert "There is no session" in capsys.readouterr().err


def test_the_events_of_a_session(ids: list[str], capsys: Captured) -> None:
    assert main(["show", ids[0], "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0]["event"]["type"] == "session_created"
    assert lines[-1]["event"]["outcome"] == "answered"


def test_an_empty_store_is_no_error_to_a_list(data: Path, capsys: Captured) -> None:
    assert main(["sessions"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert str(data) in err
    assert main(["show", "last"]) == 1
    assert main(["show", "last", "--data", str(data / "other")]) == 1
    assert str(data / "other") in capsys.readouterr().err


def test_tools_are_printed_as_a_provider_gets_them(capsys: Captured) -> None:
    assert main(["tools", "--format", "openai"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["type"] for each in found} == {"function"}
    assert found[0]["function"]["name"] == "get_current_time"
    assert main(["tools", "--format", "openai", "--agent", "nobody"]) == 1
    assert "There is no agent 'nobody'" in capsys.readouterr().err


def test_tools_are_listed(capsys: Captured) -> None:
    assert main(["tools"]) == 0
    out = capsys.readouterr().out
    assert main(["tools", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tools = [tool.load() for tool in builtin_tools()]
    for tool, entry in zip(tools, listed, strict=True):
        definition = tool.definition
        assert entry["name"] == definition.name
        assert entry["tier"] == definition.tier
        assert entry["parameters"] == definition.parameters
        [line] = [line for line in out.splitlines() if line.startswith(f"{definition.name} ")]
        deadline = ["none"] if tool.waits else [f"{definition.timeout_seconds:g}", "s"]
        assert line.split()[1 : 2 + len(deadline)] == [definition.tier, *deadline]


@pytest.mark.parametrize("tokens", [[], ["--help"], ["run", "--help"], ["show", "-h"]])
def test_help(tokens: list[str], capsys: Captured) -> None:
    assert main(tokens) == 0
    assert "Usage: callboard" in capsys.readouterr().out


@pytest.mark.parametrize("tokens", [["--help"], ["run", "--help"], ["session"], ["approve", "-h"]])
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_is_two_columns_that_fit(
    tokens: list[str], columns: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(tokens) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert max(map(len, lines)) <= min(columns, MAX_WIDTH)
    assert [line for line in lines if line != line.rstrip()] == []
    for table in shown.split(":\n")[1:]:
        rows = [line for line in table.split("\n\n")[0].splitlines() if line.startswith("  ")]
        texts = {
            re.match(r"  \S.*?  +(?=\S)|  +(?=\S)", row)[0]  # type: ignore[index]
            for row in rows
            if not re.fullmatch(r"  \S+( \S+)*", row)  # a label that has a line of its own
        }
        assert len({len(text) for text in texts}) <= 1, table
    assert "[default: False]" not in shown


def pages(app: App, *path: str) -> Iterator[tuple[str, ...]]:
    """The commands that have a help page, below this one and itself."""
    yield path
    for name in app:
        if not name.startswith("-"):
            yield from pages(app[name], *path, name)


def test_every_page_of_the_help_is_whole(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each argument and option is explained, no value is broken in the middle, no default is one of Python."""
    monkeypatch.setenv("COLUMNS", "80")
    found = [*pages(complete_parser())]
    assert len(found) > 100
    for path in found:
        assert main([*path, "--help"]) == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= 80, path
        usage, *_ = shown.splitlines()
        assert "ARGS" not in usage
        for row in re.findall(r"^  (?:--[a-z]|[A-Za-z]).*$(?:\n {4,}\S.*)?", shown, re.MULTILINE):
            assert re.match(r"  \S.*?(?: {2,}|\n +)\S", row), (path, row)
        assert not re.search(r"default: (False|None|\(\)|\"\"|0|\.)\]", shown), path
        whole = " ".join(shown.split())
        if "--budget" in whole:
            assert EXAMPLE in whole.replace(", ", ","), path


def test_every_command_has_one_place_in_the_list(capsys: Captured) -> None:
    placed = [name for names in GROUPS.values() for name in names]
    assert sorted(placed) == sorted([*COMMANDS, "run", "record"])
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [line[:-1] for line in shown.splitlines() if line.endswith(":")] == [*GROUPS, "Options"]


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("callboard ")


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["bogus"], '"bogus"'),
        (["--bogus"], '"--bogus"'),
        (["run"], "PROMPT"),
        (["run", ""], "empty"),
        (["run", "two", "words"], "'words'"),
        (["run", "--bogus"], '"--bogus". Put -- before a prompt that begins with a hyphen.'),
        (["run", "hi", "--bogus"], "--bogus"),
        (["run", "hi", "--model"], "--model"),
        (["run", "hi", "--policy", "lax"], '"auto", "balanced", "strict"'),
        (["run", "--modle", "x", "hi"], 'Unknown option: "--modle". Did you mean "--model"?'),
        (["run", "--jsn", "hi"], 'Unknown option: "--jsn". Did you mean "--json"?'),
        (["run", "-v", "hi"], 'Unknown option: "-v". Did you mean "--verbose"?'),
        (["tools", "--jsn"], 'Unknown option: "--jsn". Did you mean "--json"?'),
        (["tools", "extra"], "no place for 'extra'. See"),
        (["sessions", "extra"], "no place for 'extra'. See"),
        (["sessions", "--limit", "x"], "--limit"),
        (["sessions", "--limit", "0"], "--limit"),
        (["show"], "SESSION"),
    ],
)
def test_wrong_usage(tokens: list[str], said: str, data: Path, capsys: Captured) -> None:
    assert main(tokens) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("callboard: ")
    assert err.count("\n") == 1
    assert said in err
    assert "--help" in err
    assert not data.exists()


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--model", "nope/x"], "no provider 'nope'. Providers: "),
        (["--model", "rehearsal/x"], "no model 'x'"),
        (["--model", "openai"], "set OPENAI_API_KEY"),
        (["--base-url", "ftp://x"], "http://"),
        (["--base-url", "http://127.0.0.1:9/v1"], "Is the server running?"),
        (["--agent", "nope"], "no agent 'nope'"),
        (["--model", "rehearsal", "--workspace", "/"], "--workspace DIR"),
        (["--config", "missing.toml"], "missing.toml"),
        (["--continue"], "no session has been stored"),
    ],
)
def test_bad_input_is_one_line(
    tokens: list[str],
    said: str,
    data: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(data.parent)
    assert main(["run", *tokens, "Go"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("callboard: ")
    assert err.count("\n") == 1
    assert said in err


def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with() -> None:
    for name, (module, line) in COMMANDS.items():
        # Its module once more: cyclopts gives a command that a parser has found in the list the text of that.
        spec = importlib.util.find_spec(f"callboard.cli.{module}")
        assert spec is not None
        assert spec.loader is not None
        its = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(its)
        command = getattr(its, name)
        text = command.help if isinstance(command, App) else command.__doc__
        assert text.partition("\n")[0] == line


def test_a_bug_is_said_to_be_one(
    data: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> int:
        raise RuntimeError("the wheel came off")

    monkeypatch.setattr("callboard.cli.show.tools.tools", broken)
    monkeypatch.delenv("CALLBOARD_DEBUG", raising=False)
    assert main(["tools"]) == 1
    err = capsys.readouterr().err
    assert "RuntimeError: the wheel came off. This is a bug" in err
    assert err.count("\n") == 1
    monkeypatch.setenv("CALLBOARD_DEBUG", "1")
    assert main(["tools"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_and_a_lost_reader_are_quiet(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> int:
        raise BaseExceptionGroup("", [BaseExceptionGroup("", [KeyboardInterrupt()])])

    monkeypatch.setattr("callboard.cli.show.tools.tools", interrupted)
    assert main(["tools"]) == 130
    assert capsys.readouterr().err == ""


def test_an_interrupt_while_it_is_imported_is_quiet(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "callboard.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "callboard.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert main(["tools"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_closed_output_is_no_bug() -> None:
    script = f"exec {sys.executable} -m callboard tools >&-"
    done = subprocess.run(["sh", "-c", script], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
