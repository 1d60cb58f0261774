"""The security cases of files, the web and programs once more, as a user without any rights.

Root is refused nothing by the system: what holds for it alone could be its own doing, and what holds
for others alone could be the system's. The sandbox's own scenes play as both (tests/tools).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from support.sandbox.sandbox_users import NOBODY, python_of

ROOT = Path(__file__).parent.parent
FOR_ROOT = "only root makes a device or a mount"
IS_SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
CHOSEN = (
    "case_"
    if IS_SOAK
    else "case_ and not case_10_of_very_many and not takes_bounded_memory and not case_20 and not case_21"
)
"""How much memory very many names or large answers take is nobody's right, nor when an answer is enough, nor whose
proxy is asked; it only takes long."""

MODULES = {
    "tools/test_workspace_confinement": 200,
    "tools/test_security_paths": 10,
    "tools/test_http_request_confinement": 200,
    "tools/test_sandbox_strength": 5,
    "flows/test_program_flow": 4,
    "flows/test_program_approval": 8,
    **({"tools/test_http_request_floods": 20} if IS_SOAK else {}),
}
"""Each with how many cases it has at least."""


def test_the_cases_hold_for_an_ordinary_user() -> None:
    """One run for all of them: to start one takes as long as a hundred cases."""
    with tempfile.TemporaryDirectory() as made:
        # Its parent is open to all, itself is the user's own.
        os.chmod(made, 0o755)
        place = Path(made, "nobody")
        place.mkdir()
        os.chown(place, int(NOBODY), int(NOBODY))
        ran = run_tests(python_of("nobody"), list(MODULES), place)
        assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
        report = ElementTree.parse(place / "report.xml")
    assert {reason.get("message") for reason in report.iter("skipped")} <= {FOR_ROOT}
    held = Counter(
        "/".join(str(case.get("classname")).split(".")[-2:])
        for case in report.iter("testcase")
        if case.find("skipped") is None
    )
    assert {module: held[module] >= least for module, least in MODULES.items()} == dict.fromkeys(
        MODULES, True
    ), held


def run_tests(
    python: list[str], modules: list[str], place: Path
) -> subprocess.CompletedProcess[str]:
    """Runs modules of tests by themselves; all that they write goes to `place`."""
    mine = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(
        [
            *(*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}"),
            *("-c", f"{ROOT}/pyproject.toml", f"--basetemp={place}/t"),
            *(f"--junitxml={place}/report.xml", "-k", CHOSEN),
            *(f"{ROOT}/tests/{module}.py" for module in modules),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=place,
        env={
            **mine,
            "HOME": str(place),
            "TMPDIR": str(place),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": f"{place}/hypothesis",
        },
    )
