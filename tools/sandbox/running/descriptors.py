"""What one sandbox is given through descriptors: its arguments, its gate, its files."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from ..box.protected import Mount
from ..box.recipe import Box, Recipe, arguments, groups_file, users_file
from ..tiers.landlock import plan_of


class HandedOver(NamedTuple):
    """Descriptors that bubblewrap reads; they are ours until it has started."""

    arguments: int
    all: tuple[int, ...]


@contextmanager
def hand_over(
    recipe: Recipe,
    *,
    workspace: str,
    cwd: str,
    environment: Mapping[str, str],
    files: Mapping[str, bytes],
    mounts: Sequence[Mount],
    gate: int,
    has_sockets: bool = False,
) -> Generator[HandedOver]:
    """Makes what a sandbox is given, and closes it behind the block, but for its end of the gate."""
    with ExitStack() as stack:
        held = partial(_held, stack)
        is_confined = recipe.confiner is not None
        data = {name: held(content) for name, content in files.items()}
        copies = _opened(stack, recipe.copied)
        copies["/etc/passwd"] = held(users_file(recipe.user))
        copies["/etc/group"] = held(groups_file(recipe.user))
        # Each is read to its end and closed, so that each needs its own.
        masks = {} if is_confined else {path: held(b"") for path in recipe.view.masked}
        box = Box(
            workspace=workspace,
            cwd=cwd,
            environment=environment,
            mounts=mounts,
            data=data,
            copies=copies,
            masks=masks,
            gate=gate,
            has_sockets=has_sockets,
        )
        said = held((plan_of if is_confined else arguments)(recipe, box))
        yield HandedOver(said, (said, gate, *copies.values(), *masks.values(), *data.values()))


def _held(stack: ExitStack, content: bytes) -> int:
    fd = os.memfd_create("callboard", os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _opened(stack: ExitStack, paths: Sequence[str]) -> dict[str, int]:
    """Descriptors of those files that are still there."""
    found: dict[str, int] = {}
    for path in paths:
        with suppress(OSError):
            found[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, found[path])
    return found
