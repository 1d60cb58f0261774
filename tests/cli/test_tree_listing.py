"""Sessions below others, in `callboard sessions` and `callboard show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

import callboard
from callboard.__main__ import main
from callboard.providers.testing.script import reply

Captured = pytest.CaptureFixture[str]


async def record(folder: Path) -> tuple[str, str]:
    """A session and a worker below it; gives their ids."""
    task = ("delegate", {"kind": "worker", "task": "Look\x1b around."})
    model = callboard.ScriptedModel([reply(calls=[task]), reply("I looked."), reply("Done.")])
    (folder / "work").mkdir()
    async with callboard.open_runtime(
        model=model, data=folder / "data", workspace=folder / "work", environ={}
    ) as runtime:
        session = await runtime.create_session()
        await session.run("Have a look.")
        [child] = await runtime.store.children(session.session_id)
        return session.session_id, child.session_id


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    ids = trio.run(record, tmp_path)
    monkeypatch.chdir(tmp_path / "work")
    return ids


def test_those_below_are_listed_when_they_are_wanted(
    ids: tuple[str, str], capsys: Captured
) -> None:
    parent, child = ids
    assert main(["sessions"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(parent)
    assert main(["sessions", "--delegated"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    [below] = [each for each in lines if each.startswith(child)]
    assert below.endswith(f"worker of {parent}: Look around.")
    assert main(["sessions", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["sessions", "--json", "--delegated"]) == 0
    rows = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert {row["parent_id"] for row in rows} == {None, parent}


def test_a_session_names_those_below_and_the_one_above(
    ids: tuple[str, str], capsys: Captured
) -> None:
    parent, child = ids
    assert main(["show", parent]) == 0
    shown = capsys.readouterr().out
    assert f"- worker below: {child} (Look around.)" in shown
    assert "\x1b" not in shown
    assert main(["show", child]) == 0
    shown = capsys.readouterr().out
    assert f"- worker of: {parent}" in shown
    assert "worker below" not in shown


def test_the_last_session_is_a_main_one(ids: tuple[str, str], capsys: Captured) -> None:
    assert main(["show", "last"]) == 0
    assert f"- session: {ids[0]}" in capsys.readouterr().out
