"""What becomes of the words of a server of MCP: names of tools, texts, parts of results, errors."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from callboard.config.mcp.settings import McpSettings, PinnedTool
from callboard.runtime.definitions import Capability, ErrorType, SessionKind, Tier
from callboard.tools.mcp.definition import MAX_TOOL_NAME, definition_of, named, read_listing
from callboard.tools.mcp.result import MAX_PARTS, result_of_answer
from callboard.tools.registry import is_available

SERVER = McpSettings(name="docs", command=("x",))
WEB = McpSettings(name="docs", url="https://docs.example/mcp")
SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("search", "docs__search"),
        ("searchIssues", "docs__search_issues"),
        ("getHTTPPage", "docs__get_http_page"),
        ("a.b/c-d", "docs__a_b_c_d"),
        ("Größe", "docs__gr_e"),
        ("…", "docs__tool"),
        ("taken", "docs__taken_2"),
    ],
)
def test_tools_have_names_that_every_provider_takes(original: str, name: str) -> None:
    assert named("docs", original, ["docs__taken"]) == name


def test_long_names_stay_apart() -> None:
    one, other = (named("docs", "x" * 100 + end, []) for end in "ab")
    assert one != other
    assert len(one) == len(other) == MAX_TOOL_NAME
    assert len(named("docs", "x" * 100, [named("docs", "x" * 100, [])])) <= MAX_TOOL_NAME


def listed(*tools: dict[str, Any]) -> Any:
    return read_listing(SERVER, [{"inputSchema": SCHEMA, **tool} for tool in tools])


def test_titles_stand_before_descriptions_and_both_are_bounded() -> None:
    listing = listed(
        {"name": "a", "title": "Find", "description": "Looks it up."},
        {"name": "b", "title": "Find", "description": "Find it."},
        {"name": "c", "description": "x" * 4097},
        {"name": "d", "title": "x" * 4097},
        {"name": "a", "description": "again"},
        {"name": "f", "outputSchema": {"$ref": "https://x.example/schema"}},
    )
    texts = [definition_of(SERVER, tool).description for tool in listing.tools]
    assert texts == ["Find: Looks it up.", "Find it."]
    assert set(listing.refused) == {"c", "d", "f"}
    assert listing.notes == ("it lists 'a' twice; the first one counts",)
    many = listed(*({"name": f"t{n}", "description": "x" * 4096} for n in range(20)))
    assert len(many.tools) == 16
    assert all("65536 bytes" in why for why in many.refused.values())


def test_what_tools_need_and_who_gets_them() -> None:
    tool = PinnedTool(name="docs__a", original="a", parameters=SCHEMA)
    assert definition_of(SERVER, tool).needs == ()
    assert definition_of(WEB, tool).needs == (Capability.NETWORK,)
    assert definition_of(SERVER, tool).source == "mcp docs"
    reading = McpSettings(name="docs", command=("x",), tiers={"a": Tier.READ_ONLY})
    for server, is_worker in ((SERVER, False), (reading, True)):
        definition = definition_of(server, tool)
        kinds = {kind for kind in SessionKind if is_available(definition, kind)}
        assert (SessionKind.WORKER in kinds) is is_worker
        assert {SessionKind.MAIN, SessionKind.BRANCH} <= kinds
    other = PinnedTool(name="docs__a", original="a", description="b", parameters=SCHEMA)
    assert definition_of(SERVER, tool).digest != definition_of(SERVER, other).digest  # of grants


def test_files_in_results_are_kept_and_what_is_none_is_named() -> None:
    sound = {"type": "audio", "mimeType": "audio/wav", "data": base64.b64encode(b"x").decode()}
    blob = {"uri": "memo://1", "mimeType": "application/zip", "blob": "eA=="}
    broken = {"type": "image", "mimeType": "image/png", "data": "%"}
    parts = [sound, {"type": "resource", "resource": blob}, broken, {"type": "new"}]
    found = result_of_answer("docs__a", {"content": parts}, "call_1")
    assert isinstance(found.output, list)
    assert [part["type"] for part in found.output] == ["audio", "resource", "image", "new"]
    named = [part.get("artifact") for part in found.output]
    assert named == ["call_1/1", "call_1/2", None, None]
    assert [each.id for each in found.artifacts] == named[:2]
    assert found.output[0]["media_type"] == "audio/wav"
    assert [each.media_type for each in found.attachments] == ["audio/wav", "application/zip"]
    assert all("left_out" in part for part in found.output[2:])
    many = [{"type": "text", "text": "x"}] * (MAX_PARTS + 2)
    assert (
        result_of_answer("docs__a", {"content": many}, "c")
        .output[-1]["text"]
        .startswith("2 further")
    )


@pytest.mark.parametrize(
    ("code", "what", "kind", "says"),
    [
        (-32601, "tool", ErrorType.TOOL_NOT_FOUND, "no such tool"),
        (-32601, "resource", ErrorType.EXECUTION_ERROR, "no such resource"),
        (-32602, "tool", ErrorType.VALIDATION_ERROR, "refuses the arguments"),
        (-32000, "tool", ErrorType.EXECUTION_ERROR, "(-32000): why"),
    ],
)
def test_errors_of_the_protocol_have_their_types(
    code: int, what: str, kind: ErrorType, says: str
) -> None:
    from mcp.shared.exceptions import MCPError  # here: it takes a second

    from callboard.tools.mcp.connection import _failure

    failure = _failure(MCPError(code, "why"), what)
    assert failure.error_type is kind
    assert says in str(failure)
