"""`approval/list` and `question/list` by page: bounded in rows and in bytes, and nothing left out."""

from __future__ import annotations

from typing import Any

import msgspec

from callboard.embedding.runtime import host_of
from callboard.gateway.shared.pages import PAGE_BYTES
from callboard.runtime.definitions import Tier
from callboard.runtime.events import (
    ApprovalAsked,
    CallProposed,
    DurableEvent,
    InputAccepted,
    QuestionAsked,
    TurnStarted,
)
from callboard.runtime.identity import now_ms
from callboard.runtime.messages import AppendEvents
from support.gateway.daemon_scene import open_client, open_daemon, open_raw


def question(number: int) -> DurableEvent:
    return ApprovalAsked(
        approval_id=f"approval_{number}",
        turn_id="t",
        call_id=f"c{number}",
        name="write_file",
        tier=Tier.WORKSPACE,
        reason="it writes",
        arguments="{}",
        digest="d",
        preview="x" * 200_000,
    )


async def test_all_questions_are_listed_in_pages_that_end_at_a_size() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client, open_raw(daemon) as raw:
        session = await daemon.runtime.create_session()
        events = tuple(question(number) for number in range(12))
        await host_of(daemon.runtime).journal.ask(
            AppendEvents(session_id=session.session_id, events=events)
        )
        expected = [f"approval_{number}" for number in reversed(range(12))]
        await raw.hello()
        found: list[str] = []
        sizes: list[int] = []
        params: dict[str, Any] = {"limit": 7}
        has_more = True
        while has_more:
            page = (await raw.call("approval/list", **params))["result"]
            found += [each["approval_id"] for each in page["approvals"]]
            sizes.append(len(msgspec.json.encode(page)))
            params["before"], has_more = found[-1], page["has_more"]
        assert found == expected
        assert len(sizes) > 2
        assert max(sizes) < PAGE_BYTES + 1000
        assert [each.approval_id for each in await client.approvals()] == expected
        none = (await raw.call("approval/list", before="approval_none"))["result"]
        assert none == {"approvals": [], "has_more": False}


def asked(number: int, expires_at_ms: int) -> tuple[DurableEvent, ...]:
    call = f"c{number}"
    return (
        CallProposed(
            turn_id="t", message_id="m", call_id=call, index=number, name="ask_user", arguments="{}"
        ),
        QuestionAsked(
            question_id=f"question_{number}",
            turn_id="t",
            call_id=call,
            question="x" * 200_000,
            options=("left",),
            expires_at_ms=expires_at_ms,
        ),
    )


async def test_questions_of_models_are_listed_in_pages_and_a_page_goes_on_behind_one_that_is_answered() -> (
    None
):
    async with open_daemon() as daemon, open_client(daemon) as client, open_raw(daemon) as raw:
        session = await daemon.runtime.create_session()
        until = now_ms() + 3_600_000
        turn = (
            InputAccepted(input_id="i", text="Ask."),
            TurnStarted(turn_id="t", input_ids=("i",), provider="p", model="m"),
        )
        # The last ones were asked by sessions that wait less long; two end at one moment.
        ends = [until + 1000 * (number % 8) for number in range(12)]
        questions = [each for n, end in enumerate(ends) for each in asked(n, end)]
        await host_of(daemon.runtime).journal.ask(
            AppendEvents(session_id=session.session_id, events=(*turn, *questions))
        )
        names = [f"question_{number}" for number in range(12)]
        expected = sorted(names, key=lambda name: (ends[names.index(name)], name))
        await raw.hello()
        found: list[str] = []
        sizes: list[int] = []
        answered = ""
        params: dict[str, Any] = {"limit": 7}
        while True:
            page = (await raw.call("question/list", **params))["result"]
            found += [each["question_id"] for each in page["questions"]]
            sizes.append(len(msgspec.json.encode(page)))
            if page.get("next_after") is None:
                break
            params["after"] = page["next_after"]
            if len(sizes) == 1:
                answered = found[-1]
                await client.answer_question(answered, option=0)
        assert found == expected
        assert len(sizes) > 2
        assert max(sizes) < PAGE_BYTES + 1000
        left = await client.questions()
        assert [each.question_id for each in left] == [e for e in expected if e != answered]
        refused = await raw.call("question/list", limit=0)
        assert "limit is from 1 to 1000" in refused["error"]["message"]
