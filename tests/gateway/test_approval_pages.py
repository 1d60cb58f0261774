"""`approval/list` by page: bounded in rows and in bytes, and nothing left out."""

from __future__ import annotations

from typing import Any

import msgspec

from callboard.embedding.runtime import host_of
from callboard.gateway.shared.pages import PAGE_BYTES
from callboard.runtime.definitions import Tier
from callboard.runtime.events import ApprovalAsked, DurableEvent
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
