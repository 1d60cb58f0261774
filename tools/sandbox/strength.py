"""How much the sandbox of this machine holds: measured, not assumed.

`full` is given only when a program inside tried everything that it must not do, and could do none
of it, and when killing it left nothing. A program named bwrap that merely runs its arguments gives
`none`. The test is made once in a process for each bubblewrap; it takes some hundredths of a second
in a thread of its own.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from ...config.sandbox_settings import SandboxSettings, Strength
from .handover import hand_over
from .process_count import is_needed, open_process_count
from .protected import Protection
from .recipe import FILES, Recipe
from .roots import find_view
from .seccomp import is_known

TEST_SECONDS = 10.0
"""For the whole test, on a machine that is busy."""
GONE_SECONDS = 2.0
"""In which everything must be gone that was killed."""
MAX_SAID_BYTES = 64 * 1024

SOFT = frozenset({"open a socket to the virtual machine's host", "make system calls unfiltered"})
"""What makes a sandbox partial when it works: the namespaces hold, the filter does not."""

INSTALL = (
    "Install bubblewrap: `apt install bubblewrap` on Debian and Ubuntu, `dnf install bubblewrap` on "
    "Fedora, `pacman -S bubblewrap` on Arch."
)
USER_NAMESPACES = (
    "The kernel refuses user namespaces to bubblewrap. On Ubuntu 24.04 and later load AppArmor's "
    "profile `bwrap-userns-restrict` (package apparmor-profiles); in a container, allow user "
    "namespaces; else look at `sysctl user.max_user_namespaces`."
)
_REFUSED = re.compile(
    r"RTM_NEWADDR|uid map|No permissions to create|user namespace|Creating new namespace failed"
    r"|unshare|Operation not permitted"
)


class SandboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the test found.

    Attributes:
        strength: How much it holds.
        reason: What is missing, and what to do; empty when it is full.
        recipe: How sandboxes are built; `None` when there can be none.
        bounds: What bounds memory and the number of processes, for people.
    """

    strength: Strength
    reason: str = ""
    recipe: Recipe | None = None
    bounds: str = "limits of each process, and a look at all of them every tenth of a second"


class Said(msgspec.Struct, frozen=True):
    """What the probe said: that it ran, and what it could do."""

    nonce: str = ""
    worked: tuple[str, ...] = ()


def cheap_problem(environ: Mapping[str, str]) -> str | None:
    """Why there can be no sandbox, as far as it shows without running anything."""
    if not sys.platform.startswith("linux"):
        return f"there is a sandbox on Linux only, and this is {sys.platform}."
    if not is_known():
        return f"there is no filter of system calls for {os.uname().machine}."
    if _find("bwrap", environ) is None:
        return f"bwrap was not found, or is not executable. {INSTALL}"
    if _find("prlimit", environ) is None:
        return "prlimit was not found: install util-linux."
    with suppress(OSError, ValueError):
        if int(Path("/proc/sys/user/max_user_namespaces").read_text("ascii")) == 0:
            return f"user.max_user_namespaces is 0. {USER_NAMESPACES}"
    return None


class StrengthTest:
    """The test, in a thread that was started with it; `status` waits for its end."""

    def __init__(self, settings: SandboxSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self._problem = cheap_problem(environ)
        self._status: SandboxStatus | None = None
        self._thread: threading.Thread | None = None
        if self._problem is None:
            # bubblewrap dies with the thread that started it: this one waits for its end.
            self._thread = threading.Thread(
                target=self._run, name="callboard sandbox test", daemon=True
            )
            self._thread.start()

    def status(self) -> SandboxStatus:
        """What was found; blocks until the test has ended, once."""
        if self._thread is not None:
            self._thread.join()
        if self._status is None:
            self._status = _none(self._problem or "the test did not end.")
        return self._status

    def _run(self) -> None:
        try:
            found = _measure(make_recipe(self._settings, self._environ))
        except Exception as crash:  # whatever goes wrong with it, there is no sandbox
            found = _none(f"its test failed ({type(crash).__name__}: {crash}).")
        self._status = found


# Tests of this process, by what they depend on.
_tests: dict[object, StrengthTest] = {}

MAX_KEPT_TESTS = 16
"""A process has one bubblewrap; programs that test others start anew."""


def strength_test(settings: SandboxSettings, environ: Mapping[str, str]) -> StrengthTest:
    """The test for this environment: one that runs or has run in this process, or a new one."""
    bwrap = _find("bwrap", environ)
    stat = None if bwrap is None else os.stat(bwrap)
    places = tuple(environ.get(name) for name in ("PATH", "HOME", "PYENV_VERSION", "VIRTUAL_ENV"))
    key = (
        os.getpid(),  # a fork has no thread that goes on
        places,
        settings.read_only,
        cheap_problem(environ),
        stat and (stat.st_dev, stat.st_ino, stat.st_mtime_ns),
    )
    if (found := _tests.get(key)) is None:
        if len(_tests) >= MAX_KEPT_TESTS:
            _tests.clear()
        found = _tests[key] = StrengthTest(settings, environ)
    return found


def make_recipe(settings: SandboxSettings, environ: Mapping[str, str]) -> Recipe:
    """How sandboxes are built on this machine; looks at the disk and asks bubblewrap's version."""
    bwrap, prlimit = _find("bwrap", environ), _find("prlimit", environ)
    if bwrap is None or prlimit is None:
        raise FileNotFoundError("bwrap or prlimit")
    said = subprocess.run(
        [bwrap, "--version"],
        env={},
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS,
        check=False,
    )
    version = re.search(r"(\d+)\.(\d+)", said.stdout)
    return Recipe(
        bwrap=bwrap,
        prlimit=prlimit,
        disables_userns=version is not None and tuple(map(int, version.groups())) >= (0, 8),
        view=find_view(environ, settings.read_only),
        settings=settings,
    )


def _new_folder(stack: ExitStack, name: str) -> str:
    """A folder that goes with the stack, and by nothing else.

    No `TemporaryDirectory`: a child that the program forks meanwhile would remove its copy too.
    """
    folder = tempfile.mkdtemp(prefix=f"callboard-{name}-")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _measure(recipe: Recipe) -> SandboxStatus:
    with ExitStack() as stack:
        outside = Path(_new_folder(stack, "outside"))
        workspace = os.path.realpath(_new_folder(stack, "inside"))
        os.mkdir(os.path.join(workspace, ".git"))
        canary = outside / "canary"
        canary.write_bytes(b"canary")
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        told = _told(canary, listener)
        with socket.create_connection(listener.getsockname()[:2], timeout=TEST_SECONDS):
            pass  # the control: from here, that port is reached
        said, problem = _run_probe(stack, recipe, workspace, told)
        if problem:
            return _none(problem)
        worked = set(said.worked)
        worked.update({"write outside the workspace"} if (outside / "canary.new").exists() else ())
        if said.nonce != told["nonce"] or not os.path.exists(os.path.join(workspace, "control")):
            return _none("what ran in it could not write to its own workspace.")
    if not worked:
        return _bounded(recipe)
    could = f"a program in it could {', '.join(sorted(worked))}."
    if worked <= SOFT:
        return SandboxStatus(strength=Strength.PARTIAL, reason=could, recipe=recipe)
    return _none(f"{could} {recipe.bwrap} does not confine what it runs.")


def _bounded(recipe: Recipe) -> SandboxStatus:
    """The status of one that confines: whether it also bounds how many processes there are."""
    if is_needed():
        try:
            open_process_count(recipe.settings.processes).close()
        except OSError as error:
            return SandboxStatus(strength=Strength.PARTIAL, reason=str(error), recipe=recipe)
    return SandboxStatus(strength=Strength.FULL, recipe=recipe)


def _told(canary: Path, listener: socket.socket) -> dict[str, str]:
    names = ("ipc", "mnt", "net", "pid", "user", "uts")
    return {
        "outside": str(canary),
        "port": str(listener.getsockname()[1]),
        "nonce": secrets.token_hex(16),
        "pid": str(os.getpid()),
        "mark": f"task/{threading.get_native_id()}",
        **{name: os.readlink(f"/proc/self/ns/{name}") for name in names},
    }


def _run_probe(
    stack: ExitStack, recipe: Recipe, workspace: str, told: dict[str, str]
) -> tuple[Said, str]:
    """What the probe said, and what was wrong with running and killing it."""
    protection = Protection(workspace)
    stack.callback(protection.close)
    given = stack.enter_context(
        hand_over(
            recipe,
            workspace=workspace,
            cwd=workspace,
            environment={},
            files={"probe.py": Path(__file__).with_name("probe.py").read_bytes()},
            mounts=protection.mounts,
        )
    )
    python = os.path.join(sys.base_prefix, "bin", "python3")
    probe = [python, "-I", "-S", f"{FILES}/probe.py", json.dumps(told)]
    process = subprocess.Popen(
        [recipe.bwrap, "--args", str(given.arguments), "--", *recipe.limited(probe)],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=given.all,
        cwd="/",
        start_new_session=True,
    )
    with process:
        try:
            line = _first_line(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        lingers = not _ends(process)
    if lingers:
        return Said(), f"what was started in it outlived its end: {recipe.bwrap} has no namespace."
    try:
        return msgspec.json.decode(line, type=Said), ""
    except msgspec.DecodeError:
        return Said(), _refusal(line)


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    """The probe's line, or what bubblewrap complained of in its place."""
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    out = process.stdout.fileno()
    deadline = time.monotonic() + TEST_SECONDS
    waiting = set(streams)
    while waiting and b"\n" not in streams[out] and (left := deadline - time.monotonic()) > 0:
        for fd in select.select(list(waiting), [], [], left)[0]:
            chunk = os.read(fd, MAX_SAID_BYTES)
            streams[fd] += chunk
            if not chunk or len(streams[fd]) > MAX_SAID_BYTES:
                waiting.discard(fd)
    return bytes(streams.pop(out) or streams.popitem()[1])


def _ends(process: subprocess.Popen[bytes]) -> bool:
    """Whether nobody holds the output any more, soon after the kill."""
    assert process.stdout is not None
    deadline = time.monotonic() + GONE_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], left)[0] and not os.read(
            process.stdout.fileno(), MAX_SAID_BYTES
        ):
            return True
    return False


def _refusal(said: bytes) -> str:
    text = " ".join(said.decode(errors="replace").split())[:500] or "it said nothing"
    advice = USER_NAMESPACES if _REFUSED.search(text) else ""
    return f"it could not be started: {text}. {advice}".strip()


def _none(reason: str) -> SandboxStatus:
    return SandboxStatus(strength=Strength.NONE, reason=reason)


def _find(program: str, environ: Mapping[str, str]) -> str | None:
    """A program of the system, else of PATH; never one that a relative entry leads to."""
    folders = ["/usr/bin", "/bin", "/usr/local/bin"]
    folders += [each for each in environ.get("PATH", "").split(os.pathsep) if each.startswith("/")]
    return shutil.which(program, path=os.pathsep.join(folders))
