"""Webhooks: notices are posted to other systems, again while that may help, and kept if it does not.

Events are heard after they are committed, and nothing waits for a delivery. Each webhook has a queue and a task of
its own, so a receiver that is away delays no other. Each letter has its own further attempts, so a new one never waits
for those of an older one; and as soon as a receiver takes anything, all that waits for it is sent. What could not be
delivered, or waits when the daemon ends, is a dead letter: those that only waited are sent when the next one starts. A
kill -9 loses what waits, for the record has it anyway.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Mapping
from functools import partial

import msgspec
import trio

from ...config.sections import Webhook, is_address
from ...embedding.runtime import Runtime, data_of, host_of, wish_of
from ...embedding.unattended.hook_rows import WebhookState, webhooks_of
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    DeadlineError,
    NetworkError,
    NotFoundError,
)
from ...runtime.events import Stored
from ...runtime.hooks.hook import SECRET_PLACE, webhook_key_name
from ...runtime.hooks.signatures import standard_headers
from ...runtime.http.address_guard import HERE, AddressGuard, AddressRefused, Endpoint
from ...runtime.http.client import open_http_client
from ...runtime.identity import new_id, now_ms
from ...runtime.kernel.live_lists import ListName
from ...runtime.redaction import redacting_logger
from ...runtime.text import normalize_host
from .changed_servers import hear_changed_servers
from .dead_letters import DeadLetters, Letter
from .notices import (
    Notice,
    QuestionNotice,
    ServerNotice,
    TestNotice,
    TurnNotice,
    events_of,
    notice_of,
)

logger = redacting_logger(__name__)

MAX_WAITING = 100
"""Letters that wait for one webhook; further ones are dead at once."""
WAIT_SECONDS = (2.0, 10.0, 60.0, 300.0)
"""Before each further attempt: a receiver that restarts is back within seconds, one that is mended in minutes."""
SPREAD = 0.2
"""The part of a wait that is left to chance, so that many senders don't come back together."""
POST_SECONDS = 10.0
"""For one attempt."""
SAVE_SECONDS = 2.0
"""To keep what waits, when the daemon ends."""
GONE = "there is no such webhook any more, or it is paused"
NOT_SENT = "the daemon ended before it was sent"


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed, and whether another one may not."""

    problem: str
    may_pass: bool = False


class _Waiting:
    """A letter that waits, and when it is sent next, in Trio's time."""

    def __init__(self, letter: Letter) -> None:
        self.letter = letter
        self.due = -math.inf


class _Queue:
    """What waits for one webhook, the oldest first.

    Attributes:
        problem: Why the last attempt failed; empty after one that did not.
    """

    def __init__(self) -> None:
        self.letters: list[_Waiting] = []
        self.problem = ""
        self.is_served = False
        self._woken = trio.Event()

    def next(self) -> _Waiting | None:
        """Return what is sent now: the oldest, but ahead of it what is new while the receiver seems away."""
        now = trio.current_time()
        due = [each for each in self.letters if each.due <= now]
        is_away = bool(self.problem)
        return min(due, key=lambda each: is_away and each.letter.attempts > 0, default=None)

    def hurry(self) -> None:
        """Have everything sent now."""
        for each in self.letters:
            each.due = -math.inf
        self.wake()

    def wake(self) -> None:
        """Have whoever waits for the next letter look again."""
        self._woken.set()

    async def wait_due(self) -> None:
        """Wait until a letter may be due."""
        self._woken = trio.Event()
        with trio.move_on_at(min(each.due for each in self.letters)):
            await self._woken.wait()


class Webhooks:
    """Posts notices of a runtime to its webhooks, by the settings at that moment."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._queues: dict[str, _Queue] = {}
        self._resending: set[str] = set()
        self._dead = DeadLetters(data_of(runtime))
        self._is_changed = self._is_loaded = False
        self._wake = trio.Event()

    @property
    def dead(self) -> tuple[Letter, ...]:
        """The dead letters, the oldest first."""
        return tuple(self._dead.letters)

    def state(self, name: str) -> WebhookState:
        """Return how a webhook is doing."""
        dead = sum(each.webhook == name for each in self.dead)
        queue = self._queues.get(name)
        return (
            WebhookState(len(queue.letters), dead, queue.problem)
            if queue
            else WebhookState(0, dead)
        )

    @property
    def in_force(self) -> Mapping[str, Webhook]:
        """The webhooks in force, by name."""
        return webhooks_of(host_of(self._runtime).settings)

    async def run(self) -> None:
        """Post notices until cancelled; then keep what waits."""
        forget = host_of(self._runtime).inboxes.watch(self._take)  # before anything is awaited
        try:
            await self._load()
            async with trio.open_nursery() as nursery:
                hear = partial(hear_changed_servers, host_of(self._runtime), self._tell)
                nursery.start_soon(hear, name="servers to review")
                while True:
                    self._wake = trio.Event()
                    for name, queue in self._queues.items():
                        if queue.letters and not queue.is_served:
                            queue.is_served = True
                            nursery.start_soon(self._send_all, queue, name=f"webhook {name}")
                    if self._is_changed:
                        self._is_changed = False
                        await trio.to_thread.run_sync(self._dead.save, list(self.dead))
                    else:
                        await self._wake.wait()
        finally:
            forget()
            for queue in self._queues.values():
                queue.is_served = False
            with trio.move_on_after(SAVE_SECONDS, shield=True):
                await self._keep_waiting()

    async def _load(self) -> None:
        if self._is_loaded:
            return
        for letter in await trio.to_thread.run_sync(self._dead.load):
            if letter.problem == NOT_SENT:
                self._enqueue(msgspec.structs.replace(letter, attempts=0, problem=""))
                self._is_changed = True
            else:
                self._dead.add(letter)
        self._is_loaded = True

    async def _keep_waiting(self) -> None:
        """Write what waits to the dead letters, for the next start."""
        left = [each.letter for queue in self._queues.values() for each in queue.letters]
        if not left or not self._is_loaded:
            return
        kept = [msgspec.structs.replace(each, problem=NOT_SENT) for each in left]
        # Abandoned on a disk that hangs: the file is replaced whole, or not at all.
        save = partial(self._dead.save, [*self.dead, *kept])
        await trio.to_thread.run_sync(save, abandon_on_cancel=True)

    async def test(self, name: str) -> str:
        """Post a test to a webhook; return why it failed, or `""`. Raises `NotFoundError`."""
        webhook = self._known(name)
        letter = _letter(webhook, TestNotice(identity=new_id("test")))
        failure = await self._attempt(webhook, letter)
        return "" if failure is None else failure.problem

    async def resend(self, names: Iterable[str]) -> list[Letter]:
        """Send dead letters once more; return those that are dead still, with the new problem.

        After a failure that may pass, such as no answer, the rest of that webhook is not tried.

        Raises:
            NotFoundError: There is no such dead letter.
            ConflictError: One of them is being sent already.
        """
        letters = {letter.name: letter for letter in self.dead}
        wanted = list(dict.fromkeys(names))
        if unknown := [name for name in wanted if name not in letters]:
            raise NotFoundError(f"there is no dead letter {unknown[0]!r}")
        if taken := self._resending.intersection(wanted):
            raise ConflictError(f"{min(taken)!r} is being sent already; look again in a minute")
        self._resending.update(wanted)
        try:
            return await self._resend([letters[name] for name in wanted])
        finally:
            self._resending.difference_update(wanted)

    def hurry(self, names: Iterable[str]) -> int:
        """Have what waits for these webhooks sent now; return how many letters do. No names are all."""
        wanted = set(names) or self._queues.keys()
        queues = [queue for name, queue in self._queues.items() if name in wanted]
        for queue in queues:
            queue.hurry()
        return sum(len(queue.letters) for queue in queues)

    async def _resend(self, letters: list[Letter]) -> list[Letter]:
        left: list[Letter] = []
        away: set[str] = set()
        for letter in letters:
            webhook = self.in_force.get(letter.webhook)
            failure: Failure | None = Failure(GONE)
            attempts = letter.attempts
            if letter.webhook in away:
                left.append(letter)
                continue
            if webhook is not None and not webhook.paused:
                failure = await self._attempt(webhook, letter)
                attempts += 1
            self._dead.remove(letter)
            if failure is not None:
                left.append(
                    msgspec.structs.replace(letter, attempts=attempts, problem=failure.problem)
                )
                self._dead.add(left[-1])
                if failure.may_pass:
                    away.add(letter.webhook)
            self._changed()
        return left

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def _take(self, events: tuple[Stored, ...]) -> None:
        settings = host_of(self._runtime).settings
        if settings.notify.webhook is None and not settings.webhooks:
            return
        for stored in events:
            if (notice := notice_of(stored)) is not None:
                self._tell(notice)

    def _tell(self, notice: QuestionNotice | TurnNotice | ServerNotice) -> None:
        wanted = set(events_of(notice))
        for webhook in self.in_force.values():
            if not webhook.paused and not wanted.isdisjoint(webhook.events):
                self._enqueue(_letter(webhook, notice))

    def _enqueue(self, letter: Letter) -> None:
        queue = self._queues.setdefault(letter.webhook, _Queue())
        if len(queue.letters) >= MAX_WAITING:
            problem = f"{MAX_WAITING} others waited for this webhook"
            self._bury(msgspec.structs.replace(letter, problem=problem))
            return
        queue.letters.append(_Waiting(letter))
        queue.wake()
        self._wake.set()

    def _bury(self, letter: Letter) -> None:
        what = letter.webhook, letter.identity, letter.problem
        logger.warning("the webhook %s was not told of %s: %s", *what)
        self._dead.add(letter)
        self._changed()

    def _changed(self) -> None:
        self._is_changed = True
        self._wake.set()
        host_of(self._runtime).lists.changed(ListName.HOOKS)

    # ── deliveries ───────────────────────────────────────────────────────────────────────────────

    async def _send_all(self, queue: _Queue) -> None:
        """Send what waits for one webhook until nothing does."""
        while queue.letters:
            if (waiting := queue.next()) is None:
                await queue.wait_due()
                continue
            # It stays there until it is sent: a daemon that ends keeps it.
            if await self._is_wanted(waiting.letter):
                await self._send(queue, waiting)
            else:
                queue.letters.remove(waiting)
        queue.is_served = False

    async def _is_wanted(self, letter: Letter) -> bool:
        """Return whether it is not of the turn of a session that another one waits for."""
        if letter.type != TurnNotice.__struct_config__.tag:
            return True
        row = await self._runtime.store.session(letter.session_id)
        return row is None or row.parent_id is None

    async def _send(self, queue: _Queue, waiting: _Waiting) -> None:
        """Post a letter once; after a failure it waits again, or is dead."""
        letter = waiting.letter
        webhook = self.in_force.get(letter.webhook)
        failure: Failure | None = Failure(GONE)
        attempts = letter.attempts
        if webhook is not None and not webhook.paused:
            failure = await self._attempt(webhook, letter)
            attempts += 1
        if failure is not None:
            letter = msgspec.structs.replace(letter, attempts=attempts, problem=failure.problem)
            if failure.may_pass and attempts <= len(WAIT_SECONDS):
                seconds = WAIT_SECONDS[attempts - 1] * random.uniform(1 - SPREAD, 1 + SPREAD)
                waiting.letter, waiting.due = letter, trio.current_time() + seconds
                host_of(self._runtime).lists.changed(ListName.HOOKS)
                return
            self._bury(letter)
        queue.letters.remove(waiting)

    async def _attempt(self, webhook: Webhook, letter: Letter) -> Failure | None:
        """Post a letter once; return what is wrong, if anything. If nothing is, what waits is sent now."""
        queue = self._queues.setdefault(webhook.name, _Queue())
        failure = await self._failure(webhook, letter)
        queue.problem = "" if failure is None else failure.problem
        if failure is None:
            queue.hurry()
        return failure

    async def _failure(self, webhook: Webhook, letter: Letter) -> Failure | None:
        try:
            status = await self._posted(webhook, letter)
        except AddressRefused:
            return Failure(
                "it leads to an address that is not public; name its host and port in "
                "[network] allow if that is meant"
            )
        except (CallboardError, trio.TooSlowError) as error:
            return Failure(_reason(error), may_pass=True)
        if 200 <= status < 300:
            return None
        return Failure(f"status {status}", may_pass=status >= 500 or status in {408, 429})

    async def _posted(self, webhook: Webhook, letter: Letter) -> int:
        """Post to this endpoint and return the status; a redirect is not followed."""
        host, body = host_of(self._runtime), letter.body.encode()
        guard = webhook_guard(webhook.endpoint, host.settings.network.endpoints)
        headers = {"content-type": "application/json", "user-agent": "callboard"}
        stored = partial(
            wish_of(self._runtime).stored, webhook_key_name(webhook.name), SECRET_PLACE
        )
        if (secret := await trio.to_thread.run_sync(stored)) is not None:
            now = int(time.time())
            headers |= standard_headers(secret.reveal(), letter.identity, body, now)
        with trio.fail_after(POST_SECONDS):
            async with open_http_client(
                connect=guard.connect, given=host.http.given, check=guard.check
            ) as http:
                async with http.request("POST", webhook.url, headers, body) as answer:
                    return answer.status

    def _known(self, name: str) -> Webhook:
        if name not in self.in_force:
            raise NotFoundError(f"there is no webhook {name!r}: [webhooks.{name}] would be one")
        return self.in_force[name]


def _letter(webhook: Webhook, notice: Notice) -> Letter:
    return Letter(
        identity=notice.identity,
        webhook=webhook.name,
        type=str(notice.__struct_config__.tag),
        session_id=getattr(notice, "session_id", ""),
        body=msgspec.json.encode(notice).decode(),
        at_ms=now_ms(),
    )


def _reason(error: Exception) -> str:
    """Return why there is no answer; never a URL, which may be a secret."""
    if isinstance(error, NetworkError):
        # With a stage the words are our own, and name the host.
        return str(error).partition(". ")[0] if error.stage else "the connection broke"
    if isinstance(error, (DeadlineError, trio.TooSlowError)):
        return f"no answer in {POST_SECONDS:g} s"
    return type(error).__name__


def webhook_guard(endpoint: Endpoint, listed: Iterable[Endpoint]) -> AddressGuard:
    """Return a guard that allows connections to the webhook's endpoint alone.

    An IP address in the URL, or `localhost`, is allowed as written. Another host name could resolve to a
    private address later; then it must be listed in `[network] allow`.
    """
    host, port = endpoint
    own = [(normalize_host(host), port)] if is_address(host) or host == HERE else []
    return AddressGuard([*listed, *own], ports={port})
