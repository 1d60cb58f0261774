"""What the chat costs at a terminal: prints keystroke to screen, and the CPU time of an answer of 1,000 deltas.

    python benchmarks/terminal.py [--rounds 3] [--deltas 1000]

A real `callboard chat` runs on a pseudo-terminal of 80 by 24. A keystroke counts until the first byte of what the
chat writes then. The answer comes from a scripted model in this process, in pieces of a few words, some of them bold,
with a paragraph after 25; its processor time is that of the chat's process, all of it: websocket, Markdown, and
what is drawn. *Drawn off* is the same answer to a chat without a terminal to draw on (`TERM=dumb`): the difference is what layout
and drawing cost. The daemon is another process and is not counted.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

import trio

from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server

COLUMNS, ROWS = 80, 24
TYPED = b"the quick brown fox jumps over the lazy dog, and again"
END = b"answered"
PIECE_SECONDS = 0.002
QUIET_SECONDS = 0.3
PATIENCE_SECONDS = 90


class Chat:
    """A chat on a pseudo-terminal, and what it has written."""

    def __init__(self, url: str, folder: Path, term: str) -> None:
        self.fd, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        command = [sys.executable, "-m", "callboard", "chat", "--base-url", url, "--model", "m"]
        environ = {**os.environ, "HOME": str(folder), "TERM": term}
        work = folder / "work"
        work.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            command,
            stdin=end,
            stdout=end,
            stderr=end,
            env=environ,
            cwd=work,
            start_new_session=True,
        )
        os.close(end)
        self.read_until("▸".encode() if term != "dumb" else b"> ")
        self.drain()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.send_signal(
            signal.SIGHUP
        )  # as a terminal that is closed: the chat's daemon ends with it
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self.fd)

    def write(self, data: bytes) -> None:
        os.write(self.fd, data)

    def read_until(self, word: bytes) -> None:
        seen, until = b"", time.monotonic() + PATIENCE_SECONDS
        while word not in seen:
            if not self.is_readable(until - time.monotonic()):
                raise SystemExit(f"the chat did not write {word!r}, but: {seen[-400:]!r}")
            seen += os.read(self.fd, 65_536)

    def is_readable(self, seconds: float) -> bool:
        return bool(select.select([self.fd], [], [], max(0, seconds))[0])

    def drain(self) -> None:
        while self.is_readable(QUIET_SECONDS):
            os.read(self.fd, 65_536)

    def cpu_seconds(self) -> float:
        """Return the processor time of the chat's process."""
        after = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")

    def keystrokes(self) -> list[float]:
        """Type, a key at a time, and return how long the first byte took, in ms."""
        took = []
        for key in TYPED:
            begun = time.perf_counter()
            self.write(bytes([key]))
            self.is_readable(PATIENCE_SECONDS)
            took.append((time.perf_counter() - begun) * 1000)
            self.drain()
        return took

    def answer(self) -> float:
        """Send what is typed, and return the processor time until it is answered, in ms."""
        before = self.cpu_seconds()
        self.write(b"Go\r")
        self.read_until(END)
        self.drain()
        return (self.cpu_seconds() - before) * 1000


def measure(url: str, rounds: int, deltas: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Chat(url, Path(folder), "xterm-256color") as chat:
            chat.answer()  # what is imported for the first one is not counted
            keys = chat.keystrokes()
            drawn = [chat.answer() for _ in range(rounds)]
        with Chat(url, Path(folder), "dumb") as chat:
            chat.answer()
            plain = [chat.answer() for _ in range(rounds)]
    print(f"keystroke to the first byte: median {median(keys):.1f} ms, worst {max(keys):.1f} ms")
    print(
        f"{deltas:,} deltas, CPU of the chat: {median(drawn):,.0f} ms (drawn off: {median(plain):,.0f} ms)"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description="What the chat costs at a terminal.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deltas", type=int, default=1_000)
    given = parser.parse_args()
    pieces = [
        f"word{number} and **bold** text " + ("" if number % 25 else "\n\n")
        for number in range(given.deltas)
    ]
    answers = [reply(pieces, piece_seconds=PIECE_SECONDS)] * (
        4 * given.rounds + 8
    )  # titles are asked for, too
    async with open_scripted_server(answers) as server:
        await trio.to_thread.run_sync(measure, server.base_url, given.rounds, given.deltas)


if __name__ == "__main__":
    trio.run(main)
