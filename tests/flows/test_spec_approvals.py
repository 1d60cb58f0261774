"""SPEC on approvals, and the tools' own word about them: every line, and that it is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.approval import ApprovalDecision
from callboard.runtime.events import ApprovalAnswered, ApprovalAsked
from callboard.tools.builtin import builtin_tools
from support.flows.seed_proofs import Proofs, missing
from support.sandbox.sandbox_users import needs_sandbox
from support.stage import open_local_stage, play, read_result

HERE = "flows/test_spec_approvals::"
ASKS = f"{HERE}test_which_calls_ask"
FLOW = f"{HERE}test_the_flow_of_an_approval"

SPEC: Proofs = {
    "list_directory: Approval: Auto.": ASKS,
    "read_file: Approval: Auto.": ASKS,
    "write_file: Auto if new file.": ASKS,
    "write_file: Confirm if overwriting existing file.": ASKS,
    "delete_file: Approval: Confirm (always).": ASKS,
    "move_file: Auto (unless overwriting).": ASKS,
    "run_code: Approval: Auto.": f"{HERE}test_running_code_and_searching_ask_nobody",
    "web_fetch: Auto (if URL on allowlist).":
        "flows/test_listed_hosts::test_a_host_that_is_not_listed_is_asked_about_as_the_preset_says "
        f"{HERE}test_a_rule_is_the_list_of_urls",
    "web_search: Approval: Auto.": f"{HERE}test_running_code_and_searching_ask_nobody",
    "requiresApproval: boolean | ((args: unknown) => boolean).":
        f"{HERE}test_a_tool_says_itself_when_it_asks",
    "ApprovalRequest: stepId, tool, args, reason (human-readable explanation).": FLOW,
    "ApprovalResponse: approved, modifiedArgs (user can modify args).": FLOW,
    "1. Agent calls tool requiring approval.": FLOW,
    "2. Execution pauses.": FLOW,
    "3. UI shows approval dialog with details.": FLOW,
    "4. User approves/denies (optionally modifies args).": FLOW,
    "5. Execution resumes or aborts.": FLOW,
    "Some tools require conditional approval: require approval only if overwriting.":
        f"{HERE}test_the_same_call_asks_only_over_a_file",
}  # fmt: skip

CALLS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "list_directory: Approval: Auto.": ("list_directory", {"path": "."}, False),
    "read_file: Approval: Auto.": ("read_file", {"path": "old.txt"}, False),
    "write_file: Auto if new file.": ("write_file", {"path": "new.txt", "content": "x"}, False),
    "write_file: Confirm if overwriting existing file.": (
        "write_file", {"path": "old.txt", "content": "x"}, True,
    ),
    "delete_file: Approval: Confirm (always).": ("delete_file", {"path": "old.txt"}, True),
    "move_file: Auto (unless overwriting).": (
        "move_file", {"from": "old.txt", "to": "other.txt"}, False,
    ),
    "move_file: Auto (unless overwriting): it does.": (
        "move_file", {"from": "old.txt", "to": "taken.txt", "overwrite": True}, True,
    ),
}  # fmt: skip
"""A call for each line, and whether it asks in `balanced`, which is SPEC's preset."""


class Person:
    """Answers with what they are given, and keeps what they were shown."""

    def __init__(self, answer: callboard.ApprovalAnswer) -> None:
        self.answer = answer
        self.shown: list[callboard.ApprovalRequest] = []

    async def __call__(self, request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        self.shown.append(request)
        return self.answer


ALLOW = callboard.ApprovalAnswer(decision="allow")
DENY = callboard.ApprovalAnswer(decision="deny", reason="not now")


def make_files(folder: Path) -> Path:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (work / "old.txt").write_text("old")
    (work / "taken.txt").write_text("taken")
    return work


@pytest.mark.parametrize("line", CALLS)
async def test_which_calls_ask(tmp_path: Path, line: str) -> None:
    name, arguments, asks = CALLS[line]
    make_files(tmp_path)
    person = Person(ALLOW)
    steps: list[ScriptStep] = [reply(calls=[(name, arguments)]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, on_approval=person) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    assert played.statuses == [(name, "success")]
    assert [request.tool for request in person.shown] == ([name] if asks else [])


@pytest.mark.parametrize(
    "call",
    [("run_code", {"language": "bash", "code": "true"}), ("web_search", {"query": "weather"})],
)
@pytest.mark.parametrize("preset", ["balanced", "strict"])
async def test_running_code_and_searching_ask_nobody(
    preset: str, call: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    """In `balanced`; `strict` asks for code, and for each host that is new, as the engine is."""
    if call[0] == "run_code":
        needs_sandbox()
    person = Person(DENY)
    steps: list[ScriptStep] = [reply(calls=[call]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, policy=preset, on_approval=person) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    asks = preset == "strict"
    assert len(person.shown) == asks
    assert (read_result(played.results[0]).get("error_type") == "permission_denied") == asks


@pytest.mark.parametrize("host", ["docs.example", "other.example"])
async def test_a_rule_is_the_list_of_urls(tmp_path: Path, host: str) -> None:
    """http_request stands for it: a rule names hosts, and the preset says what others are."""
    from callboard.config.files import load_settings

    path = tmp_path / "callboard.toml"
    path.write_text(
        '[[rules]]\ntool = "http_request"\nverdict = "allow"\n'
        'arguments.url = { host = "docs.example" }\n'
    )
    person = Person(DENY)
    call = ("http_request", {"url": f"https://{host}/"})
    steps: list[ScriptStep] = [reply(calls=[call]), reply("Done.")]
    async with open_local_stage(
        tmp_path, steps, policy="strict", on_approval=person, settings=load_settings(path)
    ) as (runtime, _):
        await play(await runtime.create_session(), "Go.")
    assert len(person.shown) == (host != "docs.example")


@pytest.mark.parametrize(
    ("approval", "asked"),
    [("never", 0), ("always", 2), (lambda arguments, _: arguments.amount > 10, 1)],
)
async def test_a_tool_says_itself_when_it_asks(tmp_path: Path, approval: Any, asked: int) -> None:
    @callboard.tool(tier="system", approval=approval)
    def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    person = Person(ALLOW)
    calls = [("pay", {"amount": amount}) for amount in (5, 50)]
    steps: list[ScriptStep] = [reply(calls=calls), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=[pay], on_approval=person) as (runtime, _):
        await play(await runtime.create_session(), "Go.")
    assert len(person.shown) == asked


@pytest.mark.parametrize("answer", ["approves", "denies", "modifies"])
async def test_the_flow_of_an_approval(tmp_path: Path, answer: str) -> None:
    work = make_files(tmp_path)
    shown: list[callboard.ApprovalRequest] = []

    async def dialog(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        shown.append(request)
        await trio.testing.wait_all_tasks_blocked()
        assert (work / "old.txt").exists()  # it pauses
        other = json.dumps({"path": "taken.txt"}) if answer == "modifies" else None
        decision: ApprovalDecision = "deny" if answer == "denies" else "allow"
        return callboard.ApprovalAnswer(decision=decision, arguments=other)

    steps: list[ScriptStep] = [reply(calls=[("delete_file", {"path": "old.txt"})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, on_approval=dialog) as (runtime, _):
        played = await play(await runtime.create_session(), "Delete old.txt.")
    [request] = shown
    assert request.call_id == played.results[0].call_id
    assert (request.tool, json.loads(request.arguments)) == ("delete_file", {"path": "old.txt"})
    assert request.reason
    assert "old.txt" in request.preview
    kinds = [type(e) for e in played.events if isinstance(e, ApprovalAsked | ApprovalAnswered)]
    assert kinds == [ApprovalAsked, ApprovalAnswered]
    left = sorted(path.name for path in work.iterdir())
    assert left == {
        "approves": ["taken.txt"], "denies": ["old.txt", "taken.txt"], "modifies": ["old.txt"],
    }[answer]  # fmt: skip
    result = read_result(played.results[0])
    if answer == "modifies":
        assert result["arguments"] == {"path": "taken.txt"}
    else:
        assert result["status"] == ("error" if answer == "denies" else "success")


async def test_the_same_call_asks_only_over_a_file(tmp_path: Path) -> None:
    work = make_files(tmp_path)
    person = Person(ALLOW)
    call = ("write_file", {"path": "fresh.txt", "content": "one"})
    steps: list[ScriptStep] = [reply(calls=[call]), reply(calls=[call]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, on_approval=person) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    assert [result.status for result in played.results] == ["success", "success"]
    assert len(person.shown) == 1
    assert (work / "fresh.txt").read_text() == "one"


def test_the_definitions_say_what_may_ask() -> None:
    approval = {tool.definition.name: tool.definition.approval for tool in builtin_tools()}
    assert "never" not in {approval["delete_file"], approval["write_file"], approval["move_file"]}
    assert approval["list_directory"] == approval["read_file"] == "never"


def test_every_line_has_its_proof() -> None:
    assert missing(SPEC) == []
