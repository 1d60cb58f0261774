"""SPEC's tools: each argument, result, error code and future tool, and what has its place here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.providers.testing.script import reply
from callboard.runtime.definitions import ErrorType
from callboard.tools.builtin import builtin_tools
from callboard.tools.registry import ToolRegistry
from support.flows.seed_proofs import Proofs, missing
from support.stage import open_local_stage, play, read_result

TOOLS = ToolRegistry(builtin_tools())

ARGUMENTS: dict[str, dict[str, str]] = {
    "list_directory": {"path": "", "recursive?": "", "includeHidden?": "include_hidden"},
    "read_file": {"path": "", "encoding?": ""},
    "write_file": {"path": "", "content": "", "encoding?": "", "createDirs?": "create_dirs"},
    "delete_file": {"path": "", "recursive?": ""},
    "move_file": {"from": "", "to": "", "overwrite?": ""},
    "run_code": {"language": "", "code": "", "args?": "", "env?": "", "timeout?": ""},
    "web_fetch": {"url": "", "timeout?": ""},
    "http_request": {"url": "", "method?": "", "headers?": "", "body?": "", "timeout?": ""},
    "web_search": {"query": "", "numResults?": "num_results"},
}
"""SPEC's arguments of each tool, with our name where it is another. What SPEC's web_fetch sends beside
a GET is http_request's."""

CALLS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("list_directory", {"path": "."}, {"entries"}),
    ("read_file", {"path": "a.txt"}, {"content", "size", "modified"}),
    ("write_file", {"path": "b.txt", "content": "b"}, {"path", "size"}),
    ("move_file", {"from": "a.txt", "to": "c.txt"}, {"from", "to"}),
    ("delete_file", {"path": "c.txt"}, {"deleted"}),
]
"""A call of each file tool, and what SPEC says that it returns."""

PROOFS: Proofs = {
    "run_code returns stdout, stderr, exitCode, duration":
        "exit_code and duration_ms = "
        "flows/test_program_flow::test_code_runs_on_the_workspace_and_its_result_is_whole",
    "run_code: no network access (unless explicitly enabled)":
        "tools/test_sandbox_confinement::test_case_44_no_socket_leads_anywhere",
    "run_code: resource limits (CPU, memory, time)":
        "tools/test_sandbox_confinement::test_case_45_what_is_used_up_is_bounded "
        "flows/test_program_ends::test_case_46_a_timeout_says_how_many_are_gone",
    "run_code: cannot access files outside workspace":
        "tools/test_sandbox_confinement::"
        "test_case_43_nothing_but_workspace_and_programs_is_readable",
    "web_fetch returns status, headers, body":
        "http_request does; web_fetch gives the text of a page = "
        "tools/test_http_request::test_a_get_gives_status_reason_headers_and_body "
        "flows/test_web_flow::test_both_work_in_a_turn_and_taint_their_session",
    "web_search returns title, url, snippet":
        "tools/test_web_search::test_each_engine_gives_the_same_hits",
    "Tool: inputSchema, outputSchema, requiresApproval, execute":
        "tools/test_tool_schema::test_the_declared_output_is_in_the_definition "
        "flows/test_spec_approvals::test_a_tool_says_itself_when_it_asks",
    "ToolRegistry: register, get, list": "tools/test_tool_registry::test_lookup",
    "toOpenAIFunctions": "providers/test_openai_chat_request::test_the_whole_request",
    "Approval gate and flow": "flows/test_spec_approvals::test_the_flow_of_an_approval",
    "Dynamic approval":
        "flows/test_spec_approvals::test_the_same_call_asks_only_over_a_file",
    "search_code: semantic code search":
        "search_files, by text and name; meaning is for memories = "
        "flows/test_spec_tools::test_future_tools_are_here",
}  # fmt: skip

CODES = {
    "INVALID_PATH": "path_not_allowed",
    "FILE_NOT_FOUND": "file_not_found",
    "PERMISSION_DENIED": "access_denied",
    "TIMEOUT": "timeout",
    "EXECUTION_ERROR": "execution_error",
}
"""SPEC's error codes: what a file system refuses is access_denied, a person permission_denied."""

FUTURE = {
    "git_*": ("git_status", "git_commit", "git_push"),
    "search_code": ("search_files",),
    "run_tests": ("run_tests",),
    "format_code": ("format_code",),
    "install_package": ("install_package",),
}


def test_every_line_has_its_proof() -> None:
    assert missing(PROOFS) == []


@pytest.mark.parametrize("name", ARGUMENTS)
def test_each_tool_takes_its_arguments(name: str) -> None:
    tool = TOOLS.get(name)
    assert tool is not None
    parameters = tool.definition.parameters
    required = parameters.get("required", [])
    for said, ours in ARGUMENTS[name].items():
        argument = ours or said.removesuffix("?")
        assert argument in parameters["properties"]
        assert (argument in required) is not said.endswith("?")


async def test_file_tools_give_what_they_should(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("a")
    for name, arguments, keys in CALLS:
        steps = [reply(calls=[(name, arguments)]), reply("Done.")]
        async with open_local_stage(tmp_path, steps, on_approval="allow") as (runtime, _):
            played = await play(await runtime.create_session(), "Go.")
        result = read_result(played.results[0])["result"]
        assert keys <= result.keys()
        if name == "list_directory":
            [entry] = result["entries"]
            assert {"name", "type", "size", "modified"} <= entry.keys()
            assert entry["type"] == "file"


def test_error_codes_are_here() -> None:
    assert set(CODES.values()) <= {str(error) for error in ErrorType}


def test_future_tools_are_here() -> None:
    assert {name for names in FUTURE.values() for name in names} <= {*TOOLS.names()}
