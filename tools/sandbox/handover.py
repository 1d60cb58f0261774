"""What one sandbox is given through descriptors: its arguments, its filter, its files."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from .protected import Mount
from .recipe import Box, Recipe, arguments, groups_file, users_file
from .seccomp import open_seccomp_program


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
) -> Generator[HandedOver]:
    """Makes what a sandbox is given, and closes our side of it behind the block."""
    with ExitStack() as stack:

        def held(content: bytes) -> int:
            fd = os.memfd_create("callboard", os.MFD_CLOEXEC)
            stack.callback(os.close, fd)
            with open(fd, "wb", closefd=False) as file:
                file.write(content)
            os.lseek(fd, 0, os.SEEK_SET)
            return fd

        seccomp = open_seccomp_program()
        stack.callback(os.close, seccomp)
        data = {name: held(content) for name, content in files.items()}
        users, groups = held(users_file()), held(groups_file())
        box = Box(
            workspace=workspace,
            cwd=cwd,
            environment=environment,
            mounts=mounts,
            data=data,
            users=users,
            groups=groups,
            seccomp=seccomp,
        )
        said = held(arguments(recipe, box))
        yield HandedOver(said, (said, seccomp, users, groups, *data.values()))
