"""run_tests: the tool that runs the workspace's tests in the sandbox, and counts their outcomes."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NotRequired

import msgspec

from ...runtime.definitions import Tier, ToolResult
from ...runtime.processes import Command, Processes, Ran
from ..context import ToolContext
from ..failures import failed, invalid
from ..files.preview import command_line
from ..git.command import Paths
from ..processes.threads import run_read
from ..programs.program_result import (
    ChangesOutput,
    change_fields,
    changes_line,
    ending,
    made_files,
    result_of_program,
    sandboxed_tool,
    title,
)
from ..schema.parameters import Timeout

SECONDS = 600.0
PROBE_SECONDS = 20.0
MAX_WORDS = 100
MAX_TAIL_CHARACTERS = 32 * 1024
"""The end of the output, which says which tests failed, and why."""

Runner = Literal["pytest", "npm", "cargo", "go", "make"]

RUNNERS: dict[str, tuple[str, ...]] = {
    "pytest": ("pytest", "-q", "--color=no"),
    "cargo": ("cargo", "test", "--color", "never"),
    "go": ("go", "test"),
    "npm": ("npm", "test", "--silent"),
    "make": ("make", "test"),
}
"""The command of each framework, by name, in the order in which they are tried: a Makefile or a
package.json often stands beside what the project is really written in."""

_PROBE = r"""
for name in pytest.ini tox.ini setup.cfg pyproject.toml setup.py conftest.py; do
  if [ -e "$name" ]; then echo "found pytest"; break; fi
done
if [ -e Cargo.toml ]; then echo "found cargo"; fi
if [ -e go.mod ]; then echo "found go"; fi
if [ -e package.json ] && grep -q '"test" *:' package.json; then echo "found npm"; fi
for name in GNUmakefile makefile Makefile; do
  if [ -e "$name" ] && grep -q '^test *:' "$name"; then echo "found make"; break; fi
done
if [ -x .venv/bin/pytest ]; then echo "own pytest"; fi
for name in pytest cargo go npm make; do
  if command -v "$name" > /dev/null; then echo "has $name"; fi
done
exit 0
"""
"""Runs in the sandbox, as the tests will: it sees which files and which programs are there."""

_SUMMARIES: dict[str, tuple[str, ...]] = {
    "pytest": (
        r".*\b(?P<passed>\d+) passed\b",
        r".*\b(?P<failed>\d+) failed\b",
        r".*\b(?P<errors>\d+) errors?\b",
        r".*\b(?P<skipped>\d+) skipped\b",
    ),
    "cargo": (
        r"test result: .* (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored",
    ),
    "go": (r"--- (?:(?P<failed>FAIL)|(?P<skipped>SKIP)): ",),
    "npm": (
        r"(?:# pass|. pass) (?P<passed>\d+)$",
        r"(?:# fail|. fail) (?P<failed>\d+)$",
        r"Tests:\s.*\b(?P<passed>\d+) passed",
        r"Tests:\s.*\b(?P<failed>\d+) failed",
        r"\s*(?P<passed>\d+) passing\b",
        r"\s*(?P<failed>\d+) failing\b",
    ),
}
"""How the line begins in which each runner says how many; npm runs node's own, jest or mocha, among
others."""

MAX_SUMMARY_CHARACTERS = 500
"""The part of such a line that is matched. The text is the workspace's: no pattern may see more of it at once, since each takes
time that grows with the square of what it sees."""

_LAST_LINES = 3
"""pytest counts at its very end; a test may print anything before that."""

Words = Annotated[list[str], msgspec.Meta(max_length=MAX_WORDS)]


def _preview(arguments: Any, context: ToolContext) -> str:
    words = () if arguments.runner else _configured(context)
    if not words and not arguments.runner:
        return "the project's tests"
    return command_line(_argv(arguments.runner or "", words, arguments.args, arguments.paths))


class TestResult(ChangesOutput):
    """What run_tests returns."""

    runner: str
    command: str
    exit_code: int | None
    duration_ms: int
    killed_by: NotRequired[str]
    passed: NotRequired[int]
    failed: NotRequired[int]
    errors: NotRequired[int]
    skipped: NotRequired[int]
    others: NotRequired[list[str]]
    truncated: NotRequired[bool]
    sandbox: str
    output: str


@sandboxed_tool(tier=Tier.WORKSPACE, timeout_seconds=SECONDS, preview=_preview, output=TestResult)
async def run_tests(
    context: ToolContext,
    runner: Runner | None = None,
    paths: Paths | None = None,
    args: Words | None = None,
    timeout_seconds: Timeout = None,
) -> ToolResult:
    """Runs the workspace's tests in a sandbox without a network, and counts what passed and failed.

    Args:
        runner: Default: what the operator configured, or the first of these that fits the project.
        paths: Test files or folders (for go, packages; for make, targets); default: all.
        args: Further arguments for the runner.
        timeout_seconds: Seconds they may run; default 600.
    """
    assert context.processes is not None  # or `needs` would have refused the call
    configured = () if runner else _configured(context)
    if paths is not None and any(path.startswith("-") for path in paths):
        raise invalid("paths", "paths: a path that begins with - is written ./-…")
    words = configured
    others: list[str] = []
    if not words:
        words, runner, others = await _found(context.processes, runner)
    argv = _argv(runner or "", words, args, paths)
    ran = await context.processes.run(
        Command(
            argv=argv,
            env={"CI": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            seconds=timeout_seconds or SECONDS,
            lists_changes=True,
            title=title(command_line(argv)),
        ),
        context.progress,
    )
    result_of_program("run_tests", ran)  # raises when it ran out of time
    return await _result(runner or "configured", argv, others, ran)


def _configured(context: ToolContext) -> tuple[str, ...]:
    return () if context.workshop is None else context.workshop.test_command()


def _argv(
    runner: str, words: tuple[str, ...], args: list[str] | None, paths: list[str] | None
) -> tuple[str, ...]:
    words = words or RUNNERS.get(runner, ())
    if runner == "go" and not paths:
        paths = ["./..."]
    between = ("--",) if runner == "npm" and (args or paths) else ()
    return (*words, *between, *(args or ()), *(paths or ()))


async def _found(
    processes: Processes, wanted: str | None
) -> tuple[tuple[str, ...], Runner, list[str]]:
    """Return the command that runs the tests, its name, and other runners that would fit."""
    ran = await processes.run(
        Command(argv=("sh", "-c", _PROBE), seconds=PROBE_SECONDS, title="looks for tests")
    )
    lines = set(ran.stdout.splitlines())
    fitting = [name for name in RUNNERS if f"found {name}" in lines]
    name = wanted or next(iter(fitting), None)
    if name is None:
        raise failed(
            "No tests were found: there is no pyproject.toml (or other settings of pytest), "
            "Cargo.toml, go.mod, package.json with a test script, or Makefile with a target test in "
            "the workspace's root. Name a runner, or run them with shell."
        )
    words = RUNNERS[name]
    if name == "pytest" and "own pytest" in lines:
        words = (".venv/bin/pytest", *words[1:])
    elif f"has {name}" not in lines:
        raise failed(
            f"{name} is not installed where programs in the sandbox find it: neither on the "
            "operator's PATH nor in the workspace (.venv)."
        )
    return words, name, [each for each in fitting if each != name]  # type: ignore[return-value]


async def _result(runner: str, argv: tuple[str, ...], others: list[str], ran: Ran) -> ToolResult:
    # In a thread: a million lines take a second.
    counts = await run_read(_counts, runner, ran.stdout)
    text = ran.stdout if not ran.stderr else f"{ran.stdout.rstrip()}\n{ran.stderr}".lstrip("\n")
    output = {
        "runner": runner,
        "command": command_line(argv),
        "exit_code": ran.exit_code,
        "duration_ms": round(ran.duration_seconds * 1000),
        **({"killed_by": ran.killed_by} if ran.killed_by else {}),
        **counts,
        **({"others": others} if others else {}),
        **({"truncated": True} if ran.is_truncated or len(text) > MAX_TAIL_CHARACTERS else {}),
        "sandbox": ran.sandbox,
        **change_fields(ran.changed),
        "output": text[-MAX_TAIL_CHARACTERS:],
    }
    line = ", ".join(f"{count} {what}" for what, count in counts.items())
    return ToolResult(
        output=output,
        display=f"{runner}: {line or ending(ran)}{changes_line(ran.changed)}",
        artifacts=made_files(ran.changed),
    )


def _counts(runner: str, text: str) -> dict[str, int]:
    """Return how many passed, failed and so on, as far as the runner prints it."""
    lines = text.rstrip().splitlines()
    counts: dict[str, int] = {}
    patterns = [re.compile(pattern) for pattern in _SUMMARIES.get(runner, ())]
    for line in lines[-_LAST_LINES:] if runner == "pytest" else lines:
        for pattern in patterns:
            found = pattern.match(line, 0, MAX_SUMMARY_CHARACTERS)
            for what, count in found.groupdict().items() if found else ():
                if count is not None:
                    # cargo says it for each of its test programs; go names each test.
                    more = int(count) if count.isdecimal() else 1
                    counts[what] = counts.get(what, 0) + more
    return counts
