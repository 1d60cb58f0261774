"""run_code, shell and process through the front door: what models get, and what is left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import callboard
from callboard.config.sections import Strength
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.tools.sandbox import sandbox as sandbox_module
from callboard.tools.sandbox.changes.git_files import NO_REPOSITORY
from callboard.tools.sandbox.selftest.self_test import SandboxStatus
from support.stage import messages_of, open_local_stage, play, read_result, results, tool_contents
from support.tools.workbench import wait_until

pytestmark = pytest.mark.usefixtures("sandbox")


def tagged(tag: str) -> bool:
    """Whether a process carries it."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if tag.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


async def test_code_runs_on_the_workspace_and_its_result_is_whole(tmp_path: Path) -> None:
    code = "import sys\nprint(open('in.txt').read(), sys.argv[1:])\nopen('out.txt', 'w').write('x')\nsys.stderr.write('careful')\nsys.exit(3)"
    write = ("write_file", {"path": "in.txt", "content": "hello"})
    arguments = {"language": "python", "code": code, "args": ["a b", "-rf", ";id"]}
    bash = {
        "language": "bash",
        "code": 'printf "%s|" "$@" "$NAME"',
        "args": ["$(id)", "two\nlines"],
    }
    [_, ran, shown] = await results(
        tmp_path, write, ("run_code", arguments), ("run_code", {**bash, "env": {"NAME": "n"}})
    )
    output = ran["result"]
    assert output.pop("duration_ms") >= 0
    assert output == {
        "exit_code": 3,
        "sandbox": "full",
        "changed": {"created": ["out.txt"]},
        "not_undoable": [NO_REPOSITORY],
        "stdout": "hello ['a b', '-rf', ';id']\n",
        "stderr": "careful",
    }
    # case 52: arguments are words, whatever stands in them
    assert shown["result"]["stdout"] == "$(id)|two\nlines|n|"


async def test_case_42_a_model_can_not_switch_it_off(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary")
    read = {"command": f"cat {tmp_path}/secret; cat /proc/1/environ; id -u >/dev/null && echo ran"}
    sneaky = {"sandbox": False, "unshare": [], "user": "root", "approved": True}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = listener.getsockname()
        connect = f"import socket; socket.create_connection({here}, 5)"
        socket.create_connection(here, 5).close()  # the control
        outcome = await results(
            tmp_path,
            ("shell", {**read, **sneaky}),
            ("shell", {"command": "pwd", "cwd": "/"}),
            ("shell", {"command": "pwd", "cwd": "../.."}),
            ("run_code", {"language": "python", "code": connect}),
            ("shell", {**read, "network": True}),
            ("run_code", {"language": "python", "code": "1", "env": {"A=B": "x"}}),
        )
    assert outcome[0]["result"]["stdout"] == "ran\n"
    assert [each.get("error_type") for each in outcome] == [
        None,
        "path_not_allowed",
        "path_not_allowed",
        None,
        "permission_denied",
        "validation_error",
    ]
    assert outcome[3]["result"]["exit_code"] == 1
    assert "ConnectionRefusedError" in outcome[3]["result"]["stderr"]


async def test_case_42_nor_take_more_time_than_the_operator_gives(tmp_path: Path) -> None:
    endless, control = (
        ("shell", {"command": f"echo begun; sleep {seconds}", "timeout": 1e9})
        for seconds in (600, 0)
    )
    settings = Settings(limits=Limits(max_tool_seconds=0.5, model_retries=0))
    for name in ("short", "usual"):
        (tmp_path / name).mkdir()
    [told] = await results(tmp_path / "short", endless, settings=settings)
    assert told["error_type"] == "timeout"
    [ended] = await results(tmp_path / "usual", control)
    assert ended["result"]["exit_code"] == 0


async def test_case_51_a_list_of_words_meets_no_shell(tmp_path: Path) -> None:
    words = ["printf", "%s\\n", "a;id", "$(id)", "`id`", "x > y"]
    [listed, line, missing] = await results(
        tmp_path,
        ("shell", {"command": words}),
        ("shell", {"command": "echo one | tr o 0 > new.txt; cat new.txt"}),
        ("shell", {"command": ["no-such-program"]}),
    )
    assert listed["result"]["stdout"] == "a;id\n$(id)\n`id`\nx > y\n"
    assert line["result"]["stdout"] == "0ne\n"
    assert missing["result"]["exit_code"] == 127


async def test_background_processes_are_their_sessions_own(tmp_path: Path) -> None:
    tag = f"613.{os.getpid()}1"
    line = f"echo ready; while read -r l; do echo got $l; done; sleep {tag}"
    act = ("process", {"action": "list"})
    begin = ("shell", {"command": f"sh -c '{line}' tag", "background": True})
    steps = [
        reply(calls=[begin]),
        reply(calls=[("process", {"action": "write", "id": "p1", "text": "one\n"})]),
        reply(calls=[("process", {"action": "wait", "id": "p1", "timeout": 3})]),
        reply(calls=[act]),
        reply(calls=[("process", {"action": "output", "id": "p1"})]),
        reply("Mine."),
        reply(calls=[act]),
        reply(calls=[("process", {"action": "kill", "id": "p1"})]),
        reply("Not mine."),
        reply(calls=[("process", {"action": "kill", "id": "p1"})]),
        reply(calls=[("process", {"action": "kill"})]),
        reply("Killed."),
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        session = await runtime.create_session()
        first = [read_result(each) for each in (await play(session, "Go.")).results]
        assert first[0]["result"] == {"id": "p1", "started": True, "runs": True}
        assert first[2]["result"]["runs"] is True
        assert first[3]["result"]["processes"][0]["runs"] is True
        assert first[4]["result"]["output"] == "ready\ngot one\n"
        assert tagged(tag)
        other = [
            read_result(each)
            for each in (await play(await runtime.create_session(), "Go.")).results
        ]
        assert other[0]["result"] == {"processes": []}
        assert other[1]["error_type"] == "validation_error"
        assert tagged(tag)
        last = [read_result(each) for each in (await play(session, "End it.")).results]
        assert last[0]["result"]["killed_by"] == "kill"
        assert last[0]["result"]["killed"] >= 1
        assert last[1]["field"] == "id"
        assert not tagged(tag)


async def test_what_reads_to_the_end_of_its_input_gets_one(tmp_path: Path) -> None:
    def act(action: str, **more: object) -> tuple[str, dict[str, object]]:
        return "process", {"action": action, "id": "p1", **more}

    calls = [
        ("shell", {"command": "sort", "background": True}),
        act("write", text="b\na\n"),
        act("close"),
        act("wait", timeout=10),
        act("write", text="c\n"),
        act("close"),
        act("kill"),
    ]
    steps = [*(reply(calls=[call]) for call in calls), reply("Sorted.")]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    _, _, closed, sorted_, late, again, killed = map(read_result, played.results)
    assert closed["result"] == {"id": "p1", "closed": True}
    assert (sorted_["result"]["exit_code"], sorted_["result"]["output"]) == (0, "a\nb\n")
    assert late["error_type"] == again["error_type"] == "execution_error"
    assert late["message"].startswith("p1 has ended, and reads nothing any more.")
    assert "killed_by" not in killed["result"]  # it had ended by itself


async def test_background_processes_end_with_the_runtime(tmp_path: Path) -> None:
    tag = f"614.{os.getpid()}1"
    command = f"(setsid sleep {tag} >/dev/null 2>&1 &); sleep {tag}"
    steps = [reply(calls=[("shell", {"command": command, "background": True})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        await play(await runtime.create_session(), "Go.")
        await wait_until(lambda: tagged(tag))
    assert not tagged(tag)


PROGRAM = """
import sys, trio, callboard
from callboard.providers.testing.script import reply
async def main():
    call = ("shell", {"command": "setsid sleep " + sys.argv[2] + " & sleep " + sys.argv[2], "background": True})
    model = callboard.ScriptedModel([reply(calls=[call]), reply("Done.")])
    async with callboard.open_runtime(model=model, workspace=sys.argv[1], policy="auto") as runtime:
        print(await (await runtime.create_session()).run("Go."), flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


def started(folder: Path, tag: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", PROGRAM, str(folder), tag]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


def has_file(folder: Path, name: str) -> bool:
    return any(folder.rglob(name))


async def test_nothing_survives_a_kill_of_the_runtime(tmp_path: Path) -> None:
    tag = f"615.{os.getpid()}1"
    with started(tmp_path, tag) as runtime:
        assert runtime.stdout is not None
        assert runtime.stdout.readline() == b"Done.\n"
        await wait_until(lambda: tagged(f"sleep\0{tag}"))
        runtime.kill()
    await wait_until(lambda: not tagged(f"sleep\0{tag}"))


async def test_case_49_where_there_is_no_sandbox_nothing_is_offered_or_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = SandboxStatus(strength=Strength.NONE, reason="bwrap is a fake.")
    monkeypatch.setattr(sandbox_module.Sandbox, "status", lambda self: none)
    code = {"language": "python", "code": "open('ran', 'w')"}
    steps = [reply(calls=[("run_code", code), ("shell", {"command": "touch ran"})]), reply("No.")]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        played = await play(await runtime.create_session(), "Go.")
        assert played.text == "No."
        offered = {definition.name for definition in model.requests[0].tools}
        assert "read_file" in offered
        assert offered.isdisjoint({"run_code", "shell", "process"})
        for content in tool_contents(messages_of(model.requests[1])):
            assert content["error_type"] == "sandbox_unavailable"
            assert "bwrap is a fake." in content["message"]
    assert not has_file(tmp_path, "ran")


async def test_a_person_sees_what_would_run(tmp_path: Path) -> None:
    seen: list[str] = []

    async def approve(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        seen.append(request.preview or "")
        return callboard.ApprovalAnswer(decision="deny", answered_by="test")

    calls = [
        ("shell", {"command": ["echo", "a b"], "cwd": "."}),
        ("shell", {"command": "echo a; rm -r b", "background": True}),
        ("run_code", {"language": "bash", "code": "echo $1", "args": ["x y"], "env": {"A": "1 2"}}),
        ("process", {"action": "write", "id": "p1", "text": "yes\n"}),
    ]
    model = callboard.ScriptedModel([*(reply(calls=[call]) for call in calls), reply("Well.")])
    async with callboard.open_runtime(
        model=model, workspace=tmp_path, policy="strict", on_approval=approve
    ) as runtime:
        await (await runtime.create_session()).run("Go.")
    assert seen == [
        "(in .) echo 'a b'",
        "(in .)\necho a; rm -r b\n(in the background)",
        "'A=1 2' bash /run/callboard/code.sh 'x y'\n\necho $1",
        "writes to p1:\nyes\n",
    ]
