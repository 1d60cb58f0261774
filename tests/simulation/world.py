"""One world: a daemon that dies and comes back, its clients, and what became of it all."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import trio
from msgspec.structs import replace
from trio.testing import MockClock

import callboard
from callboard.client.subscriptions import RemoteEvent, RemoteEvents
from callboard.config.keys.tokens import local_credential
from callboard.config.settings import Settings
from callboard.embedding.reconfiguring import reconfigure
from callboard.embedding.runtime import Runtime, host_of, open_runtime
from callboard.gateway.gateway import Gateway, open_gateway
from callboard.gateway.lifecycle import drain
from callboard.gateway.shared.clients_channel import ClientsChannel
from callboard.runtime.changes.version_log import VersionStore
from callboard.runtime.errors import CallboardError, StorageFull
from callboard.runtime.events import MessagesDeleted, Stored
from callboard.runtime.store.interface import Store
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import CommitResult
from callboard.runtime.turns.called_tool import CalledTool
from callboard.tools.sandbox.sandbox import Sandbox
from simulation import invariants, last_invariants
from simulation.clients import PlayedClient
from simulation.disk import NAME, Disk, PlayedStore, empty_database
from simulation.edges import BEGINS_AT, chance, played_edges
from simulation.models import PlayedModel
from simulation.network import Network
from simulation.plan import Action, Plan
from simulation.settings import AGENTS, DRAIN_SECONDS, SERVER, SETTINGS, STRICTER
from simulation.tools import PLAYED_TOOLS, Took, life_of

SETTLE_SECONDS = 2_000.0
"""Simulated time in which every session must come to rest once nothing fails any more."""
LOOK_SECONDS = 5.0
QUIET_SECONDS = 400.0
"""More than any deadline of a daemon: when nothing was stored for so long, nothing will be."""
LEAVES_DEFERRED = 0.5
"""How often nobody ever answers what was deferred: it ends by its time."""
STOP_SECONDS = 120.0
"""An orderly end waits for turns and clients, each for some seconds."""
BACK_AFTER_SECONDS = (0.2, 0.2, 0.2, 25.0)
"""From the end of one life of the daemon to the beginning of the next: shorter or longer than a question waits."""


FOLDERS = 100
"""Worlds that can be played at the same time by all processes; the locks of these folders stay."""


@contextmanager
def world_folder(*, is_first: bool = False) -> Generator[Path]:
    """A folder of a world's own; all have paths of one length, so that worlds are the same in each.

    Digests of approvals bind to the path. For traces that are compared there is the first folder.
    """
    above = Path(f"/tmp/callboard-simulation-{os.getuid()}")
    above.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as stack:
        for number in range(FOLDERS):
            folder = above / f"{number:02}"
            lock = stack.enter_context(folder.with_suffix(".lock").open("w"))
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if is_first else fcntl.LOCK_NB))
                break
        else:
            raise RuntimeError(f"{FOLDERS} worlds are played at once in {above}")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "work").mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Played(msgspec.Struct, frozen=True):
    """What became of a world.

    Attributes:
        broken: The invariants that do not hold, in words; none when all is well.
    """

    plan: Plan
    trace: list[str]
    broken: list[str]
    commits: int
    lives: int


def play(plan: Plan, *, is_compared: bool = False) -> Played:
    """Play a world to its end; its trace is compared with that of another process, or not."""
    return World(plan).play(is_compared=is_compared)


def digest(played: Played) -> str:
    """A digest of the whole trace."""
    return hashlib.sha256("\n".join(played.trace).encode()).hexdigest()


class World:
    """One world.

    Attributes:
        acknowledged: The session of each input whose ticket a client got.
        effects: What tools did to the world outside.
        deleted: Session and text of each input that was deleted.
        called: What programs called without a model, by the names in the arguments, and what they got.
        dropping: Feeds of clients that dropped frames of a subscription, until the next one is answered.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seed = plan.seed
        self.clock = MockClock(autojump_threshold=0)
        self.network = Network(chance(self.seed, "network"), plan.roughness)
        self.trace: list[str] = []
        self.broken: list[str] = []
        self.acknowledged: dict[str, str] = {}
        self.effects: list[Took] = []
        self.record: dict[str, list[Stored]] = {}
        self.commits: list[list[Stored]] = []
        self.lived: list[int] = []
        self.gone: set[str] = set()
        self.deleted: dict[str, tuple[str, str]] = {}
        self.called: list[tuple[tuple[str, ...], list[CalledTool]]] = []
        self.dropping: set[RemoteEvents] = set()
        self.settings = SETTINGS
        self.denies_since: int | None = None
        self.replayed = 0
        self.model = PlayedModel(
            self.seed,
            plan.steps,
            partial(invariants.the_next_request_is_valid, self),
            partial(invariants.deleted_words_are_not_sent, self),
        )
        self.lives: list[Life] = []
        self.clients = [PlayedClient(self, each) for each in range(plan.clients)]
        self._sessions: dict[int, str | None] = {}
        self._known: dict[int, trio.Event] = {}
        self._pending = 0
        self._away = chance(self.seed, "away")
        self._kill_in: float = 0
        self._kill_behind = ""
        self._is_over = False
        self._last_commit_at = 0.0
        self._nursery: trio.Nursery | None = None

    # ── from outside ─────────────────────────────────────────────────────────────────────────────

    def play(self, *, is_compared: bool = False) -> Played:
        handler = _Log(self)
        logger = logging.getLogger("callboard")
        logger.addHandler(handler)
        was, logger.propagate = logger.propagate, False
        try:
            with (
                world_folder(is_first=is_compared) as self.folder,
                empty_database() as connection,
                played_edges(self.seed, self.clock, self.network, _is_dead),
                mock.patch("callboard.embedding.runtime._open_store", self._open_store),
                mock.patch("callboard.embedding.runtime.versions_of", self._open_versions),
                mock.patch("callboard.embedding.runtime.Sandbox", _NoSandbox),
                mock.patch.object(RemoteEvents, "put", self._put),
                mock.patch.object(RemoteEvents, "_subscribe", self._subscribe),
            ):
                self.credential, token = local_credential()
                self.token = token.reveal()
                self.disk = Disk(self, chance(self.seed, "disk"), connection)
                trio.run(self._run, clock=self.clock, instruments=[_Rounds(self)])
                self._nursery = None
                self._judge()
        except Exception as error:
            logging.getLogger(__name__).exception("world %d", self.seed)
            self.breaks("the_world_goes_on", f"{type(error).__name__}: {error}")
        finally:
            logger.removeHandler(handler)
            logger.propagate = was
        return Played(self.plan, self.trace, self.broken, self.disk.commits, len(self.lives))

    @property
    def _put(self) -> Callable[[RemoteEvents, RemoteEvent], None]:
        put = RemoteEvents.put

        def judged(feed: RemoteEvents, item: RemoteEvent) -> None:
            invariants.no_frame_is_left_out(self, feed, item)
            put(feed, item)

        return judged

    @property
    def _subscribe(self) -> Callable[[RemoteEvents, int | None], Coroutine[Any, Any, int]]:
        subscribe = RemoteEvents._subscribe

        async def noted(feed: RemoteEvents, after_seq: int | None) -> int:
            seq = await subscribe(feed, after_seq)
            # No frame of an earlier subscription comes behind the answer.
            self.dropping.discard(feed)
            return seq

        return noted

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.clock.current_time():.6f} {text}")

    def breaks(self, invariant: str, why: str) -> None:
        """Note that an invariant does not hold."""
        self.note(f"BROKEN {invariant}: {why}")
        self.broken.append(f"{invariant}: {why}")
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel(reason="an invariant is broken")

    # ── for the parts ────────────────────────────────────────────────────────────────────────────

    def now_ms(self) -> int:
        return BEGINS_AT * 1000 + int(self.clock.current_time() * 1000)

    def spawn(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, name: str) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(work, *args, name=name)

    @property
    def life(self) -> Life:
        return self.lives[-1]

    def queries(self) -> Queries:
        """What is committed, whether a daemon lives or not."""
        return Queries(self.disk.connection, NAME)

    def committed(self, results: Sequence[CommitResult]) -> None:
        commit = [each for result in results if isinstance(result, tuple) for each in result]
        self.commits.append(commit)
        self.lived.append(self.life.number)
        self._last_commit_at = self.clock.current_time()
        for stored in commit:
            self.record.setdefault(stored.session_id, []).append(stored)
            event = msgspec.json.encode(stored.event).decode()
            self.note(f"stored {stored.session_id} {stored.seq} {event}")
            if isinstance(stored.event, MessagesDeleted):
                self.deleted |= invariants.deleted_inputs(self, stored.session_id, stored.event)

    def purged(self, events: Sequence[Stored]) -> None:
        for stored in events:
            self.gone.add(stored.session_id)
            self.record[stored.session_id].append(stored)
            self.note(f"purged {stored.session_id}")

    def before_commit(self, number: int) -> None:
        if self._kill_in and int(self._kill_in) == number and self._kill_in % 1 == 0:
            self._kill_in = 0
            self.life.kill(f"before commit {number}")

    def after_commit(self, number: int) -> None:
        kinds = {type(stored.event).__name__ for stored in self.commits[-1]}
        if (self._kill_in and int(self._kill_in) == number) or self._kill_behind in kinds:
            self._kill_in, self._kill_behind = 0, ""
            self.life.kill(f"after commit {number}")

    def broke(self) -> None:
        self.life.may_fail = True

    def known(self, number: int, session_id: str | None) -> None:
        self._sessions[number] = session_id
        self._known.setdefault(number, trio.Event()).set()

    async def session_id(self, number: int) -> str | None:
        """The id of the plan's n-th session, once it is known."""
        await self._known.setdefault(number, trio.Event()).wait()
        return self._sessions[number]

    # ── the run ──────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._live, name="lives of the daemon")
            for client in self.clients:
                nursery.start_soon(client.run, name=client.name)
            for action in self.plan.actions:
                await trio.sleep_until(action.at)
                self._begin(action)
            self.note("nothing fails any more")
            self.network.roughness = 0
            self.model.is_quick = True
            is_settled = False
            with trio.move_on_after(SETTLE_SECONDS):
                is_settled = await self._settle()
            if not is_settled:
                invariants.nothing_is_held_for_ever(self)
            self._is_over = True
            with trio.move_on_after(STOP_SECONDS) as patience:
                await self.life.stop()
            if patience.cancelled_caught:
                self.breaks("nothing_is_held_for_ever", "the daemon does not end")
            await last_invariants.replays_are_the_same(self)
            nursery.cancel_scope.cancel(reason="the world is over")

    def _begin(self, action: Action) -> None:
        connections = self.network.owners.get(f"client {action.client}", ())
        match action.kind:
            case "kill":
                self.life.kill("now")
            case "kill_at_commit" if action.text:
                self._kill_behind = action.text
            case "kill_at_commit":
                self._kill_in = self.disk.commits + action.number
            case "drain":
                self.life.drain()
            case "full":
                self.note(f"the disk is full for {action.number} s")
                self.disk.full_until = action.at + action.number
            case "break":
                self.disk.breaks_at = self.disk.commits + int(action.number)
            case "reload":
                self.life.reload(action.text)
            case "leave":
                self.clients[action.client].leave()
            case "cut" | "stop":
                for connection in connections[-1:]:
                    self.note(f"client {action.client}: {action.kind}")
                    connection.cut() if action.kind == "cut" else connection.stop(action.number)
            case _:
                self._pending += 1
                self.spawn(self._act, action, name=f"{action.kind} {action.text}")

    async def _act(self, action: Action) -> None:
        await self.clients[action.client].act(action)
        self._pending -= 1

    async def _live(self) -> None:
        while not self._is_over:
            life = Life(self, len(self.lives) + 1)
            self.lives.append(life)
            self.spawn(life.run, name=f"life {life.number}")
            await life.over.wait()
            await trio.sleep(self._away.choice(BACK_AFTER_SECONDS))

    def _open_versions(self, folder: Path | None, _node: object) -> VersionStore:
        return VersionStore(self.folder / "data")

    async def _open_store(self, folder: Path | None, _url: str | None = None) -> Store:
        await trio.lowlevel.checkpoint()
        return self.life.store

    async def _settle(self) -> bool:
        """Wait until every action has ended and every session is at rest; return whether they do."""
        self._kill_in = self.disk.breaks_at = 0
        self._kill_behind = ""
        self.disk.full_until = 0
        settler, begun = self.clients[0], self.clock.current_time()
        leaves_deferred = chance(self.seed, "settler").random() < LEAVES_DEFERRED
        while self._pending or invariants.at_work(self):
            await trio.sleep(LOOK_SECONDS)
            if self.clock.current_time() - max(begun, self._last_commit_at) > QUIET_SECONDS:
                return False
            for session_id in sorted(self.record.keys() - self.gone):
                settler.follow(session_id)
            client = await settler.client()
            for row in invariants.waiting(self):
                if row.is_deferred and leaves_deferred:
                    continue
                try:
                    await client.answer(row.approval_id, "allow")
                except CallboardError as error:
                    self.note(f"settling: {error}")
        return True

    def _judge(self) -> None:
        for check in last_invariants.AT_THE_END:
            try:
                check(self)
            except AssertionError as error:
                self.breaks(check.__name__, str(error))


class Life:
    """One process of the daemon, from its start to its end or its death."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.store = PlayedStore(world.disk)
        self.server = replace(SERVER, roots=(str(world.folder / "work"),))
        self.listener = world.network.listen()
        self.over = trio.Event()
        self.is_dead = False
        self.may_fail = False
        self._scope = trio.CancelScope()
        self._is_asked_to_stop = False
        self._runtime: Runtime | None = None
        self._gateway: Gateway | None = None
        self._nursery: trio.Nursery | None = None

    def took_effect(self, tool: str, context: callboard.ToolContext, name: str) -> None:
        """Note what a tool did, unless the process is dead."""
        if not self.is_dead:
            self.world.note(f"effect {tool} {name} of {context.call_id}")
            took = invariants.effect_of(self.world, self.number, tool, context, name)
            self.world.effects.append(took)
            for check in invariants.FOR_EACH_EFFECT:
                check(self.world, took)

    async def run(self) -> None:
        life_of.set(self)
        began_ms = self.world.now_ms()
        self.world.note(f"life {self.number} begins")
        try:
            with self._scope:
                async with (
                    self._open_runtime() as runtime,
                    open_gateway(
                        runtime,
                        self.server,
                        self.world.folder / "data",
                        local=self.world.credential,
                        listeners=[self.listener],  # type: ignore[list-item]
                    ) as gateway,
                ):
                    invariants.a_start_ends_what_is_over(self.world, began_ms)
                    invariants.a_start_closes_what_a_crash_left(self.world)
                    await self._serve(runtime, gateway)
        except Exception as error:
            # A full disk ends a start that can't record what an earlier life left open.
            is_full = isinstance(error, StorageFull)
            if not (self.is_dead or self.may_fail or is_full):
                logging.getLogger(__name__).exception("life %d", self.number)
                self.world.breaks("nothing_crashes", f"the daemon ends by {error!r}")
        self.world.note(f"life {self.number} is over")
        self.listener.close()
        self.over.set()

    def _open_runtime(self) -> Any:
        return open_runtime(
            model=self.world.model,
            workspace=self.world.folder / "work",
            tools=PLAYED_TOOLS,
            agents=AGENTS,
            channel=ClientsChannel(),
            settings=self.world.settings,
            environ={},
            strict=True,
        )

    async def _serve(self, runtime: Runtime, gateway: Gateway) -> None:
        self._runtime, self._gateway = runtime, gateway
        gateway.daemon.settings = replace(
            self.server, max_outbox_bytes=self.world.plan.outbox_bytes
        )
        if self._is_asked_to_stop:
            gateway.daemon.stop()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await gateway.stopped.wait()
                self.world.note(f"life {self.number} drains")
                gateway.announce_end()
                await drain(runtime, DRAIN_SECONDS, trio.Event())
            finally:
                self._nursery = None
            nursery.cancel_scope.cancel(reason="the daemon ends")

    def reload(self, name: str) -> None:
        """Read a configuration that denies more, or less."""
        world = self.world
        is_over = self.is_dead or self.over.is_set()
        if self._runtime is not None and self._nursery is not None and not is_over:
            settings = world.settings = SETTINGS if world.settings is STRICTER else STRICTER
            world.note(f"reload {name}: {'stricter' if settings is STRICTER else 'laxer'}")
            self._nursery.start_soon(self._reload, settings, name="reload")

    async def _reload(self, settings: Settings) -> None:
        assert self._runtime is not None
        await reconfigure(host_of(self._runtime), settings)
        self.world.denies_since = self.world.now_ms() if settings is STRICTER else None

    def drain(self) -> None:
        """Begin to end in order, as a signal has it."""
        self._is_asked_to_stop = True
        if self._gateway is not None:
            self._gateway.daemon.stop()

    async def stop(self) -> None:
        """End it in order, and wait for that."""
        self.drain()
        await self.over.wait()

    def kill(self, when: str) -> None:
        """End it at once: nothing that it does from here on can be seen."""
        if self.is_dead or self.over.is_set():
            return
        self.world.note(f"life {self.number} is killed {when}")
        self.is_dead = self.store.is_dead = True
        self.listener.close()
        for connection in self.listener.connections:
            connection.cut()
        self._scope.cancel(reason="killed")
        self.over.set()


def _is_dead() -> bool:
    life = life_of.get(None)
    return life is not None and life.is_dead


MAX_ROUNDS = 100_000
"""Forty times what a world takes: something goes round without waiting for anything."""
MAX_ROUNDS_AT_ONCE = 5_000
"""While the clock stands still: something goes round, or what is left of a cancelled world waits for ever."""


class _Rounds(trio.abc.Instrument):
    """Ends a world in which a task never rests, and the process when not even a cancel ends it.

    It counts rounds of Trio, in which each task that can takes one step: to look at steps would cost more.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._left = MAX_ROUNDS
        self._now = 0.0
        self._left_now = MAX_ROUNDS_AT_ONCE

    def after_io_wait(self, timeout: float) -> None:
        self._left -= 1
        self._left_now -= 1
        if (now := self._world.clock.current_time()) != self._now:
            self._now, self._left_now = now, MAX_ROUNDS_AT_ONCE
        if self._left < 0 or self._left_now < 0:
            if self._world.broken:
                self._give_up()
            self._world.breaks("nothing_is_held_for_ever", "a task never rests")
            self._left = self._left_now = MAX_ROUNDS_AT_ONCE

    def _give_up(self) -> None:
        """End the process: a cancelled task goes on. Trio has no other way out."""
        name = (
            self._world.broken[0].partition(":")[0] if self._world.broken else "a_cancel_ends_all"
        )
        os.write(1, f"{self._world.seed} {name}\n".encode())
        os._exit(70)


class _NoSandbox(Sandbox):
    """No program runs in a played world."""

    async def ready(self) -> None:
        await trio.lowlevel.checkpoint()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()

    def problem(self) -> str | None:
        return "no program runs here"


class _Log(logging.Handler):
    """What the daemon logs; a crash breaks an invariant, unless the world itself raised it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        self._world.note(f"log {record.levelname} {text.splitlines()[0]} {error!r}")
        if error is not None and not _is_played(error):
            dead = any(life.is_dead and not life.over.is_set() for life in self._world.lives)
            if not (dead or self._world.life.is_dead or self._world.life.may_fail):
                self._world.breaks("nothing_crashes", f"{text.splitlines()[0]}: {error!r}")


def _is_played(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_played, error.exceptions))
    return isinstance(error, RuntimeError) and "crashes" in str(error)
