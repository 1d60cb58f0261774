"""`callboard memory` and its options; what they do is imported when they run."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from ..parameters import Config, Data, Json, data_path

Words = Annotated[str, Parameter(help="Words of the text, or tags; any of them counts.")]
MemoryName = Annotated[str, Parameter(help="Its id, or the beginning of it.")]
AgentName = Annotated[str, Parameter(name="--agent", help="Whose sessions find it.")]
AgentChoice = Annotated[
    str | None, Parameter(name="--agent", help="Those of this agent; of all by default.")
]
Limit = Annotated[int, Parameter(help="How many.")]

memory = App(name="memory", help="List, search and take back what sessions remember.")


@memory.command(name="list")
def list_memories(
    *, agent: AgentChoice = None, limit: Limit = 100, json: Json = False, data: Data = None
) -> int:
    """List what is remembered, the latest first."""
    from .memories import show_memories

    return show_memories(data_path(data), agent, limit=limit, json=json)


@memory.command
def search(
    words: Words,
    /,
    *,
    agent: AgentName = "general",
    limit: Limit = 20,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Find memories of an agent as its sessions do, the best first."""
    from ...config.files import load_settings
    from .memories import search_memories

    settings = load_settings(config).memory
    return search_memories(data_path(data), agent, words, settings, limit=limit, json=json)


@memory.command
def forget(memory_id: MemoryName, /, *, data: Data = None) -> int:
    """Take a memory back: no session finds it from then on."""
    from .memories import forget_memory

    return forget_memory(data_path(data), memory_id)
