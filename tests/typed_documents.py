"""The programs of the pages for programmers are what a strict type checker takes: they are copied into typed programs.

Of `make check`, behind mypy: with what that has kept it takes no time, and without it longer than any test.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("embedding", "client", "writing-tools", "telemetry")


def test_the_programs_of_the_pages_are_typed(tmp_path: Path) -> None:
    files = []
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for number, program in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            file = tmp_path / f"{page.replace('-', '_')}_{number}.py"
            file.write_text(program, encoding="utf-8")
            files.append(str(file))
    assert len(files) > 20
    # With the configuration of the whole check, and its cache.
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
