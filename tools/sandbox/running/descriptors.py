"""What one sandbox is given through descriptors: its arguments, its gate, its files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from ..box.protected import Mount
from ..box.recipe import Box, Recipe, arguments, groups_file, users_file
from ..tiers.landlock import plan_of
from ..tiers.seatbelt import warden_plan


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
        held = partial(_held if recipe.seatbelt is None else _held_on_disk, stack)
        is_confined = recipe.confiner is not None
        data = {name: held(content) for name, content in files.items()}
        copies: dict[str, int] = {}
        if recipe.seatbelt is None:  # nothing is put in the place of anything there
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
        said = held(_told_to(recipe)(recipe, box))
        yield HandedOver(said, (said, gate, *copies.values(), *masks.values(), *data.values()))


def _told_to(recipe: Recipe) -> Callable[[Recipe, Box], bytes]:
    if recipe.seatbelt is not None:
        return warden_plan
    return arguments if recipe.confiner is None else plan_of


def _held(stack: ExitStack, content: bytes) -> int:
    fd = os.memfd_create("callboard", os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _held_on_disk(stack: ExitStack, content: bytes) -> int:
    """The same where files can't be in memory alone: one without a name."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        fd = os.dup(file.fileno())
    stack.callback(os.close, fd)
    return fd


def _opened(stack: ExitStack, paths: Sequence[str]) -> dict[str, int]:
    """Descriptors of those files that are still there."""
    found: dict[str, int] = {}
    for path in paths:
        with suppress(OSError):
            found[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, found[path])
    return found
