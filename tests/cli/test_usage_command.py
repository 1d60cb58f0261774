"""`callboard usage`, in this process, over a store that a scripted model has filled."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.__main__ import main
from callboard.providers.testing.script import reply
from callboard.runtime.stream import Usage

PRICES = '[prices."local/ScriptedModel"]\ninput = 100\noutput = 100\n'
CALL = reply("A moment.", calls=[("get_current_time", {})], usage=Usage(1000, 200, 0, 0))
STEPS = (CALL, reply("Noon.", usage=Usage(10, 2)), reply("Hm.", usage=None))

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has asked twice, in two sessions, with prices for the model."""
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "callboard.toml").write_text(PRICES)
    return tmp_path


@pytest.fixture
def ids(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of the sessions: the first has two calls, of known cost; the other's are not counted."""
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    return trio.run(_ask, home)


async def _ask(home: Path) -> list[str]:
    found = []
    async with callboard.open_runtime(
        model=callboard.ScriptedModel(STEPS), data=home / "data", workspace=home / "work"
    ) as runtime:
        for prompt in ("What time is it?", "And now?"):
            session = await runtime.create_session()
            await session.run(prompt)
            found.append(session.session_id)
    return found


def lines(capsys: Captured) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_for_each_session_and_one_for_all(ids: list[str], capsys: Captured) -> None:
    assert main(["usage"]) == 0
    out = re.sub(r"about [0-9,]+ more", "about N more", capsys.readouterr().out)
    first, second, total = out.splitlines()
    model = "(local/ScriptedModel)"
    assert first == f"{ids[0]} {model}  2 calls  1,010 in  202 out  $0.12"
    unknown = "1 call without a count of tokens"
    estimated = "about N more, estimated"
    assert second == f"{ids[1]} {model}  1 call  ? in  ? out  unknown: {unknown}  {estimated}"
    assert (
        total
        == f"total {model}  3 calls  1,010 in  202 out  at least $0.12, {unknown}  {estimated}"
    )


def test_one_session_by_its_turns_calls_or_model(ids: list[str], capsys: Captured) -> None:
    assert main(["usage", ids[0][:16], "--json"]) == 0
    [turn] = lines(capsys)
    assert turn["name"].startswith("turn_")
    assert (turn["session_id"], turn["agent"], turn["calls"]) == (ids[0], "general", 2)
    assert turn["cost"] == pytest.approx(0.1212)
    assert main(["usage", ids[0], "--by", "call", "--json"]) == 0
    assert [call["input_tokens"] for call in lines(capsys)] == [1000, 10]
    assert main(["usage", "last", "--by", "model", "--json"]) == 0
    [model] = lines(capsys)
    assert (model["name"], model["cost"], model["uncounted_calls"]) == (
        "local/ScriptedModel",
        None,
        1,
    )


def test_a_price_that_nobody_named_is_unknown_and_a_new_one_holds_at_once(
    home: Path, ids: list[str], capsys: Captured
) -> None:
    config = home / "config" / "callboard.toml"
    config.write_text("")
    assert main(["usage", ids[0]]) == 0
    assert capsys.readouterr().out.endswith("  unknown: 2 calls without a known price\n")
    config.write_text(PRICES.replace("100", "1"))
    assert main(["usage", ids[0]]) == 0
    assert capsys.readouterr().out.endswith("  $0.0012\n")


@pytest.mark.parametrize(
    ("since", "count"), [("1m", 2), ("36500d", 2), ("2020-01-31", 2), ("0m", 0), ("9999-01-01", 0)]
)
def test_only_what_was_since_then_counts(
    ids: list[str], since: str, count: int, capsys: Captured
) -> None:
    assert main(["usage", "--since", since, "--json"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == count
    assert ("no model call" in printed.err) == (count == 0)


def test_where_nothing_is_on_record_it_says_so(home: Path, capsys: Captured) -> None:
    assert main(["usage"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, "no model call on record" in printed.err) == ("", True)
    assert main(["usage", "last"]) == 1


@pytest.mark.parametrize(
    ("tokens", "code", "said"),
    [
        (["--since", "3x"], 2, "--since '3x' is not a time: write 30d"),
        (["--since", "2026-13-01"], 2, "is not a time"),
        (["--by", "week"], 2, "Choose from"),
        (["--bye", "day"], 2, 'Did you mean "--by"?'),
        (["nobody"], 1, "There is no session 'nobody'"),
    ],
)
def test_wrong_usage_of_usage(
    ids: list[str], tokens: list[str], code: int, said: str, capsys: Captured
) -> None:
    assert main(["usage", *tokens]) == code
    assert said in capsys.readouterr().err
