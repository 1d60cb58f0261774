"""Nodes as processes, and what has become of their sessions: nothing lost, nothing doubled, no gap."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psycopg

from support.environment import finds_support

KINDS = ("run_code", "background", "mcp", "function")
"""Of programs: of a call, in the background, of a server of MCP, and a function in a process of its own."""
NOBODY = "nobody"
PROCESS = Path(__file__).parent / "node_process.py"
WAIT_SECONDS = 90.0
"""Everything takes some seconds; a machine that does much else takes longer."""


class Sum(msgspec.Struct, frozen=True):
    """What is on record, and what the calls did.

    Attributes:
        inputs: Prompts that were acknowledged.
        answered: Those of them whose turn has ended.
        open_turns: Turns that have not.
        effects: How often a call had its effect.
        doubled: How many of these were not the first of their call.
        gaps: Sessions whose events are not numbered 1, 2, 3, …
    """

    inputs: int
    answered: int
    open_turns: int
    effects: int
    doubled: int
    gaps: int


@contextmanager
def node_process(
    url: str, node: str, folder: Path, sessions: int, inputs: int = 30, *options: str
) -> Generator[subprocess.Popen[str]]:
    """Run a node until the block is left, once its sessions are on record."""
    words = [url, node, str(folder), str(sessions), str(inputs), *options]
    with subprocess.Popen(
        [sys.executable, str(PROCESS), *words],
        stdout=subprocess.PIPE,
        text=True,
        env=finds_support(),
    ) as process:
        try:
            said(process, "ready")
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], word: str) -> None:
    """Wait for what a node says next; anything else fails the test."""
    assert process.stdout is not None
    assert process.stdout.readline() == f"{word}\n"


def effects_of(folder: Path, node: str | None = None) -> list[str]:
    """The keys of the calls that had their effect, on a node or anywhere."""
    effects = folder / "effects"
    lines = effects.read_text(encoding="ascii").splitlines() if effects.exists() else []
    return [key for key, where, _ in map(str.split, lines) if node in {None, where}]


def written_by(folder: Path, node: str, kind: str) -> list[float]:
    """When a program of a node has written."""
    file = folder / "work" / "programs" / f"{node}-{kind}"
    if kind == "mcp":
        file = folder / node / "mcp" / "fake" / "times"
    # The last line may be half written.
    lines = file.read_text(encoding="ascii").split("\n")[:-1] if file.exists() else []
    return [float(line) for line in lines]


def sum_up(url: str, folder: Path) -> Sum:
    """Count what is on record and what was done."""
    keys = effects_of(folder)
    with psycopg.connect(url, autocommit=True) as connection:

        def one(sql: str) -> int:
            found = connection.execute(sql.encode()).fetchone()
            assert found is not None
            return int(found[0])

        accepted = one("select count(*) from messages where type = 'user'")
        waiting = one("select count(*) from inputs")
        return Sum(
            inputs=accepted,
            answered=accepted - waiting,
            open_turns=one("select count(*) from turns where ended_at_ms is null"),
            effects=len(keys),
            doubled=len(keys) - len(set(keys)),
            gaps=one(
                "select count(*) from (select 1 from events group by session"
                " having count(*) <> max(seq) or min(seq) <> 1) found"
            ),
        )


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until something is so; for tests without an event loop."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:g} s: {what}"
        time.sleep(0.05)


def wait_settled(url: str, folder: Path, inputs: int) -> Sum:
    """Wait until each prompt is answered, and return the sum; it must be without a fault."""
    found = [sum_up(url, folder)]

    def is_settled() -> bool:
        found[0] = sum_up(url, folder)
        return found[0].answered == inputs and found[0].open_turns == 0

    wait_until(is_settled, "all prompts answered")
    total = found[0]
    assert (total.inputs, total.doubled, total.gaps) == (inputs, 0, 0)
    return total


def wait_taken(url: str, node: str) -> None:
    """Wait until the sessions of a node, as far as they have prompts, go on elsewhere."""
    left = (
        "select count(*) from owners o join sessions s using (session_id) where o.node_id = %s"
        " and exists (select 1 from inputs i where i.session = s.id)"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        wait_until(
            lambda: connection.execute(left, (node,)).fetchone() == (0,),
            f"the sessions of {node} taken over",
        )


def owed_by(url: str, node: str) -> set[str]:
    """The sessions of a node with at least two prompts that no turn has begun.

    The commit that begins one of them may be on its way when the node ends; the others are left to other nodes.
    """
    sql = (
        "select s.session_id from owners o join sessions s using (session_id) join inputs i on i.session = s.id"
        " where o.node_id = %s and i.turn_id is null group by 1 having count(*) > 1"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        return {session_id for (session_id,) in connection.execute(sql, (node,)).fetchall()}


def gone_on(url: str, sessions: set[str], since: float) -> list[float]:
    """How many seconds after a moment each session began its next turn, in order; none for one that did not."""
    sql = (
        "select min(t.started_at_ms) from turns t join sessions s on s.id = t.session"
        " where s.session_id = any(%s) and t.started_at_ms > %s group by s.session_id"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(sql, (list(sessions), int(since * 1000))).fetchall()
        return sorted(at_ms / 1000 - since for (at_ms,) in rows)
