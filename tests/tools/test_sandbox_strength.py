"""How strong the sandbox is: measured, and nothing is given for a name."""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.config.sections import SandboxSettings, Strength
from callboard.runtime.definitions import ToolFailure
from callboard.tools.processes.system_programs import find_system_program
from callboard.tools.processes.unreaped import Unreaped
from callboard.tools.programs.run import run_code
from callboard.tools.sandbox.box import seccomp
from callboard.tools.sandbox.running import process
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.selftest import self_test as strength
from callboard.tools.sandbox.selftest.self_test import SandboxStatus, StrengthTest, cheap_problem
from callboard.tools.sandbox.tiers import landlock as second_tier
from support.sandbox.sandbox_users import needs_sandbox

MERELY_RUNS = """#!{python}
import os, sys
if sys.argv[1] == "--version":
    print("bubblewrap 0.8.0")
    sys.exit()
said = sys.argv.index("--")
words = os.read(int(sys.argv[2]), 1 << 20).split(b"\\0")
data = [at for at, word in enumerate(words) if word == b"--file"][-1]
probe = {folder!r} + "/probe.py"
with open(probe, "wb") as file:
    file.write(os.read(int(words[data + 1]), 1 << 20))
os.chdir(words[words.index(b"--chdir") + 1])
argv = [probe if word.endswith("/probe.py") else word for word in sys.argv[said + 1 :]]
os.execvp(argv[0], argv)
"""


def program(folder: Path, text: str) -> str:
    path = folder / "bwrap"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_no_program_of_path_says_how_strong_it_is(tmp_path: Path) -> None:
    """PATH often begins with a folder of a workspace, where a model puts what it likes."""
    needs_sandbox()
    for name in ("bwrap", "python3"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert shutil.which("python3", path=path) == str(tmp_path / "python3")
    status = StrengthTest(SandboxSettings(), {**os.environ, "PATH": path}).status()
    assert status.strength is Strength.FULL, status.reason
    assert status.recipe is not None
    assert status.recipe.bwrap == find_system_program("bwrap")
    # The control: what programs themselves find is what the operator's PATH says.
    assert status.recipe.view.path.startswith(f"{tmp_path}:")


def status_with(monkeypatch: pytest.MonkeyPatch, bwrap: str) -> SandboxStatus:
    needs_sandbox()
    monkeypatch.setattr(process, "REAP_SECONDS", 1.0)
    monkeypatch.setattr(
        strength,
        "find_system_program",
        lambda name: bwrap if name == "bwrap" else find_system_program(name),
    )
    return StrengthTest(SandboxSettings(), os.environ).status()


def test_the_real_one_is_full_and_is_tested_once() -> None:
    needs_sandbox()
    first = Sandbox(SandboxSettings(), os.environ)
    assert first.status().strength is Strength.FULL
    assert first.problem() is None
    assert first.why_not(run_code.definition) is None
    assert Sandbox(SandboxSettings(), os.environ).status() is first.status()


def test_case_49_a_program_that_merely_runs_its_command_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = MERELY_RUNS.format(python=sys.executable, folder=str(tmp_path))
    found = status_with(monkeypatch, program(tmp_path, text))
    assert found.strength is Strength.NONE
    assert "outlived" in found.reason
    assert found.recipe is None


def test_case_49_so_is_one_that_kills_well_but_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strength, "unreaped", Unreaped)
    text = MERELY_RUNS.format(python=sys.executable, folder=str(tmp_path))
    found = status_with(monkeypatch, program(tmp_path, text))
    assert found.strength is Strength.NONE
    for attempt in ("read outside the workspace", "connect to a port", "share a namespace"):
        assert attempt in found.reason


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("bwrap: setting up uid map: Permission denied", "bwrap-userns-restrict"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "bwrap-userns-restrict"),
        ("bwrap: Can't find source path /usr", "Can't find source path"),
    ],
)
def test_case_49_one_that_can_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, advice: str
) -> None:
    found = status_with(
        monkeypatch, program(tmp_path, f"#!/bin/sh\necho {shlex.quote(said)} >&2; exit 1\n")
    )
    assert found.strength is Strength.NONE
    assert said in found.reason
    assert advice in found.reason


EVERYTHING = b"\x06\x00\x00\x00\x00\x00\xff\x7f"
"""A filter that lets everything pass."""


def test_case_49_without_the_filter_it_is_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    # bubblewrap told to load one that denies nothing but files that lend rights
    column = seccomp.ARCHITECTURES[os.uname().machine][1]
    steps = [(seccomp.LOAD, 0, 0, seccomp.AT_NUMBER), *seccomp._no_lending(column)]
    words = b"".join(struct.pack("=HBBI", *step) for step in steps)
    monkeypatch.setattr(second_tier, "seccomp_program", lambda: words + EVERYTHING)
    needs_sandbox()
    test = StrengthTest(SandboxSettings(), os.environ)
    found = test.status()
    assert found.strength is Strength.PARTIAL
    assert "virtual machine" in found.reason
    for minimum, is_enough in ((Strength.FULL, False), (Strength.PARTIAL, True)):
        sandbox = Sandbox(SandboxSettings(minimum=minimum), os.environ)
        monkeypatch.setattr(sandbox, "_test", test)
        assert (sandbox.problem() is None) is is_enough
        if not is_enough:
            with pytest.raises(ToolFailure, match="partial, and must be full"):
                sandbox.recipe()


def test_case_73_root_has_none_where_files_could_lend_its_rights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(second_tier, "seccomp_program", lambda: EVERYTHING)
    needs_sandbox()
    found = StrengthTest(SandboxSettings(), os.environ).status()
    assert found.strength is (Strength.NONE if os.geteuid() == 0 else Strength.PARTIAL)
    assert "lend its rights to whoever runs a file" in found.reason


@pytest.mark.parametrize("present", [False, True])
def test_case_49_missing_or_not_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    if present:
        (tmp_path / "bwrap").write_text("no program")
    monkeypatch.setattr(strength, "find_system_program", lambda name: None)
    sandbox = Sandbox(SandboxSettings(), {"PATH": str(tmp_path)})
    assert sandbox.status().strength is Strength.NONE
    problem = sandbox.why_not(run_code.definition)
    assert problem is not None
    assert "apt install bubblewrap" in problem
    assert "callboard doctor" in problem
    with pytest.raises(ToolFailure) as caught:
        sandbox.recipe()
    assert caught.value.error_type == "sandbox_unavailable"


def test_case_49_an_unknown_machine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strength, "is_known", lambda: False)
    assert "filter of system calls" in (cheap_problem() or "")


@pytest.mark.parametrize("minimum", [Strength.FULL, Strength.PARTIAL])
@pytest.mark.parametrize(("platform", "name"), [("darwin", "macOS"), ("win32", "Windows")])
def test_case_49_other_systems_have_none_and_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, platform: str, name: str, minimum: Strength
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    sandbox = Sandbox(SandboxSettings(minimum=minimum), os.environ)
    assert sandbox.status().strength is Strength.NONE
    why = sandbox.why_not(run_code.definition)
    assert why is not None
    assert f"there is no sandbox on {name}" in why
    assert "run callboard on Linux" in why
    with pytest.raises(ToolFailure, match="Nothing was run"):
        sandbox.recipe()


ON_A_MAC = """
import os, resource, signal, socket, sys
import trio
alone = {
    os: ("pidfd_open", "memfd_create", "MFD_CLOEXEC", "P_PIDFD", "waitid", "O_PATH", "eventfd"),
    resource: ("prlimit",),
    signal: ("pidfd_send_signal",),
    socket: ("MSG_CMSG_CLOEXEC", "SO_PEERCRED", "AF_NETLINK"),
}
for module, names in alone.items():
    for name in names:
        delattr(module, name)
sys.platform = "darwin"
from callboard.config.sections import SandboxSettings
from callboard.tools.sandbox.sandbox import Sandbox
print(Sandbox(SandboxSettings(), os.environ).status().reason)
"""


def test_without_what_linux_alone_has_it_can_be_asked() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ON_A_MAC], capture_output=True, text=True, check=False
    )
    assert ran.stdout.startswith("there is no sandbox on macOS"), ran.stderr


def test_case_49_without_user_namespaces_it_is_none() -> None:
    needs_sandbox()
    code = (
        "import os; from callboard.tools.sandbox.sandbox import Sandbox; "
        "from callboard.config.sections import SandboxSettings; "
        "found = Sandbox(SandboxSettings(), os.environ).status(); print(found.strength, found.reason)"
    )
    line = f"echo 0 > /proc/sys/user/max_user_namespaces; exec {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    ran = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", line], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        pytest.skip(f"no user namespace to test in: {ran.stderr}")
    assert ran.stdout.startswith("none user.max_user_namespaces is 0.")


def test_nothing_may_ask_for_no_sandbox() -> None:
    with pytest.raises(ValueError, match="nothing that a model asks for runs without"):
        SandboxSettings(minimum=Strength.NONE)
    with pytest.raises(ValueError, match="not an absolute path"):
        SandboxSettings(read_only=("keys",))
