"""Runs the programs of `examples/`, as a reader of the documents would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def run(name: str, folder: Path, typed: str = "", *arguments: str, stderr: str = "") -> str:
    """Runs an example in a folder, gives what it printed; `stderr` is a part of what else it says."""
    keyless = {name: value for name, value in os.environ.items() if not name.endswith("_KEY")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=folder,
        env=keyless,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert stderr in done.stderr if stderr else done.stderr == ""
    assert done.returncode == 0
    return done.stdout
