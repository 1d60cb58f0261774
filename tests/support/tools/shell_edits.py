"""Random edits of a repository, as lines for a shell: what programs do to files, in all kinds."""

from __future__ import annotations

import os
import random
import shlex
import stat
import subprocess
from pathlib import Path

Tree = dict[bytes, tuple[str, int, bytes]]

NAMES = ["a", "b.txt", "with space", "ümläut", "-rf", "日本", "deep", "a~", "'quoted'"]
IGNORED = "*.log\nbuild/\n"

_ALONE = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(folder: Path, *words: str, **env: str) -> str:
    """Runs git on a repository of a test, under no configuration but its own."""
    path = {"PATH": os.environ["PATH"]}
    command = ["git", "-C", str(folder), *words]
    ran = subprocess.run(
        command, env={**path, **_ALONE, **env}, check=True, capture_output=True, text=True
    )
    return ran.stdout


def seed_repository(folder: Path) -> None:
    """A repository with tracked, untracked and ignored files, clean ones and changed ones."""
    (folder / "a" / "deep").mkdir(parents=True)
    (folder / "b.txt").write_bytes(b"text\n" * 9)
    (folder / "a" / "run").write_bytes(b"#!/bin/sh\n")
    (folder / "a" / "run").chmod(0o755)
    (folder / "a" / "deep" / "ümläut").write_bytes(bytes(range(256)))
    (folder / "a" / "link").symlink_to("../b.txt")
    (folder / "to nothing").symlink_to("nowhere")
    (folder / ".gitignore").write_text(IGNORED)
    git(folder, "init", "-q", "-b", "main")
    (folder / "tracked.log").write_text("tracked though ignored\n")
    git(folder, "add", "-f", "-A")
    git(folder, "commit", "-q", "-m", "one")
    (folder / "b.txt").write_bytes(b"changed, not committed\n")
    (folder / "untracked").write_bytes(b"\0\xff")
    (folder / "untracked").chmod(0o600)
    (folder / "own").mkdir(mode=0o750)
    (folder / "own" / "empty").mkdir(mode=0o711)
    (folder / "x.log").write_text("ignored")


def tree(folder: Path, *, is_ignored: bool = False) -> Tree:
    """Every entry with its kind, mode and content, without git's own folder and ignored files."""
    found: Tree = {}
    for base, names, files in os.walk(os.fsencode(folder)):
        if b".git" in names:
            names.remove(b".git")
        for name in (*names, *files):
            path = os.path.join(base, name)
            mode = os.lstat(path).st_mode
            if name == b"x.log" and not is_ignored:
                continue
            if stat.S_ISLNK(mode):
                found[path] = "link", 0, os.readlink(path)
            elif stat.S_ISDIR(mode):
                found[path] = "folder", stat.S_IMODE(mode), b""
            else:
                found[path] = "file", stat.S_IMODE(mode), Path(os.fsdecode(path)).read_bytes()
    return found


def random_lines(chance: random.Random, count: int) -> str:
    """A program of so many edits; those that fail are passed over."""

    def path() -> str:
        depth = chance.choice([1, 1, 2, 2, 3])
        return "./" + "/".join(chance.choice(NAMES) for _ in range(depth))

    def existing() -> str:
        """Something that is there, as the shell picks it."""
        number = chance.randrange(10_000)
        return f'"$(pick {number})"'

    lines = [
        # Without what the sandbox holds places with: no program has anything to do there.
        "pick() { find . -mindepth 1 -name .git -prune -o -type d ! -perm /222 -prune -o -print | sort | "
        "awk -v n=\"$1\" '{ l[NR] = $0 } END { print l[n % NR + 1] }'; }"
    ]
    for index in range(count):
        new, text = shlex.quote(path()), f"line {index}"
        folder = shlex.quote(os.path.dirname(path()) or ".")
        lines.append(
            chance.choice(
                [
                    f"mkdir -p {folder} && printf '{text}\\n' > {new}",
                    f"printf '{text}\\n' >> {new}",
                    f"printf '{text}' > {existing()}",
                    f"rm -rf {existing()}",
                    f"mv -f {existing()} {new}",
                    f"mv -fT {existing()} {existing()}",
                    f"chmod {chance.choice(['u=rwx,go=', 'a+rx', 'g-r,o-x'])} {existing()}",
                    f"ln -sfn somewhere {existing()}",
                    f"ln -f {existing()} {new}",
                    f"mkdir -p {new}",
                    f"touch {existing()}",
                    f"cp -a {existing()} {new}",
                ]
            )
        )
    return "".join(f"({line}) 2>/dev/null\n" for line in lines[1:]).join([f"{lines[0]}\n", "true"])
