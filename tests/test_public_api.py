"""Everything that `callboard` exports says what it is, and shows it in an example that runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import textwrap
from collections.abc import Iterator
from contextlib import AsyncExitStack
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import trio

import callboard
from callboard.config.settings import DialectName, DialectWord, Limits, Settings
from callboard.providers.testing.script import Step, fail
from callboard.runtime import definitions
from callboard.tools.tool import FunctionTool
from support.gateway.daemon_scene import open_client, open_daemon

FRONT_DOOR = Path(callboard.__file__)

MAX_LINES = 10

SILENT = {"Runtime.approval", "Session.resume"}
"""Print what waits for a person, and in these surroundings nothing does."""

LOCAL = ("runtime", "session", "turn")
REMOTE = ("client", "url", "token")
"""What a test prepares for examples, on a runtime of its own and on a daemon."""

EVENTFUL: tuple[Step, ...] = (
    callboard.reply(calls=[("delegate", {"kind": "worker", "task": "Look around."})]),
    callboard.reply(calls=[("list_directory", {"path": "."})]),  # the worker's
    callboard.reply("There is nothing."),
    *[callboard.reply(calls=[("get_current_time", "{")])] * 3,
    callboard.reply(
        "One moment.",
        thinking="Hm.",
        calls=[
            ("work", {}),
            ("delete_file", {"path": "old.txt"}),
            ("plan", {"items": [{"text": "work", "status": "done"}]}),
        ],
    ),
    fail("This is more than I can read.", error_type="context_overflow"),
    callboard.reply("A moment was asked for, and work was done."),
    callboard.reply("This answer breaks o", finish=None),
    fail("The key was taken back.", error_type="auth"),
)
"""A turn in which everything happens that an event tells of: it is summed up, breaks, and is ended
by the rehearsal model."""
EVENTFUL_SETTINGS = Settings(
    limits=Limits(retry_wait_seconds=0.01),
    agents={"general": callboard.Agent(fallbacks=("rehearsal/rehearsal",), defer=True)},
)


@callboard.tool(tier="workspace")
async def work(context: callboard.ToolContext) -> str:
    """Does something, and says how far it is."""
    context.progress("half of it is done")
    await trio.lowlevel.checkpoint()
    return "done"


class Example(msgspec.Struct, frozen=True):
    """An exported name, with its docstring and the example in that."""

    name: str
    docstring: str

    @property
    def code(self) -> str:
        """What stands indented under `Example:`; empty without one."""
        _, marker, behind = self.docstring.partition("\nExample:\n")
        lines: list[str] = []
        for line in behind.splitlines() if marker else ():
            if line and not line.startswith("    "):
                break
            lines.append(line)
        return textwrap.dedent("\n".join(lines)).strip()

    @property
    def needed(self) -> set[str]:
        """Which of what a test prepares the example reads without making it."""
        names = [node for node in ast.walk(ast.parse(self.code)) if isinstance(node, ast.Name)]
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        return {node.id for node in names} & {*LOCAL, *REMOTE} - made


def exported() -> Iterator[tuple[str, str, str]]:
    """Each exported name, with the module that it comes from and its name there."""
    for node in ast.walk(ast.parse(FRONT_DOOR.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                if alias.asname is not None:
                    yield alias.asname, node.module or "", alias.name


def docstring_of(module: str, name: str) -> str:
    """The docstring of a class or function, of a module, or the string behind an assignment."""
    if module in {"", "portals"}:  # the name is a module: `callboard.aio`
        found = importlib.import_module(".".join(filter(None, ["callboard", module, name])))
        return inspect.getdoc(found) or ""
    defined = importlib.import_module(f"callboard.{module}")
    tree = ast.parse(Path(str(defined.__file__)).read_text(encoding="utf-8"))
    for node, behind in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == name and (text := ast.get_docstring(node)):
                return text
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            text = behind.value.value if is_string(behind) else ""  # type: ignore[union-attr]
            return inspect.cleandoc(text)
    return ""


def is_string(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


EXAMPLES = [
    Example("callboard", inspect.getdoc(callboard) or ""),
    *(
        Example(name, docstring_of(module, original))
        for name, module, original in exported()
        if module != "runtime.errors" or name == "CallboardError"  # its leaves need no other one
    ),
    *(
        Example(f"{kind.__name__}.{name}", inspect.getdoc(method) or "")
        for kind in (callboard.Runtime, callboard.Session)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if "\nExample:\n" in (inspect.getdoc(method) or "")
    ),
]


async def run(code: Any, needed: set[str], names: dict[str, Any]) -> None:
    """Runs code with `await` within what it needs: a runtime, a session, an eventful turn."""
    async with AsyncExitStack() as stack:
        if needed & {*REMOTE}:
            daemon = await stack.enter_async_context(open_daemon())
            names |= {"url": daemon.url, "token": daemon.token}
            if "client" in needed:
                names["client"] = await stack.enter_async_context(open_client(daemon))
        elif needed:
            model = callboard.ScriptedModel(EVENTFUL) if "turn" in needed else "rehearsal"
            runtime = callboard.open_runtime(
                model=model, tools=[work], settings=EVENTFUL_SETTINGS, strict=True
            )
            names["runtime"] = await stack.enter_async_context(runtime)
            session = names["session"] = await names["runtime"].create_session()
            if "turn" in needed:
                names["turn"] = await stack.enter_async_context(session.prompt("Go."))
                await session.submit("And look at the clock.", mode="steer")
        await eval(code, names)


async def outcome_of(tool: FunctionTool) -> str:
    """The result of a call of this tool with some arguments."""
    properties = tool.definition.parameters["properties"].items()
    some = {"string": "list.txt", "integer": 2}
    arguments = {name: some[schema["type"]] for name, schema in properties}
    model = callboard.ScriptedModel(
        [callboard.reply(calls=[(tool.definition.name, arguments)]), callboard.reply("Done.")]
    )
    async with callboard.open_runtime(model=model, tools=[tool], on_approval="allow") as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            [result] = [e.result async for e in turn if isinstance(e, callboard.CallFinished)]
    return result


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current one, and no keys."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.endswith("_KEY")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_what_is_exported_has_an_example_that_runs(
    example: Example, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 < len([line for line in example.code.splitlines() if line]) <= MAX_LINES
    code = compile(
        example.code,
        f"<example of {example.name}>",
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    names: dict[str, Any] = {"__name__": "__main__", "callboard": callboard}
    if code.co_flags & inspect.CO_COROUTINE:
        trio.run(run, code, example.needed, names)
    else:
        exec(code, names)
    says = "print(" in example.code and example.name not in SILENT
    assert bool(capsys.readouterr().out.strip()) == says
    (folder / "list.txt").write_text("buy milk")
    for tool in [made for made in names.values() if isinstance(made, FunctionTool)]:
        assert "execution_error" not in trio.run(outcome_of, tool)


def test_all_that_is_there_counts_as_exported() -> None:
    names = {name for name, _, _ in exported()}
    assert {name for name in names if getattr(callboard, name, None) is None} == set()
    assert names <= set(dir(callboard))
    public = {
        name
        for name, value in vars(callboard).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "TYPE_CHECKING"
    }
    assert public <= names


@pytest.mark.parametrize(
    "docstring", ["Something.", "Something.\n\nExample:\nprint(1)", "Something.\n\nExamples: none."]
)
def test_an_example_that_is_none_is_found(docstring: str) -> None:
    assert Example("x", docstring).code == ""


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        (definitions.TierWord, callboard.Tier),
        (definitions.PresetWord, callboard.Preset),
        (definitions.EffectWord, definitions.Effect),
        (definitions.CapabilityWord, definitions.Capability),
        (definitions.ErrorTypeWord, callboard.ErrorType),
        (DialectWord, DialectName),
    ],
)
def test_what_may_be_written_as_a_word_is_what_there_is(words: Any, choices: type[Enum]) -> None:
    assert list(get_args(words)) == [choice.value for choice in choices]
