"""A real Ray cluster keeps nodes of callboard on a real PostgreSQL: one a machine, what is killed comes again, and they go on while its head is away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from support.postgres.databases import new_database
from support.postgres.server import needs_postgres

ROOT = Path(__file__).parents[2]
RAY_PYTHON = Path(sys.prefix) / "ray" / "bin" / "python"
"""`make .venv/ray-ready` makes it: Ray has 285 MB, which no other test needs."""
FLOW = ROOT / "tests" / "support" / "cluster" / "ray_flow.py"
FLOW_SECONDS = 300.0
"""It takes a minute on an idle machine."""


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name is short enough for Ray's sockets."""
    made = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def test_ray_keeps_nodes(url: str, folder: Path) -> None:
    bwrap = shutil.which("bwrap")
    if bwrap is None or not RAY_PYTHON.exists():
        why = "Ray is not there: `make .venv/ray-ready`" if bwrap else "there is no bubblewrap"
        assert "CI" not in os.environ, why
        pytest.skip(why)
    # A network with loopback alone, and processes that end with the first of them.
    alone = ["--unshare-net", "--unshare-pid", "--unshare-uts", "--hostname", "localhost"]
    alone += ["--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc", "--tmpfs", "/dev/shm"]
    ran = subprocess.run(
        [bwrap, *alone, str(RAY_PYTHON), str(FLOW), url, str(folder), sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=FLOW_SECONDS,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert ran.returncode == 0, f"{ran.stdout[-6000:]}\n{ran.stderr[-3000:]}"
