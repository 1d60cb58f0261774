"""`callboard undo`: what calls changed in files, listed and taken back by the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.providers.testing.script import reply
from support.cli.command import Command
from support.sandbox.sandbox_users import needs_sandbox

CALLS = (
    ("write_file", {"path": "a.txt", "content": "second"}),
    ("write_file", {"path": "new/b.txt", "content": "second"}),
)


async def changed(folder: Path, *calls: tuple[str, dict[str, str]]) -> Command:
    """A home with a session that made these calls."""
    command = Command(folder)
    (command.workspace / "a.txt").write_text("first")
    steps = [*(reply(calls=[call]) for call in calls), reply("Ok.")]
    async with command.open_runtime(steps, on_approval="allow") as runtime:
        await (await runtime.create_session()).run("Write.")
    return command


@pytest.fixture
async def command(tmp_path: Path) -> Command:
    return await changed(tmp_path, *CALLS)


def contents(command: Command) -> dict[str, str]:
    files = [path for path in command.workspace.rglob("*") if path.is_file()]
    return {str(path.relative_to(command.workspace)): path.read_text() for path in files}


async def test_a_session_is_undone_and_the_undoing_too(command: Command) -> None:
    before = {"a.txt": "first"}
    after = {"a.txt": "second", "new/b.txt": "second"}
    assert contents(command) == after
    foreseen = await command("undo", "last", "--dry-run")
    assert foreseen.code == 0
    assert foreseen.out == "remove new/b.txt\nremove new\nput back a.txt\n"
    assert contents(command) == after
    done = await command("undo", "last", "--yes")
    assert done.code == 0
    assert done.out.startswith(foreseen.out + "undone: 3 paths; callboard undo session_")
    assert contents(command) == before
    shown = await command("show", "last")
    assert "3 paths put back (undone by terminal)" in shown.out
    *_, undoing = (await command("undo", "last", "--list", "--json")).lines
    assert undoing["is_undoing"]
    assert (await command("undo", "last", undoing["call_id"][:12], "--yes")).code == 0
    assert contents(command) == after


async def test_the_folder_is_named_where_it_is_another_one(command: Command) -> None:
    [name] = [row["session_id"] for row in (await command("sessions", "--json")).lines]
    folder, command.workspace = command.workspace, command.home
    foreseen = await command("undo", name, "--dry-run")
    assert foreseen.out.startswith(f"in {folder}:\nremove new/b.txt\n"), foreseen


async def test_one_call_is_undone_by_the_beginning_of_its_id(command: Command) -> None:
    first, second = (await command("undo", "last", "--list", "--json")).lines
    assert [call["paths"] for call in (first, second)] == [["a.txt"], ["new", "new/b.txt"]]
    short = first["call_id"].removeprefix("call_")[:8]
    assert (await command("undo", "last", short, "--yes", "--json")).lines[0]["left"] == []
    assert contents(command) == {"a.txt": "first", "new/b.txt": "second"}
    listed = await command("undo", "last", "--list")
    assert [line.split()[3] for line in listed.out.splitlines()] == ["undone", "changed", "changed"]


async def test_nothing_is_undone_without_a_yes(command: Command) -> None:
    refused = await command("undo", "last")
    assert refused.code == 2
    assert "say --yes" in refused.err
    assert contents(command)["a.txt"] == "second"


async def test_what_was_changed_since_says_how_to_force_it(command: Command) -> None:
    (command.workspace / "a.txt").write_text("by hand")
    foreseen = await command("undo", "last", "--dry-run")
    assert (foreseen.code, foreseen.out.splitlines()[-1]) == (
        1,
        "left as it is: a.txt: it was changed since",
    )
    refused = await command("undo", "last", "--yes")
    assert refused.code == 1
    assert "Nothing was undone: a.txt: it was changed since" in refused.err
    assert "--force" in refused.err
    assert contents(command)["new/b.txt"] == "second"
    assert (await command("undo", "last", "--yes", "--force")).code == 0
    assert contents(command) == {"a.txt": "first"}


async def test_an_unknown_call_is_told_apart(command: Command) -> None:
    refused = await command("undo", "last", "call_nothing", "--yes")
    assert refused.code == 1
    assert "changed a file so that it can be undone" in refused.err


async def test_a_runtime_that_runs_keeps_the_lock(command: Command) -> None:
    async with command.open_runtime([]):
        assert (await command("undo", "last", "--dry-run")).code == 0
        refused = await command("undo", "last", "--yes")
        assert refused.code == 1
        assert "only that process can change its sessions now" in refused.err
    assert contents(command)["a.txt"] == "second"


async def test_a_session_that_changed_nothing_names_the_one_that_was_meant(
    command: Command,
) -> None:
    """As after the examples of the README, where one that only reads comes last."""
    [meant] = [row["session_id"] for row in (await command("sessions", "--json")).lines]
    assert (await command("run", "What time is it in Tokyo?")).code == 0
    words = f"`callboard undo {meant}`."
    refused = await command("undo", "last", "--yes")
    assert (refused.code, words in refused.err) == (1, True)
    foreseen = await command("undo", "last", "--dry-run")
    listed = await command("undo", "last", "--list")
    assert (foreseen.code, listed.code) == (0, 0)  # nothing was asked for that could not be done
    assert (foreseen.out, words in foreseen.err) == (listed.out, True) == ("", True)

    # Nobody who stands in another project is led to change this one without a word.
    other = command.home / "other"
    other.mkdir()
    assert (await command("run", "--workspace", str(other), "What time is it?")).code == 0
    [theirs] = [row["session_id"] for row in (await command("sessions", "--json", "--all")).lines
                if row["workspace"] == str(other)]  # fmt: skip
    refused = await command("undo", theirs, "--yes")
    assert (refused.code, "callboard undo session" in refused.err) == (1, False)
    copy = await command("session", "fork", meant)
    assert copy.code == 0
    refused = await command("undo", "last", "--dry-run")
    assert f"a copy of whose changes can be undone is {meant}" in refused.err

    assert (await command("undo", meant, "--yes")).code == 0
    again = await command("undo", meant, "--dry-run")
    assert (again.code, "All of that is undone already." in again.err) == (0, True)
    refused = await command("undo", "last", "--yes")
    assert (refused.code, "callboard undo session" in refused.err) == (1, False)


async def test_a_list_says_what_programs_changed_that_can_not_be_undone(tmp_path: Path) -> None:
    needs_sandbox()
    program = ("run_code", {"language": "bash", "code": "echo > by-program"})
    command = await changed(tmp_path, CALLS[0], program)
    listed = await command("undo", "last", "--list")
    assert listed.code == 0
    by_tool, by_program = listed.out.splitlines()
    assert by_tool.endswith("changed  a.txt")
    assert by_program.startswith("can't be undone, a program did it: call_")
    assert "(run_code): created by-program" in by_program
    assert len((await command("undo", "last", "--list", "--json")).lines) == 1


async def test_a_person_sees_what_would_change_inside_of_files_before_they_agree(
    tmp_path: Path,
) -> None:
    lines = "".join(f"{number}\n" for number in range(30))
    calls = (
        ("write_file", {"path": "a.txt", "content": "f\x1b[31mrst\nmore\n"}),
        ("write_file", {"path": "a.txt", "content": "third"}),
        ("write_file", {"path": "long.txt", "content": lines}),
        ("write_file", {"path": "bytes.bin", "content": "AAEC/w==", "encoding": "base64"}),
    )
    command = await changed(tmp_path, *calls)
    foreseen = await command("undo", "last", "--dry-run", "--json")
    [report] = foreseen.lines
    files = {each["path"]: each for each in report["files"]}
    assert set(files) == {"a.txt", "long.txt"}
    assert (files["a.txt"]["added"], files["a.txt"]["removed"]) == (
        1,
        1,
    )  # what comes of all in the end
    assert "-third" in files["a.txt"]["diff"]
    assert "+first" in files["a.txt"]["diff"]
    assert (files["long.txt"]["added"], files["long.txt"]["removed"]) == (0, 30)
    assert len(files["long.txt"]["diff"]) + files["long.txt"]["more"] >= 31
    async with command.at_terminal("undo", "last") as terminal:
        await terminal.expect("long.txt  +0 -30")
        await terminal.expect("19 more lines")
        await terminal.expect("a.txt  +1 -1")
        await terminal.expect("-third")
        await terminal.expect("+first")
        await terminal.expect("[y/N]")
        await terminal.type("y\n")
        assert await terminal.end() == 0
    assert contents(command) == {"a.txt": "first"}
