"""What tests of the command line share: commands in this process, which are quicker than processes."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio

from callboard.__main__ import main
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
