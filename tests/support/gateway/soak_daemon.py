"""`callboard`, which unloads its sessions as soon as nobody needs them."""

from __future__ import annotations

import runpy

from callboard.actors import directory

if __name__ == "__main__":
    directory.IDLE_SECONDS = 0.3
    runpy.run_module("callboard", run_name="__main__")
