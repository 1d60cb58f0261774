"""A git repository, and development tools on it as the dispatcher calls them, in the real sandbox."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from callboard.config.sections import SandboxSettings
from callboard.runtime.definitions import ToolFailure, ToolResult
from callboard.runtime.handles import Network, WebAnswer, WebRequest
from callboard.runtime.http.address_guard import AddressGuard, parse_endpoint
from callboard.runtime.redaction import Secret
from callboard.runtime.taint.tracked_network import TrackedNetwork
from callboard.tools.builtin import builtin_tools
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from callboard.tools.tool import Tool, ToolContext
from callboard.tools.workshop import Author, Workshop
from support.tools.workbench import context_of

TOOLS = {tool.name: tool.load() for tool in builtin_tools()}


class NoNetwork(Network):
    """Programs connect; the tools themselves send nothing."""

    async def request(self, request: WebRequest, *, max_bytes: int) -> WebAnswer:
        raise AssertionError("a development tool has sent a request itself")


@cache
def sandbox() -> Sandbox:
    return Sandbox(SandboxSettings(), os.environ)


class Bench:
    """A workspace with tools.

    Attributes:
        workshop: What the operator gives; replace it to give something else.
        allow: Endpoints that the operator listed.
    """

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.allow: tuple[str, ...] = ()
        self.author: Author | None = Author("Ada", "ada@example.org")
        self.credentials: dict[str, str] = {}
        self.test_command: tuple[str, ...] = ()
        self.indexes: dict[str, str] = {}

    @property
    def context(self) -> ToolContext:
        guard = AddressGuard(tuple(map(parse_endpoint, self.allow)))
        network = TrackedNetwork(NoNetwork(), guard.connect)
        return context_of(
            network=network,
            processes=SessionProcesses(
                sandbox(), str(self.workspace), "session", connector=network
            ),
            workshop=Workshop(
                author=lambda: self.author,
                credential=self._credential,
                certificates=lambda: None,
                test_command=lambda: self.test_command,
                indexes=self.indexes,
            ),
        )

    def _credential(self, origin: str) -> Secret | None:
        found = self.credentials.get(origin)
        return None if found is None else Secret(found)

    async def result(self, name: str, **arguments: Any) -> ToolResult:
        tool: Tool = TOOLS[name]
        return await tool.execute(tool.decode(json.dumps(arguments)), self.context)

    async def output(self, name: str, **arguments: Any) -> Any:
        return (await self.result(name, **arguments)).output

    async def failure(self, name: str, **arguments: Any) -> ToolFailure:
        with pytest.raises(ToolFailure) as caught:
            await self.result(name, **arguments)
        return caught.value

    async def preview(self, name: str, **arguments: Any) -> str | None:
        tool: Tool = TOOLS[name]
        return await tool.preview(tool.decode(json.dumps(arguments)), self.context)

    def write(self, name: str, text: str) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str) -> str:
        """Plain git, as a person runs it: all that is configured counts."""
        return plain_git(self.workspace, *words)


def plain_git(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Bob",
            "GIT_AUTHOR_EMAIL": "bob@example.org",
            "GIT_COMMITTER_NAME": "Bob",
            "GIT_COMMITTER_EMAIL": "bob@example.org",
            "GIT_EDITOR": ":",
        },
    )
    return ran.stdout


def make_repository(folder: Path) -> Bench:
    """A repository with one commit of one file."""
    folder.mkdir(parents=True)
    bench = Bench(folder)
    bench.git("init", "-q", "-b", "main")
    bench.write("a.txt", "one\n")
    bench.git("add", ".")
    bench.git("commit", "-q", "-m", "begin")
    return bench
