"""An embedding without a model to run: the mean of one vector for each token.

Tokenizer and table are files of the package wordllama (MIT). They are read directly, because its own
loader looks for them over the network. Only the used parts of the table are read from the disk.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import StorageError

_TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"
_TABLE = "weights/l2_supercat_256.safetensors"

MAX_HEAD_BYTES = 64 * 1024
"""The largest description at the head of the table's file; it has about a hundred bytes."""


class StaticEmbedding:
    """An `Embedding`; its files are opened when it makes its first vector."""

    name = "wordllama-l2-256"
    dimensions = 256

    def __init__(self) -> None:
        self._tokens: Any = None
        self._table: Any = None

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """See `Embedding`; raises `StorageError` when its files can't be read."""
        if self._table is None:
            self._open()
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> bytes:
        import numpy as np

        # One by one: a batch would start threads, and a later fork would then warn about them.
        ids = self._tokens.encode(text, add_special_tokens=False).ids
        if not ids:
            return bytes(4 * self.dimensions)
        mean = self._table[ids].astype(np.float32).mean(axis=0)
        length = float(np.linalg.norm(mean))
        return bytes((mean / length if length else mean).astype("<f4").tobytes())

    def _open(self) -> None:
        import numpy as np
        from tokenizers import Tokenizer

        folder = _package()
        try:
            tokens = Tokenizer.from_str((folder / _TOKENS).read_text(encoding="utf-8"))
            start, shape = _place(folder / _TABLE)
            table = np.memmap(folder / _TABLE, dtype="<f2", mode="r", offset=start, shape=shape)
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise StorageError(f"The embedding in {folder} can't be read: {error}") from error
        if shape[1] != self.dimensions:
            raise StorageError(
                f"The embedding in {folder} has {shape[1]} dimensions instead of {self.dimensions}."
            )
        tokens.no_truncation()
        tokens.no_padding()
        self._tokens, self._table = tokens, table


def _package() -> Path:
    # Not imported: importing it loads its whole library.
    spec = find_spec("wordllama")
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise StorageError("wordllama is not installed: pip install 'callboard[vectors]'")
    return Path(places[0])


def _place(path: Path) -> tuple[int, tuple[int, int]]:
    """Return where the one table of a safetensors file begins, and its shape."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        if size > MAX_HEAD_BYTES:
            raise ValueError("its table is not described as it should be")
        head = json.loads(file.read(size))
    [table] = (each for name, each in head.items() if name != "__metadata__")
    if table["dtype"] != "F16":
        raise ValueError(f"its table holds {table['dtype']}")
    rows, columns = table["shape"]
    return 8 + size + table["data_offsets"][0], (rows, columns)
