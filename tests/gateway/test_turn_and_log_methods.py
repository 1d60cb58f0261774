"""`turn/get` and `log/tail`: what a turn was made of, and the end of the log, asked for by clients."""

from __future__ import annotations

import logging

import msgspec
import pytest
import trio
import trio.testing

import callboard
from callboard.config.sections import Strength
from callboard.embedding.runtime import host_of
from callboard.gateway.feeds.frames import wire_json
from callboard.gateway.shared import log_end
from callboard.gateway.shared.log_end import MAX_RECORD_CHARS, MAX_RECORDS, LogEnd
from callboard.gateway.shared.pages import PAGE_BYTES
from callboard.gateway.shared.turn_record import MAX_BEGINNING_CHARS, STEP_EVENTS
from callboard.providers.testing.script import Step, reply
from callboard.runtime.definitions import CallStatus
from callboard.runtime.errors import AuthError, NotFoundError
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    PrivateDataRead,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import text_of
from callboard.runtime.redaction import Secret, redactor
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import Append
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.turns import TurnRecord
from support.gateway.daemon_scene import open_client, open_daemon
from support.waits import until

PATIENCE_SECONDS = 20.0
LOOK: tuple[str, dict[str, object]] = ("list_directory", {"path": "."})
DELETE = ("delete_file", {"path": "gone.txt"})


def types_of(record: TurnRecord) -> list[str]:
    return [type(each.event).__name__ for each in record.events]


async def test_a_turn_is_its_own_events_with_their_times() -> None:
    model = callboard.ScriptedModel([reply("One."), reply(calls=[LOOK, LOOK]), reply("Two.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        await client.ask(session_id, "First")
        first = await client.turn(session_id)
        await client.ask(session_id, "Second")
        second = await client.turn(session_id)
        again = await client.turn(session_id, first.turn_id)
        assert msgspec.structs.replace(again, now_ms=first.now_ms) == first
        assert types_of(first) == ["InputAccepted", "TurnStarted", "MessageCompleted", "TurnEnded"]
        assert [type(each.event) for each in second.events].count(CallProposed) == 2
        assert [type(each.event) for each in second.events].count(CallFinished) == 2
        accepted = second.events[0].event
        assert isinstance(accepted, InputAccepted)
        assert accepted.text == "Second"
        for record in first, second:
            assert record.is_over
            assert not record.has_more
            assert record.running == ()
            assert record.now_ms >= record.events[-1].at_ms >= record.events[0].at_ms > 0
        stored = await daemon.runtime.store.events(session_id)
        assert [*first.events, *second.events] == [
            each for each in stored if not isinstance(each.event, SessionCreated | PrivateDataRead)
        ]


async def test_a_running_turn_says_which_of_its_calls_run_and_which_wait() -> None:
    started = trio.Event()

    @callboard.tool
    async def sleep_on() -> str:
        """Sleeps until it is cancelled."""
        started.set()
        await trio.sleep_forever()
        return ""

    model = callboard.ScriptedModel([reply(calls=[("sleep_on", {}), DELETE]), reply("Done.")])
    async with (
        open_daemon(model, tools=[sleep_on]) as daemon,
        open_client(daemon) as client,
    ):
        session_id = (await client.create_session()).session_id
        async with client.topic("approvals") as topic:
            await client.prompt(session_id, "Go.")
            while not (waiting := await client.approvals()):
                await anext(topic)
        await client.answer(waiting[0].approval_id, "deny")
        await started.wait()
        record = await client.turn(session_id)
        assert not record.is_over
        events = [each.event for each in record.events]
        names = {each.call_id: each.name for each in events if isinstance(each, CallProposed)}
        assert [names[each.call_id] for each in record.running] == ["sleep_on"]
        assert any(isinstance(each, ApprovalAsked) for each in events)
        assert any(isinstance(each, ApprovalAnswered) for each in events)
        await client.cancel(session_id)
        ended = await client.turn(session_id)
        assert ended.is_over
        assert ended.running == ()


async def test_an_old_turn_is_found_in_a_long_session_and_one_that_is_not_there_is_said() -> None:
    rounds: list[Step] = [
        reply(calls=[("read_file", {"path": f"{at}.txt"})]) for at in range(STEP_EVENTS // 2)
    ]
    model = callboard.ScriptedModel([reply("One."), *rounds, reply("Two."), reply("Three.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        assert (await client.turn(session_id)).turn_id == ""
        for text in ("First", "Second", "Third"):
            await client.ask(session_id, text)
        stored = await daemon.runtime.store.events(session_id)
        assert len(stored) > 2 * STEP_EVENTS
        turns = [each.event.turn_id for each in stored if isinstance(each.event, TurnStarted)]
        found = [await client.turn(session_id, turn_id) for turn_id in turns]
        assert [each.turn_id for each in found] == turns
        # The others are the session's own: its beginning, and that it read private data.
        others = {each.seq for each in stored} - {each.seq for one in found for each in one.events}
        assert [type(stored[seq - 1].event) for seq in sorted(others)] == [
            SessionCreated,
            PrivateDataRead,
        ]
        assert all(isinstance(each.events[-1].event, TurnEnded) for each in found)
        behind = await client.turn(session_id, turns[1], after_seq=found[1].events[9].seq)
        assert behind.events == found[1].events[10:]
        nothing = await client.turn(session_id, turns[0], after_seq=found[0].events[-1].seq)
        assert (nothing.events, nothing.is_over) == ([], True)
        with pytest.raises(NotFoundError):
            await client.turn(session_id, "turn_none")


async def test_without_texts_their_beginning_is_left_and_a_large_turn_comes_in_pages() -> None:
    text = "word " * 60_000
    model = callboard.ScriptedModel(
        [reply(text, calls=[("read_file", {"path": "x" * 900})]) for _ in range(5)] + [reply(text)]
    )
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        await client.ask(session_id, text)
        pages = [await client.turn(session_id)]
        while pages[-1].has_more:
            after = pages[-1].events[-1].seq
            pages.append(await client.turn(session_id, pages[0].turn_id, after_seq=after))
        assert len(pages) > 1
        whole = [each for one in pages for each in one.events]
        assert pages[-1].is_over
        short = await client.turn(session_id, texts=False)
        assert not short.has_more
        assert [(each.seq, each.at_ms) for each in short.events] == [
            (each.seq, each.at_ms) for each in whole
        ]
        for each in short.events:
            match each.event:
                case InputAccepted(text=said):
                    assert said == text[:MAX_BEGINNING_CHARS]
                case MessageCompleted(parts=parts):
                    assert text_of(parts) == text[:MAX_BEGINNING_CHARS]
                case CallProposed(arguments=arguments):
                    assert len(arguments) == MAX_BEGINNING_CHARS
                case CallFinished(result=result, full_output=None):
                    assert len(result) <= MAX_BEGINNING_CHARS


async def test_what_a_turn_costs_to_read_grows_with_its_length_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[int] = []
    read = Queries._rows

    def counted(queries: Queries, sql: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        found = read(queries, sql, values)
        rows.append(len(found))
        return found

    async def cost(calls: int) -> float:
        """Rows that all pages of a turn read, for each of its events."""
        async with (
            open_daemon(callboard.ScriptedModel([])) as daemon,
            open_client(daemon) as client,
        ):
            session_id = (await client.create_session()).session_id
            store = host_of(daemon.runtime).plan.store
            whole: list[DurableEvent] = [
                InputAccepted(input_id="i", text="Go."),
                TurnStarted(turn_id="t", input_ids=("i",), provider="p", model="m"),
            ]
            for at in range(calls):
                whole += _one_call(f"c{at}")
            await store.commit([Append(session_id, tuple(whole))])
            monkeypatch.setattr(Queries, "_rows", counted)
            rows.clear()
            seen, page = 0, await client.turn(session_id, "t")
            while page.has_more:
                seen += len(page.events)
                page = await client.turn(session_id, "t", after_seq=page.events[-1].seq)
            seen += len(page.events)
            total = sum(rows)
            # Whoever follows a long turn asks again and again for what is new.
            rows.clear()
            await client.turn(session_id, "t", after_seq=page.events[-1].seq)
            monkeypatch.setattr(Queries, "_rows", read)
            assert sum(rows) < 10
            assert seen == len(whole)
            return total / seen

    short, long = await cost(200), await cost(4000)
    assert max(short, long) < 1.02


def _one_call(call_id: str) -> list[DurableEvent]:
    return [
        CallProposed(
            turn_id="t", message_id="m", call_id=call_id, index=0, name="read_file", arguments="{}"
        ),
        CallStarted(turn_id="t", call_id=call_id),
        CallFinished(
            turn_id="t",
            call_id=call_id,
            name="read_file",
            status=CallStatus.SUCCESS,
            result="x" * 200,
        ),
    ]


async def test_delegated_sessions_of_a_turn_are_named_to_those_who_may_see_them() -> None:
    task = {"kind": "worker", "task": "Look."}
    model = callboard.ScriptedModel(
        [reply(calls=[("delegate", task)]), reply("Looked."), reply("All done.")]
    )
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        await client.ask(session_id, "Have somebody look.")
        record = await client.turn(session_id)
        [child] = record.delegated
        [call] = [each.event for each in record.events if isinstance(each.event, CallProposed)]
        assert (child.agent, child.call_id, child.is_active) == ("general", call.call_id, False)
        below = await client.turn(child.session_id)
        assert below.is_over
        token = daemon.new_token("part", Role.OBSERVER, sessions=(session_id,))
        async with open_client(daemon, token) as part:
            assert (await part.turn(session_id)).delegated == ()
            with pytest.raises(NotFoundError):
                await part.turn(child.session_id)
        # Whoever reads on, or looks at the end once more, is told the same.
        behind = await client.turn(session_id, after_seq=record.events[-1].seq)
        assert (behind.events, behind.is_over) == ([], True)
        assert behind.delegated == record.delegated
        middle = await client.turn(session_id, after_seq=record.events[3].seq)
        assert (middle.is_over, middle.delegated) == (True, record.delegated)


# ── what there is ────────────────────────────────────────────────────────────────────────────────


async def test_it_is_said_why_a_tool_is_not_offered_and_what_programs_run_in() -> None:
    weak = callboard.Settings(sandbox=callboard.SandboxSettings(minimum=Strength.FULL))
    async with open_daemon(configured=weak) as daemon, open_client(daemon) as client:
        listed = await client.tools()
        sandbox = host_of(daemon.runtime).plan.sandbox
        assert sandbox is not None
        await sandbox.tested()
        listed = await client.tools()
        problem = sandbox.problem()
        programs = [each.name for each in listed.tools if "processes" in each.needs]
        assert "shell" in programs
        assert listed.not_offered == ({} if problem is None else dict.fromkeys(programs, problem))
        assert "list_directory" not in listed.not_offered
        state = (await client.status()).sandbox
        assert state is not None
        assert state.strength == sandbox.status().strength
        token = daemon.new_token("part", Role.OBSERVER, agents=("general",))
        async with open_client(daemon, token) as part:
            assert (await part.status()).sandbox is None


# ── the log ──────────────────────────────────────────────────────────────────────────────────────


async def test_the_end_of_the_log_is_for_administrators_and_holds_no_secret() -> None:
    secret = Secret("a-secret-of-the-log")
    redactor.add(secret)
    try:
        async with open_daemon() as daemon, open_client(daemon) as client:
            before = (await client.upkeep.log()).head
            logger = logging.getLogger("callboard.gateway")
            logger.warning("the key is %s", secret.reveal())
            try:
                raise ValueError(secret.reveal())
            except ValueError:
                logger.exception("it crashed")
            tail = await client.upkeep.log(after=before, level="warning")
            said = [(each.level, each.logger, each.message) for each in tail.records]
            assert said == [
                ("warning", "gateway", "the key is ***"),
                ("error", "gateway", "it crashed"),
            ]
            assert "ValueError: ***" in tail.records[1].traceback
            assert tail.head == tail.records[-1].number
            assert not tail.is_cut
            errors = await client.upkeep.log(after=before, level="error")
            assert [each.message for each in errors.records] == ["it crashed"]
            last = await client.upkeep.log(after=before, level="warning", limit=1)
            assert [each.message for each in last.records] == ["it crashed"]
            assert last.is_cut
            assert (await client.upkeep.log(after=tail.head)).records == []
            for token in (
                daemon.new_token("ops", Role.APPROVER),
                daemon.new_token("part", Role.ADMIN, agents=("general",)),
            ):
                async with open_client(daemon, token) as other:
                    with pytest.raises(AuthError):
                        await other.upkeep.log()
    finally:
        redactor.discard(secret)


def test_the_end_of_the_log_is_bounded_and_says_what_is_lost() -> None:
    end = LogEnd()
    logger = logging.getLogger("callboard.test_log_end")
    logger.setLevel(logging.INFO)
    with end.kept():
        for number in range(MAX_RECORDS):
            logger.info("record %d", number)
        assert not end.tail(0, "info", 10_000).is_cut
        logger.info("x" * 2 * MAX_RECORD_CHARS)
    logger.info("nobody keeps this")
    tail = end.tail(0, "info", 10_000)
    assert (len(tail.records), tail.head, tail.is_cut) == (MAX_RECORDS, MAX_RECORDS + 1, True)
    assert tail.records[0].message == "record 1"
    assert tail.records[-1].message == "x" * MAX_RECORD_CHARS
    assert not end.tail(1, "info", 10_000).is_cut
    # As many of the largest as there may be: an answer holds the last ones, and says that it is cut.
    with end.kept():
        for _ in range(MAX_RECORDS):
            logger.info("\U0001f600" * MAX_RECORD_CHARS)
    tail = end.tail(0, "info", 1000)
    assert 1 < len(tail.records) < 1000
    assert tail.records[-1].number == tail.head
    assert tail.is_cut
    assert len(wire_json(tail)) < PAGE_BYTES + 1000


async def test_who_follows_the_log_is_answered_when_something_is_logged() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        heard: list[list[str]] = []
        head = (await client.upkeep.log(level="warning")).head
        logger = logging.getLogger("callboard.gateway")

        async def follow(task_status: trio.TaskStatus[None]) -> None:
            after = head
            task_status.started()
            while True:
                tail = await client.upkeep.log(after=after, level="warning", wait=True)
                after = tail.head
                heard.append([each.message for each in tail.records])

        async with trio.open_nursery() as nursery:
            await nursery.start(follow)
            with trio.fail_after(PATIENCE_SECONDS):
                await until(lambda: daemon.gateway.daemon.log_end.followers == 1)
                logger.info("this wakes nobody")
                await trio.to_thread.run_sync(logger.warning, "of a thread")
                logger.warning("and right behind it")
                await until(lambda: bool(heard))
                assert heard == [["of a thread", "and right behind it"]]
                logger.error("later")
                await until(lambda: len(heard) == 2)
            assert heard[1] == ["later"]
            # What waits holds up no other request of the connection.
            assert (await client.upkeep.log(level="error")).records[-1].message == "later"
            nursery.cancel_scope.cancel()


async def test_a_wait_for_the_log_ends_and_keeps_nothing_for_who_is_slow(
    autojump_clock: trio.testing.MockClock,
) -> None:
    end = LogEnd()
    logger = logging.getLogger("callboard.test_log_end")
    logger.setLevel(logging.INFO)
    with end.kept():
        began = trio.current_time()
        await end.wait(0, "info")
        assert trio.current_time() - began == log_end.WAIT_SECONDS
        logger.info("one")
        await end.wait(1, "info")
        await end.wait(0, "warning")
        assert trio.current_time() - began == 3 * log_end.WAIT_SECONDS
        # A number of an earlier process is behind nothing that will come: it is answered.
        began = trio.current_time()
        await end.wait(900, "info")
        await end.wait(0, "info")
        assert trio.current_time() - began == pytest.approx(2 * log_end.GATHER_SECONDS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end.wait, 1, "info")
            await trio.testing.wait_all_tasks_blocked()
            for number in range(2 * MAX_RECORDS):
                logger.info("record %d", number)
        tail = end.tail(1, "info", 1000)
        assert (len(tail.records), tail.head, tail.is_cut) == (1000, 2 * MAX_RECORDS + 1, True)
    assert end.followers == 0


def test_where_a_program_set_up_no_log_its_warnings_still_go_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    logger = logging.getLogger("callboard.test_log_end")
    with log_end.LogEnd().kept():
        logger.warning("it is heard")
        logger.info("it is not")
    logger.warning("as without it")
    assert capsys.readouterr().err.splitlines() == ["it is heard", "as without it"]
