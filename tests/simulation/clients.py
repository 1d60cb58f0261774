"""Clients of the daemon: they do what the plan says, listen, and answer questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from callboard.client.client import Client, connect
from callboard.runtime.approval import ApprovalAnswer
from callboard.runtime.definitions import InputMode
from callboard.runtime.errors import CallboardError
from callboard.runtime.events import (
    ApprovalAsked,
    MessageCompleted,
    MessageDiscarded,
    Stored,
    StreamBatch,
)
from callboard.runtime.store.feeds import Topic
from callboard.runtime.stream import TextDelta
from callboard.runtime.wire.topics import Snapshot, TopicUpdate
from simulation.edges import chance
from simulation.network import PORT, owner
from simulation.plan import Action

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
        self._followed: set[str] = set()

    async def run(self) -> None:
        """Be connected until cancelled."""
        owner.set(self.name)
        while True:
            try:
                async with connect(URL, self.world.token) as client:
                    async with trio.open_nursery() as nursery:
                        self._client, self._nursery = client, nursery
                        self._there.set()
                        nursery.start_soon(self._answer_questions, name=f"{self.name} answers")
                        await trio.sleep_forever()
            except CallboardError as error:
                self.world.note(f"{self.name}: {type(error).__name__}")
                await trio.sleep(0.5)

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
            if action.kind == "create":
                world.known(action.session, None)
        else:
            world.note(f"{label}: {done}")

    async def _do(self, client: Client, action: Action) -> str:
        world = self.world
        if action.kind == "create":
            row = await client.create_session(agent=action.text, title=f"session {action.session}")
            world.known(action.session, row.session_id)
            return row.session_id
        session_id = await world.session_id(action.session)
        if session_id is None:
            return "there is no session"
        self.follow(session_id)
        match action.kind:
            case "prompt" | "steer" | "interrupt":
                mode = InputMode("queue" if action.kind == "prompt" else action.kind)
                ticket = await client.prompt(session_id, action.text, mode=mode)
                world.acknowledged[ticket.input_id] = session_id
                return ticket.input_id
            case "cancel":
                return str(await client.cancel(session_id))
            case _:
                raise AssertionError(action)

    # ── listening ────────────────────────────────────────────────────────────────────────────────

    def follow(self, session_id: str) -> None:
        """Listen to a session from its first event on. Idempotent."""
        if session_id not in self._followed and self._nursery is not None:
            self._followed.add(session_id)
            self._nursery.start_soon(self._listen, session_id, name=f"{self.name} listens")

    async def _listen(self, session_id: str) -> None:
        client = await self.client()
        view = self.views.setdefault(session_id, View())
        try:
            async with client.events(session_id, after_seq=0) as events:
                async for event in events:
                    if isinstance(event, Stored):
                        self.world.note(f"{self.name} hears {session_id} {event.seq}")
                    view.take(event)
        except CallboardError as error:
            self.world.note(f"{self.name} hears no more of {session_id}: {error}")

    # ── people ───────────────────────────────────────────────────────────────────────────────────

    async def _answer_questions(self) -> None:
        client = await self.client()
        assert self._nursery is not None
        async with client.topic(Topic.APPROVALS, after_seq=0) as topic:
            async for update in topic:
                if isinstance(update, TopicUpdate) and isinstance(
                    update.update.event, ApprovalAsked
                ):
                    self._nursery.start_soon(self._consider, update.update.event, name="a person")

    async def _consider(self, asked: ApprovalAsked) -> None:
        random = chance(self.world.seed, f"person/{self.number}/{asked.arguments}/{asked.reason}")
        way = random.choice(("allow", "allow", "allow", "deny", "change", "silence"))
        await trio.sleep(random.choice((0.0, 0.1, 2.0, 20.0, 100.0)))
        if way == "silence":
            return
        answer = ApprovalAnswer(decision="deny" if way == "deny" else "allow")
        if way == "change":
            changed = asked.arguments.replace('"name":"', '"name":"changed ')
            answer = ApprovalAnswer(decision="allow", arguments=changed)
        client = await self.client()
        try:
            await client.answer(asked.approval_id, answer)
            self.world.note(f"{self.name} answers {asked.approval_id}: {way}")
        except CallboardError as error:
            self.world.note(f"{self.name} answers {asked.approval_id}: {type(error).__name__}")
