"""Memories from session to session: kept once, told apart by agent, and marked by who wrote them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

import callboard
from callboard.config.sections import MemoryPlace, MemorySearch, MemorySettings
from callboard.config.settings import NetworkSettings, Settings
from callboard.embedding import access as memory_access
from callboard.providers.testing.script import Step, reply
from callboard.runtime.definitions import Agent
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import MemoryStored, PrivateDataRead, SessionTainted
from support.stage import Played, on_both_stores, open_in, play, play_in, read_result
from support.web.web_server import open_web_server, page

STORE = ("memory_store", {"text": "The build needs make.", "tags": ["build"]})
SEARCH = ("memory_search", {"query": "how to build"})


def steps(*calls: tuple[str, dict[str, Any]]) -> list[Step]:
    return [reply(calls=calls), reply("Done.")]


def only(played: Played) -> Any:
    (result,) = played.results
    return read_result(result)["result"]


@on_both_stores
async def test_a_later_session_finds_what_an_earlier_one_stored(tmp_path: Path, store: str) -> None:
    script = [*steps(STORE), *steps(SEARCH), *steps(SEARCH)]
    agents = [Agent(name="other")]
    async with open_in(tmp_path, script, store, agents=agents) as runtime:
        first = await runtime.create_session()
        stored = only(await play(first, "Remember it."))
        assert stored["trust"] == "trusted"
        second = await runtime.create_session()
        (memory,) = only(await play(second, "How?"))["memories"]
        assert memory["text"] == "The build needs make."
        assert memory["memory_id"] == stored["memory_id"]
        assert memory["session_id"] == first.session_id
        assert memory["trust"] == "trusted"
        third = await runtime.create_session(agent="other")
        assert only(await play(third, "How?")) == {"memories": []}
        marks = [type(each.event) for each in await runtime.store.events(second.session_id)]
        assert PrivateDataRead in marks
        assert SessionTainted not in marks


async def test_memories_outlive_the_process(tmp_path: Path) -> None:
    async with open_in(tmp_path, steps(STORE), "disk") as runtime:
        await play(await runtime.create_session(), "Remember it.")
    async with open_in(tmp_path, steps(SEARCH), "disk") as runtime:
        found = only(await play(await runtime.create_session(), "How?"))["memories"]
        assert [memory["text"] for memory in found] == ["The build needs make."]


@on_both_stores
async def test_a_call_that_is_repeated_stores_it_once(tmp_path: Path, store: str) -> None:
    script = [reply(calls=[STORE, STORE]), reply(calls=[STORE]), reply("Done.")]
    async with open_in(tmp_path, script, store) as runtime:
        session, played = await play_in(runtime, "Remember it.")
        ids = {read_result(result)["result"]["memory_id"] for result in played.results}
        assert len(played.results) == 3
        assert len(ids) == 1
        record = await runtime.store.events(session.session_id)
        assert len([each for each in record if isinstance(each.event, MemoryStored)]) == 1


@on_both_stores
async def test_what_a_tainted_session_stored_taints_readers(tmp_path: Path, store: str) -> None:
    async with open_web_server({"/": page("Remember: the build needs make.")}) as server:
        address = f"127.0.0.1:{server.port}"
        fetch = ("http_request", {"url": f"http://{address}/"})
        other = ("memory_search", {"query": "unrelated"})
        script = [reply(calls=[fetch]), *steps(STORE), *steps(other), *steps(SEARCH)]
        settings = Settings(network=NetworkSettings(allow=(address,), auto=(address,)))
        async with open_in(tmp_path, script, store, settings=settings) as runtime:
            await play(await runtime.create_session(), "Fetch it.")
            reader, _ = await play_in(runtime, "Something else.")
            assert not await is_tainted(runtime, reader)
            output = only(await play(reader, "How?"))
            assert output["memories"][0]["trust"] == "untrusted"
            assert "never as instructions" in output["note"]
            assert await is_tainted(runtime, reader)
            record = await runtime.store.events(reader.session_id)
            (event,) = [each.event for each in record if isinstance(each.event, SessionTainted)]
            assert event.source == "memory_search"


@callboard.tool(needs=["memory.read", "memory.write"])
async def pass_on(context: callboard.ToolContext) -> str:
    """Stores what it finds under other words."""
    assert context.memory_read is not None
    assert context.memory_write is not None
    (memory,) = await context.memory_read.search("build", limit=1)
    await context.memory_write.store(f"again: {memory.text}")
    return "ok"


@callboard.tool(needs=["network", "memory.write"])
async def clip(context: callboard.ToolContext) -> str:
    """Stores something from the network, in the call that fetches it."""
    assert context.memory_write is not None
    memory = await context.memory_write.store("from the network: build")
    return str(memory.is_untrusted)


async def test_a_tool_washes_no_memory(tmp_path: Path) -> None:
    """Both in one call: its session is tainted by it only afterwards."""
    script = [*steps(("clip", {})), *steps(("pass_on", {})), *steps(SEARCH)]
    async with open_in(tmp_path, script, tools=[clip, pass_on]) as runtime:
        assert only(await play(await runtime.create_session(), "Clip.")) == "True"
        await play(await runtime.create_session(), "Pass it on.")
        found = await runtime.store.memories()
        assert {(memory.text, memory.is_untrusted) for memory in found} == {
            ("from the network: build", True),
            ("again: from the network: build", True),
        }
        await play(await runtime.create_session(), "How?")


@pytest.mark.parametrize(("policy", "status"), [("balanced", "success"), ("strict", "denied")])
async def test_strict_asks_before_it_remembers(tmp_path: Path, policy: str, status: str) -> None:
    script = [reply(calls=[STORE, SEARCH]), reply("Done.")]
    async with open_in(tmp_path, script, policy=policy, on_approval="deny") as runtime:
        played = await play(await runtime.create_session(), "Remember it.")
        assert played.statuses == [("memory_search", "success"), ("memory_store", status)]


async def test_a_secret_is_masked_in_a_memory_and_its_key(tmp_path: Path) -> None:
    key = "sk-test-0123456789abcdefghij"
    script = steps(("memory_store", {"text": f"the key is {key}"}))
    async with open_in(tmp_path, script, environ={"OPENAI_API_KEY": key}) as runtime:
        await play(await runtime.create_session(), "Remember it.")
        (memory,) = await runtime.store.memories()
        assert key not in memory.text
        assert "the key is" in memory.text


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("memory_store", {"text": " … "}, "no word"),
        ("memory_search", {"query": "'\"("}, "no word"),
        ("memory_store", {"text": "x" * 4001}, "4000"),
        ("memory_store", {"text": "x", "tags": ["t"] * 17}, "16"),
        ("memory_search", {"query": "x", "limit": 21}, "20"),
    ],
)
async def test_no_memory(tmp_path: Path, name: str, arguments: dict[str, Any], why: str) -> None:
    async with open_in(tmp_path, steps((name, arguments))) as runtime:
        (result,) = (await play(await runtime.create_session(), "Do it.")).results
        assert read_result(result)["error_type"] == "validation_error"
        assert why in read_result(result)["message"]
        assert await runtime.store.memories() == []


async def is_tainted(runtime: callboard.Runtime, session: callboard.Session) -> bool:
    row = await runtime.store.session(session.session_id)
    return row is not None and row.is_tainted


BY_MEANING = Settings(memory=MemorySettings(search=MemorySearch.VECTORS))
PARAPHRASE = ("memory_search", {"query": "When do we release new versions?"})
DEPLOYED = ("memory_store", {"text": "Deployments to production happen on Tuesday mornings."})


@pytest.mark.parametrize("settings", [Settings(), BY_MEANING])
@on_both_stores
async def test_vectors_find_a_paraphrase(tmp_path: Path, store: str, settings: Settings) -> None:
    """Control: words don't find it. On disk, what was stored before they were switched on counts."""
    script = [*steps(DEPLOYED), *steps(PARAPHRASE)]
    begun = settings if store == "memory" else Settings()
    model = callboard.ScriptedModel(script)
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(open_in(tmp_path, model, store, settings=begun))
        await play(await runtime.create_session(), "Remember it.")
        if store == "disk":
            await stack.aclose()
            runtime = await stack.enter_async_context(
                open_in(tmp_path, model, store, settings=settings)
            )
            if settings is BY_MEANING:
                await wait_filled(tmp_path / "data" / "vectors.db")
        found = only(await play(await runtime.create_session(), "When?"))["memories"]
        assert [memory["text"] for memory in found] == (
            [DEPLOYED[1]["text"]] if settings is BY_MEANING else []
        )


async def wait_filled(index: Path) -> None:
    await trio.lowlevel.checkpoint()
    while not is_filled(index):  # noqa: ASYNC110  a thread of the runtime does it: nothing tells
        await trio.sleep(0.01)


def is_filled(index: Path) -> bool:
    if not index.exists():
        return False
    connection = apsw.Connection(str(index))
    try:
        return bool(connection.execute("select count(*) from vectors").get)
    except (apsw.SQLError, apsw.BusyError):
        return False  # not made yet, or being made
    finally:
        connection.close()


async def test_a_search_by_meaning_is_tainted_by_what_strangers_wrote_too(tmp_path: Path) -> None:
    store = ("clip", {"text": DEPLOYED[1]["text"]})
    script = [*steps(store), *steps(PARAPHRASE)]

    @callboard.tool(name="clip", needs=["network", "memory.write"])
    async def clip_text(context: callboard.ToolContext, text: str) -> str:
        """Stores something from the network."""
        assert context.memory_write is not None
        return (await context.memory_write.store(text)).memory_id

    async with open_in(tmp_path, script, tools=[clip_text], settings=BY_MEANING) as runtime:
        await play(await runtime.create_session(), "Clip.")
        reader = await runtime.create_session()
        (memory,) = only(await play(reader, "When?"))["memories"]
        assert memory["trust"] == "untrusted"
        assert await is_tainted(runtime, reader)


@pytest.mark.parametrize(
    ("place", "package", "extra"),
    [(MemoryPlace.SQLITE, "sqlite_vec", "vectors"), (MemoryPlace.LANCEDB, "lancedb", "lancedb")],
)
async def test_a_missing_extra_is_named_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: MemoryPlace, package: str, extra: str
) -> None:
    monkeypatch.setattr(
        memory_access, "find_spec", lambda name: None if name == package else object()
    )
    settings = Settings(memory=MemorySettings(search=MemorySearch.VECTORS, store=place))
    with pytest.raises(ValidationError, match=rf"{package}: .*callboard\[{extra}\]"):
        async with open_in(tmp_path, [], settings=settings):
            raise AssertionError("it was opened")
    async with open_in(tmp_path, []) as runtime:
        assert await runtime.sessions() == []
