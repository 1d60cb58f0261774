"""What finds a runtime's memories by their meaning, as it is configured."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .config.memory_settings import MemoryPlace, MemorySearch, MemorySettings
from .runtime.errors import ValidationError
from .runtime.memory_index import MemoryIndex

NEEDED = {
    MemoryPlace.SQLITE: ("vectors", ("sqlite_vec", "wordllama", "tokenizers", "numpy")),
    MemoryPlace.LANCEDB: ("lancedb", ("lancedb", "wordllama", "tokenizers", "numpy")),
}
"""For each place, its extra and what that installs."""


def memory_index(
    settings: MemorySettings, folder: Path | None, *, is_read_only: bool = False
) -> MemoryIndex | None:
    """The configured index, which opens nothing yet; `None` when words are enough.

    Args:
        settings: Name it.
        folder: The data folder, or `None` to keep it in memory.
        is_read_only: For whoever only searches beside a runtime that may be running.

    Raises:
        ValidationError: What it needs is not installed; says how to install it.
    """
    if settings.search is MemorySearch.WORDS:
        return None
    extra, packages = NEEDED[settings.store]
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ValidationError(
            f'[memory] search = "{settings.search}", store = "{settings.store}" needs '
            f"{', '.join(missing)}: pip install 'callboard[{extra}]', or take that out of "
            "callboard.toml to search by words.",
            field="memory.search",
        )
    from .runtime.static_embedding import StaticEmbedding  # here: most runtimes need none of it

    if settings.store is MemoryPlace.LANCEDB:
        from .runtime.lance_table import LanceTable

        return LanceTable(folder, StaticEmbedding(), is_read_only=is_read_only)
    from .runtime.vector_file import VectorFile

    return VectorFile(folder, StaticEmbedding(), is_read_only=is_read_only)
