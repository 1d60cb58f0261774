"""Clients of the daemon: they do what the plan says, listen, and answer questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import trio

from callboard.client.client import Client, connect
from callboard.runtime.approval import ApprovalAnswer
from callboard.runtime.budget import Budget
from callboard.runtime.definitions import InputMode
from callboard.runtime.errors import CallboardError, InternalError, ValidationError
from callboard.runtime.events import (
    ApprovalAsked,
    MessageCompleted,
    MessageDiscarded,
    QuestionAsked,
    Stored,
    StreamBatch,
)
from callboard.runtime.store.feeds import Topic
from callboard.runtime.stream import TextDelta
from callboard.runtime.wire.topics import Snapshot, TopicUpdate
from simulation.edges import chance
from simulation.network import PORT, owner
from simulation.plan import AGENTS, Action

if TYPE_CHECKING:
    from simulation.world import World

URL = f"ws://127.0.0.1:{PORT}/ws"


class View:
    """What a client has come to know of a session: the fold that every client makes.

    Attributes:
        stored: The events on record that it heard.
        problem: What was wrong with what it heard.
    """

    def __init__(self) -> None:
        self.stored: list[Stored] = []
        self.problem = ""
        self.epoch = ""
        self._text = ""
        self._stream = ""

    def take(self, event: object) -> None:
        match event:
            case Stored():
                self.stored.append(event)
                if isinstance(event.event, MessageCompleted):
                    self._text = ""
            case Snapshot():
                self._text = ""
                if event.answer is not None:
                    self._hear(event.answer)
            case MessageDiscarded():
                self._text = ""
            case StreamBatch():
                self._hear(event)
            case _:
                pass

    def _hear(self, batch: StreamBatch) -> None:
        if batch.stream_id != self._stream:
            self._stream, self._text = batch.stream_id, ""
        if batch.offset != len(self._text.encode()):
            self.problem = f"a piece at {batch.offset}, behind {self._text!r}"
        self._text += "".join(event.text for event in batch.events if isinstance(event, TextDelta))


class PlayedClient:
    """One program with the client library.

    Attributes:
        views: What it has heard of each session, from the first event on.
    """

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"client {number}"
        self.views: dict[str, View] = {}
        self._client: Client | None = None
        self._nursery: trio.Nursery | None = None
        self._there = trio.Event()
        self._stay = trio.CancelScope()
        self._followed: dict[str, None] = {}

    async def run(self) -> None:
        """Be connected until cancelled; who leaves comes back as another program."""
        owner.set(self.name)
        while True:
            try:
                with trio.CancelScope() as self._stay:
                    async with connect(URL, self.world.token) as client:
                        async with trio.open_nursery() as nursery:
                            self._client, self._nursery = client, nursery
                            nursery.start_soon(self._people, name=f"{self.name} answers")
                            for session_id in self._followed:
                                nursery.start_soon(self._listen, session_id, name=self.name)
                            self._there.set()
                            try:
                                await trio.sleep_forever()
                            finally:
                                self._nursery = None  # it takes no more tasks
            except CallboardError as error:
                self.world.note(f"{self.name}: {type(error).__name__}")
            if self._there.is_set():
                self._there = trio.Event()
            await trio.sleep(0.5)

    def leave(self) -> None:
        """End the program, and come back."""
        self._stay.cancel(reason="the client leaves")

    async def client(self) -> Client:
        await self._there.wait()
        assert self._client is not None
        return self._client

    async def act(self, action: Action) -> None:
        """Do something, and keep what was acknowledged."""
        client = await self.client()
        world = self.world
        label = f"{self.name} {action.kind} {action.session} {action.text}"
        world.note(f"{label} begins")
        try:
            done = await self._do(client, action)
        except CallboardError as error:
            world.note(f"{label}: {type(error).__name__}: {error}")
            if isinstance(error, InternalError) and not (world.life.is_dead or world.life.may_fail):
                world.breaks("nothing_crashes", f"{label}: {error}")
            if "was done already" in str(error):
                world.breaks("a_repeated_request_finds_its_answer", f"{label}: {error}")
            if action.kind == "create":
                world.known(action.session, None)
        else:
            world.note(f"{label}: {done}")

    async def _do(self, client: Client, action: Action) -> str:
        world = self.world
        if action.kind == "create":
            row = await client.create_session(
                agent=action.text,
                title=f"session {action.session}",
                workspace=str(world.folder / "work") if action.number else None,
            )
            world.known(action.session, row.session_id)
            return row.session_id
        session_id = await world.session_id(action.session)
        if session_id is None:
            return "there is no session"
        self.follow(session_id)
        return await self._do_to(client, action, session_id)

    async def _do_to(self, client: Client, action: Action, session_id: str) -> str:  # ruff: ignore[complex-structure]  one case a kind
        world = self.world
        match action.kind:
            case "prompt" | "steer" | "interrupt":
                mode = InputMode("queue" if action.kind == "prompt" else action.kind)
                ticket = await client.prompt(session_id, action.text, mode=mode)
                world.acknowledged[ticket.input_id] = session_id
                return ticket.input_id
            case "retry":
                return (await client.retry(session_id)).input_id
            case "cancel":
                return str(await client.cancel(session_id))
            case "cancel_call":
                calls = await client.calls(session_id=session_id, limit=1)
                return str([await client.cancel_call(session_id, call.call_id) for call in calls])
            case "delete":
                return str(await client.delete_sessions([session_id]))
            case "restore":
                return str(await client.restore_sessions([session_id]))
            case "purge":
                return str(await client.purge_sessions(await client.delete_sessions([session_id])))
            case "switch_agent":
                await client.set_agent([session_id], action.text)
            case "budget":
                number = int(action.number)
                await client.set_budget(
                    session_id, Budget(tool_calls=number, model_calls=3 + number)
                )
            case "revoke":
                for each in await client.grants():
                    await client.revoke(each.grant_id)
            case "copy":
                return await client.import_session(await client.export_session(session_id))
            case "fork":
                return (await client.fork(session_id)).session_id
            case "delete_message":
                said = [each for each in await client.messages(session_id) if each.type == "user"]
                chosen = [each.message_id for each in said[: 1 + (action.number > 1)]]
                deleted = await client.delete_messages(session_id, chosen) if chosen else ()
                await client.prompt(session_id, action.text)
                return str(deleted)
            case "call":
                return await self._call(client, action)
            case "undo":
                return str(await client.undo(session_id))
            case "list":
                rows = await client.sessions()
                messages = [await client.messages(row.session_id) for row in rows[:2]]
                return f"{len(rows)} sessions, {sum(map(len, messages))} messages"
            case _:
                raise AssertionError(action)
        return "done"

    async def _call(self, client: Client, action: Action) -> str:
        """Call two tools without a model, in a session of their own; the first may take longer."""
        random = chance(self.world.seed, f"call/{action.text}")
        agent = random.choice(AGENTS)
        seconds = random.choice((0.0, 3.0))
        names = [f"{action.text}.{each}" for each in "ab"]
        calls = [
            (random.choice(("note", "post", "look")), {"name": name, "seconds": seconds * (not at)})
            for at, name in enumerate(names)
        ]
        called = await client.call_tools(calls, agent=agent)
        self.world.called.append((tuple(names), called))
        return str([each.status for each in called])

    # ── listening ────────────────────────────────────────────────────────────────────────────────

    def follow(self, session_id: str) -> None:
        """Listen to a session from its first event on. Idempotent."""
        if session_id not in self._followed and self._nursery is not None:
            self._followed[session_id] = None
            self._nursery.start_soon(self._listen, session_id, name=f"{self.name} listens")

    async def _listen(self, session_id: str) -> None:
        client = await self.client()
        view = self.views.setdefault(session_id, View())
        after_seq = view.stored[-1].seq if view.stored else 0
        try:
            async with client.events(
                session_id, after_seq=after_seq, epoch=view.epoch or None
            ) as events:
                view.epoch = events.epoch
                async for event in events:
                    if isinstance(event, Stored):
                        self.world.note(f"{self.name} hears {session_id} {event.seq}")
                    view.take(event)
        except CallboardError as error:
            self.world.note(f"{self.name} hears no more of {session_id}: {error}")

    # ── people ───────────────────────────────────────────────────────────────────────────────────

    async def _people(self) -> None:
        client, nursery = await self.client(), self._nursery
        assert nursery is not None
        async with client.topic(Topic.APPROVALS, after_seq=0) as topic:
            async for update in topic:
                match update.update.event if isinstance(update, TopicUpdate) else None:
                    case ApprovalAsked() as asked:
                        nursery.start_soon(self._consider, asked, name="a person")
                    case QuestionAsked() as question:
                        nursery.start_soon(self._say, question, name="a person")
                    case _:
                        pass

    async def _consider(self, asked: ApprovalAsked) -> None:
        random = chance(self.world.seed, f"person/{self.number}/{asked.arguments}/{asked.reason}")
        way = random.choice(("allow", "allow", "always", "deny", "never", "change", "silence"))
        await trio.sleep(random.choice(PAUSES))
        if way == "silence":
            return
        decision: Literal["allow", "deny"] = "deny" if way in {"deny", "never"} else "allow"
        answer = ApprovalAnswer(decision=decision)
        if way in {"always", "never"}:
            remember = random.choice(("turn", "session", "agent", "always"))
            answer = ApprovalAnswer(decision=decision, remember=remember)
        if way == "change":
            changed = asked.arguments.replace('"name":"', '"name":"changed ')
            changed = changed.replace('"content":"', '"content":"changed ')
            answer = ApprovalAnswer(decision="allow", arguments=changed)
        await self._tell(asked.approval_id, way, answer)

    async def _tell(self, approval_id: str, way: str, answer: ApprovalAnswer) -> None:
        client = await self.client()
        try:
            await client.answer(approval_id, answer)
            self.world.note(f"{self.name} answers {approval_id}: {way}")
        except CallboardError as error:
            self.world.note(f"{self.name} answers {approval_id}: {type(error).__name__}")
            if isinstance(error, ValidationError):  # it can't be remembered
                await self._tell(approval_id, way, ApprovalAnswer(decision=answer.decision))

    async def _say(self, asked: QuestionAsked) -> None:
        random = chance(self.world.seed, f"person/{self.number}/{asked.question}")
        await trio.sleep(random.choice(PAUSES))
        if random.random() < 0.3:
            return
        client = await self.client()
        try:
            await client.answer_question(asked.question_id, f"{self.name} says this.")
        except CallboardError as error:
            self.world.note(f"{self.name} says: {type(error).__name__}")


PAUSES = (0.0, 0.1, 2.0, 19.8, 19.9, 60.0)
"""Seconds until a person answers; questions wait for 20."""
