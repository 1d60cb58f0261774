"""What a person allows of a command is what runs: its words, its scripts, its sandbox."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.sections import SandboxSettings, Strength
from callboard.config.settings import Settings
from callboard.providers.testing.script import reply
from callboard.tools.sandbox import sandbox as sandbox_module
from callboard.tools.sandbox.session_processes import SessionProcesses
from support.flows.program_calls import Call, results
from support.stage import make_workspace, open_local_stage

pytestmark = pytest.mark.usefixtures("sandbox")


class Person:
    """Allows everything, and does something before that."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.asked: list[callboard.ApprovalRequest] = []
        self._meanwhile = meanwhile

    async def __call__(self, request: callboard.ApprovalRequest) -> bool:
        self.asked.append(request)
        self._meanwhile()
        return True


async def allowed(
    folder: Path, person: Person, *calls: Call, **options: Any
) -> list[dict[str, Any]]:
    options = {"policy": "strict", "on_approval": person, **options}
    return await results(folder, *calls, **options)


def make_repository(work: Path) -> None:
    """With one commit, of a file that fills more than one block of an archive."""
    (work / "kept").write_text("kept\n" * 10_000)
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "kept"], [*author, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=work, check=True)


def script(folder: Path, text: str = "echo old", name: str = "x.sh") -> Path:
    path = make_workspace(folder) / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def rewritten(path: Path) -> None:
    path.write_text("#!/bin/sh\necho new; touch ran-new\n")


def replaced(path: Path) -> None:
    other = path.with_suffix(".tmp")
    rewritten(other)
    other.chmod(0o755)
    other.rename(path)


def relinked(path: Path) -> None:
    rewritten(path.with_name("other"))
    path.with_name("other").chmod(0o755)
    path.unlink()
    path.symlink_to("other")


COMMANDS: dict[str, Call] = {
    "line": ("shell", {"command": "sh x.sh"}),
    "list": ("shell", {"command": ["sh", "x.sh"]}),
    "itself": ("shell", {"command": ["./x.sh"]}),
    "second": ("shell", {"command": "cd . && A=1 ./x.sh; true"}),
    "substituted": ("shell", {"command": "echo $(./x.sh) `./x.sh`"}),
    "option": ("shell", {"command": ["sh", "-e", "./x.sh"]}),
    "through sh -c": ("shell", {"command": ["sh", "-c", "exec ./x.sh"]}),
    "absolute": ("shell", {"command": "sh {workspace}/x.sh"}),
    "from its folder": ("shell", {"command": "cd ../work && bash x.sh"}),
    "pattern": ("shell", {"command": "for each in ./*.sh; do sh $each; done"}),
    "here": ("shell", {"command": 'bash "$PWD/x.sh"'}),
    "code": ("run_code", {"language": "bash", "code": "set -e\n. ./x.sh\n"}),
    "argument": ("run_code", {"language": "bash", "code": 'sh "$1"', "args": ["x.sh"]}),
    "python": (
        "run_code",
        {"language": "python", "code": "import subprocess\nsubprocess.run(['./x.sh'])"},
    ),
}


@pytest.mark.parametrize("how", COMMANDS)
async def test_case_27_a_script_that_was_rewritten_meanwhile_does_not_run(
    tmp_path: Path, how: str
) -> None:
    path = script(tmp_path)
    call = msgspec.json.decode(
        msgspec.json.encode(COMMANDS[how]).replace(b"{workspace}", str(path.parent).encode())
    )
    unchanged, changing = Person(), Person(lambda: rewritten(path))
    [ran] = await allowed(tmp_path, unchanged, tuple(call))
    assert "old" in ran["result"]["stdout"]  # the control
    [refused] = await allowed(tmp_path, changing, tuple(call))
    assert refused["error_type"] == "permission_denied"
    assert "is not what was allowed" in refused["message"]
    assert not (path.parent / "ran-new").exists()
    assert "x.sh (" in changing.asked[0].preview
    assert "echo old" in changing.asked[0].preview


@pytest.mark.parametrize("change", [replaced, relinked, Path.unlink])
async def test_case_27_nor_one_in_whose_place_there_is_another(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = script(tmp_path)
    call = ("shell", {"command": ["sh", "x.sh"]})
    [refused] = await allowed(tmp_path, Person(lambda: change(path)), call)
    assert refused["error_type"] == "permission_denied"
    assert not (path.parent / "ran-new").exists()


async def test_case_27_a_script_that_appeared_meanwhile_does_not_run(tmp_path: Path) -> None:
    path = make_workspace(tmp_path) / "x.sh"
    call = ("shell", {"command": "sh x.sh"})
    [refused] = await allowed(tmp_path, Person(lambda: rewritten(path)), call)
    assert refused["error_type"] == "permission_denied"


async def test_what_a_command_reads_may_change_until_it_runs(tmp_path: Path) -> None:
    data = make_workspace(tmp_path) / "data.txt"
    data.write_text("old")
    call = ("shell", {"command": "cat data.txt"})
    [ran] = await allowed(tmp_path, Person(lambda: data.write_text("new")), call)
    assert ran["result"]["stdout"] == "new"


async def test_a_script_in_the_folder_of_the_command_counts(tmp_path: Path) -> None:
    path = script(tmp_path, name="deep/x.sh")
    call = ("shell", {"command": "./x.sh", "cwd": "deep"})
    person = Person()
    [ran] = await allowed(tmp_path, person, call)
    assert ran["result"]["stdout"] == "old\n"
    assert "deep/x.sh" in person.asked[0].preview
    [refused] = await allowed(tmp_path, Person(lambda: rewritten(path)), call)
    assert refused["error_type"] == "permission_denied"


async def test_case_27_what_was_checked_is_checked_again_when_it_starts(tmp_path: Path) -> None:
    """Between the record of the start and the start itself, too."""
    path = script(tmp_path)
    processes = SessionProcesses(
        sandbox_module.Sandbox(SandboxSettings()), str(path.parent), "session"
    )
    command = callboard_command("sh", "x.sh")
    processes.bind(["sh x.sh"], ".")
    assert (await processes.run(command)).stdout == "old\n"
    rewritten(path)
    with pytest.raises(callboard.ToolFailure, match="has changed since it was allowed"):
        await processes.run(command)
    assert not (path.parent / "ran-new").exists()


@pytest.mark.parametrize("place", [".", "inner", ".."])
async def test_case_27_nothing_may_run_beside_it_that_could_change_it(
    tmp_path: Path, place: str
) -> None:
    """A program that watches the file swaps it behind the last look, each time."""
    path = script(tmp_path)
    (path.parent / "inner").mkdir()
    sandbox = sandbox_module.Sandbox(SandboxSettings())
    async with trio.open_nursery() as nursery:
        await nursery.start(sandbox.background.serve)
        beside = SessionProcesses(sandbox, str(path.parent / place), "another session")
        begun = await beside.start(callboard_command("sleep", "60"))
        processes = SessionProcesses(sandbox, str(path.parent), "session")
        bound = processes.bind(["sh x.sh"], ".")
        assert "Not run while this does in the workspace" in bound.shown
        with pytest.raises(callboard.ToolFailure, match="runs in the workspace") as caught:
            await processes.run(callboard_command("sh", "x.sh"))
        assert caught.value.error_type == "permission_denied"
        with pytest.raises(callboard.ToolFailure, match="runs in the workspace"):
            await processes.start(callboard_command("sh", "x.sh"))
        # The controls: what names no program, what nobody was asked about, and with that one gone.
        others = SessionProcesses(sandbox, str(path.parent), "session")
        others.bind(["ls"], ".")
        assert (await others.run(callboard_command("ls"))).exit_code == 0
        unasked = SessionProcesses(sandbox, str(path.parent), "session")
        assert (await unasked.run(callboard_command("sh", "x.sh"))).stdout == "old\n"
        await beside.kill(begun.process_id)
        assert (await processes.run(callboard_command("sh", "x.sh"))).stdout == "old\n"
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_a_program_in_another_workspace_disturbs_nobody(tmp_path: Path) -> None:
    path = script(tmp_path)
    (tmp_path / "work2").mkdir()
    sandbox = sandbox_module.Sandbox(SandboxSettings())
    async with trio.open_nursery() as nursery:
        await nursery.start(sandbox.background.serve)
        beside = SessionProcesses(sandbox, str(tmp_path / "work2"), "another session")
        await beside.start(callboard_command("sleep", "60"))
        processes = SessionProcesses(sandbox, str(path.parent), "session")
        processes.bind(["sh x.sh"], ".")
        assert (await processes.run(callboard_command("sh", "x.sh"))).stdout == "old\n"
        nursery.cancel_scope.cancel(reason="the test is over")


def callboard_command(*argv: str) -> Any:
    from callboard.runtime.processes import Command

    return Command(argv=argv, seconds=20)


# ── the sandbox ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "runs"),
    [
        ({}, True),
        ({"strength": Strength.PARTIAL}, False),
        ({"path": "/usr/bin"}, False),
        ({"environment": {"GOROOT": "/elsewhere"}}, False),
    ],
    ids=lambda change: "-".join(change) if isinstance(change, dict) else "",
)
async def test_an_answer_is_void_in_another_sandbox(
    tmp_path: Path, change: dict[str, Any], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = sandbox_module.Sandbox.status
    changed = dict(change)

    def weaken() -> None:
        def status(self: sandbox_module.Sandbox) -> Any:
            found = usual(self)
            assert found.recipe is not None
            more = dict(changed)
            if strength := more.pop("strength", None):
                return msgspec.structs.replace(found, strength=strength)
            view = msgspec.structs.replace(found.recipe.view, **more)
            recipe = msgspec.structs.replace(found.recipe, view=view)
            return msgspec.structs.replace(found, recipe=recipe)

        monkeypatch.setattr(sandbox_module.Sandbox, "status", status)

    [told] = await allowed(
        tmp_path,
        Person(weaken),
        ("shell", {"command": "touch ran"}),
        settings=Settings(sandbox=SandboxSettings(minimum=Strength.PARTIAL)),
    )
    assert (told["status"] == "success") is runs
    assert (tmp_path / "work" / "ran").exists() is runs
    if not runs:
        assert told["error_type"] == "permission_denied"


# ── what is written to a program ─────────────────────────────────────────────────────────────────


def rule(**fields: Any) -> PlacedRule:
    return PlacedRule(msgspec.convert(fields, Rule), "a rule")


WIPE = "rm -rf important"
SHELL_BEHIND: Call = ("shell", {"command": "sh", "background": True})


def write(text: str) -> Call:
    return "process", {"action": "write", "id": "p1", "text": text}


@pytest.mark.parametrize(
    ("verdict", "text", "outcome"),
    [
        ("deny", f"{WIPE}\n", "permission_denied"),
        ("deny", f"  {WIPE}", "permission_denied"),
        ("ask", f"{WIPE}\n", "asked"),
        ("deny", "echo fine\n", "written"),
        ("ask", "echo fine\n", "written"),
    ],
)
async def test_rules_about_commands_hold_for_what_is_written_to_programs(
    tmp_path: Path, verdict: str, text: str, outcome: str
) -> None:
    (make_workspace(tmp_path) / "important").mkdir()
    person = Person()
    said = rule(tool="shell", verdict=verdict, arguments={"command": {"is": WIPE}})
    [_, told] = await allowed(
        tmp_path, person, SHELL_BEHIND, write(text), policy="auto", settings=Settings(rules=(said,))
    )
    assert told.get("error_type", "written") == outcome.replace("asked", "written")
    assert [request.preview for request in person.asked] == (
        [f"writes to p1:\n{text}"] if outcome == "asked" else []
    )


async def test_words_can_not_be_told_of_what_is_written(tmp_path: Path) -> None:
    """Doubt counts against the call: a rule about words denies every text."""
    said = rule(tool="shell", verdict="deny", arguments={"command": {"argv": ["git", "push"]}})
    asked = rule(tool="shell", verdict="allow", arguments={"command": {"is": "echo fine"}})
    for rules, error in (((said,), "permission_denied"), ((asked,), None)):
        begin: Call = ("shell", {"command": ["sh"], "background": True})
        [_, told] = await allowed(
            tmp_path,
            Person(),
            begin,
            write("echo fine\n"),
            policy="auto",
            settings=Settings(rules=rules),
        )
        assert told.get("error_type") == error


async def test_the_preset_outdoes_no_rule_about_writing_to_programs(tmp_path: Path) -> None:
    person = Person()
    lets = rule(tool="process", verdict="allow", tier="system")
    await allowed(tmp_path, person, SHELL_BEHIND, write("echo\n"), settings=Settings(rules=(lets,)))
    assert [request.tool for request in person.asked] == ["shell"]


# ── what stands in a command ─────────────────────────────────────────────────────────────────────

HARMLESS = [["git", "status"], ["ls"], ["sort"], ["find"], ["tar"], ["env"]]


@pytest.mark.parametrize(
    "command",
    [
        "cat x; curl evil.test", "echo $(id)", "echo `id`", "ls\nid", "ls >f", "diff <(id) x",
        " && ".join(["true"] * 60), "cat <<E\nx\nE", "ls\rid", "ls", "git status",
    ],
)  # fmt: skip
async def test_case_50_no_line_for_a_shell_is_let_through_by_its_text(
    tmp_path: Path, command: str
) -> None:
    person = Person()
    lets = rule(tool="shell", verdict="allow", arguments={"command": {"argv": HARMLESS}})
    options: dict[str, Any] = {"settings": Settings(rules=(lets,))}
    await allowed(tmp_path, person, ("shell", {"command": command}), **options)
    assert len(person.asked) == 1
    [ran] = await allowed(tmp_path, person, ("shell", {"command": ["ls"]}), **options)
    assert ran["status"] == "success"
    assert len(person.asked) == 1  # the control: the words are let through


async def test_case_50_who_may_only_look_has_no_shell(tmp_path: Path) -> None:
    task = {"kind": "worker", "task": "Look."}
    steps = [
        reply(calls=[("delegate", task)]),
        reply(calls=[("shell", {"command": ["ls"]}), ("list_directory", {"path": "."})]),
        reply("Seen."),
        reply("Done."),
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        await (await runtime.create_session()).run("Go.")
        offered = {each.name for each in model.requests[1].tools}
        rows = await runtime.store.calls()
    assert offered.isdisjoint({"shell", "run_code", "process"})
    outcomes = {row.name: row.status for row in rows}
    assert (outcomes["shell"], outcomes["list_directory"]) == ("error", "success")


@pytest.mark.parametrize(
    "words",
    [
        ["git", "log", "--output=made"], ["find", ".", "-exec", "touch", "made", ";"],
        ["sort", "-o", "made", "/etc/passwd"], ["git", "-c", "alias.x=!touch made", "x"],
        ["env", "-S", "touch made"],
        ["tar", "cf", "x.tar", "kept", "--checkpoint=1", "--checkpoint-action=exec=touch made"],
    ],
    ids=lambda words: words[0] + words[1],
)  # fmt: skip
async def test_case_51_no_list_of_words_counts_as_safe(tmp_path: Path, words: list[str]) -> None:
    """What runs is asked about by its tier, whatever program it begins with; the sandbox holds."""
    person, work = Person(), make_workspace(tmp_path)
    make_repository(work)
    outside, inside = tmp_path / "outside", work / "inside"
    for path in (outside, inside):
        path.write_text("kept")
        os.utime(path, (0, 0))
    calls: list[Call] = [
        ("shell", {"command": [word.replace("made", str(path)) for word in words]})
        for path in (outside, inside)
    ]
    await allowed(tmp_path, person, *calls)
    assert [request.tier for request in person.asked] == ["system"] * 2
    assert (outside.read_text(), outside.stat().st_mtime) == ("kept", 0)
    assert inside.stat().st_mtime > 0  # the control: these words do write


@pytest.mark.parametrize(
    "name", ["-rf", ";touch made", "$(touch made)", "a\nb", "a b", "`id`", "'\""]
)
async def test_case_52_a_name_is_one_word_whatever_it_holds(tmp_path: Path, name: str) -> None:
    (make_workspace(tmp_path) / "kept").write_text("kept")
    code = 'printf "%s\\0" "$#" "$@"; touch -- "$1"'
    person = Person()
    [ran, listed] = await allowed(
        tmp_path,
        person,
        ("run_code", {"language": "bash", "code": code, "args": [name]}),
        ("shell", {"command": ["ls", "-d", "--", name]}),
    )
    assert ran["result"]["stdout"] == f"1\0{name}\0"
    assert listed["result"]["exit_code"] == 0
    assert sorted(os.listdir(tmp_path / "work")) == sorted(["kept", name])
    line = person.asked[1].preview.splitlines()[0]
    assert "\n" not in line
    assert line.startswith("ls -d -- ")
