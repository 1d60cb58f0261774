"""Messages that a person deletes: nobody reads them any more, and the history stays valid."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import callboard
from callboard.actors.conversation.conversation import Conversation
from callboard.embedding.runtime import Runtime, host_of
from callboard.providers.testing.script import Step, reply
from callboard.runtime.errors import ConflictError, NotFoundError
from support.stage import Stage, on_both_stores, open_stage

SECRET = "the word is marzipan"
CALL = ("write_file", {"path": "a.txt", "content": SECRET})


async def named(session: callboard.Session, kind: str, at: int = 0) -> str:
    rows = [row for row in await session.messages() if row.type == kind]
    return rows[at].message_id


async def told(stage: Stage, session: callboard.Session) -> str:
    """Everything that anybody can read of a session, but for the journal itself."""
    runtime, session_id = stage.runtime, session.session_id
    rows = await session.messages()
    hits = await runtime.search("marzipan")
    lines = await host_of(runtime).keeping.export(session_id)
    shown = await runtime.store.shown_bytes(session_id)
    row = await runtime.store.session(session_id)
    return " ".join(
        [
            str(msgspec.to_builtins([*rows, *hits, row])),
            *(line.decode() for line in lines),
            *(bytes(each.event).decode() for each in shown),
        ]
    )


@pytest.mark.parametrize("kind", ["user", "assistant", "tool_call", "tool_result"])
@on_both_stores
async def test_nobody_reads_it_any_more(tmp_path: Path, store: str, kind: str) -> None:
    said = {"user": SECRET, "assistant": SECRET}
    steps: list[Step] = [
        reply(said["assistant"] if kind == "assistant" else "I write.", calls=[CALL]),
        reply("Done."),
        reply("Fine."),
    ]
    if kind in {"user", "assistant"}:
        steps[0] = reply(said[kind] if kind == "assistant" else "I write.")
        del steps[1]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session = await stage.runtime.create_session()
        await session.run(SECRET if kind == "user" else "Go.")
        assert "marzipan" in await told(stage, session)  # the control
        deleted = await session.delete_messages([await named(session, kind)])
        assert len(deleted) == (2 if kind.startswith("tool") else 1)
        for each in (session, await session.fork()):
            assert "marzipan" not in await told(stage, each)
        await session.run("And now?")
        assert "marzipan" not in str(stage.sent[-1])
        gone = [row.message_id for row in await session.messages() if row.is_deleted]
        assert sorted(gone) == sorted(deleted)
        record = await stage.runtime.store.events(session.session_id)
        assert "marzipan" in str(record)  # the journal keeps it, until the session is purged


@on_both_stores
async def test_a_history_without_it_is_still_valid(tmp_path: Path, store: str) -> None:
    """Each call has its result, and whoever speaks next is who should."""
    steps: list[Step] = [
        reply("I write.", calls=[CALL, CALL]),
        reply("Done."),
        reply("Fine."),
        reply("Yes."),
    ]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session = await stage.runtime.create_session()
        await session.run("Go.")
        await session.delete_messages([await named(session, "tool_call")])
        await session.run("And now?")
        await session.delete_messages(
            [await named(session, "assistant", 1), await named(session, "user")]
        )
        await session.run("Really?")
        *_, before, after = stage.sent
        for messages in (before, after):
            calls = [c["id"] for m in messages for c in m.get("tool_calls", ())]
            results = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
            assert calls == results
            assert len(calls) == 2
        assert [m["role"] for m in after] == [m["role"] for m in before] + ["assistant", "user"]


async def test_a_restart_forgets_it_too(tmp_path: Path) -> None:
    async def sent(runtime: Runtime) -> Conversation:
        (row,) = await runtime.sessions()
        conversation = Conversation()
        conversation.fold_all(await runtime.store.events(row.session_id))
        return conversation

    model = callboard.ScriptedModel([reply("One."), reply("Two.")])
    data, work = tmp_path / "data", tmp_path / "work"
    work.mkdir()
    async with callboard.open_runtime(model=model, data=data, workspace=work) as runtime:
        session = await runtime.create_session()
        await session.run(SECRET)
        await session.delete_messages([await named(session, "user")])
        await session.run("And now?")
        before = str(model.requests[-1])
        assert "marzipan" not in before
    async with callboard.open_runtime(model="rehearsal", data=data, workspace=work) as runtime:
        rounds = (await sent(runtime)).rounds
        assert "marzipan" not in str([each.items for each in rounds])
        assert len(rounds) == 2


async def test_while_a_turn_runs_nothing_is_deleted(tmp_path: Path) -> None:
    steps: list[Step] = [reply("One."), reply(calls=[("get_current_time", {})]), reply("Two.")]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        await session.run("Say one.")
        first = await named(session, "user")
        async with session.prompt("Say two.") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallProposed):
                    with pytest.raises(ConflictError, match="a turn of the session runs"):
                        await session.delete_messages([first])
        assert await session.delete_messages([first]) == (first,)


async def test_what_is_not_there_is_not_deleted(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("One.")]) as stage:
        session = await stage.runtime.create_session()
        await session.run("Say one.")
        first = await named(session, "user")
        with pytest.raises(NotFoundError, match="no message nothing"):
            await session.delete_messages([first, "nothing"])
        assert not any(row.is_deleted for row in await session.messages())


async def test_a_turn_whose_input_was_deleted_is_not_run_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("One."), reply("Two.")]) as stage:
        session = await stage.runtime.create_session()
        await session.run("Say one.")
        await session.delete_messages([await named(session, "user")])
        with pytest.raises(ConflictError, match="prompt again"):
            async with session.regenerate():
                pass
        assert await session.run("Say two.") == "Two."
