"""Calls that act, on a node whose lease ends: they don't begin, or are cut off."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from callboard.actors.calls.effect_gate import CUT_OFF, NOT_BEGUN, run_behind
from callboard.actors.calls.outcome import CallOutcome
from callboard.runtime.definitions import CallStatus, Effect, Resource
from callboard.runtime.kernel.lease_gate import LeaseGate

DONE = CallOutcome(status=CallStatus.SUCCESS, content="done")


def call_of(effect: Effect) -> Any:
    return SimpleNamespace(effect=effect)


async def done() -> CallOutcome:
    await trio.lowlevel.checkpoint()
    return DONE


@pytest.mark.parametrize("effect", [Effect.ONCE, Effect.IDEMPOTENT])
async def test_a_call_that_acts_begins_only_while_the_lease_has_time(effect: Effect) -> None:
    is_open = True
    gate = LeaseGate(lambda: is_open)
    assert await run_behind(gate, call_of(effect), done) is DONE
    is_open = False
    refused = await run_behind(gate, call_of(effect), done)
    assert refused.status is CallStatus.INTERRUPTED
    assert NOT_BEGUN in refused.content


async def test_a_call_that_only_reads_begins_at_any_time() -> None:
    assert await run_behind(LeaseGate(lambda: False), call_of(Effect.READ), done) is DONE


async def test_what_runs_when_the_lease_ends_is_cut_off_and_the_next_may_run() -> None:
    gate = LeaseGate(lambda: True)
    outcomes: list[CallOutcome] = []

    async def run() -> None:
        outcomes.append(await run_behind(gate, call_of(Effect.ONCE), sleep))

    async def sleep() -> CallOutcome:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        gate.cut_off()
    assert [outcome.status for outcome in outcomes] == [CallStatus.INTERRUPTED] * 2
    assert all(CUT_OFF in outcome.content for outcome in outcomes)
    assert await run_behind(gate, call_of(Effect.ONCE), done) is DONE


async def test_a_cancelled_call_is_cancelled_and_not_cut_off() -> None:
    gate = LeaseGate(lambda: True)
    with trio.move_on_after(0) as scope:
        await run_behind(gate, call_of(Effect.ONCE), trio.sleep_forever)
        raise AssertionError("it went on")
    assert scope.cancelled_caught


async def test_a_call_holds_what_it_writes_against_other_nodes_while_it_runs() -> None:
    held: list[object] = []

    @asynccontextmanager
    async def holding(workspace: str, resources: Sequence[Resource]) -> AsyncGenerator[None]:
        held.append((workspace, resources))
        try:
            yield
        finally:
            held.append("given back")

    async def call() -> CallOutcome:
        held.append("runs")
        return await done()

    gate, resources = LeaseGate(lambda: True), (Resource("a.txt"),)
    gate.holding = holding
    ready: Any = SimpleNamespace(effect=Effect.IDEMPOTENT, resources=resources)
    assert await run_behind(gate, ready, call, "/work") is DONE
    assert held == [("/work", resources), "runs", "given back"]
    held.clear()
    ready.resources = ()
    assert await run_behind(gate, ready, call, "/work") is DONE
    assert held == ["runs"]
