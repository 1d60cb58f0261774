"""Bugs planted in a copy of callboard: the simulation must find each of them.

Each is one line; where another line of defence holds behind it, that line falls too.

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

from simulation.plan import Size

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "actors", "cli", "config", "gateway", "providers", "runtime", "tools", "tests")
MAX_SEEDS = 2_000
PYTHON = (sys.executable, "-m", "tests.simulation")


Edit = tuple[str, str, str]
"""A file, a line of it, and what stands there instead."""


class Planted(msgspec.Struct, frozen=True):
    """A line of code, and what stands there instead.

    Attributes:
        name: The bug, in words.
        seed: The first large world that finds it; -1 for none of those that were tried.
        small: The first small one.
        found_by: The invariant that it breaks in the large one, or else in the small one.
        also: The lines of defence behind it.
    """

    name: str
    path: str
    before: str
    after: str
    seed: int = -1
    small: int = -1
    found_by: str = ""
    also: tuple[Edit, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All that is changed."""
        return (self.path, self.before, self.after), *self.also

    def row(self) -> str:
        """Return its row of the table in docs/simulation.md."""
        paths = ", ".join(f"`{path}`" for path in dict.fromkeys(path for path, *_ in self.edits))
        seed, small = ("-" if each < 0 else each for each in (self.seed, self.small))
        return f"| {self.name} | {paths} | {seed} | {small} | `{self.found_by}` |"


_UNCHANGED: Edit = (
    "actors/calls/dispatcher.py",
    '            if is_other and decided in {"allow", "revised"}:\n',
    "            if False:\n",
)
_NOT_CHANGED_AGAIN = (
    "actors/calls/dispatcher.py",
    "        final = as_allowed(self._ready(ready.call, resolution.arguments), ready)\n",
    "        final = ready\n",
)


PLANTED = (
    Planted(
        "published before it is stored: a session never gets what was committed",
        "actors/journal.py",
        "            self._inboxes.put(request.session_id, outcome)\n",
        "            pass\n",
        seed=0,
        found_by="the_next_request_is_valid",
        small=10,
    ),
    Planted(
        "a commit that failed is answered as if it had not",
        "actors/journal.py",
        "            entry.request.reply.fail(error)\n",
        "            entry.request.reply.send(())\n",
        seed=4,
        found_by="started_is_on_record_before_the_effect",
        small=12,
    ),
    Planted(
        "a commit that was refused leaves its asker waiting",
        "actors/journal.py",
        "                self._refuse(entry, outcome)\n                continue\n",
        "                continue\n",
        seed=4,
        found_by="nothing_is_held_for_ever",
        small=46,
    ),
    Planted(
        "a question is answered twice: no compare-and-swap",
        "runtime/store/tables/permissions.py",
        "        if approval.state != needed:\n",
        "        if False:\n",
        seed=4,
        found_by="no_effect_without_a_yes",
        small=46,
    ),
    Planted(
        "an answer counts after its question has expired",
        "runtime/store/tables/permissions.py",
        "ends is not None and self._now_ms >= ends",
        "ends is not None and False",
        seed=22,
        found_by="questions_have_one_answer",
    ),
    Planted(
        "a call may have two results",
        "runtime/store/projection.py",
        "event, self.now_ms, self.head_seq + 1):\n            return False\n",
        "event, self.now_ms, self.head_seq + 1):\n            pass\n",
        seed=39,
        found_by="records_are_sound",
        small=48,
        also=(
            (
                "actors/turn/turn.py",
                "        await self._host.append()\n        missing: list",
                "        missing: list",
            ),
        ),
    ),
    Planted(
        "a repeated request is done again",
        "runtime/store/tables/requests.py",
        "            if found.fetchone() is not None:\n",
        "            if False:\n",
        seed=40,
        found_by="nothing_crashes",
        small=2,
        also=(
            (
                "gateway/connection/connection.py",
                "        if done is None:\n",
                "        if True:\n",
            ),
        ),
    ),
    Planted(
        "a repeated request does not find its first answer",
        "gateway/connection/connection.py",
        "        if done is None:\n",
        "        if True:\n",
        seed=40,
        found_by="a_repeated_request_finds_its_answer",
        small=2,
    ),
    Planted(
        "a call runs before its start is on record",
        "actors/calls/dispatcher.py",
        "            started = [self._started(c) for c, _ in starting if c.call.call_id not in begun]\n",
        "            started: list[CallStarted] = []\n",
        seed=0,
        found_by="started_is_on_record_before_the_effect",
        small=3,
    ),
    Planted(
        "a call that waited for its key runs before its start is on record",
        "actors/calls/dispatcher.py",
        "                    if await self._record(*started):\n",
        "                    if True:\n",
        seed=3,
        found_by="started_is_on_record_before_the_effect",
    ),
    Planted(
        "the outlet of a batch is lost",
        "actors/calls/dispatcher.py",
        "        with request.outlet:\n            await",
        "        if True:\n            await",
        seed=0,
        found_by="nothing_is_held_for_ever",
        small=3,
    ),
    Planted(
        "a call that ended, or was cancelled while it waited, keeps its keys",
        "actors/calls/permits.py",
        "    def __exit__(self, *_: object) -> None:\n        self.release()\n",
        "    def __exit__(self, *_: object) -> None:\n        pass\n",
        seed=2,
        found_by="nothing_is_held_for_ever",
        small=10,
    ),
    Planted(
        "what a person changed is not what begins",
        *_NOT_CHANGED_AGAIN,
        seed=2,
        found_by="what_was_allowed_is_what_begins",
        small=10,
        also=(_UNCHANGED,),
    ),
    Planted(
        "a call whose start was refused runs all the same",
        "actors/calls/dispatcher.py",
        "            raise denial(str(refused), ready.tier) from None\n",
        "            await self._execute(final, permit, is_changed=final.is_changed)\n",
        seed=2,
        found_by="started_is_on_record_before_the_effect",
        small=10,
        also=(_NOT_CHANGED_AGAIN, _UNCHANGED),
    ),
    Planted(
        "a denial by new rules comes too late",
        "actors/calls/dispatcher.py",
        "        if (decision := await self._denied_by_now(final)) is not None:\n",
        "        if (decision := None) is not None:\n",
        seed=12,
        found_by="what_is_denied_does_not_start",
        also=(
            (
                "actors/calls/dispatcher.py",
                "        if self._revision != self._dispatcher.policies.revision:\n",
                "        if False:\n",
            ),
        ),
    ),
    Planted(
        "a cancel is swallowed: the running call goes on",
        "actors/calls/dispatcher.py",
        "        with self._request.scope, GivenPermits() as permits:\n",
        "        with trio.CancelScope(shield=True), GivenPermits() as permits:\n",
        seed=1,
        found_by="nothing_is_done_for_what_has_ended",
        small=48,
    ),
    Planted(
        "a late answer wakes nobody",
        "actors/permissions/resolution.py",
        '            self._nursery.start_soon(self._wake, question.place.session_id, name="wake")\n',
        "            pass\n",
        seed=12,
        found_by="nothing_is_held_for_ever",
        small=64,
    ),
    Planted(
        "a twin's answer is not shared",
        "actors/permissions/resolution.py",
        "            twin.followers.append(question)\n",
        "            pass\n",
        seed=15,
        found_by="nothing_is_held_for_ever",
    ),
    Planted(
        "deferred questions are not asked again after a restart",
        "actors/permissions/resolution.py",
        "                if question.approval_id not in self._open:\n",
        "                if False:\n",
        found_by="nothing_is_held_for_ever",
        small=2989,
    ),
    Planted(
        "the answer is acted on before it is stored",
        "actors/permissions/resolution.py",
        "        for each, ending in await self._append(question, resolution, events):\n",
        "        for each, ending in [(question, resolution)]:\n",
        seed=12,
        found_by="nothing_is_held_for_ever",
        small=35,
    ),
    Planted(
        "turns that a crash left open are not closed",
        "runtime/store/recovery.py",
        "    return (\n        *closed,\n        TurnEnded(\n",
        "    return closed\n    return (\n        *closed,\n        TurnEnded(\n",
        seed=0,
        found_by="a_start_closes_what_a_crash_left",
        small=4,
    ),
    Planted(
        "calls that a crash left open are not closed",
        "runtime/store/recovery.py",
        "_closed(turn.turn_id, call, now_ms) for call in turn.calls if call.call_id not in kept\n",
        "_closed(turn.turn_id, call, now_ms) for call in turn.calls[1:] if call.call_id not in kept\n",
        seed=0,
        found_by="replays_are_the_same",
    ),
    Planted(
        "a question keeps waiting after its time, across a crash",
        "runtime/store/recovery.py",
        '            yield _decided(approval, "expired", "nobody answered in time")\n',
        "            continue\n",
        seed=42,
        found_by="a_start_ends_what_is_over",
    ),
    Planted(
        "an allowed call that a crash cut off is started again without a question",
        "runtime/store/recovery.py",
        '            yield _decided(approval, "void", "the process ended before the call began")\n',
        "            continue\n",
        seed=23,
        found_by="a_crash_ends_what_was_allowed",
    ),
    Planted(
        "a started call runs again after a crash",
        "runtime/store/recovery.py",
        "(call.call_id in asked and call.started_at_ms is None)",
        "call.call_id in asked",
        seed=24,
        found_by="no_effect_happens_twice",
    ),
    Planted(
        "a detached child's answer is never delivered",
        "actors/session/session.py",
        "            await self._services.tree.detached.deliver(self.session_id, wakes=not self._is_stopping)\n",
        "            pass\n",
        seed=5,
        found_by="nothing_is_held_for_ever",
        small=6,
    ),
    Planted(
        "a turn ends and the next input waits for ever",
        "actors/session/session.py",
        "                current = await self._next_turn()\n",
        "                current = None\n",
        seed=1,
        found_by="nothing_is_held_for_ever",
        small=6,
    ),
    Planted(
        "who waits for a cancelled turn is not told",
        "actors/session/session.py",
        "            reply.send(True) if error is None else reply.fail(error)\n",
        "            pass\n",
        seed=12,
        found_by="nothing_is_held_for_ever",
        small=9,
    ),
    Planted(
        "an interrupting input does not interrupt what it waits for",
        "actors/session/session.py",
        "        del self._queue[0]\n",
        "",
        seed=0,
        found_by="nothing_crashes",
        small=6,
    ),
    Planted(
        "a client that fell behind is taken for live",
        "gateway/feeds/session_feed.py",
        "        if self.position < feed.head_seq:\n",
        "        if self.position + 1 < feed.head_seq:\n",
        seed=0,
        found_by="no_frame_is_left_out",
        small=4,
    ),
    Planted(
        "a follower skips an event when its page ends",
        "gateway/feeds/session_feed.py",
        "                self.outbox.add(frame)\n                self.position = stored.seq\n",
        "                self.outbox.add(frame)\n                self.position = stored.seq + 1\n",
        seed=0,
        found_by="no_frame_is_left_out",
        small=0,
    ),
    Planted(
        "a client does not subscribe again over a new connection",
        "src/callboard/client/subscriptions.py",
        "            feed.lost()\n",
        "            pass\n",
        seed=52,
        found_by="nothing_is_held_for_ever",
    ),
    Planted(
        "a client takes events twice",
        "src/callboard/client/subscriptions.py",
        "            return taken is None or item.seq == taken + 1\n",
        "            return True\n",
        found_by="views_equal_the_record",
        small=22,
    ),
    Planted(
        "a request whose connection broke is never sent again",
        "src/callboard/client/link.py",
        "                if not is_sent_again or trio.current_time() > deadline:\n                    raise\n",
        "                if not is_sent_again or trio.current_time() > deadline:\n                    raise\n                await trio.sleep_forever()\n",
        seed=0,
        found_by="nothing_is_held_for_ever",
        small=2,
    ),
    Planted(
        "an id is used again",
        "runtime/identity.py",
        '    return f"{prefix}_{os.urandom(20).translate(_OF_BYTE).decode()}"\n',
        '    return f"{prefix}_{os.urandom(1).translate(_OF_BYTE).decode()}"\n',
        seed=0,
        found_by="the_next_request_is_valid",
        small=14,
    ),
    Planted(
        "a closed mailbox leaves those who wait",
        "runtime/kernel/mailbox.py",
        "        for message in messages:\n            message.abandon()\n",
        "",
        seed=23,
        found_by="nothing_is_held_for_ever",
    ),
    Planted(
        "a worker may write",
        "tools/registry.py",
        "    SessionKind.WORKER: frozenset({Tier.READ_ONLY}),\n",
        "    SessionKind.WORKER: frozenset(Tier),\n",
        seed=3,
        found_by="workers_ask_nobody",
    ),
    Planted(
        "the outcomes of a program's calls come in the order in which they end",
        "runtime/turns/called_tool.py",
        "                self.outcomes[call_id] = None\n",
        "                pass\n",
        found_by="who_called_got_what_came",
        small=101,
    ),
    Planted(
        "a deleted message goes to the model again",
        "actors/conversation/conversation.py",
        "                self.deleted.update(event.message_ids)\n                self.is_stale = True\n",
        "                pass\n",
        found_by="deleted_words_are_not_sent",
        small=76,
    ),
    Planted(
        "a fork has the questions and grants of its source",
        "actors/upkeep/forking.py",
        "    *NOT_IMPORTED,\n    *(AttemptCharged",
        "    *(AttemptCharged",
        found_by="forks_begin_as_their_source",
        small=124,
    ),
    Planted(
        "a budget of model calls is not counted",
        "actors/budget/budgets.py",
        "            scope.model_calls += 1\n",
        "            pass\n",
        seed=6,
        found_by="budgets_hold",
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
                copy_function=_link,  # with what is compiled: it goes by the time of the source
            )
        for path, before, after in planted.edits:
            text = (copy / path).read_text()
            (copy / path).unlink()  # it may be a link to the code itself
            (copy / path).write_text(text.replace(before, after))
        yield copy


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def first_seed(planted: Planted, seeds: range, size: Size) -> str:
    """The first world that finds a bug and the invariant that it breaks, or ``""``."""
    with copy_with(planted) as copy:
        done = subprocess.run(
            [*PYTHON, size.name, "first", str(seeds.start), str(seeds.stop)],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    return done.stdout.strip()
