"""Scenes of programs that plant what would run outside; see `sandbox_scenes`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import trio

from callboard.runtime.processes import Command, Ran
from support.sandbox.sandbox_scenes import answer, main, make_repository, processes

PLANT = """
mkdir -p refs objects
echo 'ref: refs/heads/main' > HEAD
printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = "touch %s/planted; false"\\n' "$PWD" > config
true
"""

SETTINGS = ("kernel/core_pattern", "vm/overcommit_memory", "kernel/randomize_va_space")


async def kernel(folder: Path) -> Any:
    """The kernel's own settings: what can be opened for writing, and for reading."""
    code = """
def opened(name, how):
    try:
        os.close(os.open("/proc/" + name, how))
    except OSError:
        return False
    return True
names = ["sys/" + each for each in sys.argv[1:]] + ["sysrq-trigger", "irq/default_smp_affinity", "mtrr"]
own = [each for each in os.listdir("/proc") if not each.isdigit() and not os.path.islink("/proc/" + each)]
deep = [os.path.join(top, name)[6:] for each in own for top, _, names in os.walk("/proc/" + each) for name in names]
print(json.dumps([
    [name for name in names + deep if opened(name, os.O_WRONLY)],
    [opened("sys/" + each, os.O_RDONLY) for each in sys.argv[1:]],
    opened("self/oom_score_adj", os.O_WRONLY),
]))
"""
    return await answer(folder, code, *SETTINGS)


async def bare(folder: Path) -> Any:
    """A repository without `.git`, at the top of a folder without one, and of one that is broken."""
    found = {}
    for name in ("without", "broken"):
        workspace = new_folder(folder, name, is_repository=name == "broken")
        ran = await shell(workspace, f"rm -f .git/HEAD\n{PLANT}")
        found[name] = [ran.exit_code, *looked_at(workspace)]
        control = new_folder(folder, f"{name}-control", is_repository=name == "broken")
        script = f"rm -f .git/HEAD\n{PLANT}"
        subprocess.run(["/bin/sh", "-c", script], cwd=control, check=True)  # noqa: ASYNC221
        found[f"{name} control"] = [0, *looked_at(control)]
    return found


async def seen_meanwhile(folder: Path) -> Any:
    """What git outside finds while a program runs that has made all but what is kept away."""
    found = {}
    for name in ("without", "broken"):
        workspace = new_folder(folder, f"meanwhile-{name}", is_repository=name == "broken")
        script = f"(rm -f .git/HEAD; {PLANT}) 2> /dev/null; echo planted; sleep 600"
        with trio.CancelScope() as scope:

            def heard(_line: str, of: Path = workspace, scope: trio.CancelScope = scope) -> None:
                found[of.name.partition("-")[2]] = looked_at(of)
                scope.cancel()

            command = Command(argv=("sh", "-c", script), seconds=20)
            await processes(workspace).run(command, heard)
    return found


LOOKS_THROUGH = {
    "list": "ls -laR .",
    "find": "find . -name x",
    "search": "grep -r canary . || test $? = 1",
    "pack": "tar cf /dev/stdout . | wc -c",
    "copy": "cp -r . /tmp/copy",
    "below each folder": "for each in $(find . -type d); do stat $each/conftest.py; done 2>&1 "
    "| grep -v 'No such file'; true",
}
"""What goes through a whole workspace as programs do."""
IN_GIT = {
    "status": "git status --short --untracked-files=all",
    "add": "git add -A && git ls-files",
    "history": "git -c user.name=t -c user.email=t@x commit -qm one && git log --format=%s HEAD",
    "names": "git log --format=%s $(git symbolic-ref HEAD)",
}


async def looked_through(folder: Path) -> Any:
    """What programs say that go through a whole workspace: what is kept away is in nobody's way."""
    code = """
import subprocess
found = {}
for name, line in json.loads(sys.argv[1]).items():
    ran = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    found[name] = [ran.returncode, ran.stderr, ran.stdout]
print(json.dumps(found))
"""
    found = {}
    for name in ("plain", "repository"):
        workspace = new_folder(folder, f"looked-{name}", is_repository=name == "repository")
        (workspace / "own.txt").write_text("own")
        lines = LOOKS_THROUGH | (IN_GIT if name == "repository" else {})
        found[name] = await answer(workspace, code, json.dumps(lines))
    return found


async def nested(folder: Path) -> Any:
    """A repository below: it can be made, and is told of."""
    make_repository(folder)
    made = await shell(folder, "git init -q vendor/part && mkdir plain")
    again = await shell(folder, "touch vendor/part/file")
    return [list(made.changed.repositories), list(again.changed.repositories)]


async def named(folder: Path) -> Any:
    """Hooks and settings that a repository's settings name."""
    make_repository(folder)
    config = folder / ".git" / "config"
    named = '[core]\n\thooksPath = ".husky/_" ; ours\n[include]\n\tpath = ../more/extra\n'
    named += '[includeIf "gitdir:x"] path = ../missing.cfg\n'
    config.write_text(config.read_text() + named)
    for each in (".husky/_", "more", "husky"):
        (folder / each).mkdir(parents=True)
    (folder / "more" / "extra").write_text("")
    code = """
def worked(act):
    try:
        act()
    except OSError:
        return False
    return True
def put(path):
    return lambda: open(path, "w").close()
bad = {name: worked(put(name)) for name in (".husky/pre-commit", ".husky/_/h", "more/extra", "missing.cfg")}
bad |= {f"move {name}": worked(lambda: os.rename(name, "aside")) for name in (".husky", "more", ".husky/_")}
fine = {name: worked(put(name)) for name in ("husky/pre-commit", "more/other", "new")}
print(json.dumps([[n for n, w in bad.items() if w], [n for n, w in fine.items() if not w]]))
"""
    return [await answer(folder, code), (folder / "missing.cfg").exists()]


async def fifo(folder: Path) -> Any:
    """A FIFO in the place of a file that is looked into."""
    make_repository(folder)
    os.mkfifo(folder / ".git" / "commondir", 0o444)
    ran = await shell(folder, "echo on")
    return [ran.exit_code, ran.stdout]


def new_folder(folder: Path, name: str, *, is_repository: bool) -> Path:
    workspace = folder / name
    workspace.mkdir()
    if is_repository:
        make_repository(workspace)
    return workspace


async def shell(folder: Path, script: str) -> Ran:
    command = Command(argv=("sh", "-c", script), seconds=20, lists_changes=True)
    ran: Ran = await processes(folder).run(command)
    return ran


def looked_at(workspace: Path) -> list[bool]:
    """What git outside does there: whether it finds a repository, and runs what was planted."""
    ran = subprocess.run(["git", "status"], cwd=workspace, capture_output=True, check=False)
    return [ran.returncode == 0, (workspace / "planted").exists()]


if __name__ == "__main__":
    main((kernel, bare, seen_meanwhile, looked_through, nested, named, fifo))
