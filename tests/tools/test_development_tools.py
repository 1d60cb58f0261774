"""run_tests, format_code and install_package, in the real sandbox."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.config.sections import SandboxSettings
from callboard.runtime.definitions import ErrorType
from callboard.runtime.processes import Command
from callboard.tools.development import packages
from callboard.tools.development.run_tests import _counts
from callboard.tools.sandbox.sandbox import Sandbox
from support.sandbox.sandbox_users import give_up
from support.tools import development_bench
from support.tools.development_bench import Bench
from support.tools.package_index import Pages, npm_pages, open_index, pip_pages
from support.waits import leap_when

pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "work").mkdir()
    return Bench(tmp_path / "work")


def program(bench: Bench, name: str, text: str) -> None:
    bench.write(name, f"#!/bin/sh\n{text}\n").chmod(0o755)


# ── run_tests ────────────────────────────────────────────────────────────────────────────────────


async def test_tests_are_found_run_and_counted(bench: Bench) -> None:
    bench.write("Makefile", "test:\n\t@exit 1\n")
    bench.write("pyproject.toml", "")
    program(
        bench,
        ".venv/bin/pytest",
        'echo "$@"; echo 9 passed; echo; echo "1 failed, 3 passed in 0.1s"; exit 1',
    )
    output = await bench.output("run_tests", paths=["tests/a b"], args=["-x"])
    assert output.pop("duration_ms") >= 0
    assert output == {
        "runner": "pytest",
        "command": ".venv/bin/pytest -q --color=no -x 'tests/a b'",
        "exit_code": 1,
        "passed": 12,
        "failed": 1,
        "others": ["make"],
        "sandbox": "full",
        "output": "-q --color=no -x tests/a b\n9 passed\n\n1 failed, 3 passed in 0.1s\n",
    }


async def test_a_named_runner_comes_before_what_the_operator_configured(bench: Bench) -> None:
    if shutil.which("make", path="/usr/bin") is None:
        give_up("this test needs make")
    bench.write("Makefile", "test:\n\t@echo from make; exit 3\n")
    found = await bench.output("run_tests")
    assert (found["runner"], found["exit_code"]) == ("make", 2)
    bench.test_command = ("sh", "-c", 'echo "configured $*"', "sh")
    configured = await bench.output("run_tests", paths=["one"])
    assert (configured["runner"], configured["output"]) == ("configured", "configured one\n")
    named = await bench.output("run_tests", runner="make")
    assert "from make" in named["output"]
    assert await bench.preview("run_tests", runner="make") == "make test"


async def test_where_there_are_no_tests_it_says_what_was_looked_for(bench: Bench) -> None:
    failure = await bench.failure("run_tests")
    assert failure.error_type == ErrorType.EXECUTION_ERROR
    assert "pyproject.toml" in str(failure)
    bench.write("go.mod", "module x\n")
    failure = await bench.failure("run_tests", paths=["--x"])
    assert (failure.error_type, "begins with -" in str(failure)) == ("validation_error", True)


async def test_a_runner_that_is_not_there_is_named(bench: Bench) -> None:
    if shutil.which("go") is not None:
        give_up("go is installed here")
    bench.write("go.mod", "module x\n")
    assert "go is not installed" in str(await bench.failure("run_tests"))


async def test_tests_that_take_too_long_are_stopped(
    bench: Bench, leaping_clock: trio.testing.MockClock
) -> None:
    bench.test_command = ("sh", "-c", "echo begun; touch mark; sleep 600")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leap_when, (bench.workspace / "mark").exists, 60)
        failure = await bench.failure("run_tests", timeout=60)
    assert failure.error_type == ErrorType.TIMEOUT
    assert failure.details["stdout"] == "begun\n"


async def test_tests_have_no_network_and_can_not_plant_a_hook(bench: Bench) -> None:
    bench.git("init", "-q")
    bench.test_command = ("sh", "-c", "echo x > .git/hooks/pre-commit; cat /proc/net/dev | wc -l")
    output = await bench.output("run_tests")
    assert "Read-only" in output["output"]
    assert output["output"].splitlines()[0] == "3"  # two lines of head, and loopback
    assert not (bench.workspace / ".git/hooks/pre-commit").exists()


@pytest.mark.parametrize(
    ("runner", "text", "counts"),
    [
        ("pytest", "3 passed\n\n\n=== 1 failed, 2 passed, 4 skipped, 1 error in 3s ===\n", {"passed": 2, "failed": 1, "errors": 1, "skipped": 4}),
        ("pytest", "no tests ran in 0.01s\n", {}),
        ("cargo", "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\ntest result: FAILED. 2 passed; 1 failed; 0 ignored\n", {"passed": 5, "failed": 1, "skipped": 1}),
        ("go", "--- FAIL: TestA (0.0s)\n--- SKIP: TestB\nFAIL\n", {"failed": 1, "skipped": 1}),
        ("npm", "# tests 3\n# pass 2\n# fail 1\n", {"passed": 2, "failed": 1}),
        ("npm", "Tests:       1 failed, 2 passed, 3 total\n", {"passed": 2, "failed": 1}),
        ("npm", "  3 passing (4ms)\n  1 failing\n", {"passed": 3, "failed": 1}),
        ("make", "3 passed\n", {}),
    ],
)  # fmt: skip
def test_what_runners_say_is_counted(runner: str, text: str, counts: dict[str, int]) -> None:
    assert _counts(runner, text) == counts


@pytest.mark.parametrize("unit", ["\n", " ", "\t\n", "Tests: 1 ", "a" * 80])
def test_what_a_test_suite_prints_costs_no_more_than_it_is_long(unit: str) -> None:
    """Where the cost grew with the square of it, this took very long."""
    text = unit * (128 * 1024 // len(unit))
    assert _counts("npm", f"{text}\n# pass 3\n") == {"passed": 3}


# ── format_code ──────────────────────────────────────────────────────────────────────────────────

UPPER = 'for name in "$@"; do case $name in *.py|*.json) tr a-z A-Z < "$name" > t; cat t > "$name";; esac; done; rm -f t'


async def test_files_are_formatted_by_their_kind(bench: Bench) -> None:
    program(bench, ".venv/bin/ruff", UPPER)
    for name in ("a.py", "-b.py", "sub/c d.py", ".hidden/d.py", "node_modules/e.py", "f.txt"):
        bench.write(name, "x")
    bench.write("same.py", "X")
    (bench.workspace / "link.py").symlink_to("f.txt")
    output = await bench.output("format_code")
    assert output == {"checked": 4, "changed": 3, "files": ["-b.py", "a.py", "sub/c d.py"]}
    assert (bench.workspace / "f.txt").read_text() == "x"
    assert (await bench.output("format_code"))["changed"] == 0
    named = await bench.output("format_code", paths=[".hidden", "a.py"])
    assert (named["checked"], named["files"]) == (2, [".hidden/d.py"])


async def test_a_formatter_that_fails_says_why_and_others_go_on(bench: Bench) -> None:
    program(bench, ".venv/bin/ruff", "echo broken syntax >&2; exit 1")
    program(bench, "node_modules/.bin/prettier", UPPER)
    bench.write("a.py", "x")
    bench.write("b.json", "x")
    output = await bench.output("format_code")
    assert output["files"] == ["b.json"]
    assert output["failed"] == {"ruff": "broken syntax"}


async def test_nothing_to_format_and_nothing_to_format_with(bench: Bench) -> None:
    assert "nothing here" in str(await bench.failure("format_code"))
    failure = await bench.failure("format_code", paths=["none.py"])
    assert (failure.error_type, str(failure)[:7]) == ("file_not_found", "none.py")
    if shutil.which("gofmt") is not None:
        give_up("gofmt is installed here")
    bench.write("a.go", "package a")
    failure = await bench.failure("format_code")
    assert failure.error_type == ErrorType.EXECUTION_ERROR
    assert "gofmt would do it" in str(failure)
    program(bench, ".venv/bin/ruff", UPPER)
    bench.write("a.py", "x")
    assert (await bench.output("format_code"))["not_installed"] == {"gofmt": 1}


# ── install_package ──────────────────────────────────────────────────────────────────────────────


async def test_pip_installs_into_the_workspace_and_runs_nothing_unasked(bench: Bench) -> None:
    sign = bench.workspace / "ran"
    with open_index(pip_pages(str(sign))) as port:
        bench.indexes = {"PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple"}
        wanted: dict[str, Any] = {"manager": "pip", "packages": ["tiny==1.0"]}
        # A host that is not listed is not reached, and the result says so.
        failure = await bench.failure("install_package", **wanted)
        assert failure.error_type == ErrorType.URL_NOT_ALLOWED
        bench.allow = (f"127.0.0.1:{port}",)
        output = await bench.output("install_package", **wanted)
        assert (output["installed_into"], output["hosts"]) == (".venv", ["127.0.0.1"])
        [found] = bench.workspace.glob(".venv/lib/*/site-packages/tiny.py")
        assert found.read_text() == "VALUE = 1\n"
        wanted["packages"] = ["built"]
        failure = await bench.failure("install_package", **wanted)
        assert "scripts=true" in str(failure)
        assert not sign.exists()
        await bench.failure("install_package", **wanted, scripts=True)
        assert sign.exists()  # its build ran, in the sandbox


@pytest.mark.parametrize("package", ["missing", "tiny"])
async def test_an_environment_that_was_made_in_vain_is_gone(bench: Bench, package: str) -> None:
    """One package is not there to be fetched; one is fetched, and pip can't install it."""
    wanted: dict[str, Any] = {"manager": "pip", "packages": [package]}
    with open_index(pip_pages("", wheel_version="9.0")) as port:
        bench.indexes = {"PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple"}
        bench.allow = (f"127.0.0.1:{port}",)
        await bench.failure("install_package", **wanted)
        assert not (bench.workspace / ".venv").exists()
        bench.write(".venv/notes.txt", "somebody's own")
        await bench.failure("install_package", **wanted)
    assert (bench.workspace / ".venv/notes.txt").exists()
    assert not (bench.workspace / ".venv/.wheels").exists()


REACHES = """#!/usr/bin/python3
import os, socket
with socket.socket() as way_out:
    if way_out.connect_ex(("127.0.0.1", 3128)) == 0:
        open("reached", "w").close()
open("ran", "w").close()
"""


async def test_nothing_of_the_workspace_runs_with_a_way_to_the_network(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in .venv, or in a folder of the workspace that is on PATH, may be a model's own."""
    reached, began = bench.workspace / "reached", bench.workspace / "ran"
    for name in ("python", "python3", "pip", "sh", "npm", "node"):
        bench.write(f".venv/bin/{name}", REACHES).chmod(0o755)
    path = f"{bench.workspace}/.venv/bin:{os.environ['PATH']}"
    own = Sandbox(SandboxSettings(), {**os.environ, "PATH": path})
    monkeypatch.setattr(development_bench, "sandbox", lambda: own)
    with open_index(pip_pages("")) as port:
        bench.indexes = {"PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple"}
        bench.allow = (f"127.0.0.1:{port}",)
        await bench.output("install_package", manager="pip", packages=["tiny"])
    assert began.exists()  # the environment's own Python installs, and without a network
    assert not reached.exists()
    assert not (bench.workspace / ".venv/.wheels").exists()
    began.unlink()
    bench.indexes = {"NPM_CONFIG_REGISTRY": "http://127.0.0.1:1"}
    bench.allow = ()
    await bench.failure("install_package", manager="npm", packages=["tiny"])
    assert not began.exists()
    processes = bench.context.processes
    assert processes is not None
    await processes.run(Command(argv=("python3",), seconds=20, network=True))
    assert reached.exists()  # the control: it was there to be run


async def test_npm_does_not_take_packages_from_where_the_workspace_says(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("npm", path="/usr/bin:/usr/local/bin") is None:
        give_up("this test needs npm")
    shown = await bench.preview("install_package", manager="npm", packages=["tiny"])
    assert "the public index and where the workspace's package.json" in (shown or "")
    pages: Pages = {}
    with open_index(pages) as port:
        origin = f"http://127.0.0.1:{port}"
        pages.update(npm_pages(origin, str(bench.workspace / "ran")))
        bench.write(".npmrc", f"registry={origin}/\n")
        bench.allow = (f"127.0.0.1:{port}",)
        public = {**packages._ALONE, "NPM_CONFIG_REGISTRY": "http://127.0.0.1:1/"}
        monkeypatch.setattr(packages, "_ALONE", public)
        await bench.failure("install_package", manager="npm", packages=["tiny"])
        del public["NPM_CONFIG_REGISTRY"]
        assert await bench.output("install_package", manager="npm", packages=["tiny"])


async def test_npm_installs_into_the_workspace_and_runs_nothing_unasked(bench: Bench) -> None:
    if shutil.which("npm", path="/usr/bin:/usr/local/bin") is None:
        give_up("this test needs npm")
    sign = bench.workspace / "ran"
    pages: Pages = {}
    with open_index(pages) as port:
        origin = f"http://127.0.0.1:{port}"
        pages.update(npm_pages(origin, str(sign)))
        bench.indexes = {"NPM_CONFIG_REGISTRY": f"{origin}/"}
        bench.allow = (f"127.0.0.1:{port}",)
        wanted: dict[str, Any] = {"manager": "npm", "packages": ["tiny@1.0.0"]}
        output = await bench.output("install_package", **wanted)
        assert output["installed_into"] == "node_modules"
        assert (bench.workspace / "node_modules/tiny/package.json").exists()
        assert not sign.exists()
        shutil.rmtree(bench.workspace / "node_modules")
        await bench.output("install_package", **wanted, scripts=True)
        assert sign.exists()


@pytest.mark.parametrize(
    "package",
    [
        "--index-url=http://evil.example", "-r", "-e.", ".", "./x", "/x", "../x", "x.whl/../y",
        "git+https://evil.example/x", "https://evil.example/x.whl", "x @ https://evil.example",
        "user/repo", "github:user/repo", "x@npm:y", "x@file:../y", "x@https://evil.example",
        "x; python_version>'3'", "x y", "x\n", "", "x==", "@scope", "x[", "x$(id)",
    ],
)  # fmt: skip
async def test_a_package_is_a_name_with_a_version(bench: Bench, package: str) -> None:
    failure = await bench.failure("install_package", manager="pip", packages=[package])
    assert failure.error_type == ErrorType.VALIDATION_ERROR
    assert "expected a package's name as indexes know it, with a version or without" in str(failure)
    assert "A-Za-z" not in str(failure)


@pytest.mark.parametrize(
    "package",
    [
        "requests",
        "requests[socks]>=2.31,<3",
        "zope.interface==6.*",
        "left-pad@1.3.0",
        "@types/node@^20",
    ],
)
async def test_a_person_sees_what_is_installed_from_where(bench: Bench, package: str) -> None:
    bench.indexes = {"PIP_INDEX_URL": "https://index.example/simple"}
    shown = await bench.preview("install_package", manager="pip", packages=[package])
    assert shown == (
        "pip installs into .venv, from https://index.example/simple; nothing of them runs "
        f"meanwhile:\n  {package}"
    )
    risky = await bench.preview("install_package", manager="npm", packages=["x"], scripts=True)
    assert risky is not None
    assert "their scripts run meanwhile" in risky
