"""What models get wrong: an error result for each bad call, a valid history, bounded memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.settings import Limits, ProviderSettings, Settings
from callboard.providers.testing.script import ScriptedCall, raw_events, reply
from callboard.runtime.stream import Done, StopReason, ToolCallDelta, ToolCallEnd, ToolCallStart
from support.stage import (
    on_both_stores,
    open_in,
    open_local_stage,
    open_stage,
    play,
    play_in,
    read_result,
    tool_contents,
)

MIB = 1024 * 1024

BAD_CALLS: list[tuple[str, str, Any, str, str]] = [
    ("no JSON", "read_file", '{"path": "a', "validation_error", "not JSON"),
    ("no object", "read_file", '["a"]', "validation_error", "object"),
    ("text behind", "read_file", '{"path": "a"} and more', "validation_error", "not JSON"),
    ("NaN", "read_file", '{"path": "a", "limit": NaN}', "validation_error", "not JSON"),
    ("wrong type", "read_file", {"path": 3}, "validation_error", "`path`"),
    ("missing", "read_file", {}, "validation_error", "path"),
    ("null for required", "read_file", {"path": None}, "validation_error", "path"),
    ("key twice", "read_file", '{"path": "a", "path": "b"}', "validation_error", "twice"),
    ("too deep", "read_file", '{"path": ' + "[" * 5000, "validation_error", "deeper"),
    ("lone surrogate", "read_file", '{"path": "\\ud800"}', "validation_error", ""),
    ("huge number", "read_file", '{"path": "a", "limit": 1e999}', "validation_error", ""),
    ("too large", "write_file", {"path": "big", "content": "x" * MIB}, "validation_error", "large"),
    ("unknown tool", "rm_rf", {}, "tool_not_found", "read_file"),
    ("odd name", "no such tool! 😀" * 20, {}, "tool_not_found", "read_file"),
    ("no name", "", {}, "tool_not_found", "read_file"),
    ("escape", "read_file", {"path": "../../etc/passwd"}, "path_not_allowed", ""),
    ("nul", "read_file", {"path": "a\x00b"}, "", ""),
]


@pytest.mark.parametrize(
    ("name", "arguments", "error_type", "words"),
    [bad[1:] for bad in BAD_CALLS],
    ids=[bad[0] for bad in BAD_CALLS],
)
async def test_a_bad_call_gets_an_error_result_and_its_sibling_runs(
    tmp_path: Path, name: str, arguments: Any, error_type: str, words: str
) -> None:
    good = ("write_file", {"path": "good.txt", "content": "x"})
    steps = [reply(calls=[(name, arguments), good]), reply("I see.")]
    async with open_stage(tmp_path, steps) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.ended.outcome == "answered"
        contents = tool_contents(stage.sent[1])
        bad, fine = sorted(contents, key=lambda content: str(content["status"]))
        assert bad["status"] == "error"
        assert bad["error_type"] == (error_type or bad["error_type"])
        assert words in bad["message"]
        assert len(bad["message"]) < 2000
        assert fine["status"] == "success"
        assert [path.name for path in stage.workspace.iterdir()] == ["good.txt"]
        assert len(played.results) == 2


async def test_extra_arguments_and_nulls_of_optional_ones_are_dropped(tmp_path: Path) -> None:
    arguments = {"path": "a", "content": "x", "encoding": None, "approved": True}
    steps = [reply(calls=[("write_file", arguments)]), reply("Done.")]
    async with open_stage(tmp_path, steps) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        [result] = played.results
        assert result.status == "success"
        assert json.loads(result.arguments or "") == {"path": "a", "content": "x"}


@pytest.mark.parametrize(
    "ids",
    [("same", "same", "same"), ("", "", ""), ("a b", "a b", "ü"), ("x" * 500, "x" * 500, "y")],
    ids=["duplicate", "empty", "odd", "long"],
)
async def test_call_ids_are_made_unique(tmp_path: Path, ids: tuple[str, ...]) -> None:
    """In the process, since a wire format's decoder already mends some of it."""
    events = [
        event
        for at, call_id in enumerate(ids)
        for event in (
            ToolCallStart(at, call_id, "read_file"),
            ToolCallDelta(at, json.dumps({"path": f"{at}.txt"})),
            ToolCallEnd(at),
        )
    ]
    asks = raw_events(*events, Done(StopReason.TOOL_CALLS))
    async with open_local_stage(tmp_path, [asks, asks, reply("Done.")]) as (runtime, _):
        for at in range(len(ids)):
            (tmp_path / "work" / f"{at}.txt").write_text(f"file {at}")
        session, played = await play_in(runtime, "Read.")
        assert played.ended.outcome == "answered"
        rows = [row for row in await runtime.store.messages(session.session_id) if row.call_id]
        assert len({row.call_id for row in rows}) == 6
        contents = {r.call_id: read_result(r)["result"]["content"] for r in played.results}
        assert sorted(contents.values()) == sorted(["file 0", "file 1", "file 2"] * 2)


async def test_duplicate_and_empty_ids_on_the_wire(tmp_path: Path) -> None:
    calls = [
        ScriptedCall("write_file", json.dumps({"path": f"{at}", "content": "x"}), call_id)
        for at, call_id in enumerate(["same", "same", "call_9"])
    ]
    again = [ScriptedCall("list_directory", '{"path": "."}', "same")]
    steps = [reply(calls=calls), reply(calls=again), reply("Done.")]
    async with open_stage(tmp_path, steps) as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.ended.outcome == "answered"
        assert len(played.results) == 4
        assert sorted(path.name for path in stage.workspace.iterdir()) == ["0", "1", "2"]


@on_both_stores
async def test_of_300_parallel_calls_256_run(tmp_path: Path, store: str) -> None:
    at_once = most_at_once = 0

    @callboard.tool
    async def count(number: int) -> int:
        """Counts who runs."""
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        await trio.sleep(0.01)
        at_once -= 1
        return number

    steps = [reply(calls=[("count", {"number": n}) for n in range(300)]), reply("Counted.")]
    async with open_stage(tmp_path, steps, store=store, tools=[count]) as stage:
        played = await play(await stage.runtime.create_session(), "Count.")
        assert played.ended.outcome == "answered"
        contents = tool_contents(stage.sent[1])
        assert [c["result"] for c in contents[:256]] == list(range(256))
        assert [c["error_type"] for c in contents[256:]] == ["execution_error"] * 44
        assert "256" in contents[256]["message"]
        assert most_at_once == 128


async def test_arguments_are_cut_while_they_stream(tmp_path: Path) -> None:
    huge = ("write_file", {"path": "huge", "content": "x" * (10 * MIB)})
    small = ("write_file", {"path": "small", "content": "x"})
    steps = [reply(calls=[huge, small]), reply("Too much.")]
    async with open_stage(tmp_path, steps, store="disk") as stage:
        played = await play(await stage.runtime.create_session(), "Go.")
        assert played.statuses == [("write_file", "error"), ("write_file", "success")]
        assert [path.name for path in stage.workspace.iterdir()] == ["small"]
        kept = [e for e in played.events if isinstance(e, callboard.CallProposed)]
        assert len(kept[0].arguments) <= MIB + 4
        assert sum(len(str(message)) for message in stage.sent[1]) < 2 * MIB


async def test_more_calls_than_a_readable_history_holds_fail_the_turn(tmp_path: Path) -> None:
    steps = [reply(calls=[("get_current_time", {})] * 1100), reply("Fewer, then.")]
    async with open_stage(tmp_path, steps) as stage:
        session, played = await play_in(stage.runtime, "Go.")
        assert (played.ended.outcome, played.results) == ("failed", [])
        assert "tools in one answer" in played.ended.message
        assert await session.run("Again.") == "Fewer, then."


async def test_a_prompt_of_any_text_is_kept_as_it_is(tmp_path: Path) -> None:
    texts = ["a\x00b", "😀" * 1000, "line\r\nline", "x" * MIB]
    async with open_stage(tmp_path, [reply("Ok.")] * len(texts), store="disk") as stage:
        session = await stage.runtime.create_session()
        for text in texts:
            assert await session.run(text) == "Ok."
        assert [m["content"] for m in stage.sent[-1] if m["role"] == "user"] == texts


@pytest.mark.parametrize("text", ["", " \n", None, 3, b"bytes"])
async def test_what_is_no_prompt_is_refused_at_the_door(tmp_path: Path, text: Any) -> None:
    async with open_stage(tmp_path, [reply("Ok.")]) as stage:
        session = await stage.runtime.create_session()
        with pytest.raises(callboard.CallboardError, match="a prompt is a text"):
            await session.run(text)
        assert await session.run("Hello.") == "Ok."


async def test_a_turn_that_was_not_entered_says_so(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Ok.")]) as stage:
        session = await stage.runtime.create_session()
        with pytest.raises(callboard.CallboardError, match="async with"):
            await anext(aiter(session.prompt("Hello.")))
        assert await session.run("Hello.") == "Ok."


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nobody/x", ["no provider 'nobody'", "openai", "ollama", "rehearsal"]),
        ("nobody", ["PROVIDER/MODEL", "openai"]),
        ("rehearsal/x", ["rehearsal"]),
        ("openai/gpt", ["OPENAI_API_KEY"]),
    ],
)
async def test_an_unknown_model_names_those(tmp_path: Path, model: str, words: list[str]) -> None:
    with pytest.raises(callboard.CallboardError) as refused:
        async with open_in(tmp_path, model):
            pass
    for word in words:
        assert word in str(refused.value)
    async with open_local_stage(tmp_path, [reply("Hi.")]) as (runtime, _):
        with pytest.raises(callboard.CallboardError):
            await runtime.create_session(model=model)
        assert await (await runtime.create_session()).run("Hello.") == "Hi."


@pytest.mark.parametrize("url", ["", "localhost:1234", "ftp://x/v1", "http://", "http://a b/"])
async def test_a_base_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(callboard.CallboardError) as refused:
        async with callboard.open_runtime(model="m", base_url=url, workspace=tmp_path, environ={}):
            pass
    assert "base-url" in str(refused.value) or "base_url" in str(refused.value)


async def test_a_provider_that_is_not_there_fails_the_turn_only(tmp_path: Path) -> None:
    provider = ProviderSettings(name="gone", base_url="http://gone.invalid:9/v1")
    settings = Settings(
        providers={"gone": provider}, limits=Limits(connect_seconds=5, model_retries=0)
    )
    async with open_local_stage(tmp_path, [reply("Hi.")], settings=settings) as (runtime, _):
        played = await play(await runtime.create_session(model="gone/m"), "Go.")
        assert (played.ended.outcome, played.ended.error_type) == ("failed", "network")
        assert "gone.invalid" in played.ended.message
        assert await (await runtime.create_session()).run("Hello.") == "Hi."


async def test_unknown_sessions_agents_and_folders_are_named(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Hi.")]) as stage:
        runtime = stage.runtime
        with pytest.raises(callboard.CallboardError, match="session_nope"):
            await runtime.get_session("session_nope")
        with pytest.raises(callboard.CallboardError, match=r"nobody.*general"):
            await runtime.create_session(agent="nobody")
        missing = tmp_path / "missing"
        with pytest.raises(callboard.CallboardError, match="missing"):
            await runtime.create_session(workspace=missing)
        with pytest.raises(callboard.CallboardError):
            await runtime.create_session(workspace="/")
        assert await runtime.sessions() == []
        assert await (await runtime.create_session()).run("Hello.") == "Hi."
