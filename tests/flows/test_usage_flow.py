"""What turns took and cost, as programs ask for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.config.prices import Price
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ValidationError
from callboard.runtime.identity import now_ms
from callboard.runtime.stream import Usage
from support.stage import on_both_stores, open_local_stage, open_stage, run_in

PRICED = Settings(
    limits=Limits(model_retries=0),
    prices={"custom/scripted": Price(input=10.0, output=100.0, cached_input=1.0)},
)
CALL = reply(calls=[("get_current_time", {})], usage=Usage(1_000_000, 10_000, 500_000, 0))
NOON = reply("Noon.", usage=Usage(100_000, 0, 0, 0))


@on_both_stores
async def test_the_cost_of_a_turn_is_that_of_its_model_calls(tmp_path: Path, store: str) -> None:
    steps = [CALL, NOON, reply("Later.", usage=None)]
    async with open_stage(tmp_path, steps, store=store, settings=PRICED) as stage:
        session = await run_in(stage.runtime, "What time is it?")
        other = await run_in(stage.runtime, "And now?")

        [turn] = (await session.usage()).sums
        assert (turn.calls, turn.model, turn.agent) == (2, "custom/scripted", "general")
        assert (turn.input_tokens, turn.output_tokens) == (1_100_000, 10_000)
        assert turn.cost == pytest.approx(5.0 + 0.5 + 1.0 + 1.0)

        report = await stage.runtime.usage()
        assert [each.name for each in report.sums] == [session.session_id, other.session_id]
        assert report.total.cost == pytest.approx(7.5)
        assert (report.total.calls, report.total.uncounted_calls) == (3, 1)
        assert (report.sums[1].cost, report.sums[1].input_tokens) == (None, None)
        assert (await stage.runtime.usage(since_ms=now_ms() + 60_000)).sums == ()
        with pytest.raises(ValidationError, match="choices: call, turn"):
            await stage.runtime.usage(by="week")  # type: ignore[arg-type]


async def test_a_model_without_a_known_price_has_no_cost(tmp_path: Path) -> None:
    async with open_local_stage(tmp_path, [reply("Hm.", usage=Usage(1, 1))]) as (runtime, _):
        await (await runtime.create_session()).run("Think.")
        [model] = (await runtime.usage(by="model")).sums
        assert (model.name, model.cost, model.unpriced_calls) == ("local/ScriptedModel", None, 1)
