"""Lets a sandbox begin: its first process waits until it is bounded.

The filter of system calls is the key. bubblewrap reads it once it has built the box and before it
starts the program, and the runtime writes it last: after it has set the limits of that process and
put it into its control group, which all that it starts inherits. So nothing runs unbounded, no
program has to be started in between, and a runtime that dies meanwhile lets nothing begin: the end
of the stream comes without a filter, and without one no program is started.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from ....config.sections import SandboxSettings
from ...processes.process_tree import threads_of
from .control_group import ControlGroup
from .recipe import Recipe
from .user import User, as_user, own_user
from .workspace_pin import Identity, check_place, identity_of

MAX_OPEN_FILES = 256
"""Of each process; with the bound of processes it keeps the machine's table of files free."""
CPU_GRACE_SECONDS = 5
"""Between the signal that says that the processor time is over, and the one that ends it."""

MAX_KEY_BYTES = 32 * 1024
"""The kernel takes 4096 steps of eight bytes; a pipe holds twice as much, so that nobody waits."""

PRLIMIT = "/usr/bin/prlimit"
LIMIT_SECONDS = 10.0
"""For a program that makes six system calls, on a machine that is busy."""

_OPTIONS = {
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_NPROC: "nproc",
    resource.RLIMIT_DATA: "data",
    resource.RLIMIT_CORE: "core",
}


def limits(settings: SandboxSettings) -> dict[int, tuple[int, int]]:
    """What the kernel bounds for each process.

    The number of processes is counted in the sandbox's own user namespace, where the process is by
    then, and not together with everything else that the user runs.
    """
    cpu = settings.cpu_seconds
    return {
        resource.RLIMIT_CPU: (cpu, cpu + CPU_GRACE_SECONDS),
        resource.RLIMIT_FSIZE: (settings.file_bytes, settings.file_bytes),
        resource.RLIMIT_NOFILE: (MAX_OPEN_FILES, MAX_OPEN_FILES),
        resource.RLIMIT_NPROC: (settings.processes, settings.processes),
        resource.RLIMIT_DATA: (settings.memory_bytes, settings.memory_bytes),
        resource.RLIMIT_CORE: (0, 0),
    }


class Placed(Protocol):
    """What says where a program runs."""

    @property
    def workspace(self) -> str:
        """The real path of the workspace."""
        ...

    @property
    def identity(self) -> Identity | None:
        """The folder that it must be; `None` for whatever is there."""
        ...


def admit(
    pid: int, recipe: Recipe, group: ControlGroup | None, order: Placed | None = None
) -> None:
    """Bounds the first process of a sandbox, which waits at its gate; may take some milliseconds.

    Raises:
        OSError: It could not be bounded, or is in another folder than `order` says, and must not
            begin.
    """
    with suppress(ProcessLookupError):  # It has ended by itself, and nothing begins.
        bounds = limits(recipe.settings)
        if recipe.confiner is not None:
            # There it is counted together with all that the user runs.
            most = recipe.settings.processes + threads_of((recipe.user or own_user()).uid)
            bounds[resource.RLIMIT_NPROC] = most, most
        if recipe.user is None:
            for kind, bound in bounds.items():
                resource.prlimit(pid, kind, bound)
        else:
            _limit_as(recipe.user, pid, bounds)
        if group is not None:
            group.join(pid)
        if order is not None and order.identity is not None:
            _check(pid, recipe, order.workspace, order.identity)


def _check(pid: int, recipe: Recipe, workspace: str, identity: Identity) -> None:
    if recipe.confiner is None:
        check_place(pid, workspace, identity)
    elif identity_of(workspace) != identity:
        raise OSError("its workspace was replaced by another folder")


def _limit_as(user: User, pid: int, bounds: Mapping[int, tuple[int, int]]) -> None:
    """Sets the limits of another user's process: not every root may, but that user may."""
    words = [f"--{_OPTIONS[kind]}={soft}:{hard}" for kind, (soft, hard) in bounds.items()]
    ran = subprocess.run(
        [PRLIMIT, "--pid", str(pid), *words],
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
        cwd="/",
        **as_user(user),
    )
    if ran.returncode:
        raise OSError(f"its limits could not be set: {ran.stderr.strip()[:200]}")


class Gate:
    """What a sandbox waits at; opened once, with its filter of system calls."""

    def __init__(self, key: bytes) -> None:
        if len(key) > MAX_KEY_BYTES:
            raise ValueError(f"a filter is at most {MAX_KEY_BYTES} bytes, not {len(key)}")
        self._key = key
        self.theirs, self._ours = os.pipe()
        self._is_started = False

    def started(self) -> None:
        """Gives up their end, which the sandbox has by now. Idempotent."""
        if not self._is_started:
            self._is_started = True
            os.close(self.theirs)

    def open(self) -> None:
        """Lets the program begin. Idempotent."""
        if self._ours >= 0:
            with suppress(BrokenPipeError):
                os.write(self._ours, self._key)
            self._close_ours()

    def close(self) -> None:
        """Gives up both ends; a sandbox that still waits ends and starts nothing. Idempotent."""
        self.started()
        self._close_ours()

    def _close_ours(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


def open_info(recipe: Recipe) -> tuple[int, int]:
    """A pipe for what a sandbox says of its first process: our end, and the one to write to.

    That one is open for reading too: when the runtime has died, bubblewrap can still write, and goes
    on to the gate. Else it would end there, and its child wait for ever for a word of it.
    """
    ours, writing = os.pipe()
    try:
        return ours, os.open(f"/proc/self/fd/{writing}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(writing)
