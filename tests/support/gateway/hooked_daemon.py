"""A daemon with a hook as a program of its own, to be killed: `hooked_daemon.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from support.gateway.hook_scene import open_hooked

HOOK = '[hooks.ci]\nsignature = "github"\nprompt = "Look."\nsession = "same"\n'


async def main() -> None:
    async with open_hooked(Path(sys.argv[1]), HOOK) as daemon:
        sys.stdout.write(f"{daemon.gateway.port}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
