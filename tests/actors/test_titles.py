"""Titles by models: asked for once, beside the turns, within the budget, never over a person's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.actors.upkeep.titles import MAX_TITLE_CHARS, title_of
from callboard.config.sections import SessionSettings, TitleSource
from callboard.config.settings import Settings
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import ScriptedReply, events_of, reply
from callboard.runtime.definitions import ThinkingEffort
from callboard.runtime.events import AttemptCharged, TitleSet
from callboard.runtime.history import Input
from callboard.runtime.store.rows import SessionRow
from callboard.runtime.stream import Usage

PATIENCE_SECONDS = 20.0
ASKED = Settings(sessions=SessionSettings(titles=TitleSource.MODEL))
QUESTION = "What time is it in Tokyo, and why?"


class Titling:
    """Answers turns from one script, and requests for titles from another, when they may come.

    `None` in the place of an answer is a crash.

    Attributes:
        asked: The requests for titles.
        may: Set when titles may be answered.
    """

    def __init__(
        self, answers: Sequence[ScriptedReply], titles: Sequence[ScriptedReply | None] = ()
    ) -> None:
        self.asked: list[ModelRequest] = []
        self.was_asked = trio.Event()
        self.may = trio.Event()
        self._answers: Iterator[ScriptedReply | None] = iter(answers)
        self._titles = iter(titles)

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """See `LocalModel`."""
        is_title = "You name conversations" in request.system
        if is_title:
            self.asked.append(request)
            self.was_asked.set()
            await self.may.wait()
        step = next(self._titles if is_title else self._answers)
        if step is None:
            raise RuntimeError("it broke")
        for event in events_of(step):
            await emit([event])


@asynccontextmanager
async def opened(model: Any, settings: Settings = ASKED) -> AsyncGenerator[callboard.Runtime]:
    with trio.fail_after(PATIENCE_SECONDS):
        async with callboard.open_runtime(model=model, settings=settings, environ={}) as runtime:
            yield runtime


async def row_of(runtime: callboard.Runtime, session: callboard.Session) -> SessionRow:
    row = await runtime.store.session(session.session_id)
    assert row is not None
    return row


async def wait_title(runtime: callboard.Runtime, session: callboard.Session, title: str) -> None:
    while (await row_of(runtime, session)).title != title:  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
        await trio.sleep(0.003)


async def settled() -> None:
    """What could still happen by itself has happened: nothing waits but for the test."""
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.02)


async def test_the_first_answer_gives_a_session_its_title() -> None:
    model = Titling(
        [reply("It is noon."), reply("Because.")],
        [reply("“The time in Tokyo.”\nI hope it helps.", usage=Usage(40, 8))],
    )
    async with opened(model) as runtime:
        session = await runtime.create_session()
        assert await session.run(QUESTION) == "It is noon."  # nobody waits for the title
        await model.was_asked.wait()
        assert (await row_of(runtime, session)).title == QUESTION
        model.may.set()
        await wait_title(runtime, session, "The time in Tokyo")
        await session.run("Why?")
        await settled()
        [request] = model.asked
        events = [each.event for each in await runtime.store.events(session.session_id)]
        (charged,) = [each for each in events if isinstance(each, AttemptCharged)]
        assert charged.usage == Usage(40, 8)
        assert [each.is_by_model for each in events if isinstance(each, TitleSet)] == [True]
        (total,) = (await runtime.usage()).sums
        assert total.calls == 3
    said = request.rounds[0].items[0]
    assert isinstance(said, Input)
    assert QUESTION in said.text
    assert "It is noon." in said.text
    assert (request.tools, request.thinking) == ((), ThinkingEffort.OFF)
    assert request.max_output_tokens is not None


async def test_a_title_that_a_person_gave_is_never_replaced() -> None:
    model = Titling([reply("It is noon."), reply("Noon.")], [reply("The time in Tokyo")])
    async with opened(model) as runtime:
        named = await runtime.create_session(title="Mine")
        await named.run(QUESTION)
        await settled()
        assert model.asked == []
        session = await runtime.create_session()
        await session.run(QUESTION)
        await model.was_asked.wait()
        await session.rename("My clock")
        model.may.set()
        await settled()
        assert (await row_of(runtime, session)).title == "My clock"


@pytest.mark.parametrize("titles", [None, TitleSource.WORDS])
async def test_a_program_makes_no_model_call_that_it_did_not_ask_for(
    titles: TitleSource | None,
) -> None:
    model = Titling([reply("It is noon.")])
    async with opened(model, Settings(sessions=SessionSettings(titles=titles))) as runtime:
        session = await runtime.create_session()
        await session.run(QUESTION)
        await settled()
        assert (await row_of(runtime, session)).title == QUESTION
    assert model.asked == []


async def test_the_end_waits_for_no_title_and_what_it_took_is_on_record(tmp_path: Path) -> None:
    model = Titling([reply("It is noon.")])
    work = tmp_path / "work"
    work.mkdir()
    options: dict[str, Any] = {"data": tmp_path / "data", "workspace": work, "environ": {}}
    with trio.fail_after(PATIENCE_SECONDS):
        async with callboard.open_runtime(model=model, settings=ASKED, **options) as runtime:
            session = await runtime.create_session()
            await session.run(QUESTION)
            await model.was_asked.wait()  # and never answered
        async with callboard.open_runtime(model=model, **options) as runtime:
            assert (await row_of(runtime, session)).title == QUESTION
            (total,) = (await runtime.usage()).sums
            assert total.calls == 2
            assert total.output_tokens is not None


@pytest.mark.parametrize(
    ("budget", "has_room"),
    [
        (callboard.Budget(model_calls=1), False),
        (callboard.Budget(model_calls=2), True),
        (callboard.Budget(tokens=30), False),
        (callboard.Budget(tokens=1000), True),
    ],
)
async def test_a_title_is_within_the_budget_of_its_session(
    budget: callboard.Budget, has_room: bool
) -> None:
    model = Titling([reply("It is noon.", usage=Usage(20, 5))], [reply("The time in Tokyo")])
    model.may.set()
    settings = Settings(
        sessions=SessionSettings(titles=TitleSource.MODEL),
        agents={"general": callboard.Agent(prompt="Answer.", tools=())},
    )
    async with opened(model, settings) as runtime:
        session = await runtime.create_session(budget=budget)
        assert await session.run(QUESTION) == "It is noon."
        await settled()
        assert bool(model.asked) is has_room
        title = "The time in Tokyo" if has_room else QUESTION
        assert (await row_of(runtime, session)).title == title


async def test_a_title_that_fails_harms_nobody() -> None:
    model = Titling([reply("It is noon."), reply("It is one.")], [None, reply("A second title")])
    model.may.set()
    async with opened(model) as runtime:
        session, other = await runtime.create_session(), await runtime.create_session()
        await session.run(QUESTION)
        await model.was_asked.wait()
        await settled()
        await other.run("And now?")
        await wait_title(runtime, other, "A second title")
        assert (await row_of(runtime, session)).title == QUESTION


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("The time in Tokyo", "The time in Tokyo"),
        ('\n\n  "The time  in\tTokyo".  \nMore.', "The time in Tokyo"),
        ("**Title: Uhrzeit in Tokio**", "Uhrzeit in Tokio"),
        ("Title: 東京の時刻", "東京の時刻"),
        ("\x1b[31mred\x1b[0m\u202e", "[31mred[0m"),
        ("'\n\"\n", ""),
        ("", ""),
        ("word " * 40, ("word " * 40)[: MAX_TITLE_CHARS - 1].strip()),
        ("x" * 500, "x" * MAX_TITLE_CHARS),
    ],
)
def test_a_title_is_one_line_without_what_stands_around_it(answer: str, title: str) -> None:
    assert title_of(answer) == title
