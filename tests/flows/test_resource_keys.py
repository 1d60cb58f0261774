"""Resource keys: who waits for whom, and who never does; see docs/parallel-calls.md."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Resource
from callboard.runtime.events import CallProposed, TurnStarted
from callboard.runtime.history import Call
from callboard.tools.builtin import builtin_tools
from callboard.tools.tool import Arguments, FunctionTool
from support.flows.batch import Asked, Bench
from support.scene import Scene, open_scene, run_calls
from support.stage import (
    make_workspace,
    messages_of,
    open_local_stage,
    play,
    read_result,
    tool_contents,
)


@pytest.mark.parametrize(
    ("name", "arguments", "keys"),
    [
        ("read_file", {"path": "a/b"}, [("a/b", False)]),
        ("list_directory", {"path": "a"}, [("a", False)]),
        ("list_directory", {"path": "."}, [("", False)]),
        ("search_files", {"pattern": "x", "path": "a"}, [("a", False)]),
        ("write_file", {"path": "./a//b", "content": ""}, [("a/b", True)]),
        ("write_file", {"path": "a", "content": "", "mode": "append"}, [("a", True)]),
        ("edit_file", {"path": "a", "edits": [{"old_text": "x", "new_text": ""}]}, [("a", True)]),
        ("delete_file", {"path": "a/b"}, [("a/b", True)]),
        ("delete_file", {"path": "a", "recursive": True}, [("a", True)]),
        ("delete_file", {"path": "/somewhere/a"}, [("", True)]),
        ("move_file", {"from": "a/b", "to": "c/d"}, [("a/b", True), ("c/d", True)]),
        ("get_current_time", {}, []),
    ],
)
def test_keys_of_built_in_tools(
    name: str, arguments: dict[str, Any], keys: Sequence[tuple[str, bool]]
) -> None:
    [tool] = [tool.load() for tool in builtin_tools() if tool.name == name]
    taken = tool.resources(tool.decode(json.dumps(arguments)))
    assert [(key.path, key.write) for key in taken] == keys


@pytest.mark.parametrize(
    ("paths", "seconds"), [(["a", "a"], 2), (["a", "a/b"], 2), (["a", "b"], 1), (["", "b"], 2)]
)
async def test_own_keys_may_be_plain_texts(
    paths: list[str], seconds: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    @callboard.tool(tier="workspace", resources=lambda arguments: [arguments.path])
    async def hold(path: str) -> None:
        """Works with its key."""
        await trio.sleep(1)

    steps = [reply(calls=[("hold", {"path": path}) for path in paths]), reply("Well.")]
    async with open_local_stage(tmp_path, steps, tools=[hold]) as (runtime, _):
        session = await runtime.create_session()
        began = trio.current_time()
        played = await play(session, "Go.")
        assert trio.current_time() - began == seconds
    assert played.statuses == [("hold", "success")] * 2


class Careless(FunctionTool):
    """A tool whose own code names what is no key."""

    def resources(self, arguments: Arguments) -> Any:
        """See `Tool`."""
        return ["a", 5]


async def do() -> str:
    """Does it."""
    return "done"


def naming(keys: Any, name: str = "bad") -> FunctionTool:
    return FunctionTool(do, name=name, tier="workspace", resources=lambda _: keys)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (naming("a"), "resources gave 'a', and not a list of keys"),
        (naming(5), "resources gave 5, and not a list of keys"),
        (naming(None), "resources gave None, and not a list of keys"),
        (naming(["a", 5]), "resources gave the key 5, which is neither"),
        (naming(["../a"]), "'../a' can't be a key of parallel calls"),
        (Careless(do, name="bad", tier="workspace"), "resources gave the key 5"),
    ],
)
async def test_what_is_no_key_fails_its_call_alone(
    bad: FunctionTool, message: str, tmp_path: Path
) -> None:
    """Neither the siblings, nor other sessions, nor the next answer see anything of it."""
    good = naming(["a"], "good")
    calls: list[Asked] = [("bad", {}), ("good", {}), ("bad", {}), ("good", {})]
    steps = [reply(calls=calls), reply("Well."), reply(calls=calls), reply("Well.")]
    async with open_local_stage(tmp_path, steps, tools=[bad, good]) as (runtime, _):
        session = await runtime.create_session()
        for _ in range(2):
            played = await play(session, "Go.")
            assert sorted(played.statuses) == [("bad", "error")] * 2 + [("good", "success")] * 2
            refused = [read_result(r) for r in played.results if r.name == "bad"]
            assert {result["error_type"] for result in refused} == {"execution_error"}
            for result in refused:
                assert result["message"].startswith("bad failed before it ran: ValidationError: ")
                assert message in result["message"]


async def test_a_recursive_delete_is_alone_below_its_root(tmp_path: Path) -> None:
    """On a real folder: what stands before it in the answer is gone, what stands behind stays."""
    folder = make_workspace(tmp_path) / "d"
    (folder / "deep").mkdir(parents=True)
    (folder / "old.txt").write_text("old")
    calls: list[Asked] = [
        ("write_file", {"path": "d/deep/before.txt", "content": "x"}),
        ("delete_file", {"path": "d", "recursive": True}),
        ("write_file", {"path": "d/behind.txt", "content": "x"}),
        ("read_file", {"path": "d/behind.txt"}),
    ]
    steps = [reply(calls=calls), reply("Well.")]
    async with open_local_stage(tmp_path, steps, policy="auto") as (runtime, model):
        await play(await runtime.create_session(), "Go.")
    contents = tool_contents(messages_of(model.requests[1]))
    assert [content["status"] for content in contents] == ["success"] * 4
    assert "d/deep/before.txt" in contents[1]["result"]["deleted"]
    assert [path.name for path in folder.iterdir()] == ["behind.txt"]


class Wish(msgspec.Struct, frozen=True):
    """A call of the property below: the keys that it wants, and how long it works."""

    keys: tuple[Resource, ...]
    seconds: int

    def meets(self, other: Wish) -> bool:
        return any(
            (one.write or two.write) and is_under(one.path, two.path)
            for one in self.keys
            for two in other.keys
        )


def is_under(one: str, other: str) -> bool:
    """Whether one path leads to the other, said in another way than the runtime does."""
    names = [path.split("/") if path else [] for path in (one, other)]
    return all(a == b for a, b in zip(*names, strict=False))


keys = st.builds(Resource, st.sampled_from(["", "a", "b", "a/b", "a/c", "a/b/c"]), st.booleans())
wishes = st.builds(Wish, st.lists(keys, max_size=3).map(tuple), st.integers(0, 2))
batches = st.lists(st.lists(wishes, min_size=1, max_size=6), min_size=1, max_size=3)


async def begin_turn(scene: Scene, session_id: str) -> str:
    await scene.create(session_id)
    started = TurnStarted(turn_id="t", input_ids=(), provider="p", model="m")
    await scene.append(session_id, started)
    return session_id


async def play_wishes(asked: list[list[Wish]], slots: int) -> list[tuple[str, str]]:
    """Hands one batch after the other to one dispatcher; what began and ended, in order."""
    story: list[tuple[str, str]] = []
    wanted = {
        f"{batch}.{place}": wish
        for batch, wishes in enumerate(asked)
        for place, wish in enumerate(wishes)
    }

    @callboard.tool(tier="workspace", resources=lambda arguments: wanted[arguments.label].keys)
    async def hold(label: str) -> None:
        """Works with its keys."""
        story.append(("began", label))
        await trio.sleep(wanted[label].seconds)
        story.append(("ended", label))

    limits = Limits(max_calls_per_session=slots, max_calls_per_runtime=slots + 1)
    scene = Scene(tools=[hold], limits=limits)

    async def ask(number: int, count: int) -> None:
        await trio.sleep(number / 2)  # the batches before are at work
        session_id = await begin_turn(scene, f"s{number}")
        labels = [f"{number}.{place}" for place in range(count)]
        calls = [Call(f"call{label}", "hold", json.dumps({"label": label})) for label in labels]
        await run_calls(scene, calls, session_id=session_id)

    async with open_scene(scene, "journal", "broker", "dispatcher"):
        async with trio.open_nursery() as nursery:
            for number, wishes in enumerate(asked):
                nursery.start_soon(ask, number, len(wishes))
        assert scene.running_dispatcher is not None
        assert scene.running_dispatcher.slots.held == 0
    return story


@given(asked=batches, slots=st.integers(1, 3))
def test_any_batches_with_any_keys(asked: list[list[Wish]], slots: int) -> None:
    """All end; those whose keys meet never overlap, and go in the order in which they came."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    story = trio.run(play_wishes, asked, slots, clock=clock)
    began = {label: at for at, (what, label) in enumerate(story) if what == "began"}
    ended = {label: at for at, (what, label) in enumerate(story) if what == "ended"}
    came = [
        (f"{batch}.{place}", wish)
        for batch, wishes in enumerate(asked)
        for place, wish in enumerate(wishes)
    ]
    assert set(began) == set(ended) == {label for label, _ in came}
    for at, (first, one) in enumerate(came):
        for second, other in came[at + 1 :]:
            assert not one.meets(other) or ended[first] < began[second]


@pytest.mark.parametrize(("same", "seconds"), [(True, 2), (False, 1)])
async def test_keys_of_different_workspaces_do_not_meet(
    same: bool, seconds: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    bench = Bench()
    answers = [reply(calls=[("keyed", {"seconds": 1})])] * 2
    steps = [*answers, reply("Well."), reply("Well.")]
    async with open_local_stage(tmp_path, steps, tools=bench.tools) as (runtime, _):
        bench.runtime = runtime
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        sessions = [
            await runtime.create_session(),
            await runtime.create_session(workspace=None if same else elsewhere),
        ]
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(play, session, "Go.")
        assert trio.current_time() - began == seconds


async def test_who_waits_for_a_key_holds_no_slot(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Two slots: one works with the key, nine wait for it, and the rest share the other slot."""
    bench = Bench()
    calls = [*[("keyed", {"seconds": 10})] * 10, *[("work", {"seconds": 1})] * 5]
    settings = Settings(limits=Limits(max_calls_per_session=2))
    steps = [reply(calls=calls), reply("Well.")]
    async with open_local_stage(tmp_path, steps, tools=bench.tools, settings=settings) as opened:
        bench.runtime = opened[0]
        bench.zero = trio.current_time()
        played = await play(await bench.runtime.create_session(), "Go.")
    assert [result.name for result in played.results] == ["work"] * 5 + ["keyed"] * 10
    asked = [event.call_id for event in played.events if isinstance(event, CallProposed)]
    # One after the other in the slot that is left, while the key is held; then by the answer.
    assert [bench.began[call_id] for call_id in sorted(asked[10:], key=bench.worked.index)] == [
        *range(5)
    ]
    assert bench.worked[5:] == asked[:10]


async def test_keys_are_forgotten_with_their_batch() -> None:
    """A runtime that sees many workspaces keeps nothing of those that it has left."""
    found: list[int] = []

    @callboard.tool(tier="workspace", resources=lambda _: [Resource("key")])
    async def look() -> None:
        """Looks how many workspaces have keys."""
        assert scene.running_dispatcher is not None
        found.append(len(scene.running_dispatcher.locks))

    scene = Scene(tools=[look])
    async with open_scene(scene, "journal", "broker", "dispatcher"):
        await begin_turn(scene, "s1")
        await run_calls(scene, [Call(f"c{number}", "look", "{}") for number in range(2)])
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert scene.running_dispatcher is not None
        assert not scene.running_dispatcher.locks
    assert found == [1, 1]
