"""Random calls of the tools that change files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Call = tuple[str, dict[str, Any]]

ODD_NAMES = ["a", "b.txt", "with space", "ümläut", "-rf", "日本", "...", "a~", "'quoted'"]


def random_calls(chance: random.Random, count: int) -> Iterator[Call]:
    def path() -> str:
        depth = chance.choice([1, 1, 2, 2, 3])
        names = [chance.choice([*ODD_NAMES, "to folder", "to file"]) for _ in range(depth)]
        return "/".join(names)

    for index in range(count):
        text = chance.choice(["", "x", f"line {index}\n" * chance.randint(1, 50)])
        kind = chance.randrange(10)
        if kind < 4:
            mode = chance.choice(["overwrite", "overwrite", "append"])
            made = chance.random() < 0.8
            said = {"path": path(), "content": text, "mode": mode, "create_dirs": made}
            yield "write_file", said
        elif kind < 5:
            edit = {"old_text": "line", "new_text": f"LINE{index}", "count": 1}
            yield "edit_file", {"path": path(), "edits": [edit]}
        elif kind < 8:
            said = {"from": path(), "to": path(), "overwrite": chance.random() < 0.5}
            yield "move_file", said
        else:
            yield "delete_file", {"path": path(), "recursive": chance.random() < 0.7}
