"""A turn whose answer has to have a form: through each door, in each wire format, over a restart."""

from __future__ import annotations

import asyncio  # ruff: ignore[banned-api] one of the ways in
import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, assert_type

import msgspec
import pydantic
import pytest
import trio

import callboard
from callboard import reply
from callboard.providers.testing.script import ScriptedReply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.events import CallFinished, TurnEnded
from callboard.runtime.history import Input
from callboard.runtime.store.tables.deleted_messages import without_deleted
from callboard.tools.schema.answers import SchemaAnswer, TypedAnswer, schema_in
from callboard.tools.schema.validation import WrongArguments
from support.cli.command import Command, at
from support.flows.format_stage import FORMATS, open_formats
from support.gateway.daemon_scene import open_client, open_daemon
from support.stage import open_in, open_local_stage


class Verdict(msgspec.Struct):
    """What a review says."""

    is_positive: bool
    reasons: list[str]
    stars: int | None = None


GOOD = '{"is_positive":true,"reasons":["fast"]}'
WRONG = '{"is_positive":"yes","reasons":[]}'
SCHEMA = TypedAnswer(Verdict).schema
Steps = Sequence[ScriptedReply]


# ── the same through each door ───────────────────────────────────────────────────────────────────


async def in_trio(steps: Steps, folder: Path) -> str:
    async with open_in(folder, steps) as runtime:
        session = await runtime.create_session()
        verdict = await session.run("Judge.", answer=Verdict)
        assert_type(verdict, Verdict)
        async with session.prompt("Judge.", answer=Verdict) as turn:
            assert_type(turn, callboard.Turn[Verdict])
            assert await turn.answer() == verdict
    return msgspec.json.encode(verdict).decode()


def under_asyncio(steps: Steps, folder: Path) -> str:
    async def judge() -> Verdict:
        model = callboard.ScriptedModel(steps)
        async with callboard.aio.open_runtime(model=model, environ={}) as runtime:
            session = await runtime.create_session()
            async with session.prompt("Judge.", answer=Verdict) as turn:
                verdict = await turn.answer()
            assert_type(verdict, Verdict)
            assert await session.run("Judge.", answer=Verdict) == verdict
            return verdict

    return msgspec.json.encode(asyncio.run(judge())).decode()


def in_threads(steps: Steps, folder: Path) -> str:
    model = callboard.ScriptedModel(steps)
    with callboard.start_in_thread(model=model, environ={}) as runtime:
        session = runtime.create_session()
        verdict = session.run("Judge.", answer=Verdict)
        assert_type(verdict, Verdict)
        with session.prompt("Judge.", answer=Verdict) as turn:
            assert turn.answer() == verdict
    return msgspec.json.encode(verdict).decode()


async def far_away(steps: Steps, folder: Path) -> str:
    async with open_daemon(callboard.ScriptedModel(steps)) as daemon, open_client(daemon) as client:
        row = await client.create_session()
        verdict = await client.ask(row.session_id, "Judge.", answer=Verdict)
        assert_type(verdict, Verdict)
        plain = await client.ask(row.session_id, "Judge.", answer=SCHEMA)
        assert msgspec.convert(plain, Verdict) == verdict
    return msgspec.json.encode(verdict).decode()


async def on_the_command_line(steps: Steps, folder: Path) -> str:
    command = Command(folder)
    (command.workspace / "verdict.json").write_text(json.dumps(SCHEMA))
    async with open_scripted_server(steps) as server:
        tokens = ("run", *at(server), "--answer-schema", "verdict.json", "Judge.")
        done = await command(*tokens)
        if done.code:
            assert done.out == ""
            raise callboard.ProviderError(done.err)
        again = await command("run", *tokens[1:], "--json")
        assert again.lines[-1]["event"]["answer"] == done.out.strip()
    return done.out


def outside(door: Callable[[Steps, Path], str]) -> Door:
    """The door of a program without Trio, in a thread."""

    async def asked(steps: Steps, folder: Path) -> str:
        return await trio.to_thread.run_sync(door, steps, folder)

    return asked


Door = Callable[[Steps, Path], Awaitable[str]]
DOORS = {
    "trio": in_trio,
    "asyncio": outside(under_asyncio),
    "threads": outside(in_threads),
    "client": far_away,
    "command": on_the_command_line,
}
each_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


@each_door
async def test_a_wrong_answer_is_asked_for_again_and_the_right_one_comes_back(
    door: Door, tmp_path: Path
) -> None:
    steps = [
        reply("I think it is good."),
        reply(WRONG),
        reply(f"```json\n{GOOD}\n```"),
        reply(GOOD),
    ]
    assert json.loads(await door(steps, tmp_path)) in (
        json.loads(GOOD),
        {**json.loads(GOOD), "stars": None},
    )


@each_door
async def test_what_can_not_be_an_answer_is_an_error_that_says_why(
    door: Door, tmp_path: Path
) -> None:
    for number, (steps, why) in enumerate(
        (
            ([reply(WRONG)] * 3, "3 times. The last one: `is_positive`: expected"),
            ([reply(refusal="Not that.")], "The model refused to answer: Not that."),
            ([reply('{"is_pos', finish="length")], "cut at the limit of its tokens"),
        )
    ):
        (folder := tmp_path / str(number)).mkdir()
        with pytest.raises(callboard.ProviderError, match=why.replace(".", r"\.")):
            await door(steps, folder)


NOBODY: list[tuple[dict[str, Any], str]] = [
    ({"type": "array"}, "an answer is an object"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "answer.a` is required"),
    ({"type": "object", "required": ["a"], "properties": {"a": {"enum": []}}}, "an empty enum"),
    (
        {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "object", "required": ["b"], "properties": {"b": False}}},
        },
        "answer.a.b` is false",
    ),
    (
        {"type": "object", "required": ["a"], "properties": {"a": {"minimum": 2, "maximum": 1}}},
        "a minimum of 2 and a maximum of 1",
    ),
    (
        {"type": "object", "anyOf": [{"type": "object", "minProperties": 2, "maxProperties": 1}]},
        "no alternative",
    ),
    ({"type": "object", "properties": {"a": {"type": "text"}}}, "is not valid at properties.a"),
]


async def test_a_schema_that_no_answer_fits_is_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    model = callboard.ScriptedModel([])
    command = Command(tmp_path)
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session = await daemon.runtime.create_session()
        for schema, why in NOBODY:
            with pytest.raises(callboard.ValidationError, match=why):
                await session.run("Judge.", answer=schema)
            with pytest.raises(callboard.ValidationError, match=why) as refused:
                await client.ask(session.session_id, "Judge.", answer=schema)
            assert refused.value.field == "answer_schema"
        (command.workspace / "none.json").write_text(json.dumps(NOBODY[1][0]))
        (command.workspace / "text.json").write_text("[]")
        for name, why in (
            ("none", NOBODY[1][1]),
            ("text", "holds no JSON Schema"),
            ("no", "can't be read"),
        ):
            done = await command("run", "--answer-schema", f"{name}.json", "Judge.")
            assert done.code == 1
            assert why in done.err
        # The control: one that can be met.
        assert SchemaAnswer({"type": "object", "required": ["a"]}).read('{"a": 1}')[0] == {"a": 1}
    assert not model.requests


# ── types ────────────────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Town(TypedDict):
    name: str
    people: int


class Person(pydantic.BaseModel):
    name: str
    age: int

    @pydantic.field_validator("age")
    @classmethod
    def _is_grown(cls, age: int) -> int:
        if age < 18:
            raise ValueError("must be 18 or more")
        if age > 1000:
            raise RuntimeError("a fault of the program")
        return age


TYPES: list[tuple[Any, str, Any, str, str]] = [
    (Verdict, GOOD, Verdict(True, ["fast"]), WRONG, "`is_positive`: expected boolean, got string"),
    (Point, '{"x": 1, "z": 2}', Point(1.0), '{"y": 1}', "`x` is required and missing"),
    (Town, '{"name": "Ulm", "people": 126000.0}', {"name": "Ulm", "people": 126000}, "{}", "required"),
    (Person, '{"name": "A", "age": 20}', Person(name="A", age=20), '{"name": "A", "age": 3}', "18 or more"),
    (list[int], '{"answer": [1, 2]}', [1, 2], "[1, 2]", "the answer must be a JSON object"),
    (Literal["yes", "no"], '{"answer": "yes"}', "yes", '{"answer": "maybe"}', "`answer`: "),
    (int | str, '{"answer": "a"}', "a", "", "the answer is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "value", "wrong", "why"), TYPES)
def test_a_type_is_read_from_the_models_text(
    kind: Any, text: str, value: Any, wrong: str, why: str
) -> None:
    form = TypedAnswer[Any](kind)
    assert form.schema["type"] == "object"
    read, canonical = form.read(text)
    assert read == value
    assert form.read(canonical) == (value, canonical)
    with pytest.raises(WrongArguments, match=why.replace("[", r"\[")):
        form.read(wrong)


async def test_the_programs_own_checks_count_and_their_crash_is_no_more_than_a_wrong_answer(
    tmp_path: Path,
) -> None:
    steps = [reply(json.dumps({"name": "A", "age": age})) for age in (3, 1001, 33)]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        session = await runtime.create_session()
        assert (await session.run("Who?", answer=Person)).age == 33
        notes = [
            item.text for item in model.requests[-1].rounds[-1].items if isinstance(item, Input)
        ]
    assert "RuntimeError: a fault of the program" in notes[-1]
    with pytest.raises(callboard.ValidationError, match="a type that JSON can't carry"):
        session.prompt("Who?", answer=object)


# ── on the way ───────────────────────────────────────────────────────────────────────────────────


async def test_tools_come_before_the_answer_and_pieces_of_it_as_they_are_written(
    tmp_path: Path,
) -> None:
    steps = [
        reply("Let me look.", calls=[("list_directory", {"path": "."})]),
        reply([GOOD[:9], GOOD[9:]]),
        reply("Plain."),
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        session = await runtime.create_session()
        async with session.prompt("Judge.", answer=Verdict) as turn:
            events = [event async for event in turn]
        assert turn.ended is not None
        assert turn.ended.answer == GOOD
        pieces = [event.text for event in events if isinstance(event, callboard.TextDelta)]
        assert pieces == ["Let me look.", GOOD[:9], GOOD[9:]]
        assert await session.run("And now in words.") == "Plain."
    assert [request.answer_schema for request in model.requests] == [SCHEMA, SCHEMA, None]


async def test_an_answer_by_the_tool_is_refused_beside_calls_and_taken_alone(
    tmp_path: Path,
) -> None:
    given = ("final_answer", json.loads(GOOD))
    steps = [
        reply(calls=[given, ("list_directory", {"path": "."})]),
        reply(calls=[("final_answer", {"is_positive": 1})]),
        reply(calls=[given, given]),
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        session = await runtime.create_session()
        assert await session.run("Judge.", answer=Verdict) == Verdict(True, ["fast"])
        rows = await runtime.store.events(session.session_id)
    done = [(e.event.name, e.event.status) for e in rows if isinstance(e.event, CallFinished)]
    assert done == [
        ("final_answer", "error"), ("list_directory", "success"), ("final_answer", "error"),
        ("final_answer", "success"), ("final_answer", "error"),
    ]  # fmt: skip


async def test_asking_again_stays_within_the_budget(tmp_path: Path) -> None:
    steps = [reply(WRONG), reply(GOOD)]
    async with open_local_stage(tmp_path, steps[:1]) as (runtime, _):
        session = await runtime.create_session()
        with pytest.raises(callboard.BudgetError):
            await session.run("Judge.", answer=Verdict, budget=callboard.Budget(model_calls=1))
    async with open_local_stage(tmp_path, steps) as (runtime, _):  # the control
        session = await runtime.create_session()
        budget = callboard.Budget(model_calls=2)
        assert (await session.run("Judge.", answer=Verdict, budget=budget)).is_positive


async def test_a_delegated_session_answers_as_it_likes(tmp_path: Path) -> None:
    steps = [
        reply(calls=[("delegate", {"kind": "worker", "task": "Look."})]),
        reply("I looked."),
        reply(GOOD),
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        session = await runtime.create_session()
        assert (await session.run("Judge.", answer=Verdict, temperature=0.5)).is_positive
    assert [request.answer_schema for request in model.requests] == [SCHEMA, None, SCHEMA]
    assert [request.temperature for request in model.requests] == [0.5, 0.5, 0.5]


@callboard.tool(tier="workspace", approval="always")
async def look_closer() -> str:
    """Looks closer."""
    return "It is fine."


async def test_a_turn_that_goes_on_after_a_restart_has_its_form(tmp_path: Path) -> None:
    asks = [reply(calls=[("look_closer", {})])]
    waits: dict[str, Any] = {"store": "disk", "tools": [look_closer], "on_approval": "wait"}
    async with open_in(tmp_path, asks, **waits) as runtime:
        session = await runtime.create_session()
        await session.submit("Judge.", answer=Verdict, temperature=0.5)
        async with session.follow() as events:
            while not await runtime.approvals():
                await events.next_event()
    model = callboard.ScriptedModel([reply(WRONG), reply(GOOD), reply(GOOD)])
    async with open_in(tmp_path, model, **{**waits, "on_approval": "allow"}) as runtime:
        session = await runtime.get_session(session.session_id)
        turn = await session.resume()
        assert turn is not None
        async with turn:
            assert await turn.answer() == GOOD
        async with session.regenerate() as again:
            assert await again.answer() == GOOD
    assert [request.answer_schema for request in model.requests] == [SCHEMA] * 3
    assert [request.temperature for request in model.requests] == [0.5] * 3


# ── by the provider's own means, or by a tool ────────────────────────────────────────────────────

WITHOUT = {"anthropic": "claude-sonnet-4-0", "gemini": "gemini-2.5-pro"}
"""A model of each format that is not bound to a schema, at least not beside tools."""


def bound(dialect: str, body: dict[str, Any]) -> Any:
    """The schema that the provider binds its text to, wherever the format has it."""
    match dialect:
        case "openai_chat":
            return body.get("response_format", {}).get("json_schema", {}).get("schema")
        case "openai_responses":
            return body.get("text", {}).get("format", {}).get("schema")
        case "anthropic":
            return body.get("output_config", {}).get("format", {}).get("schema")
        case _:
            return body.get("generationConfig", {}).get("responseSchema")


@pytest.mark.parametrize("dialect", FORMATS)
async def test_each_format_binds_its_text_or_gets_a_tool(tmp_path: Path, dialect: str) -> None:
    given = ("final_answer", json.loads(GOOD))
    steps = [reply(GOOD), reply(WRONG), reply(calls=[given])]
    if other := WITHOUT.get(dialect):
        steps.append(reply(calls=[given]))
    async with open_formats(tmp_path, {dialect: steps}, thinking=None) as stage:
        session = await stage.session()
        for _ in range(2):  # the second one is wrong at first, and comes by the tool
            assert await session.run("Judge.", answer=Verdict) == Verdict(True, ["fast"])
        if other:
            session = await stage.runtime.create_session(model=f"{dialect}/{other}")
            tools = ["read_file"]
            assert (await session.run("Judge.", answer=Verdict, tools=tools)).is_positive
        bodies = [request.body for request in stage.servers[dialect].requests]
    assert "is_positive" in bound(dialect, bodies[0])["properties"]
    assert ["final_answer" in json.dumps(body) for body in bodies[:3]] == [False, False, True]
    for body in bodies[2:]:
        assert bound(dialect, body) is None
        assert "final_answer" in json.dumps(body)


async def test_the_outcome_and_its_rejections_are_on_record(tmp_path: Path) -> None:
    async with open_local_stage(tmp_path, [reply(WRONG), reply(GOOD)]) as (runtime, _):
        session = await runtime.create_session()
        await session.run("Judge.", answer=Verdict)
        rows = [each.event for each in await runtime.store.events(session.session_id)]
        said = [row.content for row in await runtime.store.messages(session.session_id)]
    [rejected] = [event for event in rows if isinstance(event, callboard.AnswerRejected)]
    [ended] = [event for event in rows if isinstance(event, TurnEnded)]
    assert rejected.problem == "`is_positive`: expected boolean, got string"
    assert ended.answer == GOOD
    assert said == ["Judge.", WRONG, f"The answer was not taken: {rejected.problem}", GOOD]
    with pytest.raises(callboard.ValidationError, match="the text is no JSON object"):
        schema_in("[]")


async def test_an_answer_that_is_deleted_is_nowhere(tmp_path: Path) -> None:
    steps = [reply(GOOD), reply(calls=[("final_answer", json.loads(GOOD))])]
    async with open_local_stage(tmp_path, steps) as (runtime, _):
        session = await runtime.create_session()
        for _ in steps:
            await session.run("Judge.", answer=Verdict)
        events = await runtime.store.events(session.session_id)
        ended = [each.event for each in events if isinstance(each.event, TurnEnded)]
        await session.delete_messages([each.message_id for each in ended])
        left = without_deleted(await runtime.store.events(session.session_id))
    assert [each.answer for each in ended] == [GOOD, GOOD]
    assert "fast" in str(events)
    assert "fast" not in str(left)
