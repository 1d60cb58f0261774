"""Scenes of a workspace in which something is mounted, also while a program runs; see `sandbox_scenes`.

`WITHIN` makes the mounts, as root in a namespace of its own, and starts the scenes there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from callboard.runtime.definitions import ToolFailure
from callboard.runtime.processes import Command
from support.sandbox.sandbox_scenes import answer, main, processes

MAKE = r"""
set -e
for folder; do :; done
mount --make-rshared /
mkdir -p "$folder/mounts/data" "$folder/mounts/deep/a b" "$folder/mounts/plain" "$folder/mounts/late" "$folder/other"
echo secret > "$folder/other/secret"
touch "$folder/mounts/file" "$folder/mounts/plain/own"
mkfifo "$folder/ask"
mount -t tmpfs tmpfs "$folder/mounts/data"
mkdir "$folder/mounts/data/inner"
mount --bind "$folder/other" "$folder/mounts/data/inner"
mount --bind "$folder/other" "$folder/mounts/deep/a b"
mount --bind "$folder/other/secret" "$folder/mounts/file"
chown -R --reference="$folder" "$folder"
(read -r answer < "$folder/ask" && mount --bind "$folder/other" "$folder/mounts/late") > /dev/null &
exec "$@"
"""
WITHIN = ("unshare", "--mount", "--propagation", "private", "sh", "-c", MAKE, "sh")

LOOK = """
def attempt(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
print(json.dumps({
    "secrets": [os.path.join(top, name) for top, _, names in os.walk(".") for name in names if name == "secret"],
    "listed": {name: attempt(lambda: os.listdir(name)) for name in ("data", "deep/a b", "plain", "late")},
    "written": {name: attempt(lambda: open(name + "/new", "w").close()) for name in ("data", "deep/a b", "plain", "late")},
    "file": [attempt(lambda: open("file").read()), attempt(lambda: open("file", "w").close())],
    "moved": attempt(lambda: os.rename("data", "aside")),
}))
"""


async def mounts(folder: Path) -> Any:
    """What is mounted there: before a program, and while one runs."""
    found = {
        "outside": sorted(os.listdir(folder / "deep" / "a b")),
        "inside": await answer(folder, LOOK),
    }

    def ask(_line: str) -> None:
        Path(folder.parent / "ask").write_text("go\n", encoding="ascii")

    # whatever it is then shown, it is ended
    script = "echo on; while [ ! -e late/secret ]; do sleep 0.02; done; sleep 60"
    ran = await processes(folder).run(Command(argv=("sh", "-c", script), seconds=20), ask)
    found["late"] = ran.killed_by
    found["hidden then"] = (await answer(folder, LOOK))["listed"]["late"]
    return found


async def partial(folder: Path) -> Any:
    """Without bubblewrap nothing can be covered."""
    from callboard.tools.sandbox.box.mounts import covers

    os.rmdir(folder)
    try:
        covers(str(folder.parent / "mounts"), is_mounted=False)
    except ToolFailure as failure:
        return [failure.error_type, str(failure)]
    return covers(str(folder.parent / "other"), is_mounted=False)


if __name__ == "__main__":
    main((mounts, partial))
