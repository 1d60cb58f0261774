"""The confiner: runs one program under Landlock and a filter, and ends all that it started.

It is started as a file of its own, with the standard library alone, in bubblewrap's place, and speaks
with the runtime as bubblewrap does: it says which process is the program's, and lets it begin when the
gate opens. As a subreaper it stays the parent of whatever the program leaves behind, and ends all of it
before it ends itself: at the program's end, on SIGTERM, and when the runtime dies.
"""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import struct
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

MIN_ABI = 4
"""From Linux 6.7, which confines connections too."""
SIGNAL_ABI = 6
"""From Linux 6.12, which confines signals too; on older ones the filter denies them all."""

MAX_PLAN_BYTES = 16 * 1024 * 1024
MAX_FILTER_BYTES = 64 * 1024
"""The kernel takes 4096 steps of eight bytes."""
LOOK_SECONDS = 0.002
"""Between two looks at what is left; a killed process takes about as long to be gone."""
CHUNK_BYTES = 64 * 1024

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_OF_FILES = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE
_ALL = (1 << 15) - 1
_DEVICE_CONTROL = 1 << 15  # from ABI 5
_NETWORK = 0b11  # bind and connect
_SCOPES = 0b11  # abstract sockets and signals
_NO_MAKING_DEVICES = ~((1 << 6) | (1 << 11))

_SET_DEATH_SIGNAL, _SET_FILTER, _NO_NEW_PRIVILEGES, _BE_REAPER = 1, 22, 38, 36

_libc = ctypes.CDLL(None, use_errno=True)


class Terminated(BaseException):
    """SIGTERM came: the runtime wants this process to end."""


def landlock_abi() -> int:
    """Return the version of this kernel's Landlock; 0 when there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)))


def ruleset_attributes(abi: int) -> bytes:
    """Return what a ruleset denies unless a rule allows it: all that this kernel can deny."""
    handled = _ALL | (_DEVICE_CONTROL if abi >= 5 else 0)
    words = (handled, _NETWORK, _SCOPES) if abi >= SIGNAL_ABI else (handled, _NETWORK)
    return struct.pack(f"={len(words)}Q", *words)


def rule(allowed: int, parent: int) -> bytes:
    """Return a rule: what is allowed at a place and below it."""
    return struct.pack("=Qi", allowed, parent)


def rights(*, writes: bool, is_folder: bool) -> int:
    """Return the rights at a place."""
    allowed = _ALL & _NO_MAKING_DEVICES if writes else _EXECUTE | _READ_FILE | _READ_DIR
    return allowed if is_folder else allowed & _OF_FILES


def main() -> NoReturn:
    """Run the program, and exit as it did."""
    with open(int(sys.argv[1]), "rb") as file:
        plan: dict[str, Any] = json.loads(file.read(MAX_PLAN_BYTES))
    info, gate = int(sys.argv[2]), int(plan["gate"])
    _control(_BE_REAPER, 1)
    _control(_SET_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != plan["parent"]:
        os._exit(1)  # it died before
    folder = tempfile.mkdtemp(prefix="callboard-program-")
    with suppress(OSError):  # the lock says that the folder is in use, until this process is gone
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_EX | fcntl.LOCK_NB)
    code = 128 + signal.SIGKILL
    try:
        signal.signal(signal.SIGTERM, _terminate)
        child = os.fork()
        if child == 0:
            _become(plan, folder, gate, sys.argv[4:])
        os.write(info, json.dumps({"child-pid": child}).encode())
        os.close(info)
        os.close(gate)
        code = _wait(child)
    except Terminated:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_all()
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def _wait(child: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _end_all() -> None:
    """Kill all that is left, until nothing is; orphans become children of this process."""
    with suppress(ChildProcessError):
        while True:
            # Stopped first, so that none forks while the others are killed.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in _below(os.getpid()):
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(LOOK_SECONDS)


def _below(pid: int) -> list[int]:
    found, waiting = [], [pid]
    while waiting:
        with suppress(OSError):
            tasks = Path(f"/proc/{waiting.pop()}/task")
            for thread in os.listdir(tasks):
                with suppress(OSError):
                    words = Path(tasks, thread, "children").read_bytes().split()
                    children = [int(word) for word in words]
                    found += children
                    waiting += children
    return found


def _become(plan: dict[str, Any], folder: str, gate: int, argv: list[str]) -> NoReturn:
    """Turn this process, which was forked for it, into the program."""
    try:
        _control(_SET_DEATH_SIGNAL, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        files = _lay_out(plan, folder)
        ruleset = _make_ruleset(plan, folder)
        # The filter comes when the program may begin; nothing begins without one.
        with open(gate, "rb") as file:
            steps = file.read(MAX_FILTER_BYTES)
        if not steps:
            raise EOFError("callboard has ended before it began")
        os.chdir(plan["cwd"])
        _control(_NO_NEW_PRIVILEGES, 1)
        _must(_libc.syscall(_RESTRICT, ruleset, 0))
        buffer = ctypes.create_string_buffer(steps, len(steps))
        program = struct.pack("HP", len(steps) // 8, ctypes.addressof(buffer))
        _control(_SET_FILTER, 2, program)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        own = {"HOME": os.path.join(folder, "home"), "TMPDIR": folder}
        environment: dict[str, str] = {
            name: own[name] if name in own and value in plan["places"] else value
            for name, value in plan["environment"].items()
        }
        words = [word.replace(plan["files at"], files) for word in argv]
        os.execvpe(words[0], words, environment)
    except Exception as error:  # whatever it is, the program must not run another way
        os.write(2, f"{argv[0]}: {error}\n".encode(errors="replace"))
    os._exit(127)


def _lay_out(plan: dict[str, Any], folder: str) -> str:
    """Write the files that come with a command; return their folder."""
    os.mkdir(os.path.join(folder, "home"))
    files = os.path.join(folder, "files")
    os.mkdir(files)
    for name, fd in plan["files"].items():
        with open(fd, "rb") as source, open(os.path.join(files, name), "xb") as target:
            shutil.copyfileobj(source, target, CHUNK_BYTES)
    return files


def _make_ruleset(plan: dict[str, Any], folder: str) -> int:
    attributes = ruleset_attributes(landlock_abi())
    ruleset = _must(_libc.syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0))
    for path, writes in [*plan["places seen"], [folder, True]]:
        with suppress(FileNotFoundError):
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = rights(writes=writes, is_folder=os.path.isdir(path))
            _must(_libc.syscall(_ADD, ruleset, 1, rule(allowed, fd), 0))
            os.close(fd)
    return ruleset


def _control(option: int, *values: Any) -> None:
    _must(_libc.prctl(option, *values, *([0] * (4 - len(values)))))


def _must(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main()
