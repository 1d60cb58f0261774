"""A daemon as a program of its own, to be killed: `killed_daemon.py FOLDER PORT`."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from support.gateway.chatty_model import ChattyModel
from support.gateway.kept_daemon import open_kept


async def main() -> None:
    async with open_kept(
        Path(sys.argv[1]), ChattyModel(), port=int(sys.argv[2]), token="made before"
    ) as daemon:
        sys.stdout.write(f"{daemon.gateway.port}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
