"""A workspace on each resolver, and a way to call a tool as the dispatcher does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.runtime.definitions import Agent, SessionKind, ToolFailure, ToolResult
from callboard.runtime.handles import ArtifactReader
from callboard.tools.builtin import builtin_tools
from callboard.tools.registry import ToolRegistry
from callboard.tools.tool import Tool, ToolContext
from callboard.tools.workspace.workspace import Workspace, open_workspace

REGISTRY = ToolRegistry(builtin_tools())


def text_of(path: Path) -> str:
    """What a file holds."""
    return path.read_text()


async def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for what nothing tells of: a thread's last step, a process that is gone."""
    for _ in range(6000):
        if condition():
            return
        await trio.sleep(0.005)
    raise AssertionError("it did not happen in half a minute")


def context_of(**given: Any) -> ToolContext:
    """The context of a call, with the handles that are given."""
    fields: dict[str, Any] = {
        "session_id": "session",
        "turn_id": "turn",
        "call_id": "call",
        "session_kind": SessionKind.MAIN,
        "agent": Agent(),
    }
    return ToolContext(**{**fields, **given})


async def result_of(
    made: Tool, given: ToolContext | None = None, /, **arguments: Any
) -> ToolResult:
    """The result of a call with these arguments."""
    return await made.execute(made.decode(json.dumps(arguments)), given or context_of())


async def output_of(made: Tool, given: ToolContext | None = None, /, **arguments: Any) -> Any:
    return (await result_of(made, given, **arguments)).output


class Caller:
    """Calls tools on a workspace: decode, approval, execute."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.artifacts: ArtifactReader | None = None
        self.max_result_bytes: int | None = None

    def context(self, **given: Any) -> ToolContext:
        own = {
            "files_read": self.workspace.read_only(),
            "files_write": self.workspace,
            "artifacts": self.artifacts,
            "max_result_bytes": self.max_result_bytes,
        }
        return context_of(**{**own, **given})

    def reason(self, name: str, **arguments: Any) -> str | None:
        tool = self.tool(name)
        return tool.approval_reason(tool.decode(json.dumps(arguments)), self.context())

    async def result(self, name: str, **arguments: Any) -> ToolResult:
        tool = self.tool(name)
        decoded = tool.decode(json.dumps(arguments))
        reason = tool.approval_reason(decoded, self.context())
        return await tool.execute(decoded, self.context(approval_reason=reason))

    async def output(self, name: str, **arguments: Any) -> Any:
        return (await self.result(name, **arguments)).output

    async def failure(self, name: str, **arguments: Any) -> ToolFailure:
        with pytest.raises(ToolFailure) as caught:
            await self.result(name, **arguments)
        return caught.value

    async def error_type(self, name: str, **arguments: Any) -> str:
        return (await self.failure(name, **arguments)).error_type

    def tool(self, name: str) -> Tool:
        found = REGISTRY.get(name)
        assert found is not None
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The workspace's folder; its parent is outside."""
    made = tmp_path / "workspace"
    made.mkdir()
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A canary file beside the workspace."""
    canary = tmp_path / "workspace-secret"
    canary.write_text("canary")
    return canary


@pytest.fixture(params=["openat2", "walk"])
def workspace(request: pytest.FixtureRequest, folder: Path) -> Iterator[Workspace]:
    with open_workspace(folder, use_openat2=request.param == "openat2") as opened:
        resolver = type(opened.resolver).__name__
        assert resolver == ("KernelResolver" if request.param == "openat2" else "WalkResolver")
        yield opened


@pytest.fixture
def caller(workspace: Workspace) -> Caller:
    return Caller(workspace)
