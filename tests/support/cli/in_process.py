"""What tests of the command line share: commands in this process, which are quicker than processes."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

from callboard.__main__ import main
from callboard.runtime.disk.core_dumps import forbid_core_dumps
from support.cli.command import PATIENCE_SECONDS, Command, Finished


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command logs into its data folder; the next test's has another one."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()


@pytest.fixture
def run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Awaitable[Finished]]:
    """Run a command that needs no terminal and no signals in this process."""

    async def run(command: Command, *tokens: str) -> Finished:
        monkeypatch.setenv("CALLBOARD_HOME", str(command.home))
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.chdir(command.workspace)
        with trio.fail_after(PATIENCE_SECONDS):
            code = await trio.to_thread.run_sync(main, tokens)
        out, err = capsys.readouterr()
        return Finished(code, out, err)

    return run


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put bytes on stdin, which is no terminal."""

    def put(content: bytes) -> None:
        monkeypatch.setattr("os.isatty", lambda _: False)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


@pytest.fixture
def fresh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user without keys."""
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    for name in [*os.environ]:
        if name.endswith(("_API_KEY", "HOUSE_KEY")) or name == "CREDENTIALS_DIRECTORY":
            monkeypatch.delenv(name)
    # A command gives core dumps up for good, which is not for the process of all tests. The code is
    # replaced, and not the name: modules that were imported before have the function itself.
    monkeypatch.setattr(forbid_core_dumps, "__code__", (lambda: None).__code__)
    return tmp_path
