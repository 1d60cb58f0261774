"""The gate: a sandbox's first process waits there until it is bounded.

The filter of system calls is the key. bubblewrap reads it after it has built the box and before it
starts the program. The runtime writes it last: after it has set the limits of that process, put it
into its control group, and compared the folder that is mounted as the workspace. All that the program
starts inherits these bounds. So nothing runs unbounded, and no program has to be started in between.
When the runtime dies meanwhile, the stream ends without a filter, and nothing begins.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ....config.sections import SandboxSettings
from ...processes.process_tree import threads_of
from ...workspace.paths import shown
from .control_group import ControlGroup
from .mounts import MountWatch
from .recipe import Recipe
from .user import User, as_user, own_user

MAX_OPEN_FILES = 256
"""The limit of each process; with the bound on processes it keeps the machine's table of files from filling."""
CPU_GRACE_SECONDS = 5
"""Between the signal that says that the processor time is over (SIGXCPU), and SIGKILL."""

MAX_KEY_BYTES = 32 * 1024
"""The kernel takes 4096 steps of eight bytes. A pipe holds twice as much, so that writing never blocks."""

PRLIMIT = "/usr/bin/prlimit"
LIMIT_SECONDS = 10.0
"""The time for a program that makes six system calls, on a busy machine."""

BUILD_SECONDS = 10.0
"""In which a sandbox is built, on a machine that is busy."""
LOOK_SECONDS = 0.0005
"""Between two looks at one that is being built; mostly the first look finds it finished."""

REPLACED = "its workspace was replaced by another folder"

FolderIdentity = tuple[int, int]
"""The device and the number of a folder."""

_OPTIONS = {
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_NPROC: "nproc",
    resource.RLIMIT_DATA: "data",
    resource.RLIMIT_CORE: "core",
}


def limits(settings: SandboxSettings) -> dict[int, tuple[int, int]]:
    """Return what the kernel bounds for each process.

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


def admit(
    pid: int,
    *,
    recipe: Recipe,
    group: ControlGroup | None,
    workspace: str,
    identity: FolderIdentity | None,
    own: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> MountWatch | None:
    """Bound the first process of a sandbox, which waits at its gate; may take some milliseconds.

    `pid` is as numbered outside; `identity` is the folder that must be mounted, and `None` accepts any; `own` and
    `hidden` are for the watch over mounts that is returned, which the caller closes, or `None` when the process has
    ended. Raises `OSError` when it could not be bounded, or has another folder or file system, and must not begin.
    """
    with suppress(ProcessLookupError):  # It has ended by itself, and nothing begins.
        bounds = limits(recipe.settings)
        if recipe.confiner is not None:
            # Without a user namespace, all that the user runs is counted together.
            most = recipe.settings.processes + threads_of((recipe.user or own_user()).uid)
            bounds[resource.RLIMIT_NPROC] = most, most
        if recipe.user is None:
            for kind, bound in bounds.items():
                resource.prlimit(pid, kind, bound)
        else:
            _limit_as(recipe.user, pid, bounds)
        if group is not None:
            group.join(pid)
        watch = MountWatch(pid, workspace, own, hidden)
        try:
            if recipe.confiner is None:
                _check_mounted(pid, workspace, identity)
            elif identity is not None and identity_of(workspace) != identity:
                raise OSError(REPLACED)
            if (foreign := watch.foreign()) is not None:
                raise OSError(f"something was mounted at {shown(foreign)} meanwhile")
        except BaseException:
            watch.close()
            raise
        return watch
    return None


def identity_of(folder: str) -> FolderIdentity | None:
    """Return what a folder is known by; `None` when it is not there."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_mounted(pid: int, workspace: str, wanted: FolderIdentity | None) -> None:
    """Wait until the sandbox is built, and raise `OSError` when another folder is mounted in it.

    A folder is mounted by its name, and whoever may write above it can put another one, or a link, in
    its place: a program of a session whose workspace is around this one. Only a look into the finished
    sandbox, before its program begins, can't be outrun.
    """
    outside = os.stat("/")
    deadline = time.monotonic() + BUILD_SECONDS
    while time.monotonic() < deadline:
        root = os.stat(f"/proc/{pid}/root/")
        if (root.st_dev, root.st_ino) != (outside.st_dev, outside.st_ino):
            with suppress(FileNotFoundError, NotADirectoryError):  # half built
                found = os.stat(f"/proc/{pid}/root{workspace}")
                if wanted is not None and (found.st_dev, found.st_ino) != wanted:
                    raise OSError(REPLACED)
                return
        time.sleep(LOOK_SECONDS)
    raise OSError("it was not built in time")


def _limit_as(user: User, pid: int, bounds: Mapping[int, tuple[int, int]]) -> None:
    """Set the limits of another user's process as that user: not every root may."""
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
    """The pipe that a sandbox waits at, until its filter of system calls comes through it."""

    def __init__(self, key: bytes) -> None:
        if len(key) > MAX_KEY_BYTES:
            raise ValueError(f"a filter is at most {MAX_KEY_BYTES} bytes, not {len(key)}")
        self._key = key
        self.theirs, self._ours = os.pipe()
        self._is_started = False

    def started(self) -> None:
        """Close their end, which the sandbox has by now. Idempotent."""
        if not self._is_started:
            self._is_started = True
            os.close(self.theirs)

    def open(self) -> None:
        """Let the program begin. Idempotent."""
        if self._ours >= 0:
            with suppress(BrokenPipeError):
                os.write(self._ours, self._key)
            self._close_ours()

    def close(self) -> None:
        """Close both ends; a sandbox that still waits ends and starts nothing. Idempotent."""
        self.started()
        self._close_ours()

    def _close_ours(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


def open_info() -> tuple[int, int]:
    """Return a pipe for what a sandbox says of its first process: our end, and the one to write to.

    The latter is open for reading too: when the runtime has died, bubblewrap can still write, and goes
    on to the gate. Else it would end there, and its child would wait for ever.
    """
    ours, writing = os.pipe()
    try:
        return ours, os.open(f"/proc/self/fd/{writing}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(writing)
