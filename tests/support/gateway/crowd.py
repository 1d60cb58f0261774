"""Clients that prompt in every way and watch, and what must be on record of it in the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

import trio

from callboard.actors.session.session import INTERRUPTED
from callboard.client.client import Client
from callboard.runtime.definitions import InputMode
from callboard.runtime.errors import NetworkError, OverloadedError
from callboard.runtime.events import (
    InputAccepted,
    InputCancelled,
    InputDelivered,
    Stored,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.store.feeds import Topic
from callboard.runtime.store.interface import StoreReader
from callboard.runtime.wire.sessions import Prompt, Ticket
from callboard.runtime.wire.topics import TopicUpdate
from support.gateway.witness import Witness
from support.waits import until


class Manner:
    """How somebody prompts.

    Args:
        modes: Of its inputs, as a seed has it.
        has_key: Whether its requests have idempotency keys, by which a client repeats them over the
            next connection; without, nobody knows what became of one that a break left unanswered.
    """

    def __init__(self, *modes: InputMode, has_key: bool = True, seed: int = 0) -> None:
        self.has_key = has_key
        self._modes = modes or (InputMode.QUEUE,)
        self._dice = random.Random(seed)

    async def prompt(self, client: Client, session_id: str, text: str) -> Ticket | None:
        """`None` when nobody knows whether it was accepted."""
        mode = self._dice.choice(self._modes)
        if self.has_key:
            return await client.prompt(session_id, text, mode=mode)
        try:
            return await client.request(
                "session/prompt", Prompt(session_id=session_id, content=text, mode=mode), Ticket
            )
        except NetworkError:
            return None


IN_ORDER = Manner()


class Crowd:
    """Clients that prompt and watch, what they were told, and what they have seen.

    Args:
        session_ids: Where they prompt.
        log_seq: From where on they hear of all sessions.

    Attributes:
        said: The prompts that were acknowledged, by session; the event of each.
        unsure: Those that got no answer.
    """

    def __init__(self, session_ids: list[str], log_seq: int = 0) -> None:
        self.session_ids = session_ids
        self.log_seq = log_seq
        self.said: dict[str, dict[str, Ticket]] = {each: {} for each in session_ids}
        self.unsure: dict[str, set[str]] = {each: set() for each in session_ids}
        self.witnesses: dict[str, list[Witness]] = {each: [] for each in session_ids}
        self.updates: list[TopicUpdate] = []
        self.goes_on = True

    async def prompt(
        self, client: Client, session_id: str, name: str, manner: Manner = IN_ORDER
    ) -> None:
        """Prompts one after the other; a prompt counts when it was acknowledged."""
        number = 0
        while self.goes_on:
            text = f"{name} {number}"
            try:
                ticket = await manner.prompt(client, session_id, text)
            except OverloadedError:  # turns are slower than these prompts
                await trio.sleep(0.05)
                continue
            if ticket is None:
                self.unsure[session_id].add(text)
            else:
                self.said[session_id][text] = ticket
            number += 1
            await trio.sleep(0.005)

    async def watch(self, client: Client, session_id: str) -> None:
        witness = Witness()
        self.witnesses[session_id].append(witness)
        async with client.events(session_id, after_seq=0) as events:
            async for event in events:
                witness.take(event)

    async def hear(self, client: Client) -> None:
        epoch = client.welcome.epoch
        async with client.topic("sessions", after_seq=self.log_seq, epoch=epoch) as topic:
            async for event in topic:
                if isinstance(event, TopicUpdate):
                    self.updates.append(event)

    async def settle(self, store: StoreReader) -> None:
        """Waits until nothing waits or runs, and everybody has seen that."""
        for session_id in self.session_ids:
            while not await self._is_at_rest(store, session_id):  # noqa: ASYNC110  nothing tells
                await trio.sleep(0.02)
            head = (await store.events(session_id))[-1].seq
            await until(partial(self._have_seen, session_id, head))
        head = (await store.log(after_seq=self.log_seq, topic=Topic.SESSIONS))[-1].seq
        await until(partial(self._have_heard, head))

    async def _is_at_rest(self, store: StoreReader, session_id: str) -> bool:
        waiting = await store.open_inputs(session_id)
        record = await store.events(session_id)
        started = sum(isinstance(each.event, TurnStarted) for each in record)
        ended = sum(isinstance(each.event, TurnEnded) for each in record)
        return not waiting and started == ended

    def _have_seen(self, session_id: str, seq: int) -> bool:
        watching = self.witnesses[session_id]
        return all(each.stored and each.stored[-1].seq == seq for each in watching)

    def _have_heard(self, seq: int) -> bool:
        return bool(self.updates) and self.updates[-1].seq == seq

    def count(self) -> int:
        """Prompts that were acknowledged."""
        return sum(map(len, self.said.values()))

    def has_met_each_mode(self) -> bool:
        """Whether a turn was told of an input, and one was cancelled for one."""
        views = [each for watching in self.witnesses.values() for each in watching]
        met = [stored.event for view in views for stored in view.stored]
        return any(isinstance(each, InputDelivered) for each in met) and any(
            isinstance(each, TurnEnded) and each.message == INTERRUPTED for each in met
        )

    async def check(self, store: StoreReader) -> None:
        """Every view is the journal; every prompt is there once, and was told to a model once."""
        for session_id in self.session_ids:
            record = await store.events(session_id)
            for witness in self.witnesses[session_id]:
                assert witness.stored == record
                for live, said in witness.whole:
                    assert all(
                        whole.startswith(part) for part, whole in zip(live, said, strict=True)
                    )
            self._check_inputs(session_id, record)
        log = await store.log(after_seq=self.log_seq, topic=Topic.SESSIONS)
        assert [each.seq for each in self.updates] == [each.seq for each in log]

    def _check_inputs(self, session_id: str, record: Sequence[Stored]) -> None:
        said, unsure = self.said[session_id], self.unsure[session_id]
        inputs: dict[str, InputAccepted] = {}
        told: Counter[str] = Counter()
        for each in record:
            match each.event:
                case InputAccepted() as event:
                    assert event.text not in inputs, "an input came twice"
                    inputs[event.text] = event
                    if event.text in said:
                        ticket = said[event.text]
                        assert (ticket.input_id, ticket.seq) == (event.input_id, each.seq)
                case TurnStarted(input_ids=input_ids):
                    told.update(input_ids)
                case InputDelivered(input_id=input_id) | InputCancelled(input_id=input_id):
                    told[input_id] += 1
                case _:
                    pass
        assert said.keys() <= inputs.keys() <= said.keys() | unsure
        assert told == Counter(event.input_id for event in inputs.values())
        for name in {text.split()[0] for text in inputs}:
            own = [int(text.split()[1]) for text in inputs if text.split()[0] == name]
            assert own == sorted(own)
