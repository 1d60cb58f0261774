"""Functions that tests run in a process of their own: a fresh interpreter must find them here."""

from __future__ import annotations

import base64
import dataclasses
import enum
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

import callboard
from callboard.tools.tool import tool


class Color(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    color: Color = Color.RED


@dataclasses.dataclass
class Seen:
    pid: int
    environment: list[str]
    argv: list[str]


@callboard.tool(process=True)
def move(point: Point, by: int = 1) -> Point:
    """Moves a point."""
    return Point(point.x + by, point.color)


@callboard.tool(process=True)
def look() -> Seen:
    """Says where it runs."""
    return Seen(os.getpid(), sorted(os.environ), sys.argv)


@callboard.tool(process=True)
def talk(context: callboard.ToolContext) -> str:
    """Shows some lines."""
    sys.stdout.write("one\n")
    sys.stdout.write("two\nthree\n")
    context.progress("four")
    sys.stderr.write("not shown\n")
    sys.stdout.write("x" * 10_000)
    return context.call_id + context.agent.name + str(context.files_read)


@callboard.tool(process=True)
def fail(how: str) -> Any:
    """Fails in some way."""
    match how:
        case "failure":
            raise callboard.ToolFailure(callboard.ErrorType.NOT_EMPTY, "Three left.", left=3)
        case "exit":
            sys.exit(3)
        case "exit at once":
            os._exit(7)
    return object()  # not JSON


@callboard.tool(process=True)
def result() -> callboard.ToolResult:
    """Gives a result with a line for people."""
    return callboard.ToolResult(output=[1], display="shown")


@callboard.tool(process=True)
def hang(folder: str, timeout: float = 30) -> None:
    """Starts another process, says the numbers of both, and never ends."""
    child = subprocess.Popen(["sleep", "600"])
    Path(folder, "pids").write_text(f"{os.getpid()} {child.pid}")
    sys.stdout.write("hanging\n")
    time.sleep(600)


def plain(x: int) -> int:
    """Doubles."""
    return x * 2


doubled = tool(process=True, name="doubled")(plain)


@callboard.tool(tier="read_only", effect="read", process=True)
def look_apart(data: str) -> list[callboard.Image]:
    """Looks from a process of its own at a picture, in base64."""
    return [callboard.Image(base64.b64decode(data), "apart.png")]
