"""ADR-0004 on tiers, approvals, session kinds and retries: each line, and its proof.

Where a line is of another platform's words, the proof says what stands for it here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.definitions import Capability, Effect, SessionKind, ToolFailure
from callboard.runtime.event_types.calls import ToolGivenUp
from callboard.runtime.handles import Delegation
from callboard.tools.builtin import builtin_tools
from callboard.tools.registry import HANDLES, ToolRegistry
from support.flows.seed_proofs import Proofs, missing
from support.stage import open_local_stage, play, play_in, read_result

HERE = "flows/test_adr_0004::"
CHANNELS = "flows/test_channel_flow::"
TIERS = f"{HERE}test_each_tier_holds_tools_of_its_kind"
PRESETS = "config/test_policy_preset::test_each_preset_decides_as_the_table_of_tools_says"
SIBLINGS = "flows/test_approval_flow::test_siblings_run_while_one_waits"
DEEP = "flows/test_suspended_tree::test_it_asks_again_and_answers_go_up"
NO_HANDLE = "actors/test_kind_handles::test_a_call_gets_no_other_handle_even_if_its_tool_is_offered"
WORKER = "flows/test_delegate_flow::test_a_worker_changes_nothing_whatever_is_registered"
ERRORS = f"{HERE}test_each_error_says_what_it_is"
WRONG_TWICE = "flows/test_validation_retry_flow::test_after_three_answers_the_tool_is_given_up"

ADR: Proofs = {
    "ReadOnly: observe only, never mutate.": TIERS,
    "Workspace: mutate within the agent's workspace.": TIERS,
    "System: mutate outside workspace.": TIERS,
    "Elevated: irreversible or high-impact.": TIERS,
    "`ReadOnly` and `Workspace`: always allowed, no approval needed.": PRESETS,
    "`System`: allowed by default.": PRESETS,
    "`System` can be restricted per-agent or per-channel via policy config.":
        "config/test_policy_rules::test_rules_of_an_agent_stand_with_the_agent "
        f"{CHANNELS}test_a_rule_about_a_channel_restricts_it",
    "`Elevated`: requires explicit human approval before execution.": PRESETS,
    "The runtime presents the tool call to the human and blocks until approved or denied.":
        "flows/test_spec_approvals::test_the_flow_of_an_approval",
    "Deferred approval: agent continues other non-blocked work while waiting.":
        f"{SIBLINGS} flows/test_deferred_calls::test_a_late_answer_starts_a_turn_by_itself",
    "Branches pass Elevated requests up the parent chain until they reach a session with a channel "
    "handle (typically Main).": f"{CHANNELS}test_what_a_branch_asks_and_says_comes_to_the_parents_people {DEEP}",
    "The approval prompt is displayed there.":
        f"{CHANNELS}test_what_a_branch_asks_and_says_comes_to_the_parents_people",
    "The originating branch suspends that tool call while waiting; it can continue other non-Elevated "
    "work in the meantime.": f"{CHANNELS}test_only_the_call_that_asks_waits",
    "If the entire parent chain has no channel, the request is denied with a `PermissionDenied` error.":
        f"{CHANNELS}test_who_is_asked_about_the_calls_of_a_child",
    "ToolContext: session_id, agent_id, workspace_root, memory, channel, config.":
        f"{HERE}test_a_context_holds_what_the_tool_needs",
    "Tools receive only what they need.": f"{HERE}test_a_context_holds_what_the_tool_needs",
    "A Worker session's `ToolContext` will have `channel: None`.": NO_HANDLE,
    "ValidationError { message, field }: retry eligible.": ERRORS,
    "ExecutionError: not retry eligible.": ERRORS,
    "PermissionDenied { tier, reason }: never retry.": ERRORS,
    "Timeout { elapsed }: retry eligible with backoff.": ERRORS,
    "Runtime validates args against `parameters_schema()`.": ERRORS,
    "On `ValidationError`: send the error back to the model with the schema and the specific field "
    "that failed.": f"{ERRORS} {WRONG_TWICE}",
    "Model retries with corrected args.":
        "flows/test_validation_retry_flow::test_a_right_call_gives_no_attempt_back",
    "Max 2 retries (3 total attempts). After that, surface the error to the parent session.":
        f"{WRONG_TWICE} {HERE}test_three_wrong_answers_are_told_to_the_parent",
    "Retry loop must be implemented in the dispatcher (not in individual tools).": WRONG_TWICE,
    "Tool availability per session kind: the table.": f"{HERE}test_the_table_of_kinds",
    "Workers are read-only by design.": f"{WORKER} flows/test_worker_flow::test_a_worker_may_only_read",
    "Tool availability is enforced structurally via `ToolContext` construction: even if a tool is "
    "somehow registered for a Worker session, it cannot mutate anything.": f"{WORKER} {NO_HANDLE}",
    "Tools that require these capabilities receive `None` and return `PermissionDenied`.": NO_HANDLE,
    "Branches inherit the parent's channel handle: a branch can send messages on behalf of the "
    "parent.": f"{CHANNELS}test_what_a_branch_asks_and_says_comes_to_the_parents_people",
    "Channel policies govern what the branch can actually send.":
        f"{CHANNELS}test_a_rule_about_the_parents_channel_holds_for_its_branch",
    "Elevated tier tools need an approval flow (block and prompt in the Main session's channel).":
        f"{CHANNELS}test_a_channel_approves",
    "Structured results enable parent sessions to make programmatic decisions about child outputs.":
        f"{HERE}test_a_program_reads_what_a_child_gave",
}  # fmt: skip


def test_every_line_has_its_proof() -> None:
    assert missing(ADR) == []


ROWS: Mapping[str, tuple[str, str]] = {
    "Read": ("read_file", "main branch worker"),
    "Write": ("write_file", "main branch"),
    "Edit": ("edit_file", "main branch"),
    "Shell": ("shell", "main branch"),
    "Message": ("message", "main branch"),
    "Memory Search": ("memory_search", "main branch worker"),
    "Memory Store": ("memory_store", "main branch"),
    "Web Search": ("web_search", "main branch worker"),
    "Web Fetch": ("web_fetch", "main branch worker"),
}
"""The table of kinds: our name of each tool, and where it is available."""


def test_each_tier_holds_tools_of_its_kind() -> None:
    tiers: dict[str, set[str]] = {}
    for tool in builtin_tools():
        tiers.setdefault(tool.definition.tier, set()).add(tool.definition.name)
        if tool.definition.tier is callboard.Tier.READ_ONLY:
            changes = {Capability.FILES_WRITE, Capability.MEMORY_WRITE}
            assert not changes & set(tool.definition.needs)
            # A question to a person is asked once, though it changes nothing.
            assert tool.definition.effect is not Effect.ONCE or tool.definition.name == "ask_user"
    assert {"get_current_time", "read_file"} <= tiers["read_only"]
    assert {"write_file", "delete_file"} <= tiers["workspace"]
    assert {"http_request", "message"} <= tiers["system"]
    # What reaches others for good, or brings in what others wrote.
    assert tiers["elevated"] == {"git_push", "install_package"}
    assert [tier.rank for tier in callboard.Tier] == [0, 1, 2, 3]


def test_the_table_of_kinds() -> None:
    tools = ToolRegistry(builtin_tools())
    offered = {kind: {its.name for its in tools.definitions(None, kind)} for kind in SessionKind}
    needs = {tool.definition.name: set(tool.definition.needs) for tool in builtin_tools()}
    for name, kinds in ROWS.values():
        for kind in SessionKind:
            assert (name in offered[kind]) == (kind in kinds.split()), (name, kind)
            # By its handles too, whatever is registered.
            assert (needs[name] <= HANDLES[kind]) == (kind in kinds.split()), (name, kind)


@pytest.mark.parametrize("needs", [[], ["files.read"], ["files.write"], ["channel"], ["sessions"]])
async def test_a_context_holds_what_the_tool_needs(tmp_path: Path, needs: list[Any]) -> None:
    """The agent's id and the configuration are `agent`; the workspace is a handle, no path."""
    seen: list[callboard.ToolContext] = []

    @callboard.tool(needs=needs)
    def look(context: callboard.ToolContext) -> str:
        """Looks at its context."""
        seen.append(context)
        return "seen"

    steps: list[ScriptStep] = [reply(calls=[("look", {})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=[look], channel=callboard.Channel()) as (
        runtime,
        _,
    ):
        session, _ = await play_in(runtime, "Go.")
    [context] = seen
    assert context.session_id == session.session_id
    assert context.session_kind is SessionKind.MAIN
    assert context.agent.name == "general"
    held = {
        name
        for name in ("files_read", "files_write", "network", "channel", "sessions")
        if getattr(context, name) is not None
    }
    wanted = {need.replace(".", "_") for need in needs}
    assert held == (wanted | {"files_read"} if "files_write" in wanted else wanted)


async def test_a_program_reads_what_a_child_gave(tmp_path: Path) -> None:
    outcomes: list[str] = []

    @callboard.tool(tier="workspace", needs=["sessions"])
    async def supervise(context: callboard.ToolContext) -> str:
        """Lets a worker look, and decides by what came of it."""
        task = Delegation(kind=SessionKind.WORKER, task="Look.")
        assert context.sessions is not None
        came = await context.sessions.delegate(task)
        outcomes.append(came.outcome)
        return came.answer if came.outcome == "answered" else "nothing"

    steps: list[ScriptStep] = [reply(calls=[("supervise", {})]), reply("42"), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=[supervise]) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    [result] = played.results
    assert (outcomes, read_result(result)["result"]) == (["answered"], "42")


# ── errors and retries ───────────────────────────────────────────────────────────────────────────


@callboard.tool(tier="read_only", timeout_seconds=5)
async def fail_as(how: str, times: int = 1) -> str:
    """Fails."""
    if how == "timeout":
        await trio.sleep_forever()
    raise ZeroDivisionError(how)


async def result_of(
    folder: Path, call: tuple[str, dict[str, Any]], **options: Any
) -> dict[str, Any]:
    steps: list[ScriptStep] = [reply(calls=[call]), reply("Done.")]
    async with open_local_stage(folder, steps, **options) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    [result] = played.results
    return read_result(result)


async def test_each_error_says_what_it_is(tmp_path: Path, autojump_clock: Any) -> None:
    @callboard.tool(tier="elevated")
    def elevated_tool() -> None:
        """Is denied."""

    tools = [fail_as, elevated_tool]
    wrong = await result_of(tmp_path, ("fail_as", {"how": "x", "times": "many"}), tools=tools)
    assert (wrong["error_type"], wrong["field"]) == ("validation_error", "times")
    assert wrong["schema"]["properties"]["times"]["type"] == "integer"
    crashed = await result_of(tmp_path, ("fail_as", {"how": "x"}), tools=tools)
    assert (crashed["error_type"], "x" in crashed["message"]) == ("execution_error", True)
    late = await result_of(tmp_path, ("fail_as", {"how": "timeout"}), tools=tools)
    assert (late["error_type"], late["elapsed_seconds"]) == ("timeout", 5)
    denied = await result_of(tmp_path, ("elevated_tool", {}), tools=tools, on_approval="deny")
    assert (denied["error_type"], denied["tier"]) == ("permission_denied", "elevated")
    assert denied["reason"]
    retries = {
        name: callboard.ErrorType(name).retry
        for name in ("validation_error", "execution_error", "permission_denied", "timeout")
    }
    assert retries == {
        "validation_error": "arguments",
        "execution_error": "no",
        "permission_denied": "no",
        "timeout": "backoff",
    }
    assert ToolFailure("timeout", "late").error_type.retry == "backoff"


async def test_three_wrong_answers_are_told_to_the_parent(tmp_path: Path) -> None:
    steps: list[ScriptStep] = [
        reply(calls=[("delegate", {"kind": "branch", "task": "Do it."})]),
        *[reply(calls=[("fail_as", {"how": 1})] * 2) for _ in range(3)],
        reply("I stop."),
        reply("Done."),
    ]
    settings = Settings(limits=Limits(model_retries=0))
    async with open_local_stage(tmp_path, steps, tools=[fail_as], settings=settings) as (
        runtime,
        model,
    ):
        main, _ = await play_in(runtime, "Go.")
        record = [stored.event for stored in await runtime.store.events(main.session_id)]
    [given_up] = [event for event in record if isinstance(event, ToolGivenUp)]
    assert (given_up.name, given_up.attempts) == ("fail_as", 3)
    assert given_up.child_id
    results = [item.content for item in model.requests[4].rounds[-1].items[-2:]]  # type: ignore[union-attr]
    assert all("Do not call fail_as again" in json.loads(result)["message"] for result in results)
