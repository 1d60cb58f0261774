"""FEAT-004, the tool system: each acceptance criterion, rule, test point and edge case, and its proof."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.__main__ import main
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.tools.workspace.atomic_write import TEMPORARY_PREFIX
from support.flows.seed_proofs import Proofs, missing, named_tests
from support.stage import open_local_stage, play, read_result

HERE = "flows/test_feat_004::"

SCENARIOS: Proofs = {
    "What time is it?: get_current_time, and the answer says it": "flows/test_rfc_004::test_flow_1_one_call",
    "Read my notes file: read_file, and its contents are summed up": "flows/test_rfc_004::test_flow_2_a_file_is_read",
    "Fetch the latest Bitcoin price: http_request": "flows/test_http_request_flow::test_the_rehearsal_model_fetches_a_page",
    "A multi-step task that chains calls": f"{HERE}test_a_chain_of_twelve_rounds",
    "A tool needs the system's permission, the dialog appears, the user grants it":
        "the person who is asked = flows/test_approval_flow::test_the_answer_decides",
}  # fmt: skip

ACCEPTANCE: Proofs = {
    "Tool definition format based on JSON Schema":
        "tools/test_json_schema_rules::test_an_own_tool_takes_what_the_schema_that_it_shows_takes",
    "Tool definitions are provider-agnostic; provider adapter handles format conversion":
        "flows/test_format_flow::test_parallel_calls_with_mixed_results "
        "providers/test_openai_chat_request::test_the_whole_request "
        "providers/test_anthropic::test_the_whole_request "
        "providers/test_gemini::test_tools_are_as_the_format_has_them",
    "Tools execute on a background thread, not blocking the UI":
        "a plain function runs in a worker thread, so that sessions and clients go on = "
        "tools/test_tool::test_a_plain_function_runs_in_a_thread_and_a_coroutine_here "
        f"{HERE}test_others_go_on_while_a_tool_blocks",
    "Tool execution has configurable per-tool timeouts":
        "tools/test_tool::test_options_are_taken_over "
        "tools/test_tool::test_a_timeout_argument_sets_the_timeout",
    "Timeout errors are returned to the model as tool error results":
        "tools/test_every_tool::test_past_its_deadline_it_says_so",
    "Tool crashes are caught and returned as error results (app does not crash)":
        "flows/test_parallel_calls::test_whatever_a_tool_raises_is_its_own "
        "flows/test_parallel_calls::test_siblings",
    "Android permissions are checked before tool execution":
        "policy and handles are looked at before each call = "
        "flows/test_one_gate::test_each_way_passes_the_broker "
        "tools/test_every_tool::test_without_its_handles_a_tool_does_nothing",
    "Standard Android permission dialog is shown when permissions are needed":
        "the question to a person = flows/test_approval_flow::test_the_person_sees_what_would_run",
    "Permission denial is returned to the model as a permission error":
        "tools/test_every_tool::test_what_a_person_denies_does_nothing",
    "Multi-tool calls in a single model response are supported":
        "flows/test_turn_flow::test_tools_run_side_by_side_and_their_results_go_back_in_order",
    "Chained tool calls work correctly": f"{HERE}test_a_chain_of_twelve_rounds",
    "Built-in tool: get_current_time works correctly":
        "tools/test_clock::test_the_time_is_now_in_the_zone",
    "Built-in tool: read_file reads local files correctly": "tools/test_file_pages::test_a_whole_file",
    "Built-in tool: write_file writes local files correctly":
        "tools/test_file_tools::test_a_write_gives_path_size_and_artifact",
    "Built-in tool: http_request makes HTTP requests correctly":
        "tools/test_http_request::test_a_get_gives_status_reason_headers_and_body",
    "Tool results follow a consistent success/error format": f"{HERE}test_every_result_has_one_form",
    "Tools are selectable per-Agent in Agent configuration":
        "flows/test_own_tool_flow::test_an_agent_has_the_tools_that_it_names",
    "Agent config shows tool name and description for selection":
        f"`callboard tools` and Runtime.tools() = {HERE}test_tools_are_listed_with_name_and_description",
    "Optional: tool execution duration is tracked and displayed":
        "cli/test_transcript::test_durations_and_counts_read_well "
        f"{HERE}test_what_ran_is_on_record_with_its_duration",
    "Optional: tool execution history/log viewable by user":
        f"{HERE}test_what_ran_is_on_record_with_its_duration",
}  # fmt: skip

RULES: Proofs = {
    "Every tool must have a unique name (enforced at registration)":
        "tools/test_tool_registry::test_two_tools_of_one_name_are_refused",
    "Tool names follow snake_case convention":
        "our own do = tools/test_declared_results::test_our_own_names_are_snake_case",
    "Tools execute automatically without user confirmation":
        "what the preset does not ask about = flows/test_approval_flow::test_presets_decide_who_is_asked",
    "The only user-facing interruption is Android system permission dialogs":
        "the questions of the preset = flows/test_approval_flow::test_presets_decide_who_is_asked",
    "A tool that fails returns an error to the model: the model decides how to proceed":
        "flows/test_turn_flow::test_no_call_touches_its_siblings",
    "The engine never silently drops a tool call; every call gets a result":
        "actors/test_tool_dispatcher::test_300_calls_of_which_256_run",
    "If a tool exceeds its timeout, execution is aborted and a timeout error is returned":
        "tools/test_every_tool::test_past_its_deadline_it_says_so "
        "flows/test_own_tool_flow::test_lines_of_a_process_come_while_it_runs_and_a_timeout_kills_it",
    "There is no hard limit on tool call chain depth":
        "a loop guard and budgets instead = flows/test_limit_flow::test_a_model_that_goes_in_circles_is_stopped "
        f"{HERE}test_a_chain_of_twelve_rounds",
    "Permissions are checked before every execution (not just the first time)":
        "flows/test_one_gate::test_each_way_passes_the_broker",
    "The tool system never bypasses Android's permission model":
        "nothing runs around the broker = actors/test_tool_dispatcher::test_without_a_broker_nothing_runs",
}  # fmt: skip

TEST_POINTS: Proofs = {
    "get_current_time returns correct time in default and specified timezones":
        "tools/test_clock::test_the_time_is_now_in_the_zone "
        "tools/test_clock::test_without_a_zone_it_is_the_machines",
    "read_file reads file contents correctly": "tools/test_file_pages::test_a_whole_file",
    "read_file returns error for non-existent file": "tools/test_file_pages::test_read_errors",
    "write_file writes content correctly (overwrite and append modes)":
        f"{HERE}test_overwrite_and_append",
    "http_request makes GET/POST requests correctly":
        "tools/test_http_request::test_a_get_gives_status_reason_headers_and_body "
        "tools/test_http_request::test_a_body_is_json_unless_a_header_says_otherwise",
    "http_request handles various HTTP status codes":
        "tools/test_http_request::test_any_status_is_a_success",
    "tool timeout aborts execution and returns error":
        "tools/test_every_tool::test_past_its_deadline_it_says_so",
    "tool crash is caught and returns error (app stays alive)":
        "flows/test_parallel_calls::test_whatever_a_tool_raises_is_its_own",
    "Android permission dialog appears when needed":
        "a person is asked = flows/test_approval_flow::test_the_person_sees_what_would_run",
    "permission denial returns error to model": "tools/test_every_tool::test_what_a_person_denies_does_nothing",
    "multi-tool calls execute correctly":
        "flows/test_turn_flow::test_tools_run_side_by_side_and_their_results_go_back_in_order",
    "chained tool calls work (result of tool A triggers tool B)":
        f"{HERE}test_a_chain_of_twelve_rounds",
    "tool definitions convert correctly for each provider (OpenAI, Anthropic, Gemini)":
        "providers/test_openai_chat_types::test_every_request_to_openai_is_one_by_its_types "
        "providers/test_anthropic_types::test_every_request_is_one_by_anthropics_types "
        "providers/test_gemini::test_any_history_is_a_request_that_the_sdk_accepts",
    "unavailable tool returns \"not available\" error":
        "tools/test_every_tool::test_an_agent_without_tools_has_none",
    "invalid parameters return validation error":
        "tools/test_every_tool::test_missing_and_ill_typed_arguments",
    "Performance: tool registration time at app startup":
        "`benchmarks/compare.py --only registering`: 8 to 11 ms = "
        "test_benchmarks::test_a_row_for_each_workload",
    "Performance: tool execution overhead measurement":
        "`benchmarks/compare.py --only call`: under 0.3 ms = "
        "test_benchmarks::test_a_row_for_each_workload",
    "Performance: UI responsiveness during tool execution":
        f"other sessions go on = {HERE}test_others_go_on_while_a_tool_blocks",
    "Performance: concurrent tool execution performance":
        "flows/test_turn_flow::test_slow_tools_take_as_long_as_the_slowest",
    "Security: file tools cannot access app-internal storage":
        "neither callboard's own data nor anything outside the workspace = "
        "tools/test_workspace_confinement::"
        "test_case_01_02_paths_that_lead_out_are_refused_alike_whether_they_exist_or_not "
        "flows/test_rfc_004::test_flow_5_a_restricted_file",
    "Security: tool results are stored with same security as messages":
        f"in the one store of its owner = {HERE}test_results_lie_where_messages_lie",
    "Security: tools respect Android permission model":
        "the policy = flows/test_one_gate::test_each_way_passes_the_broker",
}  # fmt: skip

EDGE_CASES: Proofs = {
    "Tool called with empty parameters":
        "tools/test_validation::test_empty_text_is_an_empty_object "
        "tools/test_every_tool::test_missing_and_ill_typed_arguments",
    "Tool called with extremely large parameters":
        "tools/test_validation::test_the_deepest_and_largest_arguments_are_taken "
        f"{HERE}test_arguments_that_are_too_large",
    "HTTP request to unreachable host":
        "tools/test_http_request::"
        "test_a_refused_connection_a_failed_handshake_and_a_lost_name_are_network_errors",
    "HTTP request returning very large response body":
        "tools/test_http_request_floods::"
        "test_case_21_of_an_answer_without_end_the_beginning_is_shown",
    "File read on a very large file":
        "tools/test_workspace_confinement::test_case_10_a_huge_file_is_paged_not_read",
    "File write to a read-only path": f"{HERE}test_a_folder_that_may_not_be_written",
    "Multiple tool calls requested simultaneously":
        "actors/test_tool_dispatcher::test_300_calls_of_which_256_run",
    "Tool call chain with 10+ rounds": f"{HERE}test_a_chain_of_twelve_rounds",
    "Permission requested while app is in background":
        "nobody is there: the question waits, or is denied = "
        "flows/test_approval_flow::test_silence_is_a_denial "
        "flows/test_parallel_calls::test_model",
}  # fmt: skip

ERRORS: Proofs = {
    "Tool not found": "actors/test_tool_dispatcher::test_each_call_that_can_not_run_gets_its_own_error",
    "Parameter validation failure": "tools/test_every_tool::test_missing_and_ill_typed_arguments",
    "Permission denied": "tools/test_every_tool::test_what_a_person_denies_does_nothing",
    "Execution timeout": "tools/test_every_tool::test_past_its_deadline_it_says_so",
    "Tool crash (unhandled exception)": "flows/test_parallel_calls::test_whatever_a_tool_raises_is_its_own",
    "File not found": "tools/test_file_pages::test_read_errors",
    "Network error in HTTP tool":
        "tools/test_http_request::"
        "test_a_refused_connection_a_failed_handshake_and_a_lost_name_are_network_errors",
}  # fmt: skip

NOT_INCLUDED: Proofs = {
    "User-defined custom tools: not included in V1":
        "they are here = test_writing_tools::test_a_tool_of_the_page_works",
    "Tool marketplace or plugin system: not included in V1":
        "plugins are here = tools/test_plugins::"
        "test_a_plugin_is_not_even_imported_until_it_is_enabled",
    "Sandboxed tool execution: not included in V1":
        "it is here = flows/test_program_flow::"
        "test_code_runs_on_the_workspace_and_its_result_is_whole",
    "Tool execution approval: not included in V1":
        "it is here = flows/test_approval_flow::test_the_answer_decides",
    "Streaming tool results: not included in V1":
        "progress is here = flows/test_own_tool_flow::test_the_context_and_progress",
    "Tool versioning: not included in V1":
        "answers bind to the hash of a definition = tools/test_plugins::"
        "test_case_71_a_remembered_answer_ends_with_an_update",
}  # fmt: skip

ALL = [SCENARIOS, ACCEPTANCE, RULES, TEST_POINTS, EDGE_CASES, ERRORS, NOT_INCLUDED]


@pytest.mark.parametrize("proofs", ALL)
def test_every_line_has_its_proof(proofs: Proofs) -> None:
    assert missing(proofs) == []


def test_a_proof_that_is_not_there_is_missed() -> None:
    wrong = {
        "a": "flows/test_feat_004::test_nothing",
        "b": "flows/nowhere::test_a",
        "c": "words = ",
    }
    assert missing(wrong) == ["c", "flows/nowhere::test_a", "flows/test_feat_004::test_nothing"]
    assert named_tests("what it means = a::b c::d") == ["a::b", "c::d"]


# ── what no other test says as a whole ───────────────────────────────────────────────────────────


def last_result(request: ModelRequest) -> Any:
    """What the model was told last."""
    return json.loads(request.rounds[-1].items[-1].content)  # type: ignore[union-attr]


async def test_a_chain_of_twelve_rounds(tmp_path: Path) -> None:
    """The result of each call is the argument of the next."""

    @callboard.tool(tier="read_only")
    async def double(number: int) -> int:
        """Doubles a number."""
        return 2 * number

    def again(request: ModelRequest) -> Step:
        return reply(calls=[("double", {"number": last_result(request)["result"]})])

    def answer(request: ModelRequest) -> Step:
        return reply(f"It is {last_result(request)['result']}.")

    steps: list[ScriptStep] = [reply(calls=[("double", {"number": 1})]), *[again] * 11, answer]
    agent = callboard.Agent(tools=("double",))
    async with open_local_stage(tmp_path, steps, tools=[double], agents=[agent]) as (runtime, _):
        played = await play(await runtime.create_session(), "Double 1 twelve times.")
    assert played.text == "It is 4096."
    assert played.statuses == [("double", "success")] * 12


async def test_others_go_on_while_a_tool_blocks(tmp_path: Path) -> None:
    gate = threading.Event()
    entered = trio.Event()

    @callboard.tool(tier="read_only")
    def block(context: callboard.ToolContext) -> str:
        """Blocks its thread."""
        trio.from_thread.run_sync(entered.set)
        gate.wait()
        return "went on"

    steps = [reply(calls=[("block", {})]), reply("Another answer."), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=[block]) as (runtime, _):
        blocked, other = await runtime.create_session(), await runtime.create_session()
        async with blocked.prompt("Go.") as turn:
            await entered.wait()
            assert await other.run("Hello.") == "Another answer."
            gate.set()
            assert await turn.answer() == "Done."


async def test_every_result_has_one_form(tmp_path: Path) -> None:
    calls = [
        ("get_current_time", {}),
        ("read_file", {"path": "none.txt"}),
        ("read_file", {}),
        ("no_such_tool", {}),
        ("write_file", {"path": "a.txt", "content": "a"}),
    ]
    steps = [reply(calls=calls), reply("Done.")]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    for finished in played.results:
        result = read_result(finished)
        if finished.status == "success":
            assert list(result) == ["status", "result"]
        else:
            assert list(result)[:3] == ["status", "error_type", "message"]
            assert result["message"]
        assert result["status"] in {"success", "error"}
    assert len(played.results) == len(calls)


async def test_tools_are_listed_with_name_and_description(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_local_stage(tmp_path, []) as (runtime, _):
        tools = runtime.tools()
    assert {"get_current_time", "read_file", "write_file", "http_request"} <= {
        t.name for t in tools
    }
    assert all(tool.description.endswith(".") for tool in tools)
    assert await trio.to_thread.run_sync(main, ["tools", "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(tool.name, tool.description) for tool in tools} <= {
        (each["name"], each.get("description", "")) for each in listed
    }


async def test_what_ran_is_on_record_with_its_duration(tmp_path: Path) -> None:
    steps = [reply(calls=[("get_current_time", {})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
        [row] = await runtime.store.calls()
    assert (row.name, row.status) == ("get_current_time", "success")
    assert played.results[0].duration_ms >= 0


async def test_overwrite_and_append(tmp_path: Path) -> None:
    def write(content: str, **more: str) -> Step:
        return reply(calls=[("write_file", {"path": "a.txt", "content": content, **more})])

    steps: list[ScriptStep] = [
        write("one"), write("two"), write(" three", mode="append"), reply("Done."),
    ]  # fmt: skip
    async with open_local_stage(tmp_path, steps, on_approval="allow") as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    assert (tmp_path / "work" / "a.txt").read_text() == "two three"
    assert [read_result(result)["result"]["bytes_written"] for result in played.results] == [
        3,
        3,
        6,
    ]


async def test_arguments_that_are_too_large(tmp_path: Path) -> None:
    content = "x" * (1024 * 1024)
    steps = [reply(calls=[("write_file", {"path": "a.txt", "content": content})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    assert read_result(played.results[0])["error_type"] == "validation_error"
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_folder_that_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root nothing is read-only, so that the system's own answer is put in."""
    usual = os.open

    def refuse(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if str(path).startswith(TEMPORARY_PREFIX):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return usual(path, flags, *given, **named)

    call = ("write_file", {"path": "a.txt", "content": "a"})
    for is_refused in (True, False):
        with monkeypatch.context() as patch:
            if is_refused:
                patch.setattr(os, "open", refuse)
            steps = [reply(calls=[call]), reply("Done.")]
            async with open_local_stage(tmp_path, steps) as (runtime, _):
                played = await play(await runtime.create_session(), "Go.")
        result = read_result(played.results[0])
        assert result.get("error_type") == ("access_denied" if is_refused else None)


async def test_results_lie_where_messages_lie(tmp_path: Path) -> None:
    """One file, which its owner alone may read."""
    steps = [reply(calls=[("read_file", {"path": "a.txt"})]), reply("I have read it.")]
    data = tmp_path / "data"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("what only I may know")
    async with open_local_stage(tmp_path, steps, data=data) as (runtime, _):
        await play(await runtime.create_session(), "Go.")
    holding = [
        path for path in data.rglob("*")
        if path.is_file() and b"what only I may know" in path.read_bytes()
    ]  # fmt: skip
    assert holding
    for path in holding:
        assert b"I have read it." in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
