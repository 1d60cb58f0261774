"""The directory: which sessions are live. It alone loads, wakes and unloads them.

A session is loaded by the first message for it, and unloaded when it was idle for a while. As the only
sender to the mailboxes of sessions, the directory can hold messages back while one unloads, so that no
prompt is lost. An input that another session stored (a task, a late answer, the answer of a detached
session) comes with `WakeSession`: its session is loaded for it, some sessions at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import assert_never

import msgspec
import trio
import trio.lowlevel

from ..runtime.errors import ActorStopped, CallboardError, StorageError
from ..runtime.identity import new_id
from ..runtime.kernel.mailbox import Mailbox
from ..runtime.kernel.supervisor import Supervisor
from ..runtime.messages import (
    AppendEvents,
    CancelTurn,
    CreateSession,
    DirectoryMessage,
    FollowSession,
    PurgeRecords,
    PurgeSessions,
    RerunTurn,
    ResumeTurn,
    SessionMessage,
    StopSession,
    StopSessions,
    SubmitInput,
    WakeSession,
)
from ..runtime.redaction import redacting_logger
from ..runtime.turns.activity import Activity
from .services import Owners, SessionServices
from .session.session import MAILBOX_CAPACITY as SESSION_CAPACITY
from .session.session import Session

MAX_WAKING = 16
"""Sessions that are loaded at once: enough to keep a provider busy, and a person's prompt comes between."""
LOAD_SECONDS = 10.0
"""Then the next one is loaded, although this one still is: one that never ends holds up no other."""
WAKE_SECONDS = 0.25
"""For the first turn of one that is loaded. Then the next one is woken, however long a turn runs: it may wait for a
person, for days. So at most 64 begin in a second, which keep less than half of a core busy, and a node that takes over a hundred sessions has them all at work in two seconds."""
LOOK_SECONDS = 0.05
"""How often it is checked whether a turn has ended; short turns wait no longer for each other."""


class Waking:
    """Wakes sessions in the order in which they became due, each once; a place is given up after the first turn.

    Args:
        load: Delivers a message to its session, and loads that for it.
        activity: Which turns run.
    """

    def __init__(self, load: Callable[[WakeSession], None], activity: Activity) -> None:
        self._load = load
        self._activity = activity
        self._due: dict[str, None] = {}
        self._more = trio.Event()

    def add(self, session_id: str) -> None:
        """Wake a session as soon as there is room; once, however often it is added until then."""
        self._due[session_id] = None
        self._more.set()

    def clear(self) -> None:
        """Forget those that are due: their inputs wait on record."""
        self._due.clear()

    async def serve(self) -> None:
        """Wake sessions until cancelled."""
        room = trio.Semaphore(MAX_WAKING)
        async with trio.open_nursery() as nursery:
            while True:
                await self._more.wait()
                self._more = trio.Event()
                while self._due:
                    await room.acquire()
                    session_id = next(iter(self._due), None)
                    if session_id is None:  # cleared meanwhile
                        room.release()
                        break
                    del self._due[session_id]
                    nursery.start_soon(self._wake, session_id, room, name=f"wake {session_id}")

    async def _wake(self, session_id: str, room: trio.Semaphore) -> None:
        try:
            try:
                with trio.move_on_after(LOAD_SECONDS):
                    message = WakeSession(session_id=session_id)
                    self._load(message)
                    await message.reply.wait()
            except CallboardError:
                return  # the session has said why in the log
            with trio.move_on_after(WAKE_SECONDS):
                await trio.lowlevel.checkpoint()  # its turn's task begins
                # Of its first turn alone: with many prompts it would keep its place until all are answered.
                turn_of = self._activity.turn_of
                first = turn_of(session_id)
                while first is not None and turn_of(session_id) == first:  # noqa: ASYNC110
                    await trio.sleep(LOOK_SECONDS)
        finally:
            room.release()


logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 1024
"""Requests of all clients that wait to be routed."""
IDLE_SECONDS = 600.0
"""How often idle sessions are unloaded, also while somebody listens; loading one costs milliseconds."""

MAX_STOPPING = 64
"""Idle sessions that are stopped at once. All at once, ten thousand have so many objects that the garbage
collector takes longer than they do; sessions whose turn runs are all stopped at once nevertheless."""

Routed = SubmitInput | RerunTurn | ResumeTurn | FollowSession | WakeSession | CancelTurn
"""The messages for one session."""

LiveSessions = dict[str, Mailbox[SessionMessage]]
"""The mailboxes of live sessions; outlives the directory, whose successor finds them here."""


class Directory:
    """Routes messages to sessions, and loads those that are not live.

    Receives: `CreateSession`, `SubmitInput`, `RerunTurn`, `ResumeTurn`, `FollowSession`,
        `WakeSession`, `CancelTurn`, `PurgeSessions`, `StopSessions`.
    Sends: these messages, and `StopSession`, to sessions; `AppendEvents` and `PurgeRecords` to the
        journal.
    Owns: which sessions are live.
    Ends: when cancelled.
    """

    def __init__(
        self,
        mailbox: Mailbox[DirectoryMessage],
        services: SessionServices,
        supervisor: Supervisor,
        live: LiveSessions,
    ) -> None:
        self._mailbox = mailbox
        self._services = services
        self._supervisor = supervisor
        self._live = live
        self._unloading: dict[str, list[Routed]] = {}
        self._claiming: dict[str, list[Routed]] = {}
        self._waking = Waking(self._load_woken, services.activity)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        with self._mailbox.open() as messages, self._resting_heard():
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._unload_idle, name="unload idle sessions")
                nursery.start_soon(self._waking.serve, name="wake sessions")
                if self._live and self._services.wakes:  # its predecessor has crashed
                    nursery.start_soon(self._take_over, name="take over what was due")
                tree = self._services.tree
                nursery.start_soon(tree.detached.take_up, name="take up detached sessions")
                nursery.start_soon(tree.detached.deliver_again, name="deliver what had no room")
                task_status.started()
                async for message in messages:
                    match message:
                        case CreateSession():
                            nursery.start_soon(self._create, message, name="create session")
                        case PurgeSessions():
                            nursery.start_soon(self._purge, message, name="purge sessions")
                        case StopSessions():
                            nursery.start_soon(self._stop_all, message, name="stop sessions")
                        case (
                            SubmitInput()
                            | RerunTurn()
                            | ResumeTurn()
                            | FollowSession()
                            | WakeSession()
                            | CancelTurn()
                        ):
                            self._route(message)
                        case _:
                            assert_never(message)

    @contextmanager
    def _resting_heard(self) -> Generator[None]:
        """Hang up at the end: without the directory, nobody loads a session again."""
        try:
            yield
        finally:
            self._services.inboxes.hang_up()

    async def _take_over(self) -> None:
        """Wake the sessions that a predecessor was to wake; the record has them."""
        try:
            for session_id in await self._services.store.waking_sessions():
                self._waking.add(session_id)
        except StorageError as error:
            logger.error("sessions with inputs that wait are not woken: %s", error)

    async def _create(self, message: CreateSession) -> None:
        with message.reply:
            session_id = new_id("session")
            try:
                self._services.store.health.check()
                created = message.created
                if (owners := self._services.owners) is not None:
                    place = owners.place_of(created.workspace)
                    created = msgspec.structs.replace(created, workspace=place)
                events = (created, *message.inherited)
                await self._services.journal.ask(AppendEvents(session_id=session_id, events=events))
            except CallboardError as error:
                message.reply.fail(error)
                return
            message.reply.send(session_id)

    def _route(self, message: Routed) -> None:
        """Deliver a message; while its session unloads, hold it until that is decided."""
        if (held := self._unloading.get(message.session_id)) is not None:
            held.append(message)
            return
        owners = self._services.owners
        if owners is not None and not owners.owns(message.session_id):
            self._hold_for_claim(message, owners)
            return
        is_live = message.session_id in self._live
        if isinstance(message, CancelTurn) and not (is_live or message.loads):
            message.reply.send(False)
            return
        if isinstance(message, WakeSession) and not is_live:
            message.abandon()  # nobody waits for this one
            if self._services.wakes:  # otherwise the input waits on record until somebody comes
                self._waking.add(message.session_id)
            return
        self._deliver(message)

    def _hold_for_claim(self, message: Routed, owners: Owners) -> None:
        """Hold a message back until this node owns its session, or it is known that another does."""
        if isinstance(message, WakeSession):
            message.abandon()  # whoever owns it wakes it
        elif (held := self._claiming.get(message.session_id)) is not None:
            held.append(message)
        else:
            self._claiming[message.session_id] = [message]
            claim = self._claim
            self._nursery.start_soon(claim, message.session_id, owners, name="claim a session")

    async def _claim(self, session_id: str, owners: Owners) -> None:
        refused: CallboardError | None = None
        try:
            await owners.claim(session_id)
        except CallboardError as error:
            refused = error
        finally:
            held = self._claiming.pop(session_id)
            if refused is None and not owners.owns(session_id):  # it was cancelled
                refused = ActorStopped("the directory has ended")
            for message in held:
                if refused is None:
                    self._route(message)
                else:
                    message.reply.fail(refused)
                    message.abandon()

    def _deliver(self, message: Routed) -> None:
        try:
            self._find(message.session_id).tell_nowait(message)
        except CallboardError as error:
            message.reply.fail(error)
            message.abandon()
        except BaseException:
            message.abandon()
            raise

    def _load_woken(self, message: WakeSession) -> None:
        if (held := self._unloading.get(message.session_id)) is not None:
            held.append(message)
        else:
            self._deliver(message)

    def _find(self, session_id: str) -> Mailbox[SessionMessage]:
        """Return the mailbox of a session, loading it if it is not live: its mail waits."""
        mailbox = self._live.get(session_id)
        if mailbox is None or mailbox.is_closed:
            mailbox = Mailbox(f"session {session_id}", SESSION_CAPACITY)
            self._live[session_id] = mailbox
            own = mailbox
            self._supervisor.start_soon(
                own.name, lambda: Session(session_id, own, self._services), own, vital=False
            )
        return mailbox

    async def _unload_idle(self) -> None:
        while True:
            await trio.sleep(IDLE_SECONDS)
            for session_id in list(self._live):
                await self._stop_one(session_id, "idle", only_idle=True)
            self._services.inboxes.forget_unheard()

    async def _stop_all(self, message: StopSessions) -> None:
        self._waking.clear()
        with message.reply:
            busy = {turn.session_id for turn in self._services.activity.turns()}
            idle = [each for each in self._live if each not in busy]
            async with trio.open_nursery() as nursery:
                for session_id in busy.intersection(self._live):
                    nursery.start_soon(self._stop_one, session_id, message.reason)
                for _ in range(min(len(idle), MAX_STOPPING)):
                    nursery.start_soon(self._stop_each, idle, message.reason)
            self._services.inboxes.hang_up()
            message.reply.send(None)

    async def _stop_each(self, names: list[str], reason: str) -> None:
        """Stop the sessions of a list until none is left on it; others take from it too."""
        while names:
            await self._stop_one(names.pop(), reason)

    async def _purge(self, message: PurgeSessions) -> None:
        with message.reply:
            async with trio.open_nursery() as nursery:
                for session_id in message.session_ids:
                    nursery.start_soon(self._stop_one, session_id, "the session is purged")
            self._services.inboxes.hang_up(message.session_ids)
            try:
                await self._services.journal.ask(PurgeRecords(session_ids=message.session_ids))
            except CallboardError as error:
                message.reply.fail(error)
                return
            message.reply.send(None)

    async def _stop_one(self, session_id: str, reason: str, only_idle: bool = False) -> None:
        if session_id in self._unloading or session_id not in self._live:
            return  # somebody else unloads it, or has
        mailbox = self._live[session_id]
        held = self._unloading[session_id] = []
        try:
            stop = StopSession(
                session_id=session_id, reason=reason, only_idle=only_idle, suspends=not only_idle
            )
            try:
                has_ended = await mailbox.ask(stop)
            except CallboardError:
                has_ended = True  # by itself, or it could not be loaded
            if has_ended:
                mailbox.close()
                del self._live[session_id]
        finally:
            del self._unloading[session_id]
            for message in held:
                self._route(message)
