"""Scenes of file tools that need a process of their own: run as a program, it plays one and prints
what happened as JSON.

`test_security_paths` starts it, and judges.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.events import CallFinished
from callboard.tools.workspace.workspace import open_workspace
from support.tools.workbench import Caller

ENTRIES = 200_000 if os.environ.get("CALLBOARD_SOAK") else 50_000
"""Each bound on what a tool looks at is far below either."""
STEPS = frozenset({"open", "write", "fsync", "fchmod", "rename", "link", "unlink"})
"""What a write does to the disk, by the names that `os` has for it."""


def peak_kib() -> int:
    """The most memory so far. Not getrusage's: that begins with what the parent had."""
    with open("/proc/self/status", encoding="ascii") as status:
        [line] = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1])


async def failed(caller: Caller, tool: str, **arguments: Any) -> str:
    try:
        await caller.result(tool, **arguments)
    except ToolFailure as failure:
        return failure.error_type.value
    return "nothing"


async def crowd(folder: Path) -> Any:
    """A folder of very many entries, and a file of 5 GB; in memory where there is such a place."""
    shm = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else folder) as place:
        return await look_at_many(Path(place))


async def look_at_many(folder: Path) -> Any:
    many = folder / "many"
    many.mkdir()
    here = os.open(many, os.O_RDONLY)
    for number in range(ENTRIES):
        os.mknod(f"f{number:06}", dir_fd=here)
    os.close(here)
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 5 * 2**30)
    with open_workspace(folder) as workspace:
        caller = Caller(workspace)
        await caller.output("list_directory", path=".")
        before = peak_kib()
        listed = await caller.output("list_directory", path="many")
        searched = await caller.output("search_files", path=".", glob="f000007")
        found = {
            "listed": [
                len(listed["entries"]),
                listed["truncated"],
                listed["total"],
                listed["entries"][0]["name"],
            ],
            "searched": [
                searched["truncated"],
                [Path(m["file"]).name for m in searched["matches"]],
            ],
            "deleted": await failed(caller, "delete_file", path="many", recursive=True),
            "read": await failed(caller, "read_file", path="sparse"),
        }
    after = peak_kib()
    with os.scandir(many) as entries:
        held = [(entry.path, entry.stat()) for entry in entries]
    assert len(held) == ENTRIES
    return {**found, "rise_kib": after - before, "control_kib": peak_kib() - after}


def write_step_by_step(folder: Path, content: bytes, stop: int) -> None:
    """Writes a file of a workspace; killed ahead of the step with this number."""
    done: list[str] = []

    def watched(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if stop == len(done):
                os.kill(os.getpid(), signal.SIGKILL)
            done.append(name)
            return act(*args, **kwargs)

        return step

    with open_workspace(folder) as workspace:
        for name in STEPS:
            setattr(os, name, watched(name, getattr(os, name)))
        workspace.write("f", content, replace=True, create_dirs=False)


def killed_at(place: Path, step: int) -> int:
    """By what signal a process ended that writes a file."""
    if (child := os.fork()) == 0:
        write_step_by_step(place, b"new" * 1000, step)
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


async def kills(folder: Path) -> Any:
    """What is there after a kill ahead of each step of a write, and once it is opened a day later."""
    await trio.lowlevel.checkpoint()
    found: list[Any] = []
    code: int = signal.SIGKILL
    while code:
        place = folder / str(len(found))
        place.mkdir()
        (place / "f").write_text("old" * 1000)
        code = killed_at(place, len(found))
        left = [name for name in os.listdir(place) if name != "f"]
        for name in left:
            os.utime(place / name, (0, 0))
        open_workspace(place).close()
        found.append([(place / "f").read_text(), len(left), os.listdir(place)])
    return found


class Shared:
    """What this process makes in a folder of everybody, from when it watches on.

    Attributes:
        guessed: What has a name that `tempfile` did not choose.
        modes: Of the folders that were made there.
    """

    def __init__(self, path: Path) -> None:
        self.guessed: list[str] = []
        self.modes: list[int] = []
        self._path = path
        self._chosen: set[str] = set()

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook."""
        if event in {"tempfile.mkdtemp", "tempfile.mkstemp"}:
            self._chosen.add(str(arguments[0]))
        elif event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        elif event in {"open", "os.mkdir", "os.symlink", "os.rename", "os.link", "socket.bind"}:
            for path in arguments:
                if isinstance(path, str) and path.startswith(f"{self._path}/"):
                    self._made(event, path)

    def _made(self, event: str, path: str) -> None:
        top = str(self._path / Path(path).relative_to(self._path).parts[0])
        if top not in self._chosen:
            self.guessed.append(f"{event} {path}")
        elif os.path.isdir(top):
            self.modes.append(os.stat(top).st_mode)


DAY: list[tuple[str, Any]] = [
    ("write_file", {"path": "a/b.txt", "content": "one two"}),
    ("write_file", {"path": "a/b.txt", "content": "\nthree", "mode": "append"}),
    ("edit_file", {"path": "a/b.txt", "edits": [{"old_text": "two", "new_text": "2"}]}),
    ("read_file", {"path": "a/b.txt"}),
    ("list_directory", {"path": ".", "recursive": True}),
    ("search_files", {"pattern": "2"}),
    ("move_file", {"from": "a/b.txt", "to": "c.txt"}),
    ("delete_file", {"path": "c.txt"}),
    ("memory_store", {"text": "The door is green."}),
    ("memory_search", {"query": "door"}),
    ("shell", {"command": "echo x > /tmp/x; cat /tmp/x"}),
    ("run_code", {"language": "python", "code": "print(1)"}),
]


async def day(folder: Path) -> Any:
    """All that a session usually does, and what it makes in the folder of everybody."""
    shared = Path(sys.argv[3])
    os.environ["TMPDIR"] = tempfile.tempdir = str(shared)
    (folder / "work").mkdir(parents=True)
    watched = Shared(shared)
    sys.addaudithook(watched.watch)
    model = callboard.ScriptedModel([*(reply(calls=[call]) for call in DAY), reply("Done.")])
    async with callboard.open_runtime(
        model=model,
        workspace=folder / "work",
        data=folder / "data",
        policy="auto",
        environ=dict(os.environ),
        strict=True,
    ) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            events = [event async for event in turn]
    named = list(watched.guessed)
    (shared / "guessed").write_text("the control")
    (shared / "guessed").unlink()
    results = [event for event in events if isinstance(event, CallFinished)]
    return {
        "statuses": [r.status.value if r.status == "success" else r.result for r in results],
        "named": named,
        "control": len(watched.guessed) > len(named),
        "modes": watched.modes,
    }


def mount(source: str, target: Path, kind: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(os.fsencode(source), bytes(target), os.fsencode(kind), flags, None):
        sys.exit(f"may not mount: {os.strerror(ctypes.get_errno())}")


async def mounts(folder: Path) -> Any:
    """A folder of the same disk, a file of it, and `/proc`, mounted in a workspace."""
    bind, private = 4096, (1 << 18) | 16384
    mount("none", Path("/"), "", private)
    out, inside = folder / "out", folder / "work"
    for place in (out, inside / "disk", inside / "proc"):
        place.mkdir(parents=True)
    (out / "f").write_text("canary")
    (inside / "file").touch()
    (inside / "plain").write_text("plain")
    mount(str(out), inside / "disk", "", bind)
    mount(str(out / "f"), inside / "file", "", bind)
    mount("proc", inside / "proc", "proc", 0)
    assert (inside / "disk" / "f").read_text() == (inside / "file").read_text() == "canary"
    uses: list[tuple[str, dict[str, str]]] = [
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("write_file", {"content": "x", "mode": "append"}),
    ]
    with open_workspace(inside) as workspace:
        caller = Caller(workspace)
        listed = await caller.output("list_directory", path=".", recursive=True)
        return {
            "entered": [
                [tool, path, await failed(caller, tool, path=path, **more)]
                for tool, more in uses
                for path in ("disk/f", "file", "proc/self/environ", "proc/1/root/etc/passwd")
            ],
            "removed": [
                await failed(caller, "delete_file", path="disk", recursive=True),
                (out / "f").exists(),
            ],
            "listed": [entry["name"] for entry in listed["entries"]],
            "control": (await caller.output("read_file", path="plain"))["content"],
            "canary": (out / "f").read_text(),
        }


Scene = Callable[[Path], Awaitable[Any]]
SCENES: dict[str, Scene] = {scene.__name__: scene for scene in (*(crowd, kills, day, mounts),)}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(trio.run(SCENES[sys.argv[1]], Path(sys.argv[2]))))
