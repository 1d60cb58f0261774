"""RFC-004, the design of the tool system: its flows, errors, tests and edge cases, each with its proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.config.settings import NetworkSettings, Settings
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.events import CallFinished, CallProposed
from support.flows.seed_proofs import Proofs, missing
from support.stage import open_local_stage, play, read_result
from support.web.web_server import open_web_server, page

HERE = "flows/test_rfc_004::"

GOALS: Proofs = {
    "1. Define the Tool interface and ToolDefinition data model":
        "tools/test_tool::test_options_are_taken_over",
    "2. Implement the ToolRegistry for tool registration and lookup":
        "tools/test_tool_registry::test_lookup",
    "3. Implement the ToolExecutionEngine with timeout, permission checking, and error handling":
        "actors/test_tool_dispatcher::test_each_call_that_can_not_run_gets_its_own_error",
    "4. Implement PermissionChecker for Android runtime permissions":
        "the permission broker = flows/test_one_gate::test_each_way_passes_the_broker",
    "5. Implement 4 built-in tools: get_current_time, read_file, write_file, http_request":
        f"{HERE}test_the_four_tools",
    "6. Define tool definition format conversion for each provider":
        "providers/test_openai_chat_request::test_the_whole_request "
        "providers/test_anthropic::test_the_whole_request "
        "providers/test_gemini::test_tools_are_as_the_format_has_them",
    "7. Implement parameter validation against JSON Schema":
        "tools/test_every_tool::test_missing_and_ill_typed_arguments",
    "8. Support parallel execution of multiple tool calls in a single model response":
        "flows/test_turn_flow::test_slow_tools_take_as_long_as_the_slowest",
}  # fmt: skip

DESIGN: Proofs = {
    "Array parameters have items (required by Gemini)": f"{HERE}test_every_list_says_of_what",
    "Tool lookup: unknown names are silently ignored in an agent's set":
        "tools/test_tool_registry::test_definitions_are_the_agents_tools_in_one_order",
    "Registering a name twice is refused":
        "tools/test_tool_registry::test_two_tools_of_one_name_are_refused",
    "Coroutine cancellation is not caught": "actors/test_tool_dispatcher::test_cancelling_the_scope_ends_every_call",
    "Parallel results come in the order of the calls":
        "flows/test_turn_flow::test_tools_run_side_by_side_and_their_results_go_back_in_order",
    "Two parallel calls take as long as the slower":
        "flows/test_turn_flow::test_slow_tools_take_as_long_as_the_slowest",
    "http_request: the body is cut at 100 KB, with a note":
        "tools/test_http_request::test_a_large_body_is_cut_on_a_whole_character_and_says_so",
}  # fmt: skip

ERRORS: Proofs = {
    "tool_not_found": f"{HERE}test_each_scenario_has_its_error",
    "tool_not_available": "tools/test_every_tool::test_an_agent_without_tools_has_none",
    "validation_error: missing required param": "tools/test_every_tool::test_missing_and_ill_typed_arguments",
    "validation_error: wrong param type": "tools/test_every_tool::test_missing_and_ill_typed_arguments",
    "permission_denied": "tools/test_every_tool::test_what_a_person_denies_does_nothing",
    "path_not_allowed: outside app-private storage": f"{HERE}test_flow_5_a_restricted_file",
    "file_not_found": f"{HERE}test_each_scenario_has_its_error",
    "file_too_large: over 1 MB":
        "tools/test_file_pages::test_a_file_of_the_limit_is_read_and_one_above_is_paged",
    "permission_denied: a restricted path":
        "path_not_allowed, as of any path outside = "
        f"{HERE}test_flow_5_a_restricted_file",
    "network_error: DNS failure":
        "tools/test_http_request::"
        "test_a_refused_connection_a_failed_handshake_and_a_lost_name_are_network_errors",
    "timeout: HTTP": "flows/test_http_request_flow::"
        "test_a_drip_ends_with_the_calls_own_deadline_and_its_sibling_is_untouched",
    "timeout: tool execution": "tools/test_every_tool::test_past_its_deadline_it_says_so",
    "execution_error: tool crash": "flows/test_parallel_calls::test_whatever_a_tool_raises_is_its_own",
    "The model always gets a result for every tool call it makes":
        "actors/test_tool_dispatcher::test_300_calls_of_which_256_run",
}  # fmt: skip

TESTS: Proofs = {
    "ToolRegistry: register, lookup, duplicate name rejection, getByNames":
        "tools/test_tool_registry::test_lookup "
        "tools/test_tool_registry::test_two_tools_of_one_name_are_refused",
    "validateParameters(): required params, type checking, enum validation":
        "tools/test_validation::test_a_wrong_argument_is_named_with_what_was_expected",
    "executeTool(): mock tool, verify timeout, verify error catching":
        "flows/test_parallel_calls::test_model "
        "flows/test_parallel_calls::test_siblings",
    "GetCurrentTimeTool: default timezone, specified timezone, invalid timezone, both formats":
        "tools/test_clock::test_without_a_zone_it_is_the_machines "
        "tools/test_clock::test_the_time_is_now_in_the_zone "
        "tools/test_clock::test_what_is_no_zone_is_refused "
        "tools/test_clock::test_in_words_it_names_the_zone",
    "ReadFileTool: file exists, file not found, restricted path, too large, encoding":
        "tools/test_file_pages::test_a_whole_file tools/test_file_pages::test_read_errors",
    "WriteFileTool: overwrite, append, restricted path, parent dir creation":
        "flows/test_feat_004::test_overwrite_and_append "
        "tools/test_file_tools::test_write_errors "
        f"{HERE}test_parents_are_made",
    "HttpRequestTool: GET/POST, headers, response truncation, network errors":
        "tools/test_http_request::test_a_get_gives_status_reason_headers_and_body "
        "tools/test_http_request::test_headers_are_sent_and_what_steers_the_connection_is_ours",
    "ToolSchemaSerializer: JSON Schema output matches expected format":
        "tools/test_tool_schema::test_each_kind_has_its_schema_and_value",
    "Format conversion: OpenAI/Anthropic/Gemini tool definition formats":
        "providers/test_gemini_schema::test_what_a_schema_becomes "
        "providers/test_openai_chat_request::test_the_whole_request "
        "providers/test_anthropic::test_the_whole_request",
    "Permission flow: request -> grant -> tool executes":
        "flows/test_approval_flow::test_the_answer_decides",
    "Permission flow: request -> deny -> error returned":
        "tools/test_every_tool::test_what_a_person_denies_does_nothing",
    "File read/write on actual device storage": f"{HERE}test_flow_2_a_file_is_read",
    "HTTP request to a test server": f"{HERE}test_flow_3_a_page_is_fetched",
    "Parallel tool execution timing":
        "flows/test_turn_flow::test_slow_tools_take_as_long_as_the_slowest",
}  # fmt: skip

EDGE_CASES: Proofs = {
    "Tool called with empty parameters map":
        "tools/test_validation::test_empty_text_is_an_empty_object",
    "Tool called with extra unexpected parameters (should be ignored)":
        "tools/test_every_tool::test_further_arguments_are_dropped",
    "Very large HTTP response body (verify truncation)":
        "tools/test_http_request_floods::"
        "test_case_21_of_an_answer_without_end_the_beginning_is_shown",
    "File read on a binary file": f"{HERE}test_each_scenario_has_its_error",
    "Write file to a path where parent directory doesn't exist": f"{HERE}test_parents_are_made",
    "Permission request while Activity is in background":
        "nobody is there = flows/test_parallel_calls::test_model",
    "Concurrent permission requests (should be serialized)":
        "questions are put side by side, each answered by its id; a terminal asks one by one = "
        "flows/test_approval_flow::test_siblings_run_while_one_waits",
    "Tool execution cancelled (coroutine cancellation)":
        "tools/test_every_tool::test_a_cancel_ends_it",
}  # fmt: skip

FLOWS: Proofs = {
    "Flow 4-1: get_current_time Tool: Single Tool Call": f"{HERE}test_flow_1_one_call",
    "Flow 4-2: read_file Tool: File Read": f"{HERE}test_flow_2_a_file_is_read",
    "Flow 4-3: http_request Tool: HTTP GET": f"{HERE}test_flow_3_a_page_is_fetched",
    "Flow 4-4: Parallel Tool Calls": f"{HERE}test_flow_4_two_at_once",
    "Flow 4-5: Tool Call Error: Restricted File Path": f"{HERE}test_flow_5_a_restricted_file",
}  # fmt: skip

SECURITY: Proofs = {
    "1. File access boundaries":
        "tools/test_workspace_confinement::"
        "test_case_01_02_paths_that_lead_out_are_refused_alike_whether_they_exist_or_not",
    "2. No arbitrary code execution":
        "code runs in a sandbox alone = flows/test_program_flow::"
        "test_case_49_where_there_is_no_sandbox_nothing_is_offered_or_run",
    "3. HTTP tool: no restrictions on HTTP vs HTTPS; adds no credentials":
        "public hosts and those of the operator's list = "
        "flows/test_http_request_flow::test_what_the_operator_lists_is_reached_and_nothing_else",
    "4. Tool results in database": "flows/test_feat_004::test_results_lie_where_messages_lie",
    "5. API key isolation":
        "flows/test_secret_flow::test_a_key_is_in_the_request_and_in_no_log_record_or_result "
        "tools/test_sandbox_confinement::"
        "test_case_43_nothing_but_workspace_and_programs_is_readable",
}  # fmt: skip


@pytest.mark.parametrize("proofs", [GOALS, DESIGN, ERRORS, TESTS, EDGE_CASES, FLOWS, SECURITY])
def test_every_line_has_its_proof(proofs: Proofs) -> None:
    assert missing(proofs) == []


def said(request: ModelRequest) -> Step:
    """An answer that repeats what the tools gave."""
    results = [json.loads(item.content) for item in request.rounds[-1].items[-count(request) :]]  # type: ignore[union-attr]
    return reply(" ".join(str(result.get("result", result.get("message"))) for result in results))


def count(request: ModelRequest) -> int:
    """How many results came last."""
    items = request.rounds[-1].items
    return sum(1 for item in items if getattr(item, "call_id", None) is not None)


def test_the_four_tools() -> None:
    from callboard.tools.builtin import builtin_tools

    timeouts = {tool.name: tool.definition.timeout_seconds for tool in builtin_tools()}
    four = {"get_current_time": 5, "read_file": 10, "write_file": 10, "http_request": 30}
    assert {name: timeouts[name] for name in four} == four


def test_every_list_says_of_what() -> None:
    from callboard.tools.builtin import builtin_tools

    def check(schema: Any) -> None:
        if isinstance(schema, dict):
            assert schema.get("type") != "array" or schema["items"]
            for inner in schema.values():
                check(inner)
        elif isinstance(schema, list):
            for inner in schema:
                check(inner)

    for tool in builtin_tools():
        check(tool.definition.parameters)


async def flow(folder: Path, *calls: tuple[str, dict[str, Any]], **options: Any) -> Any:
    """A turn with these calls, whose answer repeats their results."""
    steps: list[ScriptStep] = [reply(calls=list(calls)), said]
    async with open_local_stage(folder, steps, **options) as (runtime, _):
        return await play(await runtime.create_session(), "Go.")


async def test_flow_1_one_call(tmp_path: Path) -> None:
    """The card of the call is its events: proposed, then finished."""
    played = await flow(tmp_path, ("get_current_time", {"timezone": "Asia/Tokyo"}))
    kinds = [type(e) for e in played.events if isinstance(e, CallProposed | CallFinished)]
    assert kinds == [CallProposed, CallFinished]
    assert played.statuses == [("get_current_time", "success")]
    assert read_result(played.results[0])["result"] in played.text
    assert played.text.endswith("+09:00")


async def test_flow_2_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "test.txt").write_text("hello world\n")
    played = await flow(tmp_path, ("read_file", {"path": "test.txt"}))
    assert played.statuses == [("read_file", "success")]
    assert "hello world" in played.text


async def test_flow_3_a_page_is_fetched(tmp_path: Path) -> None:
    async with open_web_server({"/get": page('{"url": "/get"}')}) as server:
        network = NetworkSettings(
            allow=(f"127.0.0.1:{server.port}",), auto=(f"127.0.0.1:{server.port}",)
        )
        played = await flow(
            tmp_path,
            ("http_request", {"url": server.url("/get")}),
            settings=Settings(network=network),
        )
    assert played.statuses == [("http_request", "success")]
    result = read_result(played.results[0])["result"]
    assert (result["status"], result["body"]) == (200, '{"url": "/get"}')
    assert '{"url": "/get"}' in played.text


async def test_flow_4_two_at_once(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "test.txt").write_text("hello world\n")
    played = await flow(
        tmp_path, ("get_current_time", {"timezone": "UTC"}), ("read_file", {"path": "test.txt"})
    )
    kinds = [type(e) for e in played.events if isinstance(e, CallProposed | CallFinished)]
    assert kinds == [CallProposed, CallProposed, CallFinished, CallFinished]
    assert played.statuses == [("get_current_time", "success"), ("read_file", "success")]
    assert "hello world" in played.text
    assert "+00:00" in played.text


async def test_flow_5_a_restricted_file(tmp_path: Path) -> None:
    """Callboard's own database, whose folder lies beside the workspace."""
    data = tmp_path / "data"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine.txt").write_text("mine")
    played = await flow(
        tmp_path,
        ("read_file", {"path": str(data / "callboard.sqlite")}),
        ("read_file", {"path": "../data/callboard.sqlite"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "mine.txt"}),
        data=data,
    )
    results = {result.call_id: read_result(result) for result in played.results}
    proposed = [event.call_id for event in played.events if isinstance(event, CallProposed)]
    told = [results[call_id].get("error_type", "none") for call_id in proposed]
    assert told == ["path_not_allowed"] * 3 + ["none"]
    assert played.ended.outcome == "answered"


@pytest.mark.parametrize(
    ("call", "error_type"),
    [
        (("fly", {}), "tool_not_found"),
        (("read_file", {"path": "nowhere.txt"}), "file_not_found"),
        (("read_file", {"path": "image.png"}), "binary_file"),
        (("read_file", {"path": 5}), "validation_error"),
        (("read_file", {}), "validation_error"),
        (("read_file", {"path": "image.png", "encoding": "base64"}), None),
    ],
)
async def test_each_scenario_has_its_error(
    call: tuple[str, dict[str, Any]], error_type: str | None, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "image.png").write_bytes(b"\x89PNG\r\n\0\xff")
    played = await flow(tmp_path, call)
    assert read_result(played.results[0]).get("error_type") == error_type
    assert played.ended.outcome == "answered"


async def test_parents_are_made(tmp_path: Path) -> None:
    played = await flow(tmp_path, ("write_file", {"path": "a/b/c.txt", "content": "deep"}))
    assert played.statuses == [("write_file", "success")]
    assert (tmp_path / "work" / "a" / "b" / "c.txt").read_text() == "deep"
