"""Undoing what programs changed, once more as a user whom modes of files and folders bind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from support.sandbox.sandbox_users import NOBODY, needs_sandbox, python_of

ROOT = Path(__file__).parents[2]
SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
FEW_SEEDS = "random and not (programs_come and (2 or 3 or 4 or 5))"
CHOSEN = f"{'random' if SOAK else FEW_SEEDS} or folders or killed or ignores"
LEAST = 13 if SOAK else 9
"""`make soak` plays every seed as that user too; else two of six, and both of files and programs."""


def test_programs_of_an_ordinary_user_are_undone() -> None:
    needs_sandbox()
    with tempfile.TemporaryDirectory() as made:
        # Its parent is open to all, itself is the user's own.
        os.chmod(made, 0o755)
        place = Path(made, "nobody")
        place.mkdir()
        os.chown(place, int(NOBODY), int(NOBODY))
        module = Path(__file__).with_name("test_program_undo.py")
        ran = subprocess.run(
            [
                *(*python_of("nobody"), "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *(f"--rootdir={ROOT}", "-c", f"{ROOT}/pyproject.toml", f"--basetemp={place}/t"),
                *(str(module), "-k", CHOSEN),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=place,
            env={
                **{name: text for name, text in os.environ.items() if "PYTEST" not in name},
                "HOME": str(place),
                "TMPDIR": str(place),
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
    last = ran.stdout.splitlines()[-1] if ran.stdout else ""
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert int(last.split(" passed")[0].rpartition(" ")[2]) >= LEAST, last
    assert "skipped" not in last
