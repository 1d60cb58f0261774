"""Questions that a killed run left behind, answered by commands; then the session goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.__main__ import main
from callboard.config.files import load_settings
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from callboard.runtime.definitions import Capability
from callboard.runtime.events import ApprovalAsked
from callboard.runtime.store.rows import ApprovalRow
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader
from callboard.tools.builtin import builtin_tools
from callboard.tools.tool import Tool
from support.cli.chat_scene import OVERWRITE
from support.cli.command import Command, Finished, at, results
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here

OTHER = ("write_file", {"path": "b.txt", "content": "new too\n"})
DONE = reply("So be it.")
SEALED = """
[[rules]]
tool = "write_file"
verdict = "deny"
reason = "Nobody writes there."
arguments.path = { path = "sealed/**" }
"""

Say = Callable[..., Awaitable[Finished]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    (command.workspace / "a.txt").write_text("old\n")
    (command.workspace / "b.txt").write_text("other\n")
    return command


@pytest.fixture
def say(command: Command, run_here: Say) -> Say:
    return partial(run_here, command)


@asynccontextmanager
async def left_behind(
    command: Command,
    calls: Sequence[tuple[str, Any]],
    *,
    below: Sequence[tuple[str, Any]] = (),
    policy: Any = None,
    tools: Sequence[Tool] = (),
) -> AsyncGenerator[ScriptedServer]:
    """What a process leaves that is killed while people are asked; the server answers what comes.

    Those calls ask, or else those that a branch of the session makes.
    """
    asked = command.home / "asked"
    settings = load_settings(command.home / "config" / "callboard.toml")
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("I will.", calls=calls), reply(calls=below)]),
        workspace=command.workspace, data=asked, environ={}, settings=settings, tools=tools,
        policy=policy, on_approval="wait",
    ) as runtime:  # fmt: skip
        session = await runtime.create_session()
        async with session.prompt("Change it.") as turn:
            while len(await runtime.approvals()) < len(below or calls):
                await turn.fetch_events()
            shutil.copytree(asked, command.home / "data")
    shutil.rmtree(asked)
    async with open_scripted_server([DONE, DONE]) as server:
        yield server


async def questions(command: Command, state: str | None = "waiting") -> list[ApprovalRow]:
    """The questions on record, in the order of their arguments."""
    reader = await open_reader(command.home / "data")
    rows = await reader.approvals(state=state)
    await reader.aclose()
    return sorted(rows, key=lambda row: row.arguments, reverse=True)


async def only(command: Command) -> ApprovalRow:
    (row,) = await questions(command)
    return row


def check_refused(done: Finished, *words: str, code: int = 1) -> None:
    assert done.code == code
    assert done.out == ""
    assert done.err.startswith("callboard: ")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


async def test_questions_are_listed_in_short_and_shown_whole(command: Command, say: Say) -> None:
    hostile = ("write_file", {"path": "a.txt", "content": "one\n\x1b[2Jtwo\u202e\n" + "x" * 80})
    async with left_behind(command, [hostile]):
        row = await only(command)
        listed = await say("approvals")
        (line,) = listed.out.splitlines()
        assert line.startswith(f"{row.approval_id}  ")
        for word in ("s ago", "min left", "write_file (workspace)", row.session_id, '{"content":'):
            assert word in line
        assert "x" * 80 not in line
        whole = await say("approvals", row.approval_id[9:14])
        assert "x" * 80 in whole.out
        assert "| \\u001b[2Jtwo\\u202e" in whole.out
        assert "\x1b" not in listed.out + whole.out
        assert "\u202e" not in listed.out + whole.out
        assert row.preview
        assert "-old" in whole.out
        for form in (("approvals",), ("approvals", row.approval_id)):
            (read,) = (await say(*form, "--json")).lines
            assert msgspec.convert(read, ApprovalRow) == row
        own = await say("approvals", row.session_id)
        assert own.out.startswith(row.approval_id)
        check_refused(await say("approvals", "zzz"), "no question and no session 'zzz'")


async def test_an_answered_question_is_over_and_listed_with_all_alone(
    command: Command, say: Say
) -> None:
    async with left_behind(command, [OVERWRITE]):
        row = await only(command)
        assert (await say("deny", row.approval_id, "--reason", "Keep it.")).code == 0
        none = await say("approvals")
        assert (none.code, none.out) == (0, "")
        assert none.err == "callboard: No question is waiting.\n"
        listed = await say("approvals", "--all")
        assert f"{row.approval_id}  " in listed.out
        assert "  denied  " in listed.out
        whole = await say("approvals", row.approval_id)
        assert "answer: deny by terminal, " in whole.out
        assert ": Keep it." in whole.out
        refused = await say("approve", row.approval_id)
        check_refused(refused, "is not open: it is denied by terminal")
        check_refused(await say("deny", "approval_zz"), "no question 'approval_zz'")
        assert (await questions(command, state=None))[0].state == "denied"


async def test_where_there_is_no_store_nothing_is_made(command: Command, say: Say) -> None:
    for form in (("approvals",), ("grants",)):
        nothing = await say(*form)
        assert (nothing.code, nothing.out) == (0, "")
    check_refused(await say("approve", "approval_1"), "no session has been stored")
    check_refused(await say("grants", "revoke", "grant_1"), "no session has been stored")
    assert not (command.home / "data" / "callboard.db").exists()


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_allowed_runs_when_the_session_goes_on(command: Command, say: Say) -> None:
    async with open_scripted_server([reply(calls=[OVERWRITE]), DONE]) as server:
        async with command.at_terminal("run", *at(server), "Change it") as terminal:
            await terminal.expect("callboard asks:")
            terminal.process.kill()
            await terminal.end()
        row = await only(command)
        said = await say("approve", row.approval_id[:15])
        assert (said.code, said.err) == (0, "")
        assert f"{row.approval_id}: allowed\n" in said.out
        assert '"path": "a.txt"' in said.out
        assert "answer: allow by terminal" in said.out
        words = f"callboard run --continue --session {row.session_id}"
        assert said.out.endswith(f"Next: {words}\n")
        assert (command.workspace / "a.txt").read_text() == "old\n"  # an answer runs nothing
        assert len(server.requests) == 1
        on = await command(*words.split()[1:], *at(server))
        assert (on.code, on.complaints) == (0, [])
        assert "✓ write_file" in on.err
        assert "So be it." in on.out
        assert (command.workspace / "a.txt").read_text() == "new\n"
        assert [each["status"] for each in results(server)] == ["success"]
        again = await command("run", "--continue", *at(server))
        assert (again.code, again.complaints) == (0, [])
        assert f"nothing waits in {row.session_id}" in again.err
        assert len(server.requests) == 2


async def test_the_model_sees_a_denial_and_other_arguments(command: Command, say: Say) -> None:
    async with left_behind(command, [OVERWRITE, OTHER]) as server:
        row, other = await questions(command)
        changed = {"path": "a.txt", "content": "changed\n"}
        said = await say("approve", row.approval_id, "--arguments", json.dumps(changed))
        assert said.code == 0
        assert "with other arguments:" in said.out
        assert '| + "changed\\n"' in said.out or "+changed" in said.out
        assert f"This session also asks: {other.approval_id}\n" in said.out
        assert (await say("deny", other.approval_id, "--reason", "It is Ann's.")).code == 0
        assert (await command("run", "--continue", *at(server))).code == 0
        assert (command.workspace / "a.txt").read_text() == "changed\n"
        assert (command.workspace / "b.txt").read_text() == "other\n"
        ran, denied = results(server)
        assert ran["arguments"] == changed
        assert denied["error_type"] == "permission_denied"
        assert "denied by terminal: It is Ann's." in denied["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"path": "a.txt"}', "content"),
        ('{"path": ', "JSON"),
        ('{"path": "../b.txt", "content": ""}', "without '..'"),
        ('{"path": "sealed/a.txt", "content": ""}', "Nobody writes there."),
    ],
    ids=["missing", "no JSON", "outside", "policy"],
)
async def test_an_edit_that_can_not_be_leaves_the_question_open(
    command: Command, say: Say, arguments: str, said: str
) -> None:
    command.configure(SEALED)
    async with left_behind(command, [OVERWRITE]):
        row = await only(command)
        refused = await say("approve", row.approval_id, "--arguments", arguments)
        check_refused(refused, said, f"{row.approval_id} still waits")
        assert await only(command) == row
        fine = json.dumps({"path": "a.txt", "content": "changed"})
        assert (await say("approve", row.approval_id, "--arguments", fine)).code == 0


async def test_an_answer_may_be_remembered_and_taken_back(command: Command, say: Say) -> None:
    async with left_behind(command, [OVERWRITE]) as server:
        row = await only(command)
        options = ("--remember", "always", "--pattern", "*.txt")
        said = await say("approve", row.approval_id, *options)
        assert said.code == 0
        (line,) = (await say("grants")).out.splitlines()
        grant_id = line.split()[0]
        assert f"remembered: {grant_id}  " in said.out
        for word in ("  allow  always  in ", 'write_file with path "*.txt"'):
            assert word in line
        (read,) = (await say("grants", "--json")).lines
        assert read["grant_id"] == grant_id
        assert (await command("run", "--continue", *at(server))).code == 0

        revoked = await say("grants", "revoke", grant_id[:12])
        assert revoked.code == 0
        assert revoked.out.startswith(grant_id)
        assert (await say("grants")).out == ""
        assert "  revoked\n" in (await say("grants", "--all")).out
        check_refused(await say("grants", "revoke", grant_id), "revoked already")
        check_refused(await say("grants", "revoke", "grant_zz"), "no remembered answer")


@pytest.mark.parametrize("is_tainted", [False, True])
async def test_what_is_suspended_in_its_session_is_said_to_be(
    command: Command, say: Say, is_tainted: bool
) -> None:
    @callboard.tool(needs=[Capability.NETWORK] if is_tainted else [])
    def peek() -> str:
        """Looks out."""
        return "a page"

    scopes = iter(("session", "always"))

    async def ask(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        return callboard.ApprovalAnswer(decision="allow", remember=next(scopes))

    steps = [reply(calls=[OVERWRITE]), reply(calls=[OTHER]), reply(calls=[("peek", {})]), DONE]
    options = {"tools": [peek], "on_approval": ask, "policy": "balanced"}
    async with command.open_runtime(steps, **options) as runtime:
        await (await runtime.create_session()).run("Go.")
    listed = await say("grants")
    session, always = listed.out.splitlines()
    suspended = "  (suspended: the session has read untrusted content)"
    assert session.endswith(suspended) is is_tainted
    assert "(suspended" not in always
    assert listed.err == (
        "callboard: What is allowed for an agent or always is suspended in sessions that have read "
        "untrusted content.\n"
    )


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


async def test_of_two_that_answer_at_once_one_wins(command: Command) -> None:
    async with left_behind(command, [OVERWRITE]):
        row = await only(command)
        done: list[Finished] = []

        async def answer(word: str) -> None:
            done.append(await command(word, row.approval_id))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, "approve")
            nursery.start_soon(answer, "deny")
        assert sorted(each.code for each in done) == [0, 1]
        winner = next(each for each in done if each.code == 0)
        (row,) = await questions(command, state=None)
        assert f"{row.approval_id}: {row.state}\n" in winner.out


async def test_a_more_dangerous_call_is_a_question_of_its_own(
    command: Command, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    @callboard.tool(
        approval="always",
        raise_tier=lambda a: callboard.Tier.ELEVATED if a.far else callboard.Tier.SYSTEM,
    )
    def launch(far: bool) -> str:
        """Launches a rocket."""
        return "launched"

    for place in ("cli.approvals.answers", "embedding.runtime"):
        monkeypatch.setattr(f"callboard.{place}.builtin_tools", lambda: [*builtin_tools(), launch])
    async with left_behind(command, [("launch", {"far": False})]):
        row = await only(command)
        said = await say("approve", row.approval_id, "--arguments", '{"far": true}')
        assert said.code == 0
        assert f"{row.approval_id}: revised\n" in said.out
        assert "more dangerous than what was asked about: when the session goes on" in said.out
        check_refused(await say("approve", row.approval_id), "it is revised by terminal")
    shutil.rmtree(command.home / "data")
    command.configure("[agents.general]\ndefer = true\n")
    async with left_behind(command, [("launch", {"far": False})]):
        row = await only(command)
        said = await say("approve", row.approval_id, "--arguments", '{"far": true}')
        again = await only(command)
        assert f"it is asked again as {again.approval_id}." in said.out
        assert again.approval_id != row.approval_id
        assert (again.tier, again.arguments) == ("elevated", '{"far":true}')
        assert (await say("deny", again.approval_id)).code == 0


async def test_while_a_process_holds_the_store_it_alone_takes_answers(
    command: Command, say: Say
) -> None:
    async with left_behind(command, [OVERWRITE]):
        row = await only(command)
        store = await open_disk_store(command.home / "data")
        before = await store.events(row.session_id)
        holder = "is in use by process "
        for form in (("approve", row.approval_id), ("deny", row.approval_id)):
            check_refused(await say(*form), holder, "Nothing was changed.")
        assert (await say("approvals")).out.startswith(row.approval_id)  # reading needs no lock
        assert await store.events(row.session_id) == before
        await store.aclose()
        assert (await say("approve", row.approval_id)).code == 0


async def test_what_has_expired_can_not_be_allowed(command: Command, say: Say) -> None:
    command.configure("[limits]\napproval_seconds = 2\n")
    async with left_behind(command, [OVERWRITE]) as server:
        row = await only(command)
        await trio.sleep(2.1)
        assert "  expired  " in (await say("approvals")).out
        check_refused(await say("approve", row.approval_id), "expired")
        assert (await command("run", "--continue", *at(server))).code == 0
        assert results(server)[0]["error_type"] == "approval_expired"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("approve",), "requires an argument"),
        (("approve", "x", "--remember", "ever"), "--remember"),
        (("approve", "x", "--edit", "--arguments", "{}"), "leave one out"),
        (("approve", "x", "--pattern", "*"), "--pattern goes with --remember"),
        (("deny", "x", "--raeson", "y"), 'Did you mean "--reason"?'),
        (("approvals", "x", "y"), "no place for 'y'"),
        (("grants", "revoke"), "requires an argument"),
        (("run", "--continue", "--attach", "x.png"), "--attach goes with a prompt"),
        (("run",), "PROMPT is missing"),
    ],
)
def test_a_command_line_that_can_not_be_read(
    tokens: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(tokens) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert " --help" in err


def test_editing_needs_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    monkeypatch.setattr("os.isatty", lambda descriptor: False)
    assert main(["approve", "x", "--edit"]) == 1
    err = capsys.readouterr().err
    assert "--edit needs a terminal" in err
    assert "--arguments" in err


# ── editing at a terminal ────────────────────────────────────────────────────────────────────────


async def test_what_is_edited_is_shown_and_confirmed_before_it_counts(command: Command) -> None:
    command.has_editor("path.write_text(text.replace('new', 'edited'))\n")
    async with left_behind(command, [OVERWRITE]) as server:
        row = await only(command)
        async with command.at_terminal("approve", row.approval_id, "--edit") as terminal:
            await terminal.expect("your changes:")
            await terminal.expect("  reason: balanced asks: overwrites a.txt")
            await terminal.expect("  preview:\n")
            await terminal.expect("    | +edited\n[y] allow it so")
            assert (await only(command)).state == "waiting"
            await terminal.type("y\n")
            await terminal.expect(f"{row.approval_id}: allowed")
            await terminal.expect("Next: callboard run --continue")
            assert await terminal.end() == 0
        assert list((command.home / "data").glob("callboard.edit-*")) == []
        assert (await command("run", "--continue", *at(server))).code == 0
        assert (command.workspace / "a.txt").read_text() == "edited\n"


@pytest.mark.parametrize("body", ["sys.exit(1)\n", "path.write_text('no JSON')\n", "pass\n"])
async def test_an_edit_that_comes_to_nothing_leaves_it_open(command: Command, body: str) -> None:
    command.has_editor(body)
    async with left_behind(command, [OVERWRITE]):
        row = await only(command)
        async with command.at_terminal("approve", row.approval_id, "--edit") as terminal:
            await terminal.expect("Nothing is changed by that:")
            await terminal.expect("[e] edit again")
            assert "[y]" not in terminal.seen
            await terminal.type("y\n")
            await terminal.expect("Please answer with one of e, n.")
            await terminal.type("n\n")
            assert await terminal.end() == 1
            assert f"Nothing was answered: {row.approval_id} still waits." in terminal.seen
        assert await only(command) == row


@pytest.mark.parametrize(
    ("path", "why"), [("sealed/a.txt", "Nobody writes there."), ("../a.txt", "without '..'")]
)
async def test_an_edit_that_can_not_be_is_told_before_it_is_sent(
    command: Command, path: str, why: str
) -> None:
    command.configure(SEALED)
    command.has_editor(f"path.write_text(text.replace('a.txt', {path!r}))\n")
    async with left_behind(command, [OVERWRITE]):
        row = await only(command)
        async with command.at_terminal("approve", row.approval_id, "--edit") as terminal:
            await terminal.expect("That can't be: arguments: ")
            await terminal.expect(why)
            await terminal.expect("[e] edit again")
            assert "[y]" not in terminal.seen
            assert "call it again" not in terminal.seen
            await terminal.type("n\n")
            assert await terminal.end() == 1
        assert await only(command) == row


# ── going on ─────────────────────────────────────────────────────────────────────────────────────


async def test_what_still_waits_is_asked_at_a_terminal_and_named_without_one(
    command: Command,
    say: Say,
) -> None:
    async with left_behind(command, [OVERWRITE, OTHER]) as server:
        one, other = await questions(command)
        assert (await say("approve", one.approval_id)).code == 0
        on = ("run", "--continue", *at(server))
        named = await command(*on)
        check_refused(named, other.approval_id, "waits in", "`callboard approve ID`")
        assert one.approval_id not in named.err
        assert (command.workspace / "a.txt").read_text() == "old\n"
        async with command.at_terminal(*on) as terminal:
            await terminal.expect("callboard asks: may write_file run?")
            await terminal.expect("[y] allow")
            await terminal.type("n\n")
            assert await terminal.end() == 0
            assert terminal.seen.count("callboard asks") == 1
        assert (command.workspace / "a.txt").read_text() == "new\n"
        assert (command.workspace / "b.txt").read_text() == "other\n"
        assert [each["status"] for each in results(server)] == ["success", "error"]


async def test_a_turn_that_asks_at_another_terminal_is_not_passed_by(command: Command) -> None:
    async with open_scripted_server([reply(calls=[OVERWRITE]), DONE]) as server:
        async with command.at_terminal("run", *at(server), "Change it") as terminal:
            await terminal.expect("your answer:")
            refused = await command("run", "--continue", *at(server))
            check_refused(refused, "waits in", "`callboard approve ID`")
            assert "stop" not in refused.err
            await terminal.type("n\n")
            assert await terminal.end() == 0


async def test_another_session_goes_on_by_its_name(command: Command, say: Say) -> None:
    async with left_behind(command, [OVERWRITE]) as server:
        row = await only(command)
        assert (await say("approve", row.approval_id)).code == 0
        assert (await command("run", "--model", "rehearsal", "Hello")).code == 0
        last = await command("run", "--continue")
        assert (last.code, "nothing waits in" in last.err) == (0, True)
        for wrong in ("zz", "session_zz"):
            refused = await command("run", "--continue", "--session", wrong)
            check_refused(refused, f"no session '{wrong}'")
        name = row.session_id[: len("session_") + 6]
        on = await command("run", "--continue", "--session", name, *at(server), "And then?")
        assert on.code == 0
        assert (command.workspace / "a.txt").read_text() == "new\n"
        assert len(server.requests) == 2


async def test_the_command_that_comes_next_says_under_which_preset(
    command: Command, say: Say
) -> None:
    new = ("write_file", {"path": "c.txt", "content": "new\n"})
    async with left_behind(command, [new], policy="strict") as server:
        row = await only(command)
        changed = json.dumps({"path": "d.txt", "content": "changed\n"})
        said = await say("approve", row.approval_id, "--arguments", changed)
        assert said.out.endswith(f"--session {row.session_id} --policy strict\n")
        assert (
            await command(*said.out.split("Next: callboard ")[1].split(), *at(server))
        ).code == 0
        assert (command.workspace / "d.txt").read_text() == "changed\n"


async def test_under_rules_that_have_changed_it_is_told_that_it_asks_again(
    command: Command,
    say: Say,
) -> None:
    async with left_behind(command, [OVERWRITE]) as server:
        row = await only(command)
        command.configure('[[rules]]\ntool = "delete_file"\nverdict = "deny"\n')
        changed = ("--arguments", '{"path": "b.txt", "content": ""}')
        refused = await say("approve", row.approval_id, *changed)
        check_refused(refused, "asked under other rules", "still waits")
        said = await say("approve", row.approval_id)
        assert said.code == 0
        assert "it is asked again" in said.out
        assert (await command("run", "--continue", *at(server))).code == 0  # and nobody is there
        assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_a_deferred_call_runs_in_a_turn_of_its_own(command: Command, say: Say) -> None:
    command.configure("[agents.general]\ndefer = true\n")
    pending = reply("Then later.")
    async with open_scripted_server(
        [reply(calls=[OVERWRITE, OTHER]), pending, DONE, DONE]
    ) as server:
        done = await command("run", *at(server), "Change it")
        one, other = await questions(command)
        assert (done.code, done.complaints) == (0, [])
        assert f"callboard approve {one.approval_id}" in done.err
        assert [each["status"] for each in results(server)] == ["pending_approval"] * 2
        assert "6 d left" in (await say("approvals", one.approval_id)).out

        on = ("run", "--continue", *at(server))
        assert (await say("approve", one.approval_id)).code == 0
        assert (command.workspace / "a.txt").read_text() == "old\n"
        went = await command(*on)
        assert went.code == 1  # the other still waits, and nobody is there
        assert other.approval_id in went.err
        assert one.approval_id not in went.err
        assert "✓ write_file" in went.err
        assert (command.workspace / "a.txt").read_text() == "new\n"
        assert (command.workspace / "b.txt").read_text() == "other\n"

        async with command.at_terminal(*on) as terminal:
            await terminal.expect("callboard asks: may write_file run?")
            await terminal.expect("your answer:")
            offered = "[y] allow  [s] this session  [g] this agent  [a] always\n"
            assert offered in terminal.seen
            await terminal.type("y\n")
            assert await terminal.end() == 0
        assert (command.workspace / "b.txt").read_text() == "new too\n"
        assert len(server.requests) == 4
        assert "nothing waits in" in (await command(*on)).err


async def test_a_run_of_another_session_leaves_late_turns_alone(command: Command, say: Say) -> None:
    command.configure("[agents.general]\ndefer = true\n")
    steps = [reply(calls=[OVERWRITE]), reply("Then later."), DONE]
    async with open_scripted_server(steps) as server:
        await command("run", *at(server), "Change it")
        row = await only(command)
        assert (await say("approve", row.approval_id)).code == 0
        assert (await command("run", "--model", "rehearsal", "Hello")).code == 0
        assert (command.workspace / "a.txt").read_text() == "old\n"
        on = await command("run", "--continue", "--session", row.session_id, *at(server))
        assert on.code == 0
        assert "So be it." in on.out
        assert (command.workspace / "a.txt").read_text() == "new\n"


async def test_a_branch_asks_and_its_main_session_goes_on(command: Command, say: Say) -> None:
    task = ("delegate", {"kind": "branch", "task": "Change it."})
    async with left_behind(command, [task], below=[OVERWRITE]) as server:
        row = await only(command)
        main_id = json.loads((await say("sessions", "--json")).out.splitlines()[-1])["session_id"]
        assert main_id != row.session_id
        for session in ("last", main_id, row.session_id):
            assert row.approval_id in (await say("approvals", session)).out
        assert row.approval_id in (await command("run", "--continue", *at(server))).err
        said = await say("approve", row.approval_id)
        assert (said.code, said.err) == (0, "")
        assert said.out.endswith(f"Next: callboard run --continue --session {main_id}\n")
        on = await command(*said.out.split("Next: callboard ")[1].split(), *at(server))
        assert (on.code, on.complaints) == (0, [])
        assert (command.workspace / "a.txt").read_text() == "new\n"
        assert len(server.requests) == 2
        assert "nothing waits in" in (await command("run", "--continue", *at(server))).err


# ── tools and agents of other programs ───────────────────────────────────────────────────────────


async def test_a_call_of_another_program_is_answered_from_the_record(
    command: Command, say: Say
) -> None:
    ran: list[str] = []

    @callboard.tool(approval="always")
    def launch(rocket: str) -> str:
        """Launches a rocket."""
        ran.append(rocket)
        return "launched"

    agent = callboard.Agent(name="pilot")
    data = command.home / "data"

    def opened(*steps: Any) -> Any:
        return callboard.open_runtime(
            model=callboard.ScriptedModel(steps), workspace=command.workspace, data=data,
            environ={}, tools=[launch], agents=[agent], on_approval="wait", strict=True,
        )  # fmt: skip

    async with opened(reply(calls=[("launch", {"rocket": "one"})])) as runtime:
        session = await runtime.create_session(agent="pilot")
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, ApprovalAsked):
                    break
            rows = await runtime.approvals()
            left = shutil.copytree(data, data.parent / "left")  # as a kill would have left it
    row = rows[0]
    at_left = ("--data", str(left))
    for options in (("--arguments", '{"rocket": "two"}'), ("--remember", "session")):
        refused = await say("approve", row.approval_id, *options, *at_left)
        check_refused(refused, "a tool of another program", "still waits")
    said = await say("approve", row.approval_id, *at_left)
    assert said.code == 0
    assert "Next: the program that has the session goes on with it" in said.out
    assert ran == []
    data = left
    async with opened(DONE) as runtime:
        session = await runtime.get_session(row.session_id)
        turn = await session.resume()
        assert turn is not None
        async with turn:
            assert await turn.answer() == "So be it."
    assert ran == ["one"]
