"""Every actor, and everybody who talks to one, cut before each of their steps.

The second half plants a leak in each actor and asserts that the sweep sees it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

import callboard
from callboard.actors.calls import dispatcher as tool_dispatcher
from callboard.actors.journal import Journal
from callboard.actors.model.stream import StartModelCall
from callboard.actors.services import SessionServices
from callboard.actors.session.session import Session
from callboard.actors.session.subscribers import Subscribers
from callboard.config.settings import Limits
from callboard.embedding import runtime as embedded
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import fail
from callboard.providers.testing.script import reply as answer
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import Agent, Effect, Resource, Tier
from callboard.runtime.events import SessionCreated, Stored, TitleSet, TurnEnded, TurnStarted
from callboard.runtime.history import Call, Result
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.messages import (
    AnswerApproval,
    AppendEvents,
    ApprovalAnswer,
    ApprovalRequest,
    AskPerson,
    CancelTurn,
    CheckPermissions,
    CreateSession,
    PermissionQuestion,
    Resolution,
    SessionMessage,
    StopSession,
    StopSessions,
)
from callboard.runtime.store.rows import Append
from callboard.runtime.stream import AnyStreamEvent
from callboard.tools.tool import Tool
from support.scene import (
    FakeStore,
    Manner,
    Scene,
    assert_sound,
    open_scene,
    place_of,
    quietly,
    run_calls,
)
from support.sweep import Cut, Scenario, sweep

User = Callable[[], Awaitable[object]]

MANY_ACTORS_UP_TO = 30
"""Up to here each step of a whole runtime is cut; it finds what a batch of calls forgets."""

both_sides = pytest.mark.parametrize("side", ["actor", "asker"])


async def play(cut: Cut, scene: Scene, actors: str, side: str, *users: User) -> None:
    """Runs users against actors; the last actor is the one to cut, or else the users are.

    Who isn't cut must come to an end by themselves.
    """
    *others, victim = actors.split()

    async def run_victim() -> None:
        async with trio.open_nursery() as nursery:
            if side == "actor":
                cut.aim(nursery)
            scene.start_soon(nursery, victim)

    async with open_scene(scene, *others) as rest:
        rest.start_soon(run_victim)
        async with trio.open_nursery() as nursery:
            if side == "asker":
                cut.aim(nursery)
            for user in users:
                nursery.start_soon(quietly, user)


# ── journal ──────────────────────────────────────────────────────────────────────────────────────


def journal_scenario(side: str, make: type[Journal] = Journal) -> Scenario:
    async def scenario(cut: Cut) -> None:
        scene = Scene()
        scene.make_journal = lambda: make(scene.journal, scene.store, scene.inboxes)  # type: ignore[method-assign]
        await scene.create()
        inbox = scene.inboxes.open("s1")
        acknowledged: list[Stored] = []

        async def append() -> None:
            for title in "ab":
                acknowledged.extend(await scene.append("s1", TitleSet(title=title)))

        await play(cut, scene, "journal", side, append, append, append)
        await assert_sound(scene.store)
        _, *stored = await scene.store.events("s1")
        assert {each.seq for each in acknowledged} <= {each.seq for each in stored}
        assert inbox.take() == stored

    return scenario


# ── permission broker ────────────────────────────────────────────────────────────────────────────


def question(name: str) -> PermissionQuestion:
    return PermissionQuestion(
        call_id=name, name=name, tier=Tier.ELEVATED, arguments="{}", approval_reason=None
    )


def broker_scenario(side: str) -> Scenario:
    async def scenario(cut: Cut) -> None:
        asked: list[ApprovalRequest] = []

        async def approver(request: ApprovalRequest) -> bool:
            asked.append(request)
            if request.tool == "quick":
                return True
            await trio.sleep_forever()
            return False

        scene = Scene(approver=approver)
        await scene.create()

        async def ask(name: str, *, patience: float = 100) -> None:
            scope = trio.CancelScope()
            try:
                with trio.move_on_after(patience):
                    given: Resolution = await scene.broker.ask(
                        AskPerson(
                            place=place_of(), call=Call("c", name, "{}"), question=question(name),
                            reason="r", digest=name, policy_version="v", scope=scope,
                        )
                    )  # fmt: skip
                    assert given.answer.decision == "allow"
                    assert name in {"quick", "answered"}
            finally:
                scope.cancel()

        async def check_and_ask() -> None:
            await scene.broker.ask(CheckPermissions(place=place_of(), questions=(question("x"),)))
            await ask("quick")

        async def be_answered() -> None:
            await ask("answered")

        async def give_answer() -> None:
            await trio.sleep(2)
            for approval_id in [a.approval_id for a in asked if a.tool == "answered"]:
                allow = ApprovalAnswer(decision="allow")
                await scene.broker.ask(AnswerApproval(approval_id=approval_id, answer=allow))

        async def withdraw() -> None:
            await ask("withdrawn", patience=1)

        users = (check_and_ask, be_answered, give_answer, withdraw)
        await play(cut, scene, "journal broker", side, *users)
        await assert_sound(scene.store)

    return scenario


# ── tool dispatcher ──────────────────────────────────────────────────────────────────────────────


class Tools:
    """Tools without threads, and how many of them run."""

    def __init__(self) -> None:
        self.running = 0
        self.effects: list[str] = []

    def all(self) -> list[Tool]:
        @callboard.tool(tier="read_only", effect="read")
        async def look() -> str:
            """Looks."""
            return await self._work("look")

        @callboard.tool(tier="workspace", resources=lambda _: (Resource("one"),))
        async def change() -> str:
            """Changes a thing that only one call may change."""
            return await self._work("change")

        @callboard.tool(tier="system", approval="always", effect=Effect.ONCE)
        async def ask_first() -> str:
            """Asks before it acts."""
            return await self._work("ask_first")

        @callboard.tool(tier="read_only")
        async def crash() -> str:
            """Crashes."""
            await trio.lowlevel.checkpoint()
            raise ValueError("boom")

        return [look, change, ask_first, crash]

    async def _work(self, name: str) -> str:
        self.running += 1
        try:
            await trio.sleep(1)
            self.effects.append(name)
            return name
        finally:
            self.running -= 1


def dispatcher_scenario(side: str) -> Scenario:
    async def scenario(cut: Cut) -> None:
        tools = Tools()

        async def approver(request: ApprovalRequest) -> bool:
            await trio.sleep(1)
            return True

        scene = Scene(tools=tools.all(), approver=approver)
        await scene.create()

        async def use() -> None:
            started = TurnStarted(turn_id="t", input_ids=(), provider="p", model="m")
            await scene.append("s1", started)
            names = ("look", "change", "change", "ask_first", "crash", "unknown")
            await run_calls(scene, [Call(f"c{n}", name, "{}") for n, name in enumerate(names)])
            assert tools.running == 0

        await play(cut, scene, "journal broker dispatcher", side, use)
        assert tools.running == 0
        assert scene.running_dispatcher is not None
        assert scene.running_dispatcher.slots.held == 0
        await assert_sound(scene.store, ended=False)
        for call in await scene.store.calls():
            if call.name in {"change", "ask_first"} and call.name in tools.effects:
                started = [c for c in await scene.store.calls() if c.name == call.name]
                assert sum(c.started_at_ms is not None for c in started) >= tools.effects.count(
                    call.name
                )

    return scenario


# ── model stream ─────────────────────────────────────────────────────────────────────────────────


def model_stream_scenario(side: str) -> Scenario:
    async def scenario(cut: Cut) -> None:
        model = ScriptedModel([answer(["a", "b", "c"], piece_seconds=1)] * 2)
        scene = Scene(model=model)

        async def use() -> None:
            for _ in range(2):
                outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](1)
                scope = trio.CancelScope()
                with batches:
                    await scene.model_stream.tell(
                        StartModelCall(
                            target=scene.models.target(None),
                            request=ModelRequest(model="m", rounds=[]),
                            outlet=outlet,
                            scope=scope,
                        )
                    )
                    try:
                        async for _ in batches:
                            pass
                    except BaseException:
                        scope.cancel()
                        with trio.fail_after(10, shield=True):
                            async for _ in batches:
                                pass
                        raise

        await play(cut, scene, "model_stream", side, use)

    return scenario


# ── session, directory ───────────────────────────────────────────────────────────────────────────


class Answering:
    """A model that asks for two tools, and answers when it has their results."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        await trio.lowlevel.checkpoint()
        has_results = isinstance(request.rounds[-1].items[-1], Result)
        said = answer("done") if has_results else answer(calls=[("look", {}), ("change", {})])
        await ScriptedModel([said]).run(request, emit)


async def prompt(scene: Scene, to: str, session_id: str, text: str) -> TurnEnded:
    heard = await scene.submit(getattr(scene, to), session_id, text)
    return await heard.to_the_end()


async def assert_goes_on(store: FakeStore, session_id: str, text: str = "again") -> None:
    """A runtime that starts on the record of a cut one closes what was open, and answers."""
    scene = Scene(store=store, tools=Tools().all(), model=Answering())
    async with open_scene(scene, "journal", "broker", "dispatcher", "directory"):
        ended = await prompt(scene, "directory", session_id, text)
        assert ended.outcome == "answered"
    await assert_sound(store, session_id)
    for row in await store.calls(session_id=session_id):
        assert row.status.is_final


def session_scenario(side: str, make: type[Session] = Session) -> Scenario:
    async def scenario(cut: Cut) -> None:
        tools = Tools()
        scene = Scene(tools=tools.all(), model=Answering())
        scene.make_session = lambda: make("s1", scene.session, scene.services)  # type: ignore[method-assign]
        await scene.create()

        async def talk() -> None:
            await prompt(scene, "session", "s1", "first")

        async def queue_and_cancel() -> None:
            heard = await scene.submit(scene.session, "s1", "second")
            await scene.session.ask(CancelTurn(session_id="s1", reason="test"))
            await heard.to_the_end()

        async def stop_late() -> None:
            await trio.sleep(2.5)
            await scene.session.ask(StopSession(session_id="s1", reason="test"))

        actors = "journal broker dispatcher session"
        await play(cut, scene, actors, side, talk, queue_and_cancel, stop_late)
        assert tools.running == 0
        await assert_goes_on(scene.fake, "s1")

    return scenario


def directory_scenario(side: str) -> Scenario:
    async def scenario(cut: Cut) -> None:
        tools = Tools()
        scene = Scene(tools=tools.all(), model=Answering())
        created: list[str] = []

        async def talk() -> None:
            session_id: str = await scene.directory.ask(
                CreateSession(created=SessionCreated(agent="general", workspace="/work"))
            )
            created.append(session_id)
            await prompt(scene, "directory", session_id, "first")
            heard = await scene.submit(scene.directory, session_id, "second")
            await scene.directory.ask(
                CancelTurn(
                    session_id=session_id, reason="test", input_id=heard.ticket.input_id,
                )
            )  # fmt: skip
            await heard.to_the_end()

        async def stop_early() -> None:
            await trio.sleep(0.5)
            await scene.directory.ask(StopSessions(reason="test"))

        await play(cut, scene, "journal broker dispatcher directory", side, talk, stop_early)
        assert tools.running == 0
        for session_id in created:
            await assert_goes_on(scene.fake, session_id)

    return scenario


def trouble_scenario(side: str) -> Scenario:
    """A turn with everything that a model can make necessary: waits, a summary, the next model."""

    async def scenario(cut: Cut) -> None:
        busy = fail("Busy.", error_type="overloaded", retryable=True, text="So")
        too_long = fail("Too long.", error_type="context_overflow")
        key = fail("The key is wrong.", error_type="auth")
        tools = Tools()
        model = ScriptedModel([answer("x" * 100), busy, too_long, busy, answer("Notes."), key])
        scene = Scene(
            tools=tools.all(), model=model, limits=Limits(), agents=[Agent(fallbacks=("b/m",))]
        )
        scene.models.others["b/m"] = Answering()
        await scene.create()

        async def talk() -> None:
            await prompt(scene, "session", "s1", "first")
            await prompt(scene, "session", "s1", "second")

        async def stop_late() -> None:
            await trio.sleep(60)
            await scene.session.ask(StopSession(session_id="s1", reason="test"))

        await play(cut, scene, "journal broker dispatcher session", side, talk, stop_late)
        assert tools.running == 0
        await assert_goes_on(scene.fake, "s1")
        if not cut.happened:
            tags = {type(event).__name__ for event in await scene.events()}
            assert {
                "AttemptFailed",
                "HistoryCompacted",
                "ModelSwitched",
                "ProviderSetAside",
            } <= tags

    return scenario


# ── a whole runtime ──────────────────────────────────────────────────────────────────────────────


def embedded_scenario(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    async def scenario(cut: Cut) -> None:
        store = FakeStore()
        monkeypatch.setattr(embedded, "open_memory_store", lambda: store)
        tools = Tools()

        async def program() -> None:
            async with callboard.open_runtime(
                model=Answering(), workspace=folder, tools=tools.all(), environ={}
            ) as runtime:
                session = await runtime.create_session()
                async with session.prompt("go") as turn:
                    async for _ in turn:
                        pass

        async with trio.open_nursery() as nursery:
            cut.aim(nursery)
            nursery.start_soon(program)
        assert tools.running == 0
        for row in await store.sessions():
            await assert_goes_on(store, row.session_id)

    return scenario


def consumer_scenario(folder: Path) -> Scenario:
    """One who prompts is cut; the session must be there for the next one."""

    async def scenario(cut: Cut) -> None:
        # More pieces than wait for a consumer: one that nobody reads would hold its turn up.
        model = ScriptedModel([answer(["piece"] * 200), answer("again")] * 2)

        async with callboard.open_runtime(model=model, workspace=folder, environ={}) as runtime:
            session = await runtime.create_session()

            async def prompt_in_parts() -> None:
                async with session.prompt("go") as turn:
                    async for _ in turn:
                        pass

            async with trio.open_nursery() as nursery:
                cut.aim(nursery)
                nursery.start_soon(prompt_in_parts)
            with trio.fail_after(60):
                await session.run("and now?")
            await assert_sound(runtime.store, session.session_id)

    return scenario


@both_sides
@pytest.mark.parametrize(
    "scenario_of",
    [
        journal_scenario,
        broker_scenario,
        dispatcher_scenario,
        model_stream_scenario,
        session_scenario,
        trouble_scenario,
        directory_scenario,
    ],
)
def test_nothing_is_left_behind_wherever_a_cut_falls(
    scenario_of: Callable[[str], Scenario], side: str
) -> None:
    assert sweep(scenario_of(side)) > 2


@both_sides
@pytest.mark.parametrize(
    "scenario_of", [journal_scenario, dispatcher_scenario, session_scenario, directory_scenario]
)
@pytest.mark.parametrize("manner", [Manner.AT_ONCE, Manner.LATER])
def test_nothing_is_left_behind_where_a_store_need_not_be_waited_for(
    manner: Manner,
    scenario_of: Callable[[str], Scenario],
    side: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defaults = FakeStore.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "manner", manner)
    # Where it has to be waited for, each step was cut.
    assert sweep(scenario_of(side), every_step_up_to=MANY_ACTORS_UP_TO) > 0


def test_nothing_of_a_runtime_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = embedded_scenario(tmp_path, monkeypatch)
    assert sweep(scenario, every_step_up_to=MANY_ACTORS_UP_TO) > 50


def test_a_consumer_may_be_cut_anywhere_and_the_session_goes_on(tmp_path: Path) -> None:
    assert sweep(consumer_scenario(tmp_path), every_step_up_to=MANY_ACTORS_UP_TO) > 5


# ── planted leaks ────────────────────────────────────────────────────────────────────────────────


class ForgetfulJournal(Journal):
    """Forgets who asked when it is cancelled in a commit."""

    async def _commit(self, group: list[AppendEvents]) -> None:
        appends = [Append(request.session_id, request.events) for request in group]
        for request, outcome in zip(group, await self._store.commit(appends), strict=True):
            assert isinstance(outcome, tuple)
            self._inboxes.put(request.session_id, outcome)
            request.reply.send(outcome)


class ForgetfulBatch(tool_dispatcher.CallBatch):
    """Forgets one end of its channel when it is cancelled."""

    async def run(self) -> None:
        forgotten = self._request.outlet.clone()
        await super().run()
        if not self._request.scope.cancelled_caught:
            forgotten.close()


class ForgetfulSubscribers(Subscribers):
    """Forgets who listens."""

    def hang_up(self, error: Exception | None = None) -> None:
        self._listeners.clear()


class ForgetfulSession(Session):
    """Forgets those who listen to it when it ends."""

    def __init__(
        self, session_id: str, mailbox: Mailbox[SessionMessage], services: SessionServices
    ) -> None:
        super().__init__(session_id, mailbox, services)
        self._subscribers = ForgetfulSubscribers(session_id)


LEFT = r"cut before step \d+: .*(LeftBehind|TooSlowError)"


@pytest.mark.parametrize(
    "scenario",
    [
        journal_scenario("actor", ForgetfulJournal),
        session_scenario("actor", ForgetfulSession),
    ],
    ids=["a reply", "a listener"],
)
def test_the_sweep_finds_what_an_actor_forgets(scenario: Scenario) -> None:
    with pytest.raises(AssertionError, match=LEFT):
        sweep(scenario)


def test_the_sweep_finds_what_the_dispatcher_forgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_dispatcher, "CallBatch", ForgetfulBatch)
    with pytest.raises(AssertionError, match=LEFT):
        sweep(dispatcher_scenario("actor"))
    with pytest.raises(AssertionError, match=LEFT):
        sweep(embedded_scenario(tmp_path, monkeypatch), every_step_up_to=MANY_ACTORS_UP_TO)


def test_the_sweep_finds_a_process_that_nobody_waited_for() -> None:
    started: list[subprocess.Popen[bytes]] = []

    async def scenario(cut: Cut) -> None:
        async def start_and_wait() -> None:
            started.append(subprocess.Popen(["sleep", "1000"]))  # noqa: ASYNC220 - no bytes of it are read
            await trio.lowlevel.checkpoint()
            started[-1].kill()
            started.pop().wait()

        async with trio.open_nursery() as nursery:
            cut.aim(nursery)
            nursery.start_soon(start_and_wait)

    try:
        with pytest.raises(AssertionError, match="1 child processes are left"):
            sweep(scenario)
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_the_sweep_names_the_step_at_which_a_scenario_fails() -> None:
    async def scenario(cut: Cut) -> None:
        done: list[int] = []

        async def work() -> None:
            for step in range(6):
                done.append(step)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            cut.aim(nursery)
            nursery.start_soon(work)
        assert len(done) != 3

    with pytest.raises(AssertionError, match="cut before step 4: "):
        sweep(scenario)
