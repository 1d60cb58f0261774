"""Inputs that nobody sits in front of: made once, and what needs a person is denied or waits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

import callboard
from callboard.embedding.unattended.once import SESSION, OutsideInput, submit_once
from callboard.providers.testing.script import reply
from callboard.runtime.errors import NotFoundError
from callboard.runtime.events import InputAccepted
from callboard.runtime.identity import RequestKey
from callboard.runtime.turn_options import Unattended
from support.cast import Cast, open_cast, part, task
from support.stage import on_both_stores, open_in
from support.waiting import noted, tools_of

NOTE = reply(calls=[("note", {"text": "one"})])
DELIVERY = OutsideInput(request=RequestKey("ci", "hook", "delivery-7", ""), text="Go.", title="CI")


class Desk(callboard.Channel):
    """Allows what it is asked about, and counts that."""

    name = "desk"
    asked = 0

    async def approve(self, request: callboard.ApprovalRequest) -> bool:
        self.asked += 1
        return True

    async def ask(self, question: callboard.UserQuestion) -> str:
        self.asked += 1
        return "yes"


@pytest.mark.parametrize(
    ("unattended", "agent_defers", "status", "asked"),
    [
        (None, False, "success", 1),  # the control: a person sits there
        ("deny", False, "denied", 0),
        ("deny", True, "denied", 0),
        ("defer", False, "deferred", 0),
    ],
)
async def test_nobody_is_asked(
    tmp_path: Path, unattended: Unattended | None, agent_defers: bool, status: str, asked: int
) -> None:
    desk, agents = Desk(), [callboard.Agent(defer=agent_defers)]
    options = {"tools": tools_of(tmp_path), "agents": agents, "channel": desk}
    async with open_in(tmp_path, [NOTE, reply("Done.")], "memory", **options) as runtime:
        session = await runtime.create_session()
        assert await session.run("Go.", unattended=unattended) == "Done."
        [call] = await runtime.store.calls(name="note")
        waiting = await runtime.approvals()
    assert (call.status, desk.asked, len(waiting)) == (status, asked, int(status == "deferred"))
    assert noted(tmp_path) == (["one"] if asked else [])


@pytest.mark.parametrize("unattended", [None, "deny"])
async def test_a_question_of_the_model_finds_nobody(
    tmp_path: Path, unattended: Unattended | None
) -> None:
    desk, steps = Desk(), [reply(calls=[("ask_user", {"question": "Shall I?"})]), reply("Done.")]
    async with open_in(tmp_path, steps, "memory", channel=desk) as runtime:
        session = await runtime.create_session()
        await session.run("Go.", unattended=unattended)
        [call] = await runtime.store.calls(name="ask_user")
    assert (call.status == "success", desk.asked) == (unattended is None, int(unattended is None))


@pytest.mark.parametrize("unattended", [None, "deny", "defer"])
async def test_what_is_delegated_asks_nobody_either(
    tmp_path: Path, unattended: Unattended | None
) -> None:
    desk, cast = Desk(), Cast({"Go.": part(task("Note it.")), "Note it.": [NOTE, reply("Done.")]})
    async with open_cast(tmp_path, cast, tools=tools_of(tmp_path), channel=desk) as runtime:
        session = await runtime.create_session()
        await session.run("Go.", unattended=unattended)
        [call] = await runtime.store.calls(name="note")
    assert (call.status, desk.asked) == (("success", 1) if unattended is None else ("denied", 0))


async def inputs_of(runtime: callboard.Runtime) -> dict[str, list[str]]:
    """The texts of all inputs, by session."""
    return {
        row.session_id: [
            stored.event.text
            for stored in await runtime.store.events(row.session_id)
            if isinstance(stored.event, InputAccepted)
        ]
        for row in await runtime.sessions()
    }


@on_both_stores
async def test_an_input_with_a_name_outside_is_made_once(tmp_path: Path, store: str) -> None:
    async with open_in(tmp_path, [reply("Done.")], store) as runtime:
        made = []

        async def deliver() -> None:
            made.append(await submit_once(runtime, DELIVERY))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(deliver)
        await deliver()
        assert len({(each.session_id, each.input_id, each.seq) for each in made}) == 1
        assert sum(each.is_new for each in made) == 1
        assert await inputs_of(runtime) == {made[0].session_id: ["Go."]}
        row = await runtime.store.session(made[0].session_id)
        assert row is not None
        assert row.title == "CI"


@on_both_stores
async def test_a_try_that_was_cut_off_is_taken_up(tmp_path: Path, store: str) -> None:
    async with open_in(tmp_path, [reply("Done.")], store) as runtime:
        begun = await runtime.create_session(
            request=msgspec.structs.replace(DELIVERY.request, method="hook" + SESSION)
        )  # and there it was killed
        made = await submit_once(runtime, DELIVERY)
        assert made.session_id == begun.session_id
        assert await inputs_of(runtime) == {begun.session_id: ["Go."]}


@on_both_stores
async def test_wherever_a_try_is_cut_off_the_next_one_makes_it_one(
    tmp_path: Path, store: str
) -> None:
    """The daemon dies anywhere in it: here each step is cancelled in turn."""
    async with open_in(tmp_path, [reply("Done.")] * 40, store) as runtime:
        for step in range(1, 40):
            given = msgspec.structs.replace(
                DELIVERY, request=RequestKey("ci", "hook", str(step), ""), text=f"Go {step}."
            )
            cut = Cut(step)
            trio.lowlevel.add_instrument(cut)
            try:
                with cut.scope:
                    await submit_once(runtime, given)
            finally:
                trio.lowlevel.remove_instrument(cut)
            await submit_once(runtime, given)
            if not cut.scope.cancelled_caught:
                break
        else:
            raise AssertionError("it is never done")
        texts = [text for its in (await inputs_of(runtime)).values() for text in its]
    assert sorted(texts) == sorted(f"Go {each}." for each in range(1, step + 1))


class Cut(trio.abc.Instrument):
    """Cancels a scope before the n-th step of the task that made this."""

    def __init__(self, at: int) -> None:
        self.scope = trio.CancelScope()
        self._left = at
        self._task = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= task is self._task
        if self._left == 0:
            self.scope.cancel(reason="cut off")


async def test_it_goes_to_the_session_that_is_named_while_that_is_open(tmp_path: Path) -> None:
    agents = [callboard.Agent(name="reader")]
    async with open_in(tmp_path, [reply("Done.")] * 4, "memory", agents=agents) as runtime:
        first = await submit_once(runtime, named("1"))
        same = await submit_once(runtime, named("2"), session_id=first.session_id)
        assert same.session_id == first.session_id
        reader = msgspec.structs.replace(named("3"), agent="reader")
        other = await submit_once(runtime, reader, session_id=first.session_id)
        assert other.session_id != first.session_id
        await until_idle(runtime)
        await (await runtime.get_session(first.session_id)).delete()
        last = await submit_once(runtime, named("4"), session_id=first.session_id)
        assert last.session_id not in {first.session_id, other.session_id}
        gone = msgspec.structs.replace(named("5"), agent="nobody")
        with pytest.raises(NotFoundError, match="no agent 'nobody'"):
            await submit_once(runtime, gone)


def named(key: str) -> OutsideInput:
    return msgspec.structs.replace(DELIVERY, request=RequestKey("ci", "hook", key, ""))


async def until_idle(runtime: callboard.Runtime) -> None:
    while (await runtime.status()).turns:  # noqa: ASYNC110
        await trio.sleep(0.003)
