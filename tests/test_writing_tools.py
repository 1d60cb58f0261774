"""The tools of docs/writing-tools.md run as they stand there, and do what the page says."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.tools.tool import Tool

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "writing-tools.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)

CALLS: dict[str, list[tuple[dict[str, Any], Any]]] = {
    "roll_dice": [({"sides": 1}, 1)],
    "set_light": [({"room": "hall", "on": True}, "hall: on")],
    "add": [({"numbers": [1, 2.5]}, 3.5)],
    "count_lines": [({"paths": ["a.txt"]}, {"a.txt": 2}), ({"paths": ["b.txt"]}, "file_not_found")],
    "stock_of": [({"fruit": "pear"}, 3)],
    "switch": [
        ({"name": "lamp", "on": True}, {"lamp": True}),
        ({"name": "door", "on": True}, "validation_error"),
    ],
    "draw": [({}, ["It is small.", {"file": "dot.png", "media_type": "image/png", "size": 67}])],
    "factorize": [({"number": 12}, [2, 2, 3])],
    "population": [
        ({"city": "Oslo"}, {"city": "Oslo", "population": 709_000}),
        ({"city": ""}, "validation_error"),
    ],
}
"""Of each tool: arguments, and the result or the type of the error."""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """The examples, each a module of its own, as a process that runs one wants it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [f"example_of_tools_{at}" for at, _ in enumerate(BLOCKS)]
    for name, block in zip(names, BLOCKS, strict=True):
        guarded = re.sub(r"^trio\.run\(main\)", "if __name__ == '__main__': trio.run(main)", block,
                         flags=re.MULTILINE)  # fmt: skip
        (tmp_path / f"{name}.py").write_text(guarded, encoding="utf-8")
    importlib.invalidate_caches()
    yield [importlib.import_module(name) for name in names]
    for name in names:
        sys.modules.pop(name, None)


def tools_of(modules: list[ModuleType]) -> dict[str, Tool]:
    found = [value for module in modules for value in vars(module).values()]
    return {tool.name: tool for tool in found if isinstance(tool, Tool)}


def test_every_tool_has_a_call(modules: list[ModuleType]) -> None:
    assert sorted(tools_of(modules)) == sorted(CALLS)


@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_of_the_page_works(
    name: str, modules: list[ModuleType], tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\ntwo\n")
    calls = [(name, arguments) for arguments, _ in CALLS[name]]
    model = callboard.ScriptedModel([reply(calls=calls), reply("Done.")])
    [shop] = [module.Shop for module in modules if hasattr(module, "Shop")]
    async with callboard.open_runtime(
        model=model, tools=[tools_of(modules)[name]], workspace=workspace, on_approval="allow",
        environ={}, app=shop(stock={"pear": 3}),
    ) as runtime:  # fmt: skip
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            events = [event async for event in turn]
    progress = [event.text for event in events if isinstance(event, callboard.CallProgress)]
    results = {
        event.call_id: event for event in events if isinstance(event, callboard.CallFinished)
    }
    order = [event.call_id for event in events if isinstance(event, callboard.CallProposed)]
    told = [json.loads(results[call_id].result) for call_id in order]
    assert [each.get("result", each.get("error_type")) for each in told] == [
        wanted for _, wanted in CALLS[name]
    ]
    if name == "factorize":
        assert progress == ["found 2", "found 2", "found 3"]
    if name == "count_lines":
        assert "reading a.txt" in progress


@pytest.mark.parametrize(
    ("arguments", "asks"),
    [({"name": "lamp", "on": True}, False), ({"name": "alarm", "on": False}, True),
     ({"name": "main", "on": False}, True)],
)  # fmt: skip
async def test_the_switch_asks_when_the_page_says_so(
    arguments: dict[str, Any], asks: bool, modules: list[ModuleType]
) -> None:
    asked: list[callboard.ApprovalRequest] = []

    async def deny(request: callboard.ApprovalRequest) -> bool:
        asked.append(request)
        return False

    model = callboard.ScriptedModel([reply(calls=[("switch", arguments)]), reply("Done.")])
    async with callboard.open_runtime(
        model=model, tools=[tools_of(modules)["switch"]], on_approval=deny, environ={}
    ) as runtime:
        await (await runtime.create_session()).run("Go.")
    assert [request.tool for request in asked] == ["switch"] * asks
    if asks:
        assert asked[0].preview == f"{arguments['name']} → off"


def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for block in BLOCKS if "trio.run(main)" in block]
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec", dont_inherit=True), {"__name__": "__main__"})
    assert capsys.readouterr().out == "3.\n3.\n"
