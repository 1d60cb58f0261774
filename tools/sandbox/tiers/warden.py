"""Runs one program under `sandbox-exec`, and ends all that it started: the tier of macOS.

It is started as a file of its own, with the standard library alone, outside of the sandbox. It
waits at the lifeline for the runtime's word, starts the program in a group of its own, and ends what
is left of it: at its end, when it is told to, and when the runtime dies. There is no namespace:
what belongs to the program is found in the list of processes, by parents, by groups, and by a
variable that each inherits. It looks several times a second, so that it also knows what has
dropped all three since.
"""

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

MAX_PLAN_BYTES = 16 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
MAX_WORD_BYTES = 64
LOOK_SECONDS = 0.2
"""Between two looks at the list of processes, which take some milliseconds each."""
AGAIN_SECONDS = 0.01
"""Between two looks at what is left: what is killed takes about as long to be gone."""
LIST_SECONDS = 5.0
"""For one list, on a machine that is busy."""


class Row(NamedTuple):
    """One process in the list."""

    parent: int
    group: int
    user: int
    state: str


class Family:
    """The processes of one program, as far as they can be found."""

    def __init__(self, first: int, plan: dict[str, Any]) -> None:
        self._first = first
        self._plan = plan
        self._mark = "=".join(plan["mark"]).encode()
        self._known = {first}
        self._groups = {first}

    def look(self, *, closely: bool = False) -> set[int] | None:
        """Those that are there now; `None` when there is no list."""
        table = dict(listed(self._plan["listing"]))
        if os.getpid() not in table:
            return None
        marked = marked_ones(self._plan["marked listing"], self._mark) if closely else ()
        found = {
            pid
            for pid, row in table.items()
            if pid in self._known or row.group in self._groups or pid in marked
        } - {os.getpid()}
        more = found
        while more:
            more = {pid for pid, row in table.items() if row.parent in found} - found
            found |= more
        self._known = found
        self._groups = {table[pid].group for pid in found} - {os.getpgrp()}
        return found

    def end(self) -> int:
        """Kills all, until none is left; how many there were."""
        killed: set[int] = set()
        while found := self.look(closely=True):
            # Stopped first, so that nobody forks while the others are killed.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            killed |= found
            time.sleep(AGAIN_SECONDS)
        if found is None:  # without a list, its group is all that is known
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._first, signal.SIGKILL)
        return len(killed)


def listed(command: list[str]) -> list[tuple[int, Row]]:
    """All processes but zombies; none when they can't be listed."""
    found = []
    for fields in _lines(command):
        pid, parent, group, user = map(int, fields[:4])
        state = fields[4].decode(errors="replace")
        if not state.startswith("Z"):
            found.append((pid, Row(parent, group, user, state)))
    return found


def marked_ones(command: list[str], mark: bytes) -> set[int]:
    """The processes whose variables hold the mark.

    A variable may hold a line that looks like one of another process, so that this one would be
    ended. That one is in the list twice then, and nothing that is said of it counts.
    """
    lines = _lines(command)
    times = Counter(int(fields[0]) for fields in lines)
    found = {int(fields[0]) for fields in lines if mark in b"".join(fields[5:])}
    return {pid for pid in found if times[pid] == 1}


def _lines(command: list[str]) -> list[list[bytes]]:
    """What a list says, line by line: four numbers, the state, and the rest as it is."""
    try:
        ran = subprocess.run(
            command,
            env={"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line.split(None, 5) for line in ran.stdout.split(b"\n")]
    return [line for line in lines if len(line) > 4 and all(map(bytes.isdigit, line[:4]))]


def main() -> NoReturn:
    """Runs it; ends as the program did."""
    with open(int(sys.argv[1]), "rb") as file:
        plan: dict[str, Any] = json.loads(file.read(MAX_PLAN_BYTES))
    gate, info = int(plan["gate"]), int(sys.argv[2])
    os.set_inheritable(gate, False)
    wake = _awake()
    os.write(info, json.dumps({"child-pid": os.getpid()}).encode())
    os.close(info)
    ready = _readable(gate, wake)
    if wake in ready or not os.read(gate, MAX_WORD_BYTES):
        os._exit(128 + signal.SIGKILL)
    folder = os.path.realpath(tempfile.mkdtemp(prefix="callboard-program-"))
    try:
        code = _run(plan, folder, gate, wake)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def _awake() -> int:
    """A descriptor that tells of signals; none interrupts what is done."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda number, frame: None)
    return reading


def _run(plan: dict[str, Any], folder: str, gate: int, wake: int) -> int:
    own, given = _lay_out(plan, folder)
    try:
        program = _start(plan, folder, own, given)
    except (OSError, subprocess.SubprocessError) as error:
        os.write(2, f"{sys.argv[4]}: {error}\n".encode(errors="replace"))
        return 127
    family = Family(program.pid, plan)
    is_told = _wait(program, family, gate, wake)
    killed = family.end()
    code = program.wait()
    if is_told:
        with suppress(BrokenPipeError, ConnectionResetError):
            os.write(gate, str(killed).encode())
        return 128 + signal.SIGKILL
    return 128 - code if code < 0 else code


def _lay_out(plan: dict[str, Any], folder: str) -> tuple[str, str]:
    """Writes the files that come with a command; the program's own folder, and where they lie."""
    own, given = os.path.join(folder, "own"), os.path.join(folder, "given")
    os.makedirs(os.path.join(own, "home"))
    os.mkdir(given)
    for name, fd in plan["files"].items():
        with open(fd, "rb") as source, open(os.path.join(given, name), "xb") as target:
            shutil.copyfileobj(source, target, CHUNK_BYTES)
    return own, given


def _start(plan: dict[str, Any], folder: str, own: str, given: str) -> subprocess.Popen[bytes]:
    profile = os.path.join(folder, "profile")
    with open(profile, "xb") as file:
        file.write(os.fsencode(plan["profile"]))
    words = [word.replace(plan["files at"], given) for word in sys.argv[4:]]
    places = {name: os.path.join(own, below) for name, below in plan["places"].items()}
    variables = {
        name: places[value].rstrip("/") if name in ("HOME", "TMPDIR") and value in places else value
        for name, value in plan["environment"].items()
    }
    mark, value = plan["mark"]
    named = plan["parameters"]
    told = ["-f", profile, "-D", f"{named['private']}={own}", "-D", f"{named['given']}={given}"]
    bounds = _bounds(plan)

    def bound() -> None:
        for kind, (soft, hard) in bounds.items():
            resource.setrlimit(kind, (soft, hard))

    return subprocess.Popen(
        [plan["program"], *told, "--", *words],
        cwd=plan["cwd"],
        env={**variables, mark: value},
        preexec_fn=bound,
        process_group=0,
    )


def _bounds(plan: dict[str, Any]) -> dict[int, tuple[int, int]]:
    """The limits of each process; nobody can have more than this process may."""
    found = {int(kind): (soft, hard) for kind, (soft, hard) in plan["limits"].items()}
    # There it is counted together with all that the user runs.
    others = [row for row in dict(listed(plan["listing"])).values() if row.user == os.getuid()]
    most = plan["processes"] + len(others)
    found[resource.RLIMIT_NPROC] = most, most
    for kind, (soft, hard) in found.items():
        top = resource.getrlimit(kind)[1]
        if top != resource.RLIM_INFINITY:
            found[kind] = min(soft, top), min(hard, top)
    return found


def _wait(program: subprocess.Popen[bytes], family: Family, gate: int, wake: int) -> bool:
    """Waits for the program's end, or to be told to end it; whether it was told."""
    next_look = time.monotonic()
    while program.poll() is None:
        if (left := next_look - time.monotonic()) <= 0:
            family.look()
            left = LOOK_SECONDS
            next_look = time.monotonic() + left
        ready = _readable(gate, wake, seconds=left)
        # Nothing more comes from the runtime than its end.
        if gate in ready or (wake in ready and signal.SIGTERM in os.read(wake, CHUNK_BYTES)):
            return True
    return False


def _readable(*descriptors: int, seconds: float | None = None) -> list[int]:
    """Those that can be read, whatever their numbers: `select` takes small ones alone."""
    look = select.poll()
    for descriptor in descriptors:
        look.register(descriptor, select.POLLIN)
    return [found for found, _ in look.poll(None if seconds is None else seconds * 1000)]


if __name__ == "__main__":
    main()
