"""Answers that are larger or odder than they should be, and what models hear of them and of late ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.events import CallDeferred, CallFinished
from support.flows.deferring import LATER, Setting, changed, ended, is_asked, pending

NOTE = reply(calls=[("note", {"text": "one"})])


async def result_of(setting: Setting, said: Any, **limits: Any) -> tuple[str, str]:
    """The result of a call that is denied so, and the arguments that are kept of the call."""

    async def person(_: callboard.ApprovalRequest) -> Any:
        return said

    settings = Settings(limits=Limits(**limits))
    steps = [NOTE, reply("Done.")]
    async with setting.open(steps, person, agents=[], settings=settings) as runtime:
        session = await runtime.create_session()
        assert await session.run("Go.") == "Done."
        [call] = await runtime.store.calls(session_id=session.session_id)
    assert call.result is not None
    return call.result, call.arguments


@pytest.mark.parametrize("max_result_bytes", [1024, 64 * 1024])
@pytest.mark.parametrize("character", ["x", "\x01", "€", "\\"])
async def test_a_long_reason_is_cut(tmp_path: Path, character: str, max_result_bytes: int) -> None:
    denial = callboard.ApprovalAnswer(decision="deny", reason=character * 100_000)
    result, _ = await result_of(Setting(tmp_path), denial, max_result_bytes=max_result_bytes)
    assert len(result.encode()) <= max_result_bytes
    assert "[…]" in json.loads(result)["reason"]


@pytest.mark.parametrize("arguments", ["no JSON", '{"text":"another"}'])
async def test_arguments_of_a_denial_are_nobodys_call(tmp_path: Path, arguments: str) -> None:
    denial = callboard.ApprovalAnswer(decision="deny", arguments=arguments)
    result, kept = await result_of(Setting(tmp_path), denial)
    assert json.loads(result)["error_type"] == "permission_denied"
    assert kept == '{"text":"one"}'


async def test_silence_is_told_once(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    settings = Settings(limits=Limits(approval_seconds=0.01))
    async with setting.open(
        [NOTE, reply("Done.")], "wait", agents=[], settings=settings
    ) as runtime:
        session = await runtime.create_session()
        assert await session.run("Go.") == "Done."
        [call] = await runtime.store.calls(session_id=session.session_id)
    assert call.result is not None
    assert json.loads(call.result)["message"] == "Not run: nobody answered in time"


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_what_comes_of_a_revised_call_names_the_id_that_the_model_knows(
    tmp_path: Path, is_restarted: bool
) -> None:
    setting = Setting(tmp_path)
    steps = [reply(calls=[("reach", {"far": 1})]), *LATER]
    async with setting.open(steps, "wait") as runtime:
        session_id = await pending(runtime)
        [first] = await runtime.approvals()
        await runtime.answer(first.approval_id, changed({"far": 9}))
        [second] = await is_asked(runtime)
        if not is_restarted:
            await runtime.answer(second.approval_id, "allow")
            await ended(runtime, session_id, 2)
    async with setting.open(LATER[1:], "wait") as runtime:
        if is_restarted:
            await runtime.answer(second.approval_id, "allow")
        events = await ended(runtime, session_id, 2)
        if not is_restarted:
            await (await runtime.get_session(session_id)).run("Well?")
    [deferred] = [event for event in events if isinstance(event, CallDeferred)]
    assert deferred.approval_id == first.approval_id != second.approval_id
    assert any(isinstance(event, CallFinished) for event in events)
    told = setting.inputs(-1)[1]
    assert first.approval_id in told
    assert second.approval_id in told
