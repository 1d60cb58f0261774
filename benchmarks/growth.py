"""How costs grow: prints a table over sessions on record, one over turns, and one over subscribers.

    python benchmarks/growth.py [--sessions 100 10000 100000] [--turns 10 400 2000]
        [--subscribers 1 100 1000] [--folder FOLDER]

Stores are made by copying the rows of one real session inside SQLite, so a hundred thousand sessions take
seconds. Each has three turns and a call. One word stands in each of their messages, another one in few. A figure
is the best of five, in milliseconds of the CPU time of all threads. Subscribers are websockets of another process
on one session of a daemon; their CPU time is not counted.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import apsw
import trio
from door.gateway import END, Readers, Speaker, at, open_daemon

import callboard
from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Call, Text
from callboard.runtime.messages import CancelTurn
from callboard.runtime.store.codec import checksum
from callboard.runtime.store.file import DATABASE_NAME
from callboard.runtime.store.interface import Store
from callboard.runtime.store.lists import SessionFilter, WordSearch
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from callboard.runtime.stream import Usage

REPEATS = 5
TURNS = 3
"""Turns of each of many sessions; one of them makes a call."""
RARE = 997
"""Every so many sessions have the rare word."""
BATCH = 100
BURST_DELIVERIES = 100_000
MAX_BURST_DELTAS = 5_000
PACED_DELTAS = 50
PACE_SECONDS = 0.02
"""Between two deltas: that of a model which makes fifty tokens a second."""
FOLDER = "/tmp"
"""The workspace on record; nothing works there."""

Figures = dict[str, float]


def turn(number: int, *, calls: bool) -> tuple[DurableEvent, ...]:
    """The events of one turn, as a runtime stores them."""
    turn_id, call_id = f"turn_{number:020}", f"call_{number:020}"
    asked = Call(call_id=call_id, name="read_file", arguments='{"path":"notes.txt"}')
    ended = [
        _answer(turn_id, f"m2_{number:020}", Text(text=f"The report {number} is written: " * 4)),
        TurnEnded(turn_id=turn_id, outcome="answered", duration_ms=900),
    ]
    if calls:
        ended[:0] = [
            _answer(turn_id, f"m1_{number:020}", asked),
            CallProposed(
                turn_id=turn_id,
                message_id=f"m1_{number:020}",
                call_id=call_id,
                index=0,
                name=asked.name,
                arguments=asked.arguments,
            ),
            CallStarted(turn_id=turn_id, call_id=call_id),
            CallFinished(
                turn_id=turn_id,
                call_id=call_id,
                name=asked.name,
                status=CallStatus.SUCCESS,
                result='"the lines of the report"',
                arguments=asked.arguments,
                duration_ms=1,
            ),
        ]
    return (
        InputAccepted(input_id=f"input_{number:020}", text=f"Write the report {number}."),
        TurnStarted(
            turn_id=turn_id,
            input_ids=(f"input_{number:020}",),
            provider="openai",
            model="gpt-6-luna",
        ),
        *ended,
    )


def _answer(turn_id: str, message_id: str, part: Text | Call) -> MessageCompleted:
    return MessageCompleted(
        turn_id=turn_id,
        message_id=message_id,
        parts=(part,),
        provider="openai",
        model="gpt-6-luna",
        dialect="openai-chat",
        stop_reason="tool_calls" if isinstance(part, Call) else "end",
        usage=Usage(input_tokens=100, output_tokens=20),
        duration_ms=3,
    )


# ── making stores ────────────────────────────────────────────────────────────────────────────────


async def fill(folder: Path, sessions: int) -> None:
    """Store one session by the front door, and copy its rows."""
    store = await open_disk_store(folder)
    created = SessionCreated(agent="general", workspace=FOLDER, title="The report")
    turns = [event for each in range(TURNS) for event in turn(each, calls=each == 0)]
    await store.commit([Append(name_of(1), (created, *turns))])
    await store.aclose()
    with closing(apsw.Connection(str(folder / DATABASE_NAME))) as connection:
        connection.pragma("synchronous", "off")
        with connection:
            copy(connection, sessions - 1)


def name_of(number: int) -> str:
    """The id of a session."""
    return f"session_{number:020}"


def copy(connection: apsw.Connection, copies: int) -> None:
    """Copy every row of session 1, so many times."""
    many = f"with recursive k (n) as (select 2 union all select n + 1 from k where n <= {copies})"
    connection.create_scalar_function("event_checksum", checksum, 4, deterministic=True)
    tables = [
        row[0] for row in connection.execute("select name from sqlite_schema where type = 'table'")
    ]
    for table in ("sessions", *(each for each in tables if each != "sessions")):
        columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        if table == "sessions":
            changed = {"id": "k.n", "session_id": "'session_' || printf('%020d', k.n)"}
        elif "session" in columns and table != "purged":
            changed = {"id": "null", "session": "k.n"}
        else:
            continue
        if table == "events":
            changed["checksum"] = "event_checksum(event, k.n, seq, at_ms)"
        if table == "messages":
            rare = f"iif(k.n % {RARE}, '', ' zeppelin')"
            changed["content"] = f"content || ' number ' || k.n || {rare}"
        values = ", ".join(changed.get(name, f"t.{name}") for name in columns)
        where = "t.id = 1" if table == "sessions" else "t.session = 1"
        connection.execute(
            f"insert into {table} ({', '.join(columns)}) {many if copies else ''}"
            f" select {values} from k cross join {table} t where {where} and k.n <= {copies} + 1"
            " order by k.n, t.id"
        )
    connection.execute(
        "update sessions set last_event = (select max(e.id) from events e where e.session = sessions.id)"
    )
    # The texts have no word that the index would take in another form.
    connection.execute(
        "insert into message_words (rowid, text) select m.id, case m.type"
        " when 'tool_call' then c.name || ' ' || c.arguments when 'tool_result' then c.result"
        " else m.content end from messages m"
        " left join tool_calls c on c.session = m.session and c.call_id = m.call_id"
    )
    connection.execute("insert into meta select 'indexed_message', max(id) from messages")


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


async def best(work: Callable[[], Awaitable[object]], repeats: int = REPEATS) -> float:
    """The least CPU time of so many runs, in milliseconds."""
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        await work()
        spent.append(time.process_time() - began)
    return min(spent) * 1000


async def of_store(folder: Path, sessions: int) -> Figures:
    """What a store of so many sessions takes for each question."""
    figures: Figures = {}
    opened: list[Store] = []

    async def open_one() -> None:
        opened.append(await open_disk_store(folder))

    spent = []
    for _ in range(REPEATS):
        spent.append(await best(open_one, 1))
        await opened.pop().aclose()
    figures["open the store"] = min(spent)
    figures["open the runtime"] = min(
        [await best(lambda: runtime_opened(folder), 1) for _ in range(3)]
    )
    store = await open_disk_store(folder)
    middle = name_of(sessions // 2)
    page = await store.session_page(SessionFilter(limit=50))
    questions: dict[str, Callable[[], Awaitable[object]]] = {
        "sessions(limit=50)": lambda: store.sessions(limit=50),
        "a page of 50": lambda: store.session_page(SessionFilter(limit=50)),
        "the next page": lambda: store.session_page(
            SessionFilter(limit=50, before=page.next_before)
        ),
        "the deleted ones": lambda: store.session_page(SessionFilter(limit=50, deleted="only")),
        "search: a common word": lambda: store.hits(WordSearch(query="report")),
        "search: a rare word": lambda: store.hits(WordSearch(query="zeppelin")),
        "waking": store.waking_sessions,
        "open turns": store.open_turns,
        "detached": lambda: store.children(is_detached=True),
        "expired": lambda: store.expired_sessions(1),
        "unused for long": lambda: store.unused_sessions(1, limit=100),
        "in one folder": lambda: store.session_page(
            SessionFilter(workspace="/none", deleted="also")
        ),
        "usage of a session": lambda: store.usage(middle),
        "usage since": lambda: store.usage(since_ms=2**50, limit=1000),
        "spending": lambda: store.spending(middle),
        "questions": lambda: store.approvals(state="waiting"),
        "calls(limit=50)": lambda: store.calls(limit=50),
        "calls of a session": lambda: store.calls(session_id=middle),
        "log of a topic": lambda: store.log(topic=None, after_seq=0, limit=100),
        "commit": lambda: store.commit([Append(middle, turn(TURNS, calls=True)[:1])]),
    }
    try:
        for name, ask in questions.items():
            figures[name] = await best(ask)
    finally:
        await store.aclose()
    return figures


async def runtime_opened(folder: Path) -> None:
    """Open a runtime there, and close it."""
    async with callboard.open_runtime(model="rehearsal", data=folder, workspace=folder, wake=False):
        pass


async def in_memory(sessions: int) -> Figures:
    """What the list of a store in memory takes."""
    store = open_memory_store()
    for first in range(0, sessions, BATCH):
        names = range(first, min(first + BATCH, sessions))
        created = SessionCreated(agent="general", workspace=FOLDER, title="The report")
        await store.commit(
            [Append(name_of(each), (created, *turn(0, calls=False))) for each in names]
        )
    began = time.process_time()
    await store.sessions(limit=50)
    first_list = (time.process_time() - began) * 1000
    figures = {
        "memory: first list": first_list,
        "memory: list of 50": await best(lambda: store.sessions(limit=50)),
        "memory: list of all": await best(lambda: store.sessions(limit=sessions)),
    }
    await store.aclose()
    return figures


async def closing_idle(folder: Path, sessions: int) -> Figures:
    """What closing a runtime takes whose idle sessions are loaded."""
    async with callboard.open_runtime(
        model="rehearsal", data=folder, workspace=folder, wake=False
    ) as runtime:
        directory = runtime._host.directory
        began = time.process_time()
        for number in range(1, sessions + 1):
            await directory.ask(
                CancelTurn(session_id=name_of(number), reason="loads it", loads=True)
            )
        loaded = time.process_time() - began
        began, wall = time.process_time(), time.monotonic()
    return {
        "loading all": loaded * 1000,
        "closing them idle": (time.process_time() - began) * 1000,
        "the same, wall": (time.monotonic() - wall) * 1000,
    }


async def of_history(folder: Path, turns: int) -> Figures:
    """What one session of so many turns takes."""
    store = await open_disk_store(folder)
    session_id = name_of(1)
    created = SessionCreated(agent="general", workspace=FOLDER, title="The report")
    await store.commit([Append(session_id, (created,))])
    for first in range(0, turns, BATCH):
        each = range(first, min(first + BATCH, turns))
        await store.commit([Append(session_id, turn(number, calls=True)) for number in each])
    figures = {
        "events": await best(lambda: store.events(session_id)),
        "last 50 messages": await best(lambda: store.messages(session_id, after=turns * 5 - 50)),
        "calls(limit=50)": await best(lambda: store.calls(session_id=session_id, limit=50)),
        "usage": await best(lambda: store.usage(session_id)),
        "spending": await best(lambda: store.spending(session_id)),
        "spending of a turn": await best(lambda: store.spending(session_id, f"turn_{1:020}")),
        "open turns": await best(store.open_turns),
        "commit": await best(
            lambda: store.commit([Append(session_id, turn(turns, calls=True)[:1])])
        ),
    }
    await store.aclose()

    async def prompt() -> None:
        async with callboard.open_runtime(
            model="rehearsal", data=folder, workspace=folder, wake=False
        ) as runtime:
            session = await runtime.get_session(session_id)
            await session.run("Say hello.")

    figures["open, load and prompt"] = await best(prompt, 3)
    return figures


async def spoken(count: int, deltas: int, pace: float) -> tuple[float, float, list[float]]:
    """The CPU time and wall time of an answer that so many websockets hear, and its latencies in ms."""
    async with open_daemon(Speaker(deltas, pace)) as (runtime, gateway, token):
        session = await runtime.create_session()
        readers = Readers(gateway.port, token, count, {"session_id": session.session_id}, END)
        try:
            await readers.ready()
            await trio.sleep(0.5 + count / 500)  # for their subscriptions
            began, wall = time.process_time(), time.monotonic()
            await session.submit("Speak.")
            latencies = await readers.done()
            return time.process_time() - began, time.monotonic() - wall, latencies
        finally:
            readers.end()


async def of_subscribers(count: int) -> Figures:
    """What the deltas of one session take that so many websockets hear."""
    deltas = min(BURST_DELIVERIES // count, MAX_BURST_DELTAS)
    cpu, wall, _ = await spoken(count, deltas, 0)
    alone, _, latencies = await spoken(count, PACED_DELTAS, PACE_SECONDS)
    return {
        "deltas/s to each, in a burst": deltas / wall,
        "µs of CPU a delta of a burst and subscriber": cpu / deltas / count * 1e6,
        "µs of CPU a delta alone": alone / PACED_DELTAS * 1e6,
        "the same, and subscriber": alone / PACED_DELTAS / count * 1e6,
        "ms to the client, median": at(latencies, 0.5),
        "ms to the client, 99 %": at(latencies, 0.99),
    }


def show(title: str, columns: dict[int, Figures]) -> None:
    """Print one table."""
    print(f"| {title} | " + " | ".join(f"{each:,}" for each in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    names = dict.fromkeys(name for figures in columns.values() for name in figures)
    for name in names:
        cells = (columns[each].get(name) for each in columns)
        print(
            f"| {name} | "
            + " | ".join("" if cell is None else f"{cell:,.2f}" for cell in cells)
            + " |"
        )
    print(flush=True)


async def main(
    sessions: list[int], turns: list[int], subscribers: list[int], idle: int, folder: str | None
) -> None:
    """Print the tables that are asked for."""
    with tempfile.TemporaryDirectory(dir=folder) as parent:
        stores: dict[int, Figures] = {}
        for count in sessions:
            place = Path(parent, f"sessions{count}")
            began = time.monotonic()
            await fill(place, count)
            made = time.monotonic() - began
            stores[count] = await of_store(place, count)
            if count <= idle:
                stores[count] |= await in_memory(count)
                stores[count] |= await closing_idle(place, count)
            stores[count]["(made in, wall)"] = made * 1000
            stores[count]["(MiB)"] = (place / DATABASE_NAME).stat().st_size / 2**20
        if stores:
            show("ms, sessions on record", stores)
        histories: dict[int, Figures] = {}
        for count in turns:
            histories[count] = await of_history(Path(parent, f"turns{count}"), count)
        if histories:
            show("ms, turns of a session", histories)
    if subscribers:
        show("subscribers of a session", {each: await of_subscribers(each) for each in subscribers})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measures how times grow with the record.")
    parser.add_argument("--sessions", type=int, nargs="*", default=[100, 10_000, 100_000])
    parser.add_argument("--turns", type=int, nargs="*", default=[10, 400, 2000])
    parser.add_argument("--subscribers", type=int, nargs="*", default=[1, 100, 1000])
    parser.add_argument("--idle", type=int, default=10_000, help="the most to have in memory")
    parser.add_argument("--folder", help="on the disk that is asked about")
    chosen = parser.parse_args()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    trio.run(main, chosen.sessions, chosen.turns, chosen.subscribers, chosen.idle, chosen.folder)
