"""What has happened at the daemon of the console's golden pictures: the same sessions with the same ids and times, whenever it is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from callboard.runtime.definitions import CallStatus, SessionKind, Tier
from callboard.runtime.event_types.turns import TurnOutcome
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptFailed,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MemoryStored,
    MessageCompleted,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Part, Text, Thinking
from callboard.runtime.stream import Usage
from support.gateway.console_peer import CHINESE, MARKDOWN

NOW_MS = 1_788_258_600_000
"""Tuesday, 1 September 2026, 10:30 in Greenwich: the moment at which all of it is looked at."""
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
CHAT, TURN = "session_00000000000000000001", "session_00000000000000000002"
"""The sessions of which pictures are taken."""


# ruff: disable[ambiguous-unicode-character-string]
SUMMARY = "请用中文总结一下，并运行测试。"
MEMORIES = (
    ("The garden gate sticks when it rains.", ("garden", "gate")),
    ("Ada prefers short answers, with figures in a table.", ()),
    ("浇水的时间是早上六点，雨天不用浇。", ("花园",)),
)
# ruff: enable[ambiguous-unicode-character-string]


class Session:
    """A session as it is written down: each event so many milliseconds after the one before."""

    def __init__(self, number: int, at_ms: int, **told: Any) -> None:
        self.name = f"session_{number:020}"
        self.events: list[Stored] = []
        self._at_ms, self._last = at_ms, 0
        self._add(SessionCreated(**{"agent": "general", "workspace": "/", **told}))

    def _add(self, event: DurableEvent, after_ms: int = 0) -> None:
        self._at_ms += after_ms
        self.events.append(Stored(self.name, len(self.events) + 1, self._at_ms, event))

    def add(self, *events: DurableEvent, after_ms: int = 0) -> None:
        """What happens at one time."""
        for event in events:
            self._add(event, after_ms)
            after_ms = 0

    def new(self, kind: str) -> str:
        """An id that only this session has."""
        self._last += 1
        return f"{kind}_{self.name[-8:]}{self._last:012}"

    def begin(self, text: str, model: str = "claude-sonnet") -> str:
        """A person writes, and a turn begins; return its id."""
        given, turn = self.new("input"), self.new("turn")
        self.add(
            InputAccepted(input_id=given, text=text),
            TurnStarted(turn_id=turn, input_ids=(given,), provider="anthropic", model=model),
            after_ms=MINUTE_MS,
        )
        return turn

    def answer(
        self,
        turn: str,
        *parts: Part,
        calls: Sequence[tuple[str, object]] = (),
        usage: Usage | None = None,
        ms: int = 1400,
        model: str = "claude-sonnet",
    ) -> list[str]:
        """The model answers; return the ids of its calls."""
        message = self.new("message")
        proposed = [
            CallProposed(
                turn_id=turn,
                message_id=message,
                call_id=self.new("call"),
                index=index,
                name=name,
                arguments=msgspec.json.encode(arguments).decode(),
            )
            for index, (name, arguments) in enumerate(calls)
        ]
        self.add(
            MessageCompleted(
                turn_id=turn,
                message_id=message,
                parts=parts,
                provider="anthropic",
                model=model,
                stop_reason="tool_use" if calls else "end_turn",
                usage=usage or Usage(input_tokens=5400, output_tokens=210, cached_tokens=3100),
                duration_ms=ms,
                first_ms=ms // 3,
            ),
            *proposed,
            after_ms=ms,
        )
        return [each.call_id for each in proposed]

    def finish(
        self,
        turn: str,
        call: str,
        name: str,
        result: object,
        *,
        ms: int,
        after_ms: int = 0,
        **told: Any,
    ) -> None:
        """A call has its result."""
        text = msgspec.json.encode(result).decode()
        status = told.pop("status", CallStatus.SUCCESS)
        self.add(
            CallFinished(
                turn_id=turn,
                call_id=call,
                name=name,
                status=status,
                result=text,
                duration_ms=ms,
                **told,
            ),
            after_ms=after_ms,
        )

    def end(
        self, turn: str, outcome: TurnOutcome = "answered", *, ms: int = 4000, message: str = ""
    ) -> None:
        """The turn ends."""
        ended = TurnEnded(turn_id=turn, outcome=outcome, duration_ms=ms, message=message)
        self.add(ended, after_ms=20)


def _chat() -> Session:
    """A conversation with what an answer may hold."""
    chat = Session(1, NOW_MS - 30 * MINUTE_MS, title="Three modules of the garden planner")
    turn = chat.begin("Which files are there, and what time is it in Tokyo?")
    calls = [
        ("get_current_time", {"timezone": "Asia/Tokyo"}),
        ("list_files", {}),
        ("read_file", {"path": "gone.md"}),
    ]
    time, files, gone = chat.answer(turn, Text("I look at all of it at once."), calls=calls)
    chat.add(
        *(CallStarted(turn_id=turn, call_id=each) for each in (time, files, gone)), after_ms=10
    )
    chat.finish(
        turn, time, "get_current_time", {"time": "18:20:00"}, ms=12, display="18:20 in Tokyo"
    )
    chat.finish(
        turn,
        files,
        "list_files",
        {"files": ["main.py", "store.py", "words.py"]},
        ms=48,
        display="3 files",
        after_ms=40,
    )
    chat.finish(
        turn,
        gone,
        "read_file",
        {"error": "There is no file gone.md."},
        ms=31,
        status=CallStatus.ERROR,
    )
    chat.answer(
        turn, Text("There are three files, and it is 18:20 in Tokyo. `gone.md` is not there.")
    )
    chat.end(turn)
    turn = chat.begin("What do the modules do? 👩‍🌾")
    chat.answer(turn, Thinking("What is there? I look at the modules first."), Text(MARKDOWN))
    chat.end(turn)
    turn = chat.begin(SUMMARY)
    chat.answer(turn, Text(CHINESE))
    chat.end(turn)
    return chat


def _timeline() -> Iterable[Session]:
    """A turn with calls side by side, a question, an attempt that failed, and a delegated session."""
    its = Session(2, NOW_MS - 90 * MINUTE_MS, title="Weather, soil and a plan for the beds")
    turn = its.begin("Look at it from all sides, and remove the old plan.")
    its.add(
        AttemptFailed(
            turn_id=turn, provider="anthropic", model="claude-sonnet", attempt=1,
            error_type="overloaded", message="The model is busy.", wait_seconds=0.4,
        ),
        after_ms=260,
    )  # fmt: skip
    places = [
        ("fetch_url", {"url": f"https://example.org/{each}"})
        for each in ("weather", "soil", "frost")
    ]
    calls = [
        *places,
        ("search_files", {"pattern": "beds"}),
        ("delegate", {"kind": "worker", "task": "Measure the beds."}),
        ("delete_file", {"path": "old-plan.txt"}),
    ]
    names = its.answer(turn, Text("I look at it from four sides."), calls=calls, ms=1500)
    removed = names[5]
    its.add(*(CallStarted(turn_id=turn, call_id=each) for each in names[:5]), after_ms=15)
    approval = its.new("approval")
    its.add(
        ApprovalAsked(
            approval_id=approval, turn_id=turn, call_id=removed, name="delete_file", tier=Tier.WORKSPACE,
            reason="strict asks for every workspace call", arguments='{"path":"old-plan.txt"}', digest="0" * 64,
        ),
        after_ms=5,
    )  # fmt: skip
    child = Session(
        3,
        NOW_MS - 89 * MINUTE_MS + 1780,
        title="Measure the beds.",
        kind=SessionKind.WORKER,
        parent_id=its.name,
        parent_call_id=names[4],
    )
    for at, (ms, after_ms) in enumerate(((700, 680), (1250, 550), (1900, 650), (2100, 200))):
        its.finish(turn, names[at], calls[at][0], {"ok": True}, ms=ms, after_ms=after_ms)
    its.add(
        ApprovalAnswered(
            approval_id=approval,
            call_id=removed,
            decision="allow",
            answered_by="local",
        ),
        after_ms=700,
    )
    its.add(
        CallStarted(turn_id=turn, call_id=removed, approval_id=approval, digest="0" * 64),
        after_ms=5,
    )
    its.finish(turn, removed, "delete_file", {"deleted": "old-plan.txt"}, ms=20, after_ms=20)
    its.finish(turn, names[4], "delegate", {"answer": "Four beds."}, ms=3400, after_ms=580)
    its.answer(turn, Text("The beds are measured, and the old plan is gone."), ms=1100)
    its.end(turn, ms=6800)
    return its, child


def _others() -> Iterable[Session]:
    """Sessions of the last days, with the tokens that they took."""
    titles = (
        "Rename the seed list", "Why does the import of 2024 fail?", "整理一下上周的会议记录", "A test for the frost warning",
        "Draft of the letter to the council about the water meter", "Compare three rain sensors", "Prices of seeds", "Nothing new",
    )  # fmt: skip
    for number, title in enumerate(titles, start=4):
        day = number - 3
        agent = "researcher" if number % 3 == 0 else "general"
        model = "claude-haiku" if number % 2 else "claude-sonnet"
        its = Session(
            number, NOW_MS - day * DAY_MS - number * 17 * MINUTE_MS, title=title, agent=agent
        )
        turn = its.begin("What is new?", model)
        usage = Usage(
            input_tokens=9000 + day * 2900,
            output_tokens=900 + day * 170,
            cached_tokens=4000 + day * 850,
        )
        its.answer(turn, Text("Nothing."), usage=usage, model=model)
        its.end(
            turn,
            "failed" if number == 5 else "answered",
            message="The model is ill." if number == 5 else "",
        )
        if number == 4:
            for at, (text, tags) in enumerate(MEMORIES):
                its.add(
                    MemoryStored(
                        memory_id=f"memory_{at:020}", agent="general", text=text, tags=tags
                    ),
                    after_ms=MINUTE_MS,
                )
        yield its


def record() -> list[Stored]:
    """All events, each session's in order."""
    sessions = (
        *reversed(tuple(_others())),
        *_timeline(),
        _chat(),
    )  # lists have the one that was stored last first
    return [event for each in sessions for event in each.events]
