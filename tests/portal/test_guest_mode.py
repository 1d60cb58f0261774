"""The runtime as a guest in another loop's thread, by Trio's guest mode."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import outcome
import trio

import callboard
from callboard.providers.testing.script import reply, stall
from callboard.providers.testing.scripted_server import ServerStep, open_scripted_server
from callboard.runtime.events import CallFinished, TurnEnded

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/embedding.md"


def test_the_example_of_the_document_runs_as_it_stands(tmp_path: Path) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    [example] = [block for block in blocks if "start_guest_run" in block]
    assert example.count("\n") <= 40
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.endswith("_KEY")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert "The time in Tokyo is" in done.stdout
    assert "outcome='answered'" in done.stdout


def test_in_an_event_loop_both_run_in_one_thread_and_a_cancel_ends_in_order(
    tmp_path: Path,
) -> None:
    threads: set[int] = set()
    heard: list[object] = []
    tokens: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()
    began = asyncio.Event()
    work = tmp_path / "work"
    work.mkdir()

    @callboard.tool
    async def where() -> int:
        """Says in which thread it runs."""
        await trio.lowlevel.checkpoint()
        return threading.get_ident()

    async def talk() -> TurnEnded:
        tokens.append(trio.lowlevel.current_trio_token())
        steps: list[ServerStep] = [reply(calls=[("where", {})]), stall("Well")]
        async with open_scripted_server(steps) as server, callboard.open_runtime(
            model="scripted", base_url=server.base_url, workspace=work, environ={},
            data=tmp_path / "data", tools=[where], strict=True,
        ) as runtime:  # fmt: skip
            session = await runtime.create_session()
            with scope:
                async with session.prompt("Go.") as turn:
                    async for event in turn:
                        threads.add(threading.get_ident())
                        heard.append(event)
                        if isinstance(event, callboard.TextDelta):
                            began.set()  # of asyncio: this is its thread
            record = await runtime.store.events(session.session_id)
            last = record[-1].event
            assert isinstance(last, TurnEnded)
            return last

    async def main() -> TurnEnded:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[outcome.Outcome[TurnEnded]] = loop.create_future()
        trio.lowlevel.start_guest_run(
            talk,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=ended.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )
        await asyncio.wait_for(began.wait(), 30)
        tokens[0].run_sync_soon(scope.cancel)
        return (await asyncio.wait_for(ended, 30)).unwrap()

    last = asyncio.run(main())
    assert last.outcome == "cancelled"
    assert threads == {threading.get_ident()}
    [result] = [event for event in heard if isinstance(event, CallFinished)]
    assert f'"result":{threading.get_ident()}' in result.result
