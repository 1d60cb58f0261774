"""run_tests with the real runners: what stands for protected names in a workspace is in nobody's way."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from pwd import getpwuid

import pytest

from callboard.config.sections import SandboxSettings
from callboard.tools.sandbox.sandbox import Sandbox
from support.sandbox.sandbox_users import needs_sandbox
from support.tools import development_bench
from support.tools.development_bench import Bench

PLACES = ("plain", "repository")
OTHERS_IN = PLACES if os.environ.get("CALLBOARD_SOAK") else PLACES[:1]
"""It is pytest that looks into every folder; the others are slow to start."""

NEEDED = {
    "pytest": (),
    "npm": ("npm", "node"),
    "cargo": ("cargo", "rustc", "cc"),
    "go": ("go",),
    "make": ("make",),
}
PYTEST = f"""#!/bin/sh
PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {os.path.realpath(sys.executable)} .venv/run.py "$@"
"""
"""Without what happens to be installed beside it, which takes a second."""
RUN = f"""import sys
sys.path[1:1] = [{os.path.dirname(os.path.dirname(pytest.__file__))!r}]
import pytest
sys.exit(pytest.main())
"""
GO = 'package x\nimport "testing"\nfunc TestA(t *testing.T) {}\n'
PROJECTS = {
    "pytest": {
        "pyproject.toml": "",
        ".venv/bin/pytest": PYTEST,
        ".venv/run.py": RUN,
        "test_top.py": "def test_a():\n    pass\n",
        "tests/test_below.py": "def test_b():\n    pass\n",
    },
    "npm": {
        "package.json": '{"name": "x", "scripts": {"test": "node --test"}}',
        "top.test.js": "require('node:test')('a', () => {});\n",
        "test/below.test.js": "require('node:test')('b', () => {});\n",
    },
    "cargo": {
        "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": "#[test]\nfn a() {}\n#[test]\nfn b() {}\n",
    },
    "go": {"go.mod": "module x\n", "top_test.go": GO, "below/below_test.go": GO},
    "make": {"Makefile": "test: $(wildcard *)\n\t@echo $(words $^)\n"},
}


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    runner, place = request.param
    needs_sandbox()
    if missing := [name for name in NEEDED[runner] if shutil.which(name) is None]:
        pytest.skip(f"{missing[0]} is not installed: this is tried where it is")
    (tmp_path / "work").mkdir()
    bench = Bench(tmp_path / "work")
    if place == "repository":
        bench.git("init", "-q")
    for name, text in PROJECTS[runner].items():
        bench.write(name, text)
    if runner == "pytest":
        (bench.workspace / ".venv/bin/pytest").chmod(0o755)
    if runner == "cargo":
        # rustup keeps its programs in a person's home, which is not that of tests.
        home = {"HOME": getpwuid(os.getuid()).pw_dir}
        own = Sandbox(SandboxSettings(), os.environ | home)
        request.getfixturevalue("monkeypatch").setattr(development_bench, "sandbox", lambda: own)
    return bench


@pytest.mark.parametrize(
    "project", [("pytest", place) for place in PLACES], indirect=True, ids=PLACES
)
async def test_pytest_collects_from_the_top(project: Bench) -> None:
    output = await project.output("run_tests")
    counts = {key: output.get(key) for key in ("runner", "exit_code", "passed", "errors")}
    assert counts == {"runner": "pytest", "exit_code": 0, "passed": 2, "errors": None}, output


@pytest.mark.parametrize(
    "project",
    [(runner, place) for runner in NEEDED if runner != "pytest" for place in OTHERS_IN],
    indirect=True,
    ids="-".join,
)
async def test_so_do_others(project: Bench) -> None:
    output = await project.output("run_tests")
    assert output["exit_code"] == 0, output["output"]


@pytest.mark.parametrize("project", [("pytest", "plain")], indirect=True, ids=["plain"])
async def test_what_fails_is_seen_to_fail(project: Bench) -> None:
    """The control."""
    project.write("tests/test_below.py", "def test_b():\n    raise SystemError\n")
    output = await project.output("run_tests", paths=["tests"])
    assert (output["exit_code"], output["failed"]) == (1, 1)
