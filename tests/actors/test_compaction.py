"""A history that is made shorter stays one that every provider accepts, live and on load."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.conversation.conversation import SUMMARY_HEADING, Conversation
from callboard.actors.model.compaction import (
    KEPT_SHARE,
    MAX_SUMMARY_CHARS,
    RECORD_CHARS,
    count_to_go,
    summary_of,
    summary_request,
)
from callboard.providers.provider import ModelTarget
from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    DurableEvent,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Item,
    Opaque,
    Part,
    Refusal,
    Result,
    Round,
    Text,
    Thinking,
    repair_history,
)
from callboard.runtime.store.codec import decode_event, encode_event

TARGET = ModelTarget(provider="p", model="m")


def said(size: int) -> Round:
    return Round([Input("x" * (size // 2)), Answer((Text("y" * (size - size // 2)),))])


def to_go(*sizes: int, left_open: int = 0) -> int:
    rounds = [said(size) for size in sizes]
    if left_open:
        rounds.append(Round([Input("z" * left_open)]))
    return count_to_go(rounds, len(sizes))


def test_the_newest_half_stays() -> None:
    assert to_go(100, 100, 100, 100) == 2
    assert to_go(100, 100, 100) == 2
    assert to_go(100, 100) == 1
    assert to_go(1000, 10, 10, 10) == 1
    assert to_go(10, 10, 10, 1000) == 4  # the giant goes, whatever stands before it
    assert to_go(100) == 1
    assert to_go(100, 100, 100, 100, left_open=100) == 3


def test_what_would_not_help_is_not_done() -> None:
    assert to_go() == 0
    assert to_go(left_open=100) == 0
    assert to_go(10, 10, left_open=10_000) == 0
    assert to_go(0, 0) == 0
    assert to_go(2000, left_open=10_000) == 1


@given(st.lists(st.integers(0, 10_000), max_size=30), st.integers(0, 10_000))
def test_what_stays_is_at_most_half_or_the_open_round_alone(sizes: list[int], open_: int) -> None:
    count = to_go(*sizes, left_open=open_)
    assert 0 <= count <= len(sizes)
    if count:
        total = sum(sizes) + open_
        kept = sum(sizes[count:])
        assert not kept or kept + open_ <= total * KEPT_SHARE
        assert kept + open_ + sizes[count - 1] > total * KEPT_SHARE


def record_of(*items: Item, max_chars: int = RECORD_CHARS[0]) -> str:
    [only] = summary_request([Round(items)], TARGET, max_chars).rounds
    [record] = only.items
    assert isinstance(record, Input)
    return record.text


def test_the_record_tells_who_said_and_did_what() -> None:
    record = record_of(
        Input("Go.", (Attachment("image/png", b"xx", "cat.png"), Attachment("text/plain", b""))),
        Answer((Thinking("hm"), Text("So."), Refusal("No."), Call("c1", "read", '{"a":1}'),
                Opaque("d", "k", msgspec.Raw(b"{}")))),
        Result("c1", "read", "found"),
    )  # fmt: skip
    assert record.splitlines() == [
        "<record>",
        "person: Go.",
        "person attaches: cat.png",
        "person attaches: text/plain",
        "assistant: So.",
        "assistant: No.",
        'assistant calls read: {"a":1}',
        "result of read: found",
        "</record>",
    ]


def test_the_record_is_bounded_and_keeps_both_ends() -> None:
    for max_chars in RECORD_CHARS:
        items: list[Item] = [
            Input("the task"),
            *(Result("c", "t", "x" * 5000) for _ in range(100)),
            Input("!"),
        ]
        record = record_of(*items, max_chars=max_chars)
        assert len(record) < max_chars + 100
        assert record.startswith("<record>\nperson: the task\n")
        assert record.endswith("person: !\n</record>")


def test_a_summary_is_text_and_bounded() -> None:
    assert summary_of((Thinking("hm"), Text(" a"), Text("b\n"))) == "ab"
    assert summary_of((Thinking("hm"), Call("c", "t", "{}"))) == ""
    assert len(summary_of((Text("x" * 10**6),))) < MAX_SUMMARY_CHARS + 10


# ── the fold ─────────────────────────────────────────────────────────────────────────────────────


class Journal:
    """A conversation that is folded live, and the events that it was folded from."""

    def __init__(self) -> None:
        self.live = Conversation()
        self.stored: list[Stored] = []
        self.add(SessionCreated(agent="general", workspace="/w"))

    def add(self, *events: DurableEvent) -> None:
        for event in events:
            seq = len(self.stored) + 1
            kept, data = encode_event(event)
            self.live.fold(Stored("s", seq, 0, kept))
            self.stored.append(Stored("s", seq, 0, decode_event(data)))

    def loaded(self) -> Conversation:
        conversation = Conversation()
        conversation.fold_all(self.stored)
        return conversation

    def begin(self, number: int) -> None:
        self.add(
            InputAccepted(input_id=f"i{number}", text=f"input {number}"),
            TurnStarted(turn_id=f"t{number}", input_ids=(f"i{number}",), provider="p", model="m"),
        )

    def answer(self, number: int, place: int, calls: int) -> None:
        turn, ids = f"t{number}", [f"c{number}.{place}.{at}" for at in range(calls)]
        parts: tuple[Part, ...] = (Text("so"), *(Call(each, "work", "{}") for each in ids))
        message = f"m{number}.{place}"
        self.add(
            MessageCompleted(turn_id=turn, message_id=message, parts=parts, provider="p", model="m")
        )
        for at, call_id in enumerate(ids):
            self.add(
                CallProposed(
                    turn_id=turn, message_id=message, call_id=call_id, index=at, name="work",
                    arguments="{}",
                )
            )  # fmt: skip
        for call_id in reversed(ids):
            self.add(
                CallFinished(
                    turn_id=turn, call_id=call_id, name="work", status=CallStatus.SUCCESS,
                    result=f"did {call_id}",
                )
            )  # fmt: skip

    def end(self, number: int) -> None:
        self.add(TurnEnded(turn_id=f"t{number}", outcome="answered"))

    def compact(self, number: int) -> int:
        rounds = self.live.rounds
        count = count_to_go(rounds, self.live.finished_rounds)
        if count:
            self.add(
                HistoryCompacted(
                    turn_id=f"t{number}", rounds=count, summary="SUM", provider="p", model="m"
                )
            )
        return count


def check(conversation: Conversation) -> list[Item]:
    """Its items: valid for every provider, and no input behind an input of another round."""
    items = [item for each in conversation.rounds for item in each.items]
    assert repair_history(items) == items
    for before, behind in zip(conversation.rounds, conversation.rounds[1:], strict=False):
        assert not (isinstance(before.items[-1], Input) and isinstance(behind.items[0], Input))
    return items


turns = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=4), max_size=5
)


@given(turns)
def test_wherever_it_is_compacted_pairs_stay_whole_and_a_load_gives_the_same(
    conversation: list[list[tuple[int, bool]]],
) -> None:
    journal = Journal()
    for number, answers in enumerate(conversation):
        journal.begin(number)
        for place, (calls, compacts) in enumerate(answers):
            if compacts and journal.compact(number):
                items = check(journal.live)
                assert isinstance(items[0], Input)
                assert items[0].text == f"{SUMMARY_HEADING}\n\nSUM"
            journal.answer(number, place, calls)
            check(journal.live)
        journal.end(number)
    loaded = journal.loaded()
    assert [each.items for each in loaded.rounds] == [each.items for each in journal.live.rounds]
    assert loaded.call_ids == journal.live.call_ids


def test_what_is_kept_keeps_its_encoded_form() -> None:
    journal = Journal()
    for number in range(4):
        journal.begin(number)
        journal.answer(number, 0, 0)
        journal.end(number)
    before = journal.live.rounds
    assert journal.compact(3) == 2
    after = journal.live.rounds
    assert len(after) == 2
    assert after[0].items[1:] == before[2].items
    assert after[1] is before[3]


def test_in_the_middle_of_a_turn_the_summary_may_be_all_there_is() -> None:
    journal = Journal()
    journal.begin(0)
    journal.answer(0, 0, 2)
    assert journal.compact(0) == 1
    assert check(journal.live) == [Input(f"{SUMMARY_HEADING}\n\nSUM"), Input("input 0")]
    journal.answer(0, 1, 1)
    journal.end(0)
    first, *_ = check(journal.live)
    assert isinstance(first, Input)
    assert len(journal.live.rounds) == 1


def test_what_the_running_turn_was_asked_stays_word_for_word_with_its_attachments() -> None:
    journal = Journal()
    asked = "x" * 30_000 + " Delete nothing."
    scan = Attachment("image/png", b"PNG", name="scan.png")
    for number, (text, files) in enumerate([("old", ()), (asked, (scan,))]):
        journal.add(
            InputAccepted(input_id=f"i{number}", text=text, attachments=files),
            TurnStarted(turn_id=f"t{number}", input_ids=(f"i{number}",), provider="p", model="m"),
        )
        journal.answer(number, 0, 1)
        if not number:
            journal.end(number)
    journal.add(HistoryCompacted(turn_id="t1", rounds=2, summary="S", provider="p", model="m"))
    assert check(journal.live)[1:] == [Input(asked, (scan,))]
    assert check(journal.loaded()) == check(journal.live)
    journal.answer(1, 1, 0)
    journal.end(1)
    journal.begin(2)
    journal.add(HistoryCompacted(turn_id="t2", rounds=1, summary="S", provider="p", model="m"))
    assert asked not in [item.text for item in check(journal.live) if isinstance(item, Input)]


def test_what_stays_anyway_is_no_reason_for_a_summary() -> None:
    asked = Input("x" * 10_000)
    rounds = [Round([asked, Answer((Text("y"),))]), Round([Input("z")])]
    assert count_to_go(rounds, 1) == 1
    assert count_to_go(rounds, 1, [asked]) == 0
    assert count_to_go(rounds, 1, [Input(asked.text)]) == 1


def test_both_ends_of_an_input_are_in_the_record() -> None:
    record = record_of(Input("BEGIN" + "x" * 30_000 + "END"), Result("c", "t", "r" * 90_000))
    assert "BEGIN" in record
    assert "END" in record


def test_no_input_is_lost_where_there_are_many() -> None:
    for max_chars in RECORD_CHARS[:2]:  # the shortest has no room for so many
        items: list[Item] = []
        for number in range(50):
            items += [Input(f"<{number}>" + "q" * 3000), Answer((Text("a" * 5000),))]
        record = record_of(*items, max_chars=max_chars)
        assert [n for n in range(50) if f"<{n}>" not in record] == []


def test_results_are_shortened_before_what_the_person_said() -> None:
    items: list[Item] = [Input("q" * 3000), *(Result("c", "t", "r" * 2000) for _ in range(100))]
    assert "q" * 3000 in record_of(*items)
