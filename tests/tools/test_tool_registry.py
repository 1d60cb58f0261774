"""The registry: which tools there are, and which a session may see."""

from __future__ import annotations

import pytest

from callboard.config.settings import MAX_SECONDS
from callboard.runtime.definitions import Effect, SessionKind, Tier, ToolDefinition
from callboard.runtime.errors import ConflictError
from callboard.tools.registry import (
    MAX_CACHED_QUERIES,
    ToolRegistry,
    builtin_tools,
    is_available,
)
from callboard.tools.tool import tool

MAIN, BRANCH, WORKER = SessionKind.MAIN, SessionKind.BRANCH, SessionKind.WORKER


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry(builtin_tools())


def names(definitions: tuple[ToolDefinition, ...]) -> list[str]:
    return [definition.name for definition in definitions]


@pytest.mark.parametrize(
    ("name", "tier", "timeout", "approval", "effect", "worker"),
    [
        ("get_current_time", "read_only", 5, "never", "read", True),
        ("list_directory", "read_only", 10, "never", "read", True),
        ("read_file", "read_only", 10, "never", "read", True),
        ("search_files", "read_only", 10, "never", "read", True),
        ("write_file", "workspace", 10, "dynamic", "once", False),
        ("edit_file", "workspace", 10, "never", "once", False),
        ("move_file", "workspace", 10, "dynamic", "once", False),
        ("delete_file", "workspace", 10, "dynamic", "once", False),
        ("run_code", "workspace", 60, "dynamic", "once", False),
        ("shell", "system", 120, "dynamic", "once", False),
        ("process", "system", 10, "never", "once", False),
        ("http_request", "system", 30, "dynamic", "once", False),
        ("web_fetch", "read_only", 30, "never", "read", True),
        ("web_search", "read_only", 30, "never", "read", True),
        ("message", "system", 10, "never", "once", False),
        ("ask_user", "read_only", MAX_SECONDS, "never", "once", False),
        ("delegate", "workspace", MAX_SECONDS, "never", "once", False),
        ("memory_store", "workspace", 10, "never", "idempotent", False),
        ("memory_search", "read_only", 10, "never", "read", True),
        ("plan", "read_only", 10, "never", "idempotent", True),
        ("skill", "read_only", 10, "never", "read", True),
        ("git_status", "read_only", 30, "never", "read", False),
        ("git_diff", "read_only", 30, "never", "read", False),
        ("git_log", "read_only", 30, "never", "read", False),
        ("git_commit", "workspace", 30, "never", "once", False),
        ("git_push", "elevated", 120, "never", "once", False),
        ("run_tests", "workspace", 600, "never", "once", False),
        ("format_code", "workspace", 60, "never", "idempotent", False),
        ("install_package", "elevated", 120, "never", "once", False),
    ],
)
def test_the_table_of_built_in_tools(
    registry: ToolRegistry,
    name: str,
    tier: str,
    timeout: float,
    approval: str,
    effect: str,
    worker: bool,
) -> None:
    found = registry.get(name)
    assert found is not None
    definition = found.definition
    assert definition.tier == Tier(tier)
    assert definition.timeout_seconds == timeout
    assert definition.approval == approval
    assert definition.effect == Effect(effect)
    assert is_available(definition, WORKER) is worker
    assert is_available(definition, MAIN)
    assert is_available(definition, BRANCH)


def test_every_built_in_is_well_described(registry: ToolRegistry) -> None:
    assert len(registry.list()) == len(registry.names()) == len(builtin_tools()) >= 12
    for made in registry.list():
        assert made.definition.description.endswith(".")
        assert made.definition.parameters["type"] == "object"
        for name, schema in made.definition.parameters["properties"].items():
            assert schema.get("description"), (made.definition.name, name)


def test_lookup(registry: ToolRegistry) -> None:
    found = registry.get("read_file")
    assert found is not None
    assert found.definition.name == "read_file"
    assert registry.get("Read_File") is None
    assert registry.unknown(["read_file", "nothing"]) == ("nothing",)


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


def test_definitions_are_the_same_in_every_process() -> None:
    digests = [made.definition.digest for made in builtin_tools()]
    assert len(set(digests)) == len(builtin_tools())
    assert digests == [made.definition.digest for made in builtin_tools()]
