"""Questions as they are shown by id, with what other arguments would make of them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.config.files import parse_settings
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError

SEALED = """
[[rules]]
tool = "write_file"
verdict = "deny"
reason = "Nobody writes there."
arguments.path = { path = "sealed/**" }
"""


def arguments(**values: Any) -> str:
    return json.dumps({"path": "a.txt", "content": "new\n", **values})


@callboard.tool(
    approval="always",
    raise_tier=lambda a: callboard.Tier.ELEVATED if a.far else callboard.Tier.SYSTEM,
)
def launch(far: bool) -> str:
    """Launches a rocket."""
    return "launched"


@asynccontextmanager
async def asked(
    folder: Path, name: str = "write_file", text: str = arguments(), *, defer: bool = False
) -> AsyncGenerator[tuple[callboard.Runtime, str]]:
    """A runtime in which a question waits, and its id."""
    (folder / "a.txt").write_text("old\n")
    agent = callboard.Agent(name="asker", defer=defer)
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply(calls=[(name, text)]), reply("So be it.")]),
        workspace=folder, environ={}, tools=[launch], agents=[agent], on_approval="wait",
        settings=parse_settings(SEALED, folder), strict=True,
    ) as runtime:  # fmt: skip
        session = await runtime.create_session(agent="asker")
        async with session.prompt("Go.") as turn:
            while not (rows := await runtime.approvals()):
                await turn.fetch_events()
            try:
                yield runtime, rows[0].approval_id
            finally:
                if not defer:
                    await runtime.answer(rows[0].approval_id, "deny")  # noqa: ASYNC102


async def test_a_question_is_shown_as_it_is_asked(tmp_path: Path) -> None:
    async with asked(tmp_path) as (runtime, approval_id):
        (row,) = await runtime.approvals()
        request = await runtime.approval(approval_id)
        assert (request.tool, request.reason) == (row.tool, row.reason)
        assert (request.arguments, request.preview) == (row.arguments, row.preview)
        assert request.digest == row.digest
        assert request.scopes == ("call", "turn", "session", "agent", "always")
        assert await runtime.approvals() == [row]


async def test_other_arguments_are_judged_and_previewed_and_nothing_is_answered(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path) as (runtime, approval_id):
        before = await runtime.approvals()
        request = await runtime.approval(approval_id)
        changed = await runtime.approval(
            approval_id, arguments=arguments(path="b.txt", approved=True)
        )
        assert json.loads(changed.arguments) == {"path": "b.txt", "content": "new\n"}
        assert changed.preview.startswith("new file b.txt (4 bytes)")
        assert "a.txt" not in changed.preview
        assert changed.reason == "balanced lets workspace calls run"
        assert changed.digest != request.digest
        for wrong, said in (
            (arguments(path=7), "`path`: expected string"),
            (arguments(path="sealed/a.txt"), "Nobody writes there."),
            ("{", "not JSON"),
        ):
            with pytest.raises(ValidationError, match=said) as refused:
                await runtime.approval(approval_id, arguments=wrong)
            assert "call it again" not in str(refused.value)
        assert await runtime.approvals() == before
        assert not (tmp_path / "b.txt").exists()


async def test_what_gets_more_dangerous_can_not_be_remembered_by_that_answer(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path, "launch", '{"far": false}') as (runtime, approval_id):
        assert "session" in (await runtime.approval(approval_id)).scopes
        changed = await runtime.approval(approval_id, arguments='{"far": true}')
        assert (changed.tier, changed.scopes) == (callboard.Tier.ELEVATED, ("call",))


async def test_a_deferred_question_is_not_remembered_for_its_turn(tmp_path: Path) -> None:
    async with asked(tmp_path, defer=True) as (runtime, approval_id):
        request = await runtime.approval(approval_id)
        assert request.is_deferred
        assert request.scopes == ("call", "session", "agent", "always")


async def test_what_does_not_wait_is_not_shown(tmp_path: Path) -> None:
    async with asked(tmp_path, defer=True) as (runtime, approval_id):
        await runtime.answer(approval_id, "deny")
        with pytest.raises(ConflictError, match="is not open: it is denied"):
            await runtime.approval(approval_id)
        with pytest.raises(NotFoundError, match="no question approval_1"):
            await runtime.approval("approval_1")
