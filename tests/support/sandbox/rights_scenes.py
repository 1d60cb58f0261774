"""Scenes of programs that try to lend rights to whoever runs their files, and to write elsewhere; see `sandbox_scenes`."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.sandbox.sandbox_scenes import answer, main

WAYS = """
import ctypes, json, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
def call(number, *words):
    passed = [ctypes.c_long(w) if isinstance(w, int) else w for w in words]
    if (result := libc.syscall(ctypes.c_long(number), *passed)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
def new(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644))
    return name
def fchmod(mode):
    fd = os.open(new("fchmod"), os.O_RDONLY)
    os.fchmod(fd, mode)
def unnamed(mode):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, mode)
    call(265 if x86 else 37, -100, f"/proc/self/fd/{fd}".encode(), -100, f"unnamed-{mode:o}".encode(), 0x400)  # linkat
def swapped():
    call(316 if x86 else 276, -100, new("whiteout").encode(), -100, b"aside", 4)  # renameat2, RENAME_WHITEOUT
def capability(version, root):
    words = struct.pack("<5I", version << 24 | 1, 1 << 7, 0, 0, 0) + (struct.pack("<I", root) if version == 3 else b"")
    os.setxattr(new("capable"), "security.capability", words)
def openat2():
    call(437, -100, b"openat2", struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)
ways = {
    "chmod setuid": lambda: os.chmod(new("a"), 0o4755),
    "chmod setgid": lambda: os.chmod(new("b"), 0o2755),
    "chmod both": lambda: os.chmod(new("c"), 0o6777),
    "chmod a folder": lambda: (os.mkdir("folder"), os.chmod("folder", 0o2775)),
    "fchmod": lambda: fchmod(0o4755),
    "fchmodat": lambda: os.chmod(new("d"), 0o4755, dir_fd=os.open(".", os.O_RDONLY)),
    "fchmodat2": lambda: call(452, -100, new("e").encode(), 0o4755, 0),
    "open": lambda: os.open("f", os.O_CREAT | os.O_WRONLY, 0o4755),
    "openat": lambda: os.open("g", os.O_CREAT | os.O_WRONLY, 0o2755, dir_fd=os.open(".", os.O_RDONLY)),
    "openat2": openat2,
    "unnamed": lambda: unnamed(0o4755),
    "mknod a file": lambda: os.mknod("h", 0o104755),
    "mknod a character device": lambda: os.mknod("i", 0o020666, os.makedev(1, 3)),
    "mknod a disk": lambda: os.mknod("j", 0o060666, os.makedev(8, 0)),
    "mknod a whiteout": lambda: os.mknod("k", 0o020000, 0),
    "leave a whiteout": swapped,
    "capabilities": lambda: capability(2, 0),
    "capabilities of a namespace": lambda: capability(3, 0),
    "give away": lambda: os.chown(new("l"), 12345, -1),
    "give to a group": lambda: os.chown(new("m"), -1, 12345),
    "give a link away": lambda: (os.symlink("x", "n"), os.lchown("n", 12345, 12345)),
}
if x86:
    ways |= {
        "plain open": lambda: call(2, b"o", os.O_CREAT | os.O_WRONLY, 0o4755),
        "creat": lambda: call(85, b"p", 0o4755),
        "plain chmod": lambda: call(90, new("q").encode(), 0o4755),
        "plain mknod": lambda: call(133, b"r", 0o104755, 0),
    }
ordinary = {
    "chmod": lambda: os.chmod(new("fine-a"), 0o755),
    "sticky": lambda: (os.mkdir("fine-b"), os.chmod("fine-b", 0o1777)),
    "mkfifo": lambda: os.mkfifo("fine-c"),
    "a mode without making": lambda: call(257 if x86 else 56, -100, new("fine-d").encode(), os.O_RDONLY, 0o7777),
    "unnamed": lambda: unnamed(0o755),
    "own": lambda: os.chown(new("fine-e"), os.getuid(), os.getgid()),
    "exchange": lambda: call(316 if x86 else 276, -100, new("fine-f").encode(), -100, new("fine-g").encode(), 2),
}
os.umask(0)
def worked(act):
    try:
        act()
    except OSError:
        return False
    return True
print(json.dumps([[name for name, act in each.items() if worked(act)] for each in (ways, ordinary)] + [list(ordinary)]))
"""


async def lends(folder: Path) -> Any:
    """Which ways worked inside, what lies there then; and which of them work outside."""
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir()
    outside.mkdir()
    found = await answer(inside, WAYS)
    ran = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", WAYS], cwd=outside, capture_output=True, text=True, check=True
    )
    return [found, special(inside), ran.stdout, special(outside)]


def special(folder: Path) -> list[str]:
    """What lends rights there, is a device, or is somebody else's."""
    found = []
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        is_device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
        is_capable = not path.is_symlink() and "security.capability" in os.listxattr(path)
        is_own = status.st_uid == os.getuid()
        if status.st_mode & 0o6000 or is_device or is_capable or not is_own:
            found.append(path.name)
    return found


WRITES = """
import stat
rows = [line.split(" - ") for line in open("/proc/self/mountinfo")]
mounts = [(row[0].split()[4], row[0].split()[5].split(","), row[1].split()[0]) for row in rows]
places, files = set(), set()
def writes(path, status):
    if stat.S_ISDIR(status.st_mode):
        try:
            fd = os.open(path, os.O_TMPFILE | os.O_WRONLY, 0o600)
        except OSError:
            try:
                os.mkdir(made := os.path.join(path, "callboard-probe"))
            except OSError:
                return False
            os.rmdir(made)
            return True
    elif stat.S_ISREG(status.st_mode) or stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return False
    else:
        return False
    os.close(fd)
    return True
looked = 0
skipped = [] if sys.argv[1:] else [
    place for place, how, kind in mounts if "ro" in how and place != "/" and not place.startswith(("/proc", "/dev"))
]
waiting = ["/"]
while waiting:
    path = waiting.pop()
    try:
        status = os.lstat(path)
    except OSError:
        continue
    looked += 1
    if writes(path, status):
        (places if stat.S_ISDIR(status.st_mode) else files).add(path)
    if stat.S_ISDIR(status.st_mode) and path not in skipped:
        try:
            waiting += [os.path.join(path, name) for name in os.listdir(path)]
        except OSError:
            pass
def status(pid):
    words = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    return [words[name].strip() for name in ("Seccomp", "NoNewPrivs", "CapEff", "CapBnd")]
processes = [status(pid) for pid in os.listdir("/proc") if pid.isdigit()]
print(json.dumps([sorted(places), sorted(files), looked, mounts, processes]))
"""
"""Tries to write to everything there is, from the top."""

WHOLE = ("whole",) if os.environ.get("CALLBOARD_SOAK") else ()
"""In the short form nothing below a read-only mount is tried, but the mount itself."""


async def writable(folder: Path) -> Any:
    """Every place that a program can write to, and every mount that it sees."""
    (folder / "below").mkdir()
    (folder / "own.txt").write_text("own")
    return [str(folder), *await answer(folder, WRITES, *WHOLE)]


if __name__ == "__main__":
    main((lends, writable))
