"""`daemon.json`: how the commands of a user find that user's running daemon.

The file is in the data folder while the daemon runs, for its owner alone. It holds the daemon's address
and a token that lives as long as the process. That token is in no list and no database, so that an old
file, or a backup of one, opens nothing. The daemon locks the file itself, and the kernel releases the
lock however the process ends: an unlocked file is a dead daemon's, whatever process has its pid by now.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Literal, Self

import msgspec

from ..runtime.disk.private_folder import sync_path
from ..runtime.errors import ConflictError, StorageError
from ..runtime.redaction import Secret, redactor
from ..runtime.text import UNDECODABLE
from .private_file import make_private_folder, read_private, temporary_for, write_new

FILE_NAME = "daemon.json"
MAX_FILE_BYTES = 64 * 1024
"""An address and a token take some hundred bytes."""


class RunningDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that runs on a data folder.

    Attributes:
        url: The URL of its websocket.
        pid: Its process.
        token: Lets the commands of its user in; ends with the process.
        started_at_ms: When it started, in Unix milliseconds.
        command: What it is: `callboard serve`, or a command that is the daemon as long as it lasts.
        drain_seconds: Time that turns have to end when it stops.
        configuration: The file of its configuration, by whose rules it runs turns.
    """

    url: str
    pid: int
    token: Secret
    started_at_ms: int
    command: Literal["serve", "chat", "run", "acp", "mcp"] = "serve"
    drain_seconds: float = 0.0
    configuration: str = ""


def _secret(kind: type, text: object) -> Secret:
    if not isinstance(text, str):
        raise TypeError(f"expected a text for {kind.__name__}")
    return Secret(text)


# Made here, by one thread: two that meet a type for the first time at once would crash.
_RUNNING_DAEMON = msgspec.json.Decoder(RunningDaemon, dec_hook=_secret)


def find_daemon(data: Path) -> RunningDaemon | None:
    """Return the daemon that runs on a data folder; `None` when none does, or a dead one left a file.

    Raises:
        StorageError: The file can't be read, is not safe or is damaged.
    """
    path = data / FILE_NAME
    # In this order: then the content is of a daemon that lived a moment ago, or of its successor.
    if not _is_held(path) or (content := read_private(path, MAX_FILE_BYTES)) is None:
        return None
    try:
        found = _RUNNING_DAEMON.decode(content)
    except UNDECODABLE as error:
        raise StorageError(
            f"{path} is damaged ({error}), and a daemon holds it: stop that one, and start it again."
        ) from error
    redactor.add(found.token)
    return found


def check_runs(daemon: RunningDaemon) -> None:
    """Raise `ConflictError` when the process of a daemon was stopped (Ctrl-Z): it would answer nothing."""
    try:
        state = Path(f"/proc/{daemon.pid}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return  # no such system, or it ends just now
    if state == b"T":
        raise ConflictError(
            f"process {daemon.pid} (callboard {daemon.command}), which has the sessions, is stopped, as by Ctrl-Z: `fg` or "
            f"`bg` at its terminal, or `kill -CONT {daemon.pid}`, lets it go on; `callboard stop` ends it."
        )


class DaemonFile:
    """The file of this process's daemon, present and locked while the block runs.

    Args:
        data: The data folder.
        daemon: What the file says.

    Raises:
        StorageError: It can't be written.
    """

    def __init__(self, data: Path, daemon: RunningDaemon) -> None:
        self.path = data / FILE_NAME
        self._daemon = daemon
        self._descriptor = -1

    def __enter__(self) -> Self:
        # A `Secret` is never encoded by itself.
        content = msgspec.json.encode(self._daemon, enc_hook=Secret.reveal)
        make_private_folder(self.path.parent)
        temporary = temporary_for(self.path)
        try:
            self._descriptor = write_new(temporary, content)
            # Locked before it has its name: nobody ever reads one that looks dead.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.replace(self.path)
            sync_path(self.path.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            self._release()
            raise StorageError(
                f"{self.path} can't be written: {error.strerror or error}."
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if os.path.samestat(self.path.lstat(), os.fstat(self._descriptor)):
                self.path.unlink(missing_ok=True)
        except OSError:
            pass  # it is gone, or the disk fails; unlocked, the file counts for nothing
        finally:
            self._release()

    def _release(self) -> None:
        if self._descriptor >= 0:
            # Closing is not enough: a child between its fork and its exec still holds a copy.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


def _is_held(path: Path) -> bool:
    """Whether a process has the file locked. Asks for a shared lock, so no daemon is disturbed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror or error}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
