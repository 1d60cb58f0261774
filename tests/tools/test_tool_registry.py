"""The registry: which tools each kind of session is offered.

The definitions of the built-in tools are golden in docs/tools.md (`test_documents.py`).
"""

from __future__ import annotations

import msgspec
import pytest

from callboard.runtime.definitions import SessionKind, ToolDefinition
from callboard.runtime.errors import ConflictError
from callboard.tools.builtin import builtin_tools
from callboard.tools.registry import MAX_CACHED_QUERIES, ToolRegistry, unknown_tools
from callboard.tools.tool import tool

MAIN, BRANCH, WORKER = SessionKind.MAIN, SessionKind.BRANCH, SessionKind.WORKER


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry(builtin_tools())


def names(definitions: tuple[ToolDefinition, ...]) -> list[str]:
    return [definition.name for definition in definitions]


def test_every_built_in_is_well_described(registry: ToolRegistry) -> None:
    assert len(registry.all_definitions()) == len(registry.names()) == len(builtin_tools()) >= 12
    for definition in registry.all_definitions():
        assert definition.description.endswith(".")
        assert definition.parameters["type"] == "object"
        for name, schema in definition.parameters["properties"].items():
            assert schema.get("description"), (definition.name, name)


def test_the_written_definitions_are_those_of_the_code(registry: ToolRegistry) -> None:
    # In bytes: the order of parameters is what models read, and `5` and `5.0` have other digests.
    for written in builtin_tools():
        made = written.load()
        assert msgspec.json.encode(made.definition) == msgspec.json.encode(written.definition)
        assert registry.get(written.name) is made


def test_lookup(registry: ToolRegistry) -> None:
    found = registry.get("read_file")
    assert found is not None
    assert found.definition.name == "read_file"
    assert registry.get("Read_File") is None


def test_a_misspelt_tool_of_an_agent_is_named() -> None:
    assert unknown_tools("a", None, []) == []
    assert unknown_tools("a", ("read_fil", "read_file", "zz"), ["read_file"]) == [
        "agent 'a' names a tool 'read_fil', which does not exist. Did you mean \"read_file\"?",
        "agent 'a' names a tool 'zz', which does not exist.",
    ]


def test_two_tools_of_one_name_are_refused() -> None:
    @tool
    def read_file() -> None: ...

    with pytest.raises(ConflictError, match="read_file"):
        ToolRegistry([*builtin_tools(), read_file])
    assert ToolRegistry([read_file]).names() == ("read_file",)


def test_definitions_are_the_agents_tools_in_one_order(registry: ToolRegistry) -> None:
    assert names(registry.definitions(None, MAIN)) == list(registry.names())
    chosen = ("write_file", "unknown", "read_file")
    assert names(registry.definitions(chosen, MAIN)) == ["read_file", "write_file"]
    assert names(registry.definitions(chosen, WORKER)) == ["read_file"]
    assert registry.definitions((), MAIN) == ()


def test_a_worker_gets_harmless_tools_only() -> None:
    @tool(tier="system", needs=["network"])
    def raw_request() -> None: ...

    @tool(tier="read_only", needs=["network"])
    def fetch() -> None: ...

    @tool(tier="read_only", needs=["channel"])
    def ask() -> None: ...

    registry = ToolRegistry([raw_request, fetch, ask])
    assert names(registry.definitions(None, WORKER)) == ["fetch"]
    assert names(registry.definitions(None, BRANCH)) == ["raw_request", "fetch", "ask"]


def test_the_same_question_gives_the_same_object(registry: ToolRegistry) -> None:
    first = registry.definitions(("read_file",), MAIN)
    assert registry.definitions(("read_file",), MAIN) is first
    assert registry.definitions(("read_file",), WORKER) is not first
    for number in range(MAX_CACHED_QUERIES * 3):
        registry.definitions((str(number),), MAIN)
    assert registry.definitions(("read_file",), MAIN) == first
    assert len(registry._queries) <= MAX_CACHED_QUERIES
