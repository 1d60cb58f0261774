"""Bugs of one line, planted in a copy of callboard: the simulation must find each of them.

`python -m tests.simulation planted [NAME …]` plays worlds on each copy until one breaks an invariant, and
prints a row of a table for each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "actors", "cli", "config", "gateway", "providers", "runtime", "tools", "tests")
MAX_SEEDS = 2_000


class Planted(msgspec.Struct, frozen=True):
    """A line of code, and what stands there instead.

    Attributes:
        name: The bug, in words.
        seed: The first seed that finds it, and `found_by` the invariant that it breaks; `None` when the
            first 16 worlds don't find it.
    """

    name: str
    path: str
    before: str
    after: str
    seed: int | None = None
    found_by: str = ""

    def row(self) -> str:
        """Return its row of the table in docs/simulation.md."""
        seed, by = (self.seed, f"`{self.found_by}`") if self.seed is not None else ("-", "-")
        return f"| {self.name} | `{self.path}` | {seed} | {by} |"


PLANTED = (
    Planted(
        "published before it is stored: a session never gets what was committed",
        "actors/journal.py",
        "            self._inboxes.put(request.session_id, outcome)\n",
        "            pass\n",
        0,
        "the_next_request_is_valid",
    ),
    Planted(
        "a commit that failed is answered as if it had not",
        "actors/journal.py",
        "            entry.request.reply.fail(error)\n",
        "            entry.request.reply.send(())\n",
        9,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "a commit that was refused leaves its asker waiting",
        "actors/journal.py",
        "                self._refuse(entry, outcome)\n                continue\n",
        "                continue\n",
        4,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "a question is answered twice: no compare-and-swap",
        "runtime/store/tables/permissions.py",
        "        if approval.state != needed:\n",
        "        if False:\n",
        4,
        "no_effect_without_a_yes",
    ),
    Planted(
        "an answer counts after its question has expired",
        "runtime/store/tables/permissions.py",
        "ends is not None and self._now_ms >= ends",
        "ends is not None and False",
    ),
    Planted(
        "a call may have two results",
        "runtime/store/projection.py",
        "event, self.now_ms, self.head_seq + 1):\n            return False\n",
        "event, self.now_ms, self.head_seq + 1):\n            pass\n",
    ),
    Planted(
        "a repeated request is done again",
        "runtime/store/tables/requests.py",
        "            if found.fetchone() is not None:\n",
        "            if False:\n",
    ),
    Planted(
        "a repeated request does not find its first answer",
        "gateway/connection/connection.py",
        "        if done is None:\n",
        "        if True:\n",
        10,
        "a_repeated_request_finds_its_answer",
    ),
    Planted(
        "a call runs before its start is on record",
        "actors/calls/dispatcher.py",
        "            started = [self._started(c) for c, _ in starting if c.call.call_id not in begun]\n",
        "            started: list[CallStarted] = []\n",
        0,
        "started_is_on_record_before_the_effect",
    ),
    Planted(
        "a call that waited for its key runs before its start is on record",
        "actors/calls/dispatcher.py",
        "                    if await self._record(*started):\n",
        "                    if True:\n",
        7,
        "started_is_on_record_before_the_effect",
    ),
    Planted(
        "the outlet of a batch is lost",
        "actors/calls/dispatcher.py",
        "        with request.outlet:\n            await",
        "        if True:\n            await",
        0,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "a cancelled wait keeps its keys",
        "actors/calls/dispatcher.py",
        "        except BaseException:\n            permit.release()\n            raise\n",
        "        except BaseException:\n            raise\n",
    ),
    Planted(
        "what a person changed is not what runs",
        "actors/calls/dispatcher.py",
        "        final = as_allowed(self._ready(ready.call, resolution.arguments), ready)\n",
        "        final = ready\n",
    ),
    Planted(
        "a call whose start was refused runs all the same",
        "actors/calls/dispatcher.py",
        "            raise denial(str(refused), ready.tier) from None\n",
        "            await self._execute(final, permit, is_changed=final.is_changed)\n",
    ),
    Planted(
        "a denial by new rules comes too late",
        "actors/calls/dispatcher.py",
        "        if (decision := await self._denied_by_now(final)) is not None:\n",
        "        if (decision := None) is not None:\n",
    ),
    Planted(
        "a cancel is swallowed: the running call goes on",
        "actors/calls/dispatcher.py",
        "        with self._request.scope, _Given() as permits:\n",
        "        with trio.CancelScope(shield=True), _Given() as permits:\n",
        1,
        "nothing_is_done_for_what_has_ended",
    ),
    Planted(
        "a late answer wakes nobody",
        "actors/permissions/resolution.py",
        '            self._nursery.start_soon(self._wake, question.place.session_id, name="wake")\n',
        "            pass\n",
        10,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "a twin's answer is not shared",
        "actors/permissions/resolution.py",
        "            twin.followers.append(question)\n",
        "            pass\n",
        15,
        "workers_ask_nobody",
    ),
    Planted(
        "the answer is acted on before it is stored",
        "actors/permissions/resolution.py",
        "        for each, ending in await self._append(question, resolution, events):\n",
        "        for each, ending in [(question, resolution)]:\n",
        10,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "deferred questions are not asked again after a restart",
        "actors/permissions/resolution.py",
        "                if question.approval_id not in self._open:\n",
        "                if False:\n",
        12,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "turns that a crash left open are not closed",
        "actors/session/recovery.py",
        "        if events := closing_events(turn, now_ms()):\n",
        "        if (events := closing_events(turn, now_ms())) and not turn.calls:\n",
    ),
    Planted(
        "calls that a crash left open are not closed",
        "runtime/store/recovery.py",
        "_closed(turn.turn_id, call, now_ms) for call in turn.calls if call.call_id not in kept\n",
        "_closed(turn.turn_id, call, now_ms) for call in turn.calls[1:] if call.call_id not in kept\n",
        0,
        "replays_are_the_same",
    ),
    Planted(
        "a question keeps waiting after its time, across a crash",
        "runtime/store/recovery.py",
        '            yield _decided(approval, "expired", "nobody answered in time")\n',
        "            continue\n",
    ),
    Planted(
        "an allowed call that a crash cut off is started again without a question",
        "runtime/store/recovery.py",
        '            yield _decided(approval, "void", "the process ended before the call began")\n',
        "            continue\n",
    ),
    Planted(
        "a started call runs again after a crash",
        "runtime/store/recovery.py",
        "(call.call_id in asked and call.started_at_ms is None)",
        "call.call_id in asked",
    ),
    Planted(
        "a detached child's answer is never delivered",
        "actors/session/session.py",
        "            await self._services.tree.detached.deliver(self.session_id, wakes=not self._is_stopping)\n",
        "            pass\n",
        5,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "a turn ends and the next input waits for ever",
        "actors/session/session.py",
        "                current = await self._next_turn()\n",
        "                current = None\n",
        1,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "who waits for a cancelled turn is not told",
        "actors/session/session.py",
        "            reply.send(True) if error is None else reply.fail(error)\n",
        "            pass\n",
        8,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "an interrupting input does not interrupt what it waits for",
        "actors/session/session.py",
        "        self._queue.popleft()\n",
        "",
        0,
        "nothing_crashes",
    ),
    Planted(
        "a client that fell behind is taken for live",
        "gateway/feeds/session_feed.py",
        "        if self.position < feed.head_seq:\n",
        "        if self.position + 1 < feed.head_seq:\n",
    ),
    Planted(
        "a follower skips an event when its page ends",
        "gateway/feeds/session_feed.py",
        "                self.outbox.add(frame)\n                self.position = stored.seq\n",
        "                self.outbox.add(frame)\n                self.position = stored.seq + 1\n",
    ),
    Planted(
        "a client does not subscribe again over a new connection",
        "src/callboard/client/subscriptions.py",
        "            feed.lost()\n",
        "            pass\n",
        2,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "a client takes events twice",
        "src/callboard/client/subscriptions.py",
        "            return taken is None or item.seq == taken + 1\n",
        "            return True\n",
        1,
        "views_equal_the_record",
    ),
    Planted(
        "a request whose connection broke is never sent again",
        "src/callboard/client/link.py",
        "                if key is None or trio.current_time() > deadline:\n                    raise\n",
        "                if key is None or trio.current_time() > deadline:\n                    raise\n                await trio.sleep_forever()\n",
        0,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "an id is used again",
        "runtime/identity.py",
        '    return f"{prefix}_{os.urandom(20).translate(_OF_BYTE).decode()}"\n',
        '    return f"{prefix}_{os.urandom(1).translate(_OF_BYTE).decode()}"\n',
        0,
        "the_next_request_is_valid",
    ),
    Planted(
        "a closed mailbox leaves those who wait",
        "runtime/kernel/mailbox.py",
        "                break\n            message.abandon()\n",
        "                break\n",
        2,
        "nothing_is_held_for_ever",
    ),
    Planted(
        "a worker may write",
        "tools/registry.py",
        "    SessionKind.WORKER: frozenset({Tier.READ_ONLY}),\n",
        "    SessionKind.WORKER: frozenset(Tier),\n",
        3,
        "workers_ask_nobody",
    ),
    Planted(
        "a budget of model calls is not counted",
        "actors/budget/budgets.py",
        "            scope.model_calls += 1\n",
        "            pass\n",
        6,
        "budgets_hold",
    ),
)
"""Each stands once in its file; `test_planted` notices when the code has moved on."""


@contextmanager
def copy_with(planted: Planted) -> Generator[Path]:
    """A copy of the code with one bug."""
    with tempfile.TemporaryDirectory(prefix="callboard-planted-") as name:
        copy = Path(name)
        for folder in FOLDERS:
            shutil.copytree(
                ROOT / folder,
                copy / folder,
                symlinks=True,
                copy_function=_link,
            )
        file = copy / planted.path
        text = file.read_text()
        file.unlink()
        file.write_text(text.replace(planted.before, planted.after))
        yield copy


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def first_seed(planted: Planted, seeds: range) -> str:
    """The first world that finds a bug and the invariant that it breaks, or ``""``."""
    with copy_with(planted) as copy:
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "first", str(seeds.start), str(seeds.stop)],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    return done.stdout.strip()
