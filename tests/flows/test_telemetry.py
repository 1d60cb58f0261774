"""Traces of whole turns, as a collector gets them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

import callboard
from callboard import Runtime
from callboard.actors.permissions.asking import Approver
from callboard.providers.testing.script import Answered, ScriptedReply, Step, reply
from callboard.providers.testing.scripted_server import open_scripted_server
from support.otlp import Collector, attributes_of, open_collector, tree


@pytest.fixture
def collector() -> Any:
    with open_collector() as found:
        yield found


def golden(text: str) -> str:
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines if line.strip())


async def test_parallel_calls(tmp_path: Path, collector: Collector) -> None:
    (tmp_path / "a.txt").write_text("A")
    reads = [("read_file", {"path": "a.txt"}), ("list_directory", {"path": "."}), ("nothing", {})]
    model = callboard.ScriptedModel([reply("Look.", calls=reads), reply("Done.")])
    async with callboard.open_runtime(
        model=model, workspace=tmp_path, settings=collector.settings(service_name="mine")
    ) as runtime:
        session = await runtime.create_session()
        await session.run("Look.")
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=20
          !execute_tool other status=error type=tool_not_found
          chat ScriptedModel finish_reasons=stop input_tokens=10
          chat ScriptedModel finish_reasons=tool_call input_tokens=10
          execute_tool list_directory status=success tier=read_only
          execute_tool read_file status=success tier=read_only
    """)
    root = next(each for each in collector.spans if each.name.startswith("invoke_agent"))
    assert attributes_of(root)["gen_ai.conversation.id"] == session.session_id
    assert {each.trace_id for each in collector.spans} == {root.trace_id}
    assert all(root.start_time_unix_nano <= each.start_time_unix_nano for each in collector.spans)
    assert all(each.end_time_unix_nano <= root.end_time_unix_nano for each in collector.spans)
    assert collector.resource["service.name"] == "mine"


async def test_a_denial(tmp_path: Path, collector: Collector) -> None:
    write = ("write_file", {"path": "a.txt", "content": "A"})
    model = callboard.ScriptedModel([reply(calls=[write]), reply("Done.")])
    async with callboard.open_runtime(
        model=model,
        workspace=tmp_path,
        settings=collector.settings(),
        policy="strict",
        on_approval="deny",
    ) as runtime:
        await (await runtime.create_session()).run("Write.")
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=20
          !execute_tool write_file status=denied tier=workspace type=permission_denied
          callboard.approval decision=deny tier=workspace
          chat ScriptedModel finish_reasons=stop input_tokens=10
          chat ScriptedModel finish_reasons=tool_call input_tokens=10
    """)
    denied = next(each for each in collector.spans if "execute_tool" in each.name)
    assert denied.start_time_unix_nano == denied.end_time_unix_nano  # it never ran


async def test_a_model_call_that_is_made_again(tmp_path: Path, collector: Collector) -> None:
    steps: list[Step] = [
        Answered(503, b"", message="Busy.", headers=(("retry-after", "0"),)),
        reply("Done."),
    ]
    async with open_scripted_server(steps) as server:
        async with callboard.open_runtime(
            model="tiny",
            base_url=server.base_url,
            workspace=tmp_path,
            environ={},
            settings=collector.settings(signals=("traces",)),
        ) as runtime:
            await (await runtime.create_session()).run("Go.")
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=10
          !chat tiny type=overloaded
          chat tiny finish_reasons=stop input_tokens=10
    """)
    chat = attributes_of(next(each for each in collector.spans if each.name == "chat tiny"))
    assert (chat["server.address"], chat["gen_ai.provider.name"]) == ("127.0.0.1", "custom")


async def test_a_question_that_outlives_its_process(tmp_path: Path, collector: Collector) -> None:
    write = ("write_file", {"path": "a.txt", "content": "A"})
    asked = trio.Event()

    async def first(request: callboard.ApprovalRequest) -> Literal["allow", "deny"]:
        asked.set()
        await trio.sleep_forever()

    async def second(request: callboard.ApprovalRequest) -> Literal["allow", "deny"]:
        return "allow"

    def opened(person: Approver, *steps: ScriptedReply) -> AbstractAsyncContextManager[Runtime]:
        return callboard.open_runtime(
            model=callboard.ScriptedModel(steps),
            data=tmp_path / "data",
            workspace=tmp_path / "project",
            settings=collector.settings(),
            policy="strict",
            on_approval=person,
        )

    (tmp_path / "project").mkdir()
    async with opened(first, reply(calls=[write])) as runtime:
        session = await runtime.create_session()
        await session.submit("Write.")
        await asked.wait()
    assert [each.name for each in collector.spans] == ["chat ScriptedModel"]
    async with opened(second, reply("Done.")) as runtime:
        session = await runtime.get_session(session.session_id)
        turn = await session.resume()
        assert turn is not None
        async with turn:
            await turn.answer()
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=20
          callboard.approval decision=allow tier=workspace
          chat ScriptedModel finish_reasons=stop input_tokens=10
          chat ScriptedModel finish_reasons=tool_call input_tokens=10
          execute_tool write_file status=success tier=workspace
    """)
    assert len({each.span_id for each in collector.spans}) == len(
        collector.spans
    )  # none came twice
