"""A Mac that is none: the tier of macOS, with `sandbox-exec` played by `fake_seatbelt`.

Started as a script it plays one program and prints how that ended, without what Linux alone has.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import trio

FAKE = Path(__file__).with_name("fake_seatbelt.py")
COLUMNS = ("-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "uid=", "-o", "stat=")
LINUX_ALONE = {
    os: ("pidfd_open", "memfd_create", "MFD_CLOEXEC", "P_PIDFD", "waitid", "O_PATH", "eventfd"),
    resource: ("prlimit",),
    signal: ("pidfd_send_signal",),
    socket: ("MSG_CMSG_CLOEXEC", "SO_PEERCRED", "AF_NETLINK"),
}
"""What a Mac's Python has not."""


def mac(folder: Path, script: str | None = None) -> Any:
    """A Mac whose `sandbox-exec` is the fake, or this script; its `ps` is that of Linux."""
    from callboard.tools.sandbox.box.machine import Machine

    program = folder / "sandbox-exec"
    if not program.exists():
        # The shell's words, since a folder of an interpreter may be too long for a first line.
        played = f'exec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(FAKE))} "$@"'
        program.write_text(f"#!/bin/sh\n{script or played}\n")
        program.chmod(stat.S_IRWXU)
    return Machine(
        platform="darwin",
        sandbox_exec=str(program),
        marked_listing=("/bin/ps", "axeww", *COLUMNS, "-o", "args="),
    )


def settings(**more: Any) -> Any:
    """Those under which it is used."""
    from callboard.config.sections import SandboxSettings, Strength

    return SandboxSettings(macos_untested=True, minimum=Strength.PARTIAL, **more)


async def main() -> None:
    """Plays one program: its folder, the folder of the fake, the code, and the code's words."""
    from callboard.runtime.processes import Command
    from callboard.tools.sandbox.sandbox import Sandbox

    workspace, folder, code, *words = sys.argv[1:]
    sandbox = Sandbox(settings(), os.environ, machine=mac(Path(folder)))
    command = Command(
        argv=("python3", "/run/callboard/code.py", *words),
        files={"code.py": code.encode()},
        seconds=60,
    )

    def show(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    ran = await sandbox.processes(workspace, "session").run(command, show)
    show(json.dumps([ran.exit_code, ran.stdout, ran.sandbox]))


if __name__ == "__main__":
    for module, names in LINUX_ALONE.items():
        for name in names:
            delattr(module, name)
    trio.run(main)
