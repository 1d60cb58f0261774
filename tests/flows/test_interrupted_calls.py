"""The runtime fails under an answer's calls: each has its one result, and none runs again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from callboard.providers.testing.script import reply
from callboard.tools.workspace import atomic_write, workspace
from support.flows.interrupted import (
    READY,
    Aftermath,
    break_down,
    crash_broker,
    crash_dispatcher,
    crash_session,
    kill,
)
from support.stage import open_in

each_state = pytest.mark.parametrize("state", READY)

STARTS = {
    "done": ["call_proposed", "call_started"],
    "runs": ["call_proposed", "call_started"],
    "reads": ["call_proposed", "call_started"],
    "waits_for_a_key": ["call_proposed"],
    "waits_for_a_person": ["call_proposed", "approval_asked"],
}
"""What a consumer has heard of each call before anything fails."""

UNKNOWN = "its outcome is unknown. Check before you retry."
NOT_BEGUN = "began to change anything"


class Fate(msgspec.Struct, frozen=True):
    """How a call ended: its status, words that the model gets, and what its tool did."""

    status: str
    words: str
    noted: tuple[str, ...]


SUCCESS = Fate("success", "", ("began", "ended"))
ASKED_AGAIN = Fate("denied", "Not run: denied by application", ())
CUT_OFF = Fate("interrupted", UNKNOWN, ("began", "stopped"))


def check(after: Aftermath, state: str, fate: Fate) -> None:
    """One result, the same on record, for the model, and after each restart."""
    assert after.states[state] == fate.status
    content = after.contents[state]
    assert after.contents_later[state] == content
    if fate.status == "success":
        assert content == {"status": "success", "result": state}
    else:
        error_type = "interrupted" if fate.status == "interrupted" else "permission_denied"
        assert (content["status"], content["error_type"]) == ("error", error_type)
        assert fate.words in content["message"]
    noted = [line.partition(" ")[2] for line in after.noted if line.partition(" ")[0] == state]
    assert noted == sorted(fate.noted)


def ends(after: Aftermath) -> tuple[str, str, str]:
    return (after.raised.partition(":")[0], after.ended.outcome, after.ended.error_type)


@each_state
async def test_dispatcher_crash(state: str, tmp_path: Path) -> None:
    after = await break_down(tmp_path, crash_dispatcher)
    assert ends(after) == ("", "failed", "internal")
    never_ran = Fate("interrupted", NOT_BEGUN, ())
    fate = {"done": SUCCESS, "runs": CUT_OFF, "reads": CUT_OFF}.get(state, never_ran)
    check(after, state, fate)
    assert after.heard[state] == [*STARTS[state], f"call_finished: {fate.status}"]


@each_state
async def test_broker_crash(state: str, tmp_path: Path) -> None:
    after = await break_down(tmp_path, crash_broker)
    assert ends(after) == ("", "answered", "")
    if state == "waits_for_a_person":
        check(after, state, Fate("denied", "Not run: denied by callboard", ()))
        assert after.heard[state] == [*STARTS[state], "call_finished: denied"]
    else:
        check(after, state, SUCCESS)
        assert after.heard[state] == [*STARTS["runs"], "call_finished: success"]


@each_state
async def test_session_crash(state: str, tmp_path: Path) -> None:
    after = await break_down(tmp_path, crash_session)
    assert ends(after) == ("ActorStopped", "answered", "")
    never_ran = Fate("interrupted", NOT_BEGUN, ())
    fates = {"done": SUCCESS, "runs": CUT_OFF, "reads": CUT_OFF, "waits_for_a_person": ASKED_AGAIN}
    check(after, state, fates.get(state, never_ran))
    assert len(after.asked) == 2
    assert len(set(after.asked)) == 1
    finished = ["call_finished: success"] if state == "done" else []
    assert after.heard[state] == [*STARTS[state], *finished]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    return trio.run(kill, tmp_path_factory.mktemp("killed"))


@each_state
def test_kill(state: str, killed: Aftermath) -> None:
    assert ends(killed) == ("", "answered", "")
    assert len(killed.asked) == 2
    assert len(set(killed.asked)) == 1
    began: dict[str, Any] = {
        "done": SUCCESS,
        "runs": Fate("interrupted", UNKNOWN, ("began",)),
        "reads": Fate("interrupted", UNKNOWN, ("began",)),
        "waits_for_a_person": ASKED_AGAIN,
    }
    check(killed, state, began.get(state, Fate("interrupted", NOT_BEGUN, ())))


async def test_what_a_crash_left_deep_in_a_large_workspace_is_gone_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, kept = atomic_write.publish, tmp_path / "killed"

    def killed_here(*args: Any, **options: Any) -> None:
        for name in ("data", "work"):
            shutil.copytree(tmp_path / name, kept / name)
        publish(*args, **options)

    monkeypatch.setattr(workspace, "publish", killed_here)
    write = ("write_file", {"path": "a/b/new.txt", "content": "x"})
    async with open_in(tmp_path, [reply(calls=[write]), reply("Done.")], "disk") as runtime:
        session = await runtime.create_session()
        await session.run("Write it.")
    for name in ("data", "work"):
        shutil.rmtree(tmp_path / name)
        (kept / name).rename(tmp_path / name)
    monkeypatch.setattr(atomic_write, "MAX_SWEPT_ENTRIES", 1)
    work = tmp_path / "work"
    workspace.open_workspace(work).close()
    [left] = work.rglob(".callboard-*")
    assert left.parent == work / "a" / "b", "the control: it is too deep to be found by looking"
    async with open_in(tmp_path, [reply("Done.")], "disk") as runtime:
        assert not left.exists()
        session = await runtime.get_session(session.session_id)
        assert await session.run("And now?") == "Done."
