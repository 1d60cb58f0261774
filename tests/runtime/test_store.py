"""What every store does: one suite, run over memory and over a file."""

from __future__ import annotations

from itertools import starmap
from typing import Any

import msgspec
import pytest

from callboard.runtime.budget import Budget
from callboard.runtime.definitions import Attachment, CallStatus, SessionKind, Tier
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError, ValidationError
from callboard.runtime.events import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    MessagesDeleted,
    MessageSent,
    QuestionAnswered,
    QuestionAsked,
    SessionBudgetSet,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
    Stored,
    TitleSet,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Opaque, Refusal, Text, Thinking
from callboard.runtime.store.interface import Store
from callboard.runtime.store.rows import Append, CallRow, OpenTurn, SessionRow, UsageRow
from callboard.runtime.stream import Usage
from support.both_stores import Clock
from support.both_stores import clock as clock
from support.both_stores import store as store

CREATED = SessionCreated(agent="general", workspace="/work", model="p/m")
STARTED = TurnStarted(turn_id="t1", input_ids=("i1",), provider="p", model="m")
ENDED = TurnEnded(turn_id="t1", outcome="answered")


def said(text: str, input_id: str = "i1") -> InputAccepted:
    return InputAccepted(input_id=input_id, text=text)


def answer(*parts: Text | Thinking | Refusal | Opaque, usage: Usage | None = None) -> DurableEvent:
    return MessageCompleted(
        turn_id="t1", message_id="m1", parts=parts, provider="p", model="m", usage=usage,
        duration_ms=250,
    )  # fmt: skip


def proposed(call_id: str = "c1", name: str = "write_file") -> CallProposed:
    return CallProposed(
        turn_id="t1", message_id="m1", call_id=call_id, index=0, name=name, arguments='{"path": 1}'
    )


def started(call_id: str = "c1") -> CallStarted:
    return CallStarted(turn_id="t1", call_id=call_id)


def finished(call_id: str = "c1", **changes: object) -> CallFinished:
    event = CallFinished(
        turn_id="t1", call_id=call_id, name="write_file", status=CallStatus.SUCCESS,
        result='{"status":"success"}', display="wrote a", duration_ms=7,
    )  # fmt: skip
    return msgspec.structs.replace(event, **changes)


def asked(call_id: str = "c1", approval_id: str = "a1") -> ApprovalAsked:
    return ApprovalAsked(
        approval_id=approval_id, turn_id="t1", call_id=call_id, name="write_file", tier=Tier.WORKSPACE,
        reason="it overwrites", arguments='{"path":1}', digest="d",
    )  # fmt: skip


async def put(store: Store, *events: DurableEvent, to: str = "s1") -> tuple[Stored, ...]:
    (result,) = await store.commit([Append(to, events)])
    assert isinstance(result, tuple), result
    return result


async def row(store: Store, session_id: str = "s1") -> SessionRow:
    found = await store.session(session_id)
    assert found is not None
    return found


async def call(store: Store) -> CallRow:
    (found,) = await store.calls()
    return found


async def test_events_get_a_gap_free_seq_and_read_back_equal(store: Store, clock: Clock) -> None:
    events = (CREATED, said("hello"), STARTED, answer(Text("hi")), ENDED)
    first = await put(store, *events[:2])
    clock.ms = 2_000
    second = await put(store, *events[2:])
    assert [stored.seq for stored in first + second] == [1, 2, 3, 4, 5]
    assert [stored.at_ms for stored in first + second] == [1_000] * 2 + [2_000] * 3
    assert tuple(stored.event for stored in first + second) == events
    assert await store.events("s1") == [*first, *second]
    assert (await row(store)).head_seq == 5


async def test_events_are_paged_by_seq(store: Store) -> None:
    stored = await put(store, CREATED, said("a"), said("b"), said("c"))
    assert await store.events("s1", after_seq=2) == list(stored[2:])
    assert await store.events("s1", after_seq=1, limit=2) == list(stored[1:3])
    assert await store.events("s1", after_seq=4) == []
    assert await store.events("s1", limit=0) == []


async def test_sessions_count_on_their_own_within_one_commit(store: Store) -> None:
    results = await store.commit(
        [
            Append("s1", (CREATED,)),
            Append("s2", (CREATED, said("x"))),
            Append("s1", (said("y"),)),
        ]
    )
    seqs = [[stored.seq for stored in result] for result in results if isinstance(result, tuple)]
    assert seqs == [[1], [1, 2], [2]]


async def test_an_unknown_session_is_refused_alone(store: Store) -> None:
    results = await store.commit(
        [Append("s1", (CREATED,)), Append("nobody", (said("x"),)), Append("s1", (said("y"),))]
    )
    assert isinstance(results[1], NotFoundError)
    assert "nobody" in str(results[1])
    assert [stored.seq for stored in await store.events("s1")] == [1, 2]
    assert await store.session("nobody") is None
    assert await store.events("nobody") == []


async def test_events_before_the_creation_of_a_session_are_refused(store: Store) -> None:
    (result,) = await store.commit([Append("s1", (said("x"), CREATED))])
    assert isinstance(result, NotFoundError)
    assert await store.sessions() == []


async def test_a_session_is_created_once(store: Store) -> None:
    await put(store, CREATED)
    results = await store.commit(
        [Append("s1", (said("lost"), CREATED)), Append("s1", (said("kept"),))]
    )
    assert isinstance(results[0], ConflictError)
    assert [stored.event for stored in await store.events("s1")] == [CREATED, said("kept")]
    assert [message.content for message in await store.messages("s1")] == ["kept"]


async def test_no_appends_and_no_events_are_no_change(store: Store) -> None:
    assert await store.commit([]) == []
    await put(store, CREATED)
    assert await put(store) == ()
    (result,) = await store.commit([Append("nobody", ())])
    assert isinstance(result, NotFoundError)


async def test_the_second_end_of_a_call_is_left_out(store: Store) -> None:
    await put(store, CREATED, STARTED, proposed(), finished())
    again = finished(status=CallStatus.ERROR, result="late")
    kept = await put(store, again, said("after"), finished("c2"), finished("c2", result="late"))
    assert [(stored.seq, stored.event) for stored in kept] == [
        (5, said("after")),
        (6, finished("c2")),
    ]
    results = [found.result for found in await store.calls()]
    assert results == ['{"status":"success"}'] * 2


async def test_the_second_end_of_a_turn_is_left_out(store: Store) -> None:
    await put(store, CREATED, STARTED, ENDED)
    failed = TurnEnded(turn_id="t1", outcome="failed", message="late")
    assert await put(store, failed) == ()
    assert await store.messages("s1") == []
    assert (await row(store)).head_seq == 3


def numbered(number: int) -> list[DurableEvent]:
    """Events with this number in each column that takes one from outside."""
    usages = [{field: number} for field in Usage.__struct_fields__]
    compacted = HistoryCompacted(turn_id="t1", rounds=1, summary="s", provider="p", model="m")
    return [
        *(answer(Text("x"), usage=Usage(**usage)) for usage in usages),
        msgspec.structs.replace(answer(), duration_ms=number),
        msgspec.structs.replace(compacted, usage=Usage(number)),
        finished(duration_ms=number),
    ]


async def test_an_integer_beyond_64_bits_is_refused_alone(store: Store) -> None:
    await put(store, CREATED)
    for huge in [*numbered(2**63), *numbered(-(10**30))]:
        results = await store.commit(
            [Append("s1", (said("lost"), huge)), Append("s1", (said("kept"),))]
        )
        assert isinstance(results[0], ValidationError)
        assert "Expected `int`" in str(results[0])
    contents = [message.content for message in await store.messages("s1")]
    assert contents == ["kept"] * 2 * len(numbered(0))


async def test_the_largest_integers_are_stored(store: Store) -> None:
    await put(store, CREATED, *numbered(2**63 - 1))
    assert max(row.reasoning_tokens or 0 for row in await store.usage("s1")) == 2**63 - 1
    assert (await call(store)).duration_ms == 2**63 - 1


async def test_a_crash_in_a_commit_changes_nothing(store: Store, clock: Clock) -> None:
    await put(store, CREATED)
    clock.is_broken = True
    with pytest.raises(OSError, match="no time"):
        await put(store, said("lost"))
    clock.is_broken = False
    assert [stored.seq for stored in await put(store, said("kept"))] == [2]


async def test_text_that_is_hard_to_store_comes_back_as_it_was(
    store: Store, request: pytest.FixtureRequest
) -> None:
    text = 'it\'s "quoted"; drop table events; --\0 behind NUL \N{CAT FACE}\u2028'
    session_id = "a'b\"c\0d"
    await put(store, SessionCreated(agent=text, workspace=text), said(text), to=session_id)
    # No text of PostgreSQL has a NUL, so rows have another character there; events have it.
    is_postgres = request.node.callspec.params["store"] == "postgres"
    kept = text.replace("\0", "\ufffd") if is_postgres else text
    assert (await row(store, session_id)).agent == kept
    assert (await store.messages(session_id))[0].content == kept
    assert (await store.events(session_id))[1].event == said(text)
    assert await store.session("a'b\"c") is None


async def test_a_lone_surrogate_becomes_the_replacement_character(store: Store) -> None:
    await put(store, CREATED)
    stored = await put(store, said("half \ud83d here, whole \ud83d\ude3a there"))
    assert stored[0].event == said(
        "half \ufffd here, whole \N{SMILING CAT FACE WITH OPEN MOUTH} there"
    )
    assert (await store.events("s1"))[1:] == list(stored)


async def test_a_session_id_that_is_not_unicode_is_refused_and_found_nowhere(store: Store) -> None:
    (result,) = await store.commit([Append("\udcff", (CREATED,))])
    assert isinstance(result, ValidationError)
    assert await store.session("\udcff") is None
    assert await store.events("\udcff") == []
    assert await store.calls(name="\udcff") == []


async def test_an_event_of_two_megabytes_makes_the_round_trip(store: Store) -> None:
    text = "0123456789abcdef" * 131_072
    await put(store, CREATED, said(text), proposed(), finished(result=text))
    assert (await store.events("s1"))[1].event == said(text)
    assert [m.content for m in await store.messages("s1", limit=1)] == [text]
    assert (await call(store)).result == text


async def test_the_row_of_a_session(store: Store, clock: Clock) -> None:
    created = SessionCreated(
        agent="general", workspace="/work", title="T", kind=SessionKind.BRANCH, parent_id="s0"
    )
    await put(store, created)
    clock.ms = 3_000
    await put(store, said("go"), STARTED)
    assert await row(store) == SessionRow(
        session_id="s1", title="T", agent="general", kind=SessionKind.BRANCH, workspace="/work",
        model=None, parent_id="s0", message_count=1, last_message_preview="go", is_active=True,
        head_seq=3, created_at_ms=1_000, updated_at_ms=3_000, deleted_at_ms=None,
    )  # fmt: skip
    await put(store, AgentSwitched(agent="coder"), TitleSet(title="U"), ENDED)
    after = await row(store)
    assert (after.title, after.agent, after.is_active) == ("U", "coder", False)


async def test_the_title_is_the_first_words_until_one_is_set(store: Store) -> None:
    await put(store, CREATED, said(" \n "), said("What time is it\nin Tokyo? " + "Please. " * 20))
    title = (await row(store)).title
    assert title == "What time is it in Tokyo? Please. Please. Please. Please.…"
    assert len(title) <= 60
    await put(store, said("something else"))
    assert (await row(store)).title == title
    await put(store, TitleSet(title="Mine"), said("more"))
    assert (await row(store)).title == "Mine"


async def test_the_preview_is_the_last_text_on_one_line(store: Store) -> None:
    await put(store, CREATED, said("hi"), answer(Text("word\n\x1b[31m" * 100)), proposed())
    preview = (await row(store)).last_message_preview
    assert preview.startswith("word [31mword [31mword")
    assert preview.endswith("…")
    assert len(preview) <= 120
    assert (await row(store)).message_count == 3


async def test_a_session_is_active_while_a_turn_of_it_is_open(store: Store) -> None:
    other = TurnStarted(turn_id="t2", input_ids=(), provider="p", model="m")
    await put(store, CREATED, STARTED, other, ENDED)
    assert (await row(store)).is_active
    await put(store, TurnEnded(turn_id="t2", outcome="cancelled"))
    assert not (await row(store)).is_active


async def test_sessions_are_listed_by_latest_activity(store: Store) -> None:
    for session_id in ("a", "b", "c"):
        await put(store, CREATED, to=session_id)
    await put(store, said("x"), to="b")
    assert [found.session_id for found in await store.sessions()] == ["b", "c", "a"]
    assert [found.session_id for found in await store.sessions(limit=1)] == ["b"]


async def test_a_session_says_its_own_budget(store: Store) -> None:
    limit = Budget(tokens=500, cost_usd=0.5)
    await put(store, msgspec.structs.replace(CREATED, budget=limit), to="a")
    assert (await row(store, "a")).budget == limit
    await put(store, SessionBudgetSet(budget=None), to="a")
    assert (await row(store, "a")).budget is None
    await put(store, SessionBudgetSet(budget=Budget(tool_calls=3)), to="a")
    [listed] = await store.sessions()
    assert listed.budget == Budget(tool_calls=3)


async def test_a_deleted_session_is_hidden_until_it_is_restored(store: Store) -> None:
    await put(store, CREATED, to="a")
    await put(store, CREATED, SessionDeleted(), to="b")
    assert [found.session_id for found in await store.sessions()] == ["a"]
    everything = await store.sessions(include_deleted=True)
    assert [found.session_id for found in everything] == ["b", "a"]
    assert (await row(store, "b")).deleted_at_ms == 1_000
    await put(store, SessionRestored(), to="b")
    assert [found.session_id for found in await store.sessions()] == ["b", "a"]


@pytest.mark.parametrize(
    ("outcome", "is_said"),
    [("budget", True), ("loop_guard", True), ("cancelled", False), ("max_tokens", False)],
)
async def test_a_turn_that_ended_without_an_answer_says_why(
    store: Store, outcome: Any, is_said: bool
) -> None:
    await put(store, CREATED, said("do it"), STARTED)
    await put(store, TurnEnded(turn_id="t1", outcome=outcome, message="It is spent."))
    rows = [(each.type, each.content) for each in await store.messages("s1")]
    assert rows[1:] == ([("error", "It is spent.")] if is_said else [])


async def test_messages_of_each_type_with_their_columns(store: Store) -> None:
    await put(store, CREATED, said("do it"), STARTED)
    await put(
        store,
        answer(
            Thinking("why", "sig"), Thinking("how"), Text("I "), Refusal("can't"),
            Opaque("d", "k", msgspec.Raw(b'{"a":1}')), usage=Usage(11, 22, 3, 4),
        ),
        proposed(),
        finished(arguments='{"path":"a"}'),
        AgentSwitched(agent="coder"),
        TurnEnded(turn_id="t1", outcome="failed", error_type="network", message="It broke."),
    )  # fmt: skip
    rows = await store.messages("s1")
    assert [found.position for found in rows] == [1, 2, 3, 4, 5, 6]
    base = {"message_id": "", "session_id": "s1", "position": 0, "created_at_ms": 1_000}
    call_columns = {"turn_id": "t1", "call_id": "c1", "tool_name": "write_file",
                    "tool_status": "success", "tool_duration_ms": 7}  # fmt: skip
    shown = [msgspec.to_builtins(found) for found in rows]
    expected: list[dict[str, object]] = [
        {"message_id": "i1", "type": "user", "content": "do it"},
        {"message_id": "m1", "type": "assistant", "content": "I can't", "turn_id": "t1",
         "thinking": "why\n\nhow", "input_tokens": 11, "output_tokens": 22, "model": "m",
         "provider": "p", "duration_ms": 250, "stop_reason": "", "cached_tokens": 3},
        {"message_id": "call:c1", "type": "tool_call", "content": "",
         "tool_input": '{"path":"a"}', **call_columns},
        {"message_id": "result:c1", "type": "tool_result", "content": "wrote a",
         "tool_output": '{"status":"success"}', **call_columns},
        {"message_id": "agent:7", "type": "system", "content": "Agent: coder"},
        {"message_id": "error:t1", "type": "error", "content": "It broke.", "turn_id": "t1"},
    ]  # fmt: skip
    for position, (found, want) in enumerate(zip(shown, expected, strict=True), 1):
        present = {key: value for key, value in found.items() if value not in (None, [], ())}
        flags = {"is_set_aside": False, "is_deleted": False}
        assert present == {**base, "position": position, **flags, **want}


async def test_messages_say_which_files_came_with_them_and_each_is_read_by_its_number(
    store: Store,
) -> None:
    dot, page = (
        Attachment("image/png", b"\x89PNG", "dot.png"),
        Attachment("application/pdf", b"%PDF-"),
    )
    both = msgspec.structs.replace(said("Look."), attachments=(dot, page))
    await put(store, CREATED, both, STARTED)
    await put(store, proposed(), finished(attachments=(page,)))
    rows = {found.message_id: found for found in await store.messages("s1")}
    assert [(file.name, file.media_type, file.size_bytes) for file in rows["i1"].files] == [
        ("dot.png", "image/png", 4),
        ("", "application/pdf", 5),
    ]
    assert (rows["call:c1"].files, len(rows["result:c1"].files)) == ((), 1)
    assert [await store.message_file("s1", "i1", n) for n in (0, 1)] == [dot, page]
    assert await store.message_file("s1", "result:c1", 0) == page
    for message_id, number in (("i1", 2), ("i1", -1), ("call:c1", 0), ("nothing", 0)):
        assert await store.message_file("s1", message_id, number) is None
    assert await store.message_file("s2", "i1", 0) is None


async def test_of_a_deleted_message_no_file_is_left(store: Store) -> None:
    dot = Attachment("image/png", b"\x89PNG", "dot.png")
    await put(store, CREATED, msgspec.structs.replace(said("Look."), attachments=(dot,)))
    assert await store.message_file("s1", "i1", 0) == dot
    await put(store, MessagesDeleted(message_ids=("i1",)))
    [found] = await store.messages("s1")
    assert (found.is_deleted, found.files) == (True, ())
    assert await store.message_file("s1", "i1", 0) is None


async def test_messages_are_paged_by_position(store: Store) -> None:
    await put(store, CREATED, *(said(str(n), f"i{n}") for n in range(5)))
    assert [m.content for m in await store.messages("s1", after=1, limit=2)] == ["1", "2"]
    assert [m.content for m in await store.messages("s1", after=4)] == ["4"]
    end = await store.messages("s1", latest_first=True, limit=2)
    assert [m.content for m in end] == ["4", "3"]
    earlier = await store.messages("s1", before=end[-1].position, latest_first=True)
    assert [m.content for m in earlier] == ["2", "1", "0"]
    assert [m.position for m in await store.messages("s1", after=1, before=4)] == [2, 3]
    third = earlier[0].message_id
    from_it = [
        await store.messages("s1", from_message=third, latest_first=is_up)
        for is_up in (False, True)
    ]
    assert [[m.position for m in rows] for rows in from_it] == [[3, 4, 5], [3, 2, 1]]
    assert [m.position for m in await store.messages("s1", from_message=third, after=3)] == [4, 5]
    with pytest.raises(NotFoundError, match="s1 has no message i9"):
        await store.messages("s1", from_message="i9")


async def test_why_an_answer_is_not_whole_is_in_its_row(store: Store) -> None:
    await put(store, CREATED, said("do it"), STARTED)
    cut = msgspec.structs.replace(answer(Text("I")), stop_reason="max_tokens")
    stopped = msgspec.structs.replace(answer(Text("I")), message_id="m2", incomplete=True)
    await put(store, cut, stopped)
    reasons = [row.stop_reason for row in await store.messages("s1")]
    assert reasons == [None, "max_tokens", "incomplete"]


async def test_a_call_goes_through_its_states(store: Store, clock: Clock) -> None:
    await put(store, CREATED, STARTED, proposed())
    assert await call(store) == CallRow(
        call_id="c1", session_id="s1", turn_id="t1", name="write_file", status=CallStatus.PENDING,
        arguments='{"path": 1}', result=None, display="", proposed_at_ms=1_000, started_at_ms=None,
        finished_at_ms=None, duration_ms=None,
    )  # fmt: skip
    await put(store, asked())
    assert (await call(store)).status is CallStatus.WAITING
    assert (await store.messages("s1"))[0].tool_status is CallStatus.WAITING
    changed = ApprovalAnswered(
        approval_id="a1", call_id="c1", decision="allow", answered_by="terminal", arguments="{}"
    )
    await put(store, changed)
    assert ((await call(store)).status, (await call(store)).arguments) == ("pending", "{}")
    clock.ms = 2_000
    await put(store, started())
    assert (await call(store)).status is CallStatus.RUNNING
    clock.ms = 2_500
    await put(store, finished(status=CallStatus.TIMEOUT, duration_ms=500))
    await put(store, started(), asked(approval_id="a2"))
    assert await call(store) == CallRow(
        call_id="c1", session_id="s1", turn_id="t1", name="write_file", status=CallStatus.TIMEOUT,
        arguments="{}", result='{"status":"success"}', display="wrote a", proposed_at_ms=1_000,
        started_at_ms=2_000, finished_at_ms=2_500, duration_ms=500,
    )  # fmt: skip


async def test_nothing_late_reopens_a_call(store: Store) -> None:
    await put(store, CREATED, STARTED, proposed(), finished(status=CallStatus.DENIED))
    await put(store, asked(), started())
    found = await call(store)
    assert (found.status, found.started_at_ms) == (CallStatus.DENIED, None)


async def test_a_call_that_is_proposed_twice_has_one_row(store: Store) -> None:
    await put(store, CREATED, STARTED, proposed(), proposed(name="other"))
    assert (await call(store)).name == "write_file"
    assert len(await store.messages("s1")) == 1
    assert (await row(store)).head_seq == 4


async def test_calls_are_listed_latest_first_and_filtered(store: Store) -> None:
    await put(store, CREATED, STARTED, proposed("c1"), proposed("c2", "read_file"))
    await put(store, CREATED, STARTED, proposed("c1", "read_file"), to="s2")
    await put(store, finished("c2"))

    async def ids(**filters: object) -> list[tuple[str, str]]:
        found = await store.calls(**filters)  # type: ignore[arg-type]
        return [(one.session_id, one.call_id) for one in found]

    assert await ids() == [("s2", "c1"), ("s1", "c2"), ("s1", "c1")]
    assert await ids(session_id="s1") == [("s1", "c2"), ("s1", "c1")]
    assert await ids(name="read_file") == [("s2", "c1"), ("s1", "c2")]
    assert await ids(status=CallStatus.PENDING) == [("s2", "c1"), ("s1", "c1")]
    assert await ids(status=CallStatus.PENDING, name="read_file") == [("s2", "c1")]
    assert await ids(limit=2) == [("s2", "c1"), ("s1", "c2")]
    assert await ids(session_id="nobody") == []


async def test_the_whole_output_of_a_cut_result_is_kept(store: Store) -> None:
    await put(store, CREATED, proposed("c1"), proposed("c2"), proposed("c3"))
    await put(store, finished("c1", full_output='"all of it"'), finished("c2"))
    assert await store.full_output("s1", "c1") == '"all of it"'
    assert await store.full_output("s1", "c2") is None
    assert await store.full_output("s1", "c3") is None
    assert await store.full_output("s2", "c1") is None


async def test_usage_has_a_row_for_each_model_call(store: Store) -> None:
    await put(store, CREATED, answer(usage=Usage(1, 2, 3, 4, 5)), answer())
    known = UsageRow(
        position=1, session_id="s1", agent="general", turn_id="t1", message_id="m1", provider="p",
        model="m", input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4,
        cache_write_tokens=5, created_at_ms=1_000,
    )  # fmt: skip
    unknown = msgspec.structs.replace(
        known, position=2, input_tokens=None, output_tokens=None, cached_tokens=None,
        reasoning_tokens=None, cache_write_tokens=None,
    )  # fmt: skip
    assert await store.usage("s1") == [known, unknown]


async def test_usage_of_all_sessions_is_read_in_order_and_in_pages(
    store: Store, clock: Clock
) -> None:
    await put(store, CREATED, answer(usage=Usage(1)), to="a")
    await put(store, CREATED, answer(usage=Usage(2)), to="b")
    clock.ms = 2_000
    await put(store, answer(usage=Usage(3)), AgentSwitched(agent="coder"), to="a")
    await put(store, SessionDeleted(), to="a")
    rows = await store.usage()
    assert [(row.session_id, row.agent, row.input_tokens) for row in rows] == [
        ("a", "coder", 1), ("b", "general", 2), ("a", "coder", 3),
    ]  # fmt: skip
    assert await store.usage(limit=2) == rows[:2]
    assert await store.usage(after=rows[1].position) == rows[2:]
    assert await store.usage(since_ms=1_001) == rows[2:]
    assert await store.usage("a", since_ms=1_000) == [rows[0], rows[2]]
    assert await store.usage("a", after=rows[0].position, limit=1) == rows[2:]
    assert await store.usage("none") == await store.usage("a", limit=0) == []


async def test_open_turns_hold_their_open_calls_in_order(store: Store) -> None:
    await put(store, CREATED, STARTED, *(proposed(f"c{n}") for n in (3, 1, 2)))
    await put(store, started("c3"), finished("c1"))
    await put(store, CREATED, STARTED, ENDED, to="s2")
    (turn,) = await store.open_turns()
    assert turn == OpenTurn(
        session_id="s1", turn_id="t1", started_at_ms=1_000, calls=tuple(turn.calls)
    )
    statuses = [(found.call_id, found.status) for found in turn.calls]
    assert statuses == [("c3", CallStatus.RUNNING), ("c2", CallStatus.PENDING)]
    await put(store, ENDED)
    assert await store.open_turns() == []


async def test_open_questions_are_the_last_ones_of_open_calls_whatever_their_tool(
    store: Store,
) -> None:
    def question(call_id: str, name: str) -> QuestionAsked:
        return QuestionAsked(question_id=name, turn_id="t1", call_id=call_id, question=name)

    def over(call_id: str, name: str) -> QuestionAnswered:
        return QuestionAnswered(question_id=name, call_id=call_id, answer="x", answered_by="me")

    tools = {"c1": "ask_user", "c2": "fake__ask", "c3": "fake__ask", "c4": "fake__ask", "c5": "x"}
    await put(store, CREATED, STARTED, *starmap(proposed, tools.items()))
    await put(store, started("c1"), question("c1", "q1"), question("c2", "q2"))
    await put(store, over("c2", "q2"), question("c2", "q3"))  # it is answered, and asks again
    await put(store, question("c3", "q4"), over("c3", "q4"))
    await put(store, question("c4", "q5"), finished("c4"))  # nobody answered
    noted = (MessageSent(call_id="c5", text="on", channel="c") for _ in range(200))
    await put(store, *noted)  # several pages of the record
    await put(store, CREATED, STARTED, proposed(), question("c1", "q6"), ENDED, to="s2")
    found = await store.open_questions()
    assert [(each.asked.question_id, each.tool) for each in found] == [
        ("q1", "ask_user"),
        ("q3", "fake__ask"),
    ]
    assert found == await store.open_questions("s1")
    assert await store.open_questions("s2") == []
    (turn,) = await store.open_turns()
    assert [each.asked.question_id for each in turn.questions] == [
        "q1"
    ]  # a server's holds no turn open


async def test_a_closed_store_says_so(store: Store) -> None:
    await store.aclose()
    await store.aclose()
    with pytest.raises(StorageError, match="closed"):
        await store.session("s1")
    with pytest.raises(StorageError, match="closed"):
        await store.commit([Append("s1", (CREATED,))])
