"""Nodes with their doors as processes, which tests kill."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from support.environment import finds_support

PROCESS = Path(__file__).parent / "served_process.py"


class ServedProcess(msgspec.Struct):
    """A node, where it is reached, and a token that all nodes know some moments later."""

    process: subprocess.Popen[str]
    url: str
    token: str

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.kill()
        self.process.wait()


@contextmanager
def served(url: str, node: str, folder: Path, *roots: str) -> Generator[ServedProcess]:
    """Run a node at a database until the block is left; each root is `NAME=PATH` or `NAME=PATH,shared`."""
    (folder / "work").mkdir(exist_ok=True)
    words = [sys.executable, str(PROCESS), url, node, str(folder), *roots]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=finds_support()) as process:
        try:
            assert process.stdout is not None
            port, token = process.stdout.readline().split()
            yield ServedProcess(process, f"ws://127.0.0.1:{port}/ws", token)
        finally:
            process.kill()


def effects_of(folder: Path) -> Counter[str]:
    """How often each call had its effect."""
    return Counter(line.split()[0] for line in _lines(folder))


def nodes_of(folder: Path) -> list[str]:
    """On which nodes calls had their effects, in order."""
    return [line.split()[1] for line in _lines(folder)]


def _lines(folder: Path) -> list[str]:
    file = folder / "effects"
    return file.read_text(encoding="ascii").splitlines() if file.exists() else []
