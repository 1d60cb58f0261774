"""`callboard memory`: lists and searches memories from the record, and forgets them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import App, Parameter

from ...actors.handles.memory_search import HybridSearch
from ...config.files import load_settings
from ...embedding.access import memory_index
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.memory.memories import MAX_MEMORIES, Memory, query_of
from ...runtime.store.interface import StoreReader
from ..backend import open_backend
from ..exit_codes import ANSWERED
from ..parameters import Config, Data, Json, data_path
from ..record_names import named
from ..show.sessions import open_record
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import minute

Words = Annotated[str, Parameter(help="Words of the text, or tags; any of them counts.")]
MemoryName = Annotated[str, Parameter(help="Its id, or the beginning of it.")]
OfAgent = Annotated[str, Parameter(name="--agent", help="The agent whose memories are searched.")]
AgentChoice = Annotated[
    str | None, Parameter(name="--agent", help="Only memories of this agent; by default of all.")
]
Limit = Annotated[int, Parameter(help="How many.")]

memory = App(name="memory", help="List, search and take back what sessions remember.")


@memory.command(name="list")
def list_memories(
    *, agent: AgentChoice = None, limit: Limit = 100, json: Json = False, data: Data = None
) -> int:
    """List what is remembered, the latest first."""
    most = _checked(limit)

    async def listed(reader: StoreReader) -> Sequence[Memory]:
        return await reader.memories(agent=agent, limit=most)

    return trio.run(_show, data_path(data), listed, "Nothing is remembered.", json)


@memory.command
def search(
    words: Words,
    /,
    *,
    agent: OfAgent = "general",
    limit: Limit = 20,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Find memories of an agent as its sessions do, the best first."""
    settings, folder = load_settings(config).memory, data_path(data)
    if not query_of(words):
        raise ValidationError(f"There is no word in {words!r}.")
    most = _checked(limit)
    index = memory_index(settings, folder, is_read_only=True)

    async def found(reader: StoreReader) -> Sequence[Memory]:
        if index is None:
            return await reader.found_memories(agent, words, limit=most)
        hybrid = HybridSearch(reader, index)
        try:
            return await hybrid.search(agent, words, limit=most)
        finally:
            await hybrid.aclose()

    return trio.run(_show, folder, found, "Nothing was found.", json)


@memory.command
def forget(memory_id: MemoryName, /, *, data: Data = None) -> int:
    """Take a memory back: no session finds it from then on."""
    return trio.run(_forget, data_path(data), memory_id)


def _cells(memory: Memory) -> tuple[str, ...]:
    mark = "untrusted" if memory.is_untrusted else ""
    tags = f"[{safe_line(', '.join(memory.tags))}]" if memory.tags else ""
    text = safe_line(" ".join(memory.text.split()))
    when = minute(memory.stored_at_ms)
    return memory.memory_id, when, safe_line(memory.agent), mark, tags, text


async def _show(
    data: Path, read: Callable[[StoreReader], Awaitable[Sequence[Memory]]], nothing: str, json: bool
) -> int:
    try:
        async with open_record(data) as reader:
            found = await read(reader)
    except NotFoundError as missing:
        complain(str(missing))
        return ANSWERED
    if json:
        sys.stdout.writelines(map(json_line, found))
    else:
        write_list(("memory", "stored", "agent", "mark", "tags", "text"), map(_cells, found))
    if not found:
        complain(nothing)
    return ANSWERED


async def _forget(data: Path, name: str) -> int:
    async with open_record(data) as reader:
        memory = await _find(reader, name)
    async with open_backend(data) as backend:
        await backend.memories.forget(memory.memory_id)
    said = "  ".join(filter(None, _cells(memory)))
    sys.stdout.write(f"forgotten: {said}\n")
    return ANSWERED


async def _find(reader: StoreReader, name: str) -> Memory:
    """Return the memory of this id, or the one whose id begins so."""
    if exact := await reader.memories(memory_id=name, limit=1):
        return exact[0]
    rows = await reader.memories(limit=10 * MAX_MEMORIES)
    missing = f"There is no memory {name!r}; `callboard memory list` lists them."
    return named(name, {row.memory_id: row for row in rows}, "memory", "memories", missing)


def _checked(limit: int) -> int:
    if limit < 1:
        raise ValidationError("--limit is at least 1.")
    return limit
