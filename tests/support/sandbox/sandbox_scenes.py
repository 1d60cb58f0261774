"""Scenes in a real sandbox, played in a process of their own by whichever user: what was found, as JSON.

Started as `python sandbox_scenes.py FOLDER`; the folder is empty and its user's own. Each scene gives
facts; the tests say what they must be.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio
from trio._core import _thread_cache
from trio.testing import MockClock

from callboard.config.sections import MIB, SandboxSettings
from callboard.runtime.processes import Command, Ran
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from support.waits import leap

CANARY = "canary-5b1f6e"
CANCELS = 500 if os.environ.get("CALLBOARD_SOAK") else 25

DEFAULTS = SandboxSettings()

SMALL = SandboxSettings(
    cpu_seconds=1,
    memory_bytes=192 * MIB,
    processes=48,
    file_bytes=8 * MIB,
    temporary_bytes=4 * MIB,
    temporary_files=2000,
    output_bytes=64 * 1024,
)

LEAVES = """
import os, signal, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        subprocess.run(["sleep", sys.argv[1]])
    os._exit(0)
os.wait()
print("left", flush=True)
time.sleep(float(sys.argv[2]))
"""

Scene = Callable[[Path], Awaitable[Any]]


def processes(folder: Path, settings: SandboxSettings = DEFAULTS) -> Any:
    return SessionProcesses(Sandbox(settings, os.environ), str(folder), "session")


async def python(
    folder: Path, code: str, *args: str, settings: SandboxSettings | None = None, **more: Any
) -> Ran:
    command = Command(
        # Without what is installed: to look for it takes longer than most scenes.
        argv=("python3", "-S", "/run/callboard/code.py", *args),
        files={"code.py": code.encode()},
        **{"seconds": 20, **more},
    )
    ran: Ran = await processes(folder, settings or SandboxSettings()).run(command)
    return ran


async def answer(folder: Path, code: str, *args: str, **more: Any) -> Any:
    ran = await python(folder, "import json, os, socket, sys\n" + code, *args, **more)
    assert ran.exit_code == 0, ran
    return json.loads(ran.stdout)


async def strength(folder: Path) -> Any:
    found = Sandbox(SandboxSettings(), os.environ).status()
    return [str(found.strength), found.reason]


async def looks(folder: Path) -> Any:
    outside = folder / "outside"
    outside.mkdir()
    home = Path(os.environ["HOME"])
    hidden = [
        outside / "secret",
        home / ".ssh" / "id",
        home / ".npmrc",
        outside / "keys" / "key.db",
    ]
    for path in hidden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CANARY)
    inside = folder / "workspace"
    (inside / "own-data").mkdir(parents=True)
    (inside / "own-data" / "store.db").write_text(CANARY)
    (inside / "plain.txt").write_text("plain")
    os.environ["SECRET_KEY"] = CANARY
    descriptor = os.open(hidden[0], os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    settings = SandboxSettings(read_only=(str(outside / "shown"),))
    (outside / "shown").mkdir()
    (outside / "shown" / "fine.txt").write_text("fine")
    sandbox = Sandbox(settings, os.environ, [inside / "own-data"])
    code = """
import json, os, sys
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"({type(error).__name__})"
found = {path: read(path) for path in json.loads(sys.argv[1])}
open("written.txt", "w").write("written")
found["descriptors"] = sorted(os.listdir("/proc/self/fd"))[:-1]
found["environment"] = sorted(os.environ)
found["tmp"] = sorted(os.listdir("/tmp"))
found["root"] = [name for name in ("/x", "/usr/x", "/etc/x", "/dev/x") if os.access(os.path.dirname(name), os.W_OK)]
print(json.dumps(found))
"""
    paths = [str(path) for path in hidden]
    paths += ["/etc/shadow", "/etc/passwd", "/proc/1/environ", "/proc/1/cmdline"]
    paths += [
        str(inside / "own-data" / "store.db"),
        str(outside / "shown" / "fine.txt"),
        "plain.txt",
    ]
    ran = await SessionProcesses(sandbox, str(inside), "s").run(
        Command(
            argv=("python3", "/run/callboard/code.py", json.dumps(paths)),
            env={"OWN": "own-value"},
            files={"code.py": code.encode()},
            seconds=20,
        )
    )
    os.close(descriptor)
    del os.environ["SECRET_KEY"]
    assert ran.exit_code == 0, ran
    found = json.loads(ran.stdout)
    found["canary anywhere"] = CANARY in ran.stdout + ran.stderr
    found["written"] = (inside / "written.txt").read_text()
    found["hidden"] = {path: found.pop(path) for path in paths[:5]}
    found["own data"] = found.pop(str(inside / "own-data" / "store.db"))
    found["shown"] = found.pop(str(outside / "shown" / "fine.txt"))
    return found


async def reaches(folder: Path) -> Any:
    code = """
import errno
def tried(family, kind, act=lambda s: None, protocol=0):
    try:
        with socket.socket(family, kind, protocol) as s:
            s.settimeout(2)
            act(s)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "worked"
def called(number):
    # With room for what it tells: without, it would fail by itself.
    return "worked" if libc.syscall(number, 1, ctypes.create_string_buffer(256)) >= 0 else errno.errorcode[ctypes.get_errno()]
port, abstract, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def own_server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=2):
            return "worked"
acts = {
    "tcp": lambda: tried(2, 1, lambda s: s.connect(("127.0.0.1", port))),
    "public": lambda: tried(2, 1, lambda s: s.connect(("192.0.2.1", 80))),
    "udp": lambda: tried(2, 2, lambda s: s.sendto(b"x", ("192.0.2.1", 53))),
    "icmp": lambda: tried(2, 3, protocol=1),
    "vsock": lambda: tried(40, 1),
    "netlink": lambda: tried(16, 3),
    "packet": lambda: tried(17, 3),
    "abstract": lambda: tried(1, 1, lambda s: s.connect("\\0" + abstract)),
    "path": lambda: tried(1, 1, lambda s: s.connect(path)),
    "io_uring": lambda: called(425),
    "other call": lambda: called(39),
    "own": own_server,
    "interfaces": lambda: [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    "routes": lambda: len(open("/proc/net/route").readlines()) - 1,
}
print(json.dumps({name: acts[name]() for name in sys.argv[4:] or acts}))
"""
    name = f"callboard-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
        tempfile.TemporaryDirectory() as place,
    ):
        abstract.bind("\0" + name)
        abstract.listen()
        named.bind(f"{place}/s")
        named.listen()
        for address in (("\0" + name), f"{place}/s"):
            with socket.socket(socket.AF_UNIX) as control:
                control.connect(address)
        with socket.create_connection(server.getsockname()[:2], timeout=5):
            pass
        its = [str(server.getsockname()[1]), name, f"{place}/s"]
        outside = subprocess.run(  # noqa: ASYNC221
            [
                *(sys.executable, "-I", "-S", "-c", f"import json, os, socket, sys\n{code}"),
                *(*its, "tcp", "netlink", "abstract", "path", "io_uring", "other call", "own"),
            ],
            capture_output=True,
            check=True,
        )
        return [await answer(folder, code, *its), json.loads(outside.stdout)]


async def uses_up(folder: Path) -> Any:
    run = partial(python, folder, settings=SMALL)
    before = own_memory()
    # One that grows by one at a time: for root nothing but the watchdog bounds their number.
    fork_bomb = (
        "import os, time\nfor _ in range(2000):\n    if os.fork() == 0:\n        time.sleep(30)\n"
        "time.sleep(30)"
    )
    hog = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        kept = b"x" * (60 * 1024 * 1024)
        time.sleep(30)
time.sleep(30)
"""
    shared = "import mmap, time\nm = mmap.mmap(-1, 400 << 20)\nfor i in range(0, 400 << 20, 4096): m[i] = 1\ntime.sleep(30)"
    alone = "try:\n    b'x' * (400 << 20)\nexcept MemoryError:\n    print('MemoryError')"
    big = "try:\n    open('big', 'wb').write(b'x' * (9 << 20))\nexcept OSError as e:\n    print(e.errno)"
    memfd = "import os\ntry:\n    os.truncate(os.memfd_create('x'), 9 << 20)\nexcept OSError as e:\n    print(e.errno)"
    full = "try:\n    open('/tmp/big', 'wb').write(b'x' * (5 << 20))\nexcept OSError as e:\n    print(e.errno)"
    flood = "import os\nwhile True: os.write(1, b'x' * 65536)"
    spin = "import os\nfor _ in range(3):\n    if os.fork() == 0:\n        while True: pass\nwhile True: pass"
    names = (
        "import time\nfor n in range(100_000):\n    open(f'/tmp/{n}', 'w').close()\ntime.sleep(30)"
    )
    shm = """
import os, time
for n in range(40):
    try:
        os.write(os.memfd_create(str(n)), b"x" * (7 << 20))
        open(f"/dev/shm/{n}", "wb").write(b"x" * (7 << 20))
    except OSError:
        pass
time.sleep(30)
"""
    say = "import sys\nsys.stdout.write('a' * 100000 + 'z' * 100000)"
    words = {
        "fork bomb": await run(fork_bomb, seconds=8),
        "hog": await run(hog),
        "shared memory": await run(shared),
        "flood": await run(flood),
        "spin": await run(spin),
        "names": await run(names),
        "memory that nobody maps": await run(shm, seconds=5),
    }
    said = {"alone": alone, "file": big, "memfd": memfd, "tmp": full}
    found: dict[str, Any] = {name: ran.killed_by for name, ran in words.items()}
    found |= {name: (await run(code)).stdout.strip() for name, code in said.items()}
    found["own memory grew"] = own_memory() - before > 64 * MIB
    bounds = Sandbox(SMALL, os.environ).status().bounds
    found["is memory grouped"] = "control group of each" in bounds and "memory" in bounds
    long = await run(say)
    found["long"] = [long.is_truncated, len(long.stdout), long.stdout[:2], long.stdout[-2:]]
    return found


async def leaves(folder: Path) -> Any:
    found: dict[str, Any] = {}
    ran = await python(folder, LEAVES, tag := new_tag(), "0")
    found["end"] = [ran.stdout, ran.exit_code, tagged(tag)]
    command = Command(
        argv=("python3", "-S", "/run/callboard/code.py", tag := new_tag(), "600"),
        files={"code.py": LEAVES.encode()},
        seconds=60,
    )
    ran = await processes(folder).run(command, lambda _: leap(60))
    found["timeout"] = [ran.stdout, ran.killed_by, ran.killed >= 2, tagged(tag)]
    said: list[str] = []
    tag = new_tag()
    with trio.CancelScope() as scope:

        def heard(line: str) -> None:
            said.append(f"{line} {len(tagged(tag)) > 0}")
            scope.cancel()

        command = Command(
            argv=("python3", "/run/callboard/code.py", tag, "600"),
            files={"code.py": LEAVES.encode()},
            seconds=30,
        )
        await processes(folder).run(command, heard)
    found["cancel"] = [said, scope.cancelled_caught, tagged(tag)]
    return found


async def cancels(folder: Path) -> Any:
    """Cancels at random moments of a start; nothing may be left of any."""
    rng = random.Random(47)
    await python(folder, "pass")
    before = descriptors()
    tag = new_tag()
    ended = 0

    async def cancel_later(scope: trio.CancelScope, seconds: float) -> None:
        # No deadline, which a call would look ahead to.
        await trio.sleep(seconds)
        scope.cancel()

    for _ in range(CANCELS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_later, nursery.cancel_scope, rng.random() * 0.03)
            await processes(folder).run(Command(argv=("sleep", tag), seconds=30))
            ended += 1
    return {
        "ended by themselves": ended,
        "left": tagged(tag),
        "descriptors": descriptors() - before,
        "workspace": sorted(os.listdir(folder)),
    }


async def many(folder: Path) -> Any:
    """Twenty at once in one workspace, whose stubs they share."""
    found: list[int | None] = []

    async def one() -> None:
        ran = await python(folder, "import os; os.mkdir('.git/hooks')", seconds=60)
        found.append(ran.exit_code)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(one)
    return {"codes": sorted(set(map(str, found))), "workspace": sorted(os.listdir(folder))}


async def plants(folder: Path) -> Any:
    """What must not be planted, in a repository with a submodule, and in a folder without one."""
    make_repository(folder)
    module = folder / ".git" / "modules" / "part"
    (module / "hooks").mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".envrc").write_text("")
    code = """
import shutil
def worked(act):
    try:
        act()
    except OSError:
        return False
    return True
def put(path):
    return lambda: open(path, "w").close()
bad = [".git/hooks/pre-commit", ".git/config", ".git/config.worktree", ".git/commondir",
       ".git/modules/part/hooks/post-checkout", ".git/modules/part/config", ".git/modules/new",
       ".git/worktrees/new", ".callboard/x", "callboard.toml", ".bashrc", ".zshenv", ".envrc"]
found = {path: worked(put(path)) for path in bad}
moves = [".git", ".git/hooks", ".git/config", ".git/modules", ".git/modules/part", ".callboard", ".envrc"]
found |= {f"move {path}": worked(lambda: os.rename(path, "aside")) for path in moves}
found |= {f"remove {path}": worked(lambda: shutil.rmtree(path)) for path in (".callboard", ".git/hooks")}
fine = {path: worked(put(path)) for path in ("new.txt", ".git/own", ".git/modules/part/index", ".config")}
print(json.dumps([found, fine]))
"""
    bad, fine = await answer(folder, code)
    command = "git add new.txt && git -c user.name=t -c user.email=t@x commit -qm one && git log --oneline | wc -l"
    ran = await processes(folder).run(Command(argv=("sh", "-c", command), seconds=20))
    left = sorted(
        path for path in os.listdir(folder / ".git") if path in ("commondir", "worktrees")
    )
    bare = folder / "bare"
    bare.mkdir()
    code = "try:\n    os.makedirs('.git/hooks')\n    r = True\nexcept OSError:\n    r = False\nprint(json.dumps(r))"
    return {
        "bad": bad,
        "fine": fine,
        "commit": [ran.exit_code, ran.stdout.strip(), ran.stderr],
        "left": left,
        "bare": [await answer(bare, code), os.listdir(bare)],
    }


async def sleeps(folder: Path) -> Any:
    """Longer than an idle worker thread lives, with a worker thread that was used before.

    Beside it the control: what such a thread started ends with the thread. In the short form a
    thread waits for work only briefly, instead of ten seconds.
    """
    idle: float = _thread_cache.IDLE_TIMEOUT
    if not os.environ.get("CALLBOARD_SOAK"):
        idle = 0.4
        _thread_cache.IDLE_TIMEOUT = idle  # type: ignore[assignment]
    await trio.to_thread.run_sync(int)
    found: dict[str, Any] = {}

    async def by_a_thread() -> None:
        box = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
        ran = await trio.run_process([*box, "sleep", str(idle * 2)], check=False)
        found["control"] = ran.returncode

    async with trio.open_nursery() as nursery:
        nursery.start_soon(by_a_thread)
        command = Command(argv=("sleep", str(idle * 2)), seconds=60)
        ran = await processes(folder).run(command)
        found["ran"] = [ran.exit_code, ran.killed_by]
    return found


def make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


def new_tag() -> str:
    """A number of seconds to sleep by which a process is known."""
    return f"{600 + random.SystemRandom().random():.9f}"


def tagged(tag: str) -> list[str]:
    """The processes that carry it, here and in every namespace below."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if tag.encode() in words:
                found.append(words.decode(errors="replace"))
    return found


def own_memory() -> int:
    """What this process holds of memory, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


SCENES: tuple[Scene, ...] = (
    strength,
    looks,
    reaches,
    uses_up,
    leaves,
    cancels,
    many,
    plants,
    sleeps,
)


def main(scenes: tuple[Scene, ...] = SCENES) -> None:
    root = Path(sys.argv[1])
    os.environ["HOME"] = str(root / "home")
    found = {}
    for scene in scenes:
        name = scene.__name__
        folder = root / name
        folder.mkdir(exist_ok=True)
        began = time.monotonic()
        found[name] = trio.run(scene, folder, clock=MockClock(rate=1.0))
        sys.stderr.write(f"{name} {time.monotonic() - began:.2f} s\n")
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
