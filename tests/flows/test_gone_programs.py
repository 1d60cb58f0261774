"""Background programs that ended with callboard's own process: the session is told which."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.events import CallFinished, Stored, TurnStarted
from support.sandbox.sandbox_users import needs_sandbox
from support.stage import messages_of, open_in, read_result

BEGIN = ("shell", {"command": "echo up; sleep 600", "background": True})
SHORT = ("shell", {"command": "true", "background": True})
WAIT = ("process", {"action": "wait", "id": "p2"})
GONE = "these background processes of this session are gone"


def started(events: list[Stored]) -> list[tuple[str, ...]]:
    return [each.event.gone for each in events if isinstance(each.event, TurnStarted)]


@pytest.mark.parametrize("crashes", [False, True], ids=["stop", "crash"])
async def test_after_a_restart_the_model_is_told_once_what_is_gone(
    tmp_path: Path, crashes: bool
) -> None:
    needs_sandbox()
    steps = [reply(calls=[BEGIN, SHORT]), reply(calls=[WAIT]), reply("Up."), reply("Still up.")]
    async with open_in(tmp_path, steps, "disk", on_approval="allow") as runtime:
        session = await runtime.create_session()
        await session.run("Start it.")
        await session.run("Is it up?")
        kept = await runtime.store.events(session.session_id)
        if crashes:
            shutil.copytree(tmp_path / "data", tmp_path / "killed")
    if crashes:
        shutil.rmtree(tmp_path / "data")
        (tmp_path / "killed").rename(tmp_path / "data")
    first = next(each.event for each in kept if isinstance(each.event, CallFinished))
    assert read_result(first)["result"]["started"] is True
    assert first.display == "shell: p1 started: echo up; sleep 600"
    assert started(kept) == [(), ()], "the control: it runs"

    model = callboard.ScriptedModel([reply("I start it again."), reply("Yes.")])
    async with open_in(tmp_path, model, "disk") as runtime:
        session = await runtime.get_session(session.session_id)
        await session.run("And now?")
        await session.run("Sure?")
        assert started(await runtime.store.events(session.session_id))[2:] == [("p1",), ()]
    for request in model.requests:
        texts = [str(each["content"]) for each in messages_of(request)]
        [note] = [text for text in texts if GONE in text]
        assert "shell: p1 started: echo up; sleep 600" in note
        assert "p2" not in note, "the model has heard of that end"
        assert texts.index(note) <= next(at for at, text in enumerate(texts) if "And now?" in text)
