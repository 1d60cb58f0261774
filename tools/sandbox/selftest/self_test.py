"""The self-test: how strong the sandbox of this machine is, measured before it is offered.

A program (`probe`) runs in a sandbox in the same way as every other program, and tries everything that it
must not do. The strength is `full` only when none of it worked, when the probe was bounded before it began,
and when killing it left nothing behind. Controls must work, so that a sandbox in which nothing works does not
pass: the port is reached from outside, and the probe writes a file in its workspace. A bwrap that merely runs its arguments gives `none`.

The test is made once in a process for each bubblewrap and set of settings. It takes some hundredths of a second,
in a thread with a Trio run of its own: bubblewrap dies with the thread that started it, and the caller's event
loop may not run yet.
"""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from stat import S_ISREG

import msgspec
import trio

from ....config.sections import SandboxSettings, Strength
from ....runtime.disk.private_folder import hold, is_left
from ...processes.system_programs import SYSTEM_FOLDERS, find_system_program
from ...processes.unreaped import unreaped
from ..box.control_group import find_groups
from ..box.kernel_files import writable_kernel_files
from ..box.recipe import FILES, Recipe
from ..box.roots import find_view, inner_python
from ..box.seccomp import is_known
from ..box.start_gate import limits
from ..box.user import find_user, own_user, seen_by, unread_advice
from ..running.process import Order
from ..running.program import Program, run_program
from ..tiers.landlock import ACCEPTED, why_none

logger = logging.getLogger(__name__)

TRIAL_SECONDS = 10.0
"""The time for the whole self-test, on a busy machine."""

UNBOUNDED = (
    "as root, nothing bounds how many processes a program starts here: there is no control group "
    "for pids that can be written. Name an ordinary user with sandbox.run_as, or run callboard as "
    "one."
)

ROOT = (
    "callboard runs as root. In a workspace that belongs to an ordinary user, programs run as that user; in any other "
    "one as root: they read with root's rights what is shown to them, and what they leave is root's. Give "
    "workspaces to an ordinary user (chown -R), name one ([sandbox] run_as), or run callboard as one; "
    'run_as = "root" says that root is meant.'
)

MAX_COPIED_BYTES = 1024 * 1024
"""Larger files of the system are mounted; smaller ones, such as ld.so.cache, are copied into each sandbox."""

SOFT = frozenset({"open a socket to the virtual machine's host", "make system calls unfiltered"})
"""Attempts that make a sandbox `partial` when they work: the namespaces hold, the filter does not."""

LENDING = "lend its rights to whoever runs a file"
"""An attempt that counts as those for an ordinary user; the rights of root would be everybody's."""

TEMPORARY = ("callboard-outside-", "callboard-inside-", "callboard-program-")
"""How the folders of self-tests and of programs in the second tier begin."""
NEW_SECONDS = 10.0
"""A folder that is younger may not be locked yet by whoever made it."""

_SYSTEMS = {"darwin": "macOS", "win32": "Windows"}
NOT_LINUX = (
    "there is no sandbox on {system}: it takes Linux. To let agents run programs, run callboard on "
    "Linux, as in a virtual machine or on a server."
)

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
    """The outcome of the test.

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

    @property
    def advice(self) -> str:
        """What would make it better, or nothing."""
        if self.recipe is None:
            return ""
        if (user := self.recipe.user) is not None:
            return unread_advice(user, self.recipe.view)
        return ROOT if os.geteuid() == 0 and self.recipe.settings.run_as is None else ""


def is_linux() -> bool:
    """Return whether this is Linux; on other systems no tier of the sandbox works."""
    return sys.platform.startswith("linux")


def cheap_problem() -> str | None:
    """Return why there can be no sandbox, as far as that shows without running anything."""
    if not is_linux():
        return NOT_LINUX.format(system=_SYSTEMS.get(sys.platform, sys.platform))
    if not is_known():
        return f"there is no filter of system calls for {os.uname().machine}."
    if find_system_program("bwrap") is None:
        where = ", ".join(SYSTEM_FOLDERS)
        return f"bwrap was not found in {where}, or is not executable. {INSTALL}"
    with suppress(OSError, ValueError):
        if int(Path("/proc/sys/user/max_user_namespaces").read_text("ascii")) == 0:
            return f"user.max_user_namespaces is 0. {USER_NAMESPACES}"
    return None


class StrengthTest:
    """One test, in a thread that starts with it."""

    def __init__(self, settings: SandboxSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self._problem = cheap_problem()
        self._status: SandboxStatus | None = None
        self._thread: threading.Thread | None = None
        if self._problem is None or (settings.minimum is Strength.PARTIAL and is_linux()):
            # Not a daemon thread: ending before it would leave the folders of the test behind.
            self._thread = threading.Thread(target=self._run, name="callboard sandbox test")
            self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether `status` returns at once."""
        return self._thread is None or not self._thread.is_alive()

    def status(self) -> SandboxStatus:
        """Return what was found; block until the test has ended."""
        if self._thread is not None:
            self._thread.join()
        if self._status is None:
            self._status = _none(self._problem or "the test did not end.")
        return self._status

    def _run(self) -> None:
        try:
            found = self._found()
        except ValueError as error:
            found = _none(str(error))
        except Exception as crash:  # whatever goes wrong with it, there is no sandbox
            found = _none(f"its test failed ({type(crash).__name__}: {crash}).")
        self._status = found

    def _found(self) -> SandboxStatus:
        if self._problem is not None:
            first = _none(self._problem)
        else:
            first = _measure(make_recipe(self._settings, self._environ))
        if first.strength is not Strength.NONE or self._settings.minimum is not Strength.PARTIAL:
            return first
        return _second(self._settings, self._environ, first.reason)


# Tests of this process, by what they depend on.
_tests: dict[object, StrengthTest] = {}

MAX_KEPT_TESTS = 16
"""A process mostly needs one; test suites make more."""


def strength_test(
    settings: SandboxSettings, environ: Mapping[str, str], *, is_new: bool = False
) -> StrengthTest:
    """Return the test for this environment: one that runs or has run in this process, or a new one.

    With `is_new` it is tested again in any case.
    """
    key = _key(settings, environ)
    if is_new or (found := _tests.get(key)) is None:
        if len(_tests) >= MAX_KEPT_TESTS:
            _tests.clear()
        found = _tests[key] = StrengthTest(settings, environ)
    return found


def _key(settings: SandboxSettings, environ: Mapping[str, str]) -> object:
    """Return what the outcome depends on, as far as this process can know it."""
    bwrap = find_system_program("bwrap")
    stat = None if bwrap is None else os.stat(bwrap)
    return (
        os.getpid(),  # in a fork, the thread of the test does not go on
        tuple(environ.get(name) for name in ("PATH", "HOME", "PYENV_VERSION", "VIRTUAL_ENV")),
        settings.read_only,
        settings.run_as,
        settings.minimum,
        cheap_problem(),
        stat and (stat.st_dev, stat.st_ino, stat.st_mtime_ns),
    )


def make_recipe(settings: SandboxSettings, environ: Mapping[str, str]) -> Recipe:
    """Return how sandboxes are built on this machine; looks at the disk and asks bubblewrap's version."""
    bwrap = find_system_program("bwrap")
    if bwrap is None:
        raise FileNotFoundError("bwrap")
    recipe = _base_recipe(settings, environ)
    said = subprocess.run(
        [bwrap, "--version"],
        env={},
        capture_output=True,
        text=True,
        timeout=TRIAL_SECONDS,
        check=False,
    )
    version = re.search(r"(\d+)\.(\d+)", said.stdout)
    disables = version is not None and tuple(map(int, version.groups())) >= (0, 8)
    sealed = writable_kernel_files((recipe.user or own_user()).uid)
    return msgspec.structs.replace(recipe, bwrap=bwrap, disables_userns=disables, sealed=sealed)


def _base_recipe(settings: SandboxSettings, environ: Mapping[str, str]) -> Recipe:
    user = find_user(settings.run_as)
    view = find_view(environ, settings.read_only)
    view = view if user is None else seen_by(user, view)
    copied = tuple(path for path in view.shown if _is_copied(path))
    groups = find_groups()
    if groups is not None:
        groups.sweep()
    return Recipe(
        bwrap="",
        disables_userns=False,
        view=view,
        settings=settings,
        bound=tuple((os.path.realpath(path), path) for path in view.shown if path not in copied),
        copied=copied,
        groups=groups,
        user=user,
    )


def _second(settings: SandboxSettings, environ: Mapping[str, str], reason: str) -> SandboxStatus:
    """Measure the second tier, where bubblewrap can't be used for this reason."""
    if (problem := why_none()) is not None:
        return _none(f"{reason} There is no second tier: {problem}.")
    recipe = _base_recipe(settings, environ)
    if recipe.user is None and os.geteuid() == 0:
        return _none(f"{reason} There is no second tier for root: name a user with sandbox.run_as.")
    found = _measure(msgspec.structs.replace(recipe, confiner=inner_python(recipe.view)))
    if found.strength is Strength.NONE:
        return _none(f"{reason} There is no second tier: {found.reason}")
    reason = f"{reason} Landlock confines programs in its place."
    return msgspec.structs.replace(found, strength=Strength.PARTIAL, reason=reason)


def _is_copied(path: str) -> bool:
    try:
        stat = os.stat(path)
    except OSError:
        return False
    return path.startswith("/etc/") and S_ISREG(stat.st_mode) and stat.st_size <= MAX_COPIED_BYTES


def _new_folder(stack: ExitStack, name: str) -> str:
    """Return a new folder, which only the stack removes.

    A `TemporaryDirectory` would also be removed by a child that the embedding program forks meanwhile.
    """
    folder = tempfile.mkdtemp(prefix=f"callboard-{name}-")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, fd)
    hold(fd)
    return folder


def _sweep_temporary(owners: Collection[int]) -> None:
    """Remove folders of killed runtimes, and of machines that lost their power: those that nobody holds locked."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                if not entry.name.startswith(TEMPORARY) or not entry.is_dir(follow_symlinks=False):
                    continue
                found = entry.stat(follow_symlinks=False)
                is_old = found.st_mtime < time.time() - NEW_SECONDS
                if found.st_uid in owners and is_old and is_left(entry.path, is_folder=True):
                    shutil.rmtree(entry.path, ignore_errors=True)
                    logger.info("removed what a killed runtime left: %s", entry.path)


def _measure(recipe: Recipe) -> SandboxStatus:
    _sweep_temporary({os.geteuid(), (recipe.user or own_user()).uid})
    with ExitStack() as stack:
        outside = Path(_new_folder(stack, "outside"))
        workspace = os.path.realpath(_new_folder(stack, "inside"))
        os.mkdir(os.path.join(workspace, ".git"))
        os.mkdir(work := os.path.join(workspace, "work"))
        canary = outside / "canary"
        canary.write_bytes(b"canary")
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        task = _probe_task(recipe, canary, listener)
        with socket.create_connection(listener.getsockname()[:2], timeout=TRIAL_SECONDS):
            pass  # the control: from here, that port is reached
        if recipe.user is not None:
            for path in (outside, canary, Path(workspace), *Path(workspace).iterdir()):
                os.chown(path, recipe.user.uid, recipe.user.gid)
        trial = trio.run(_try_out, recipe, workspace, task)
        if trial.lingers:
            return _none(f"what was started in it outlived its end: {recipe.name} does not end it.")
        if trial.report is None:
            text = " ".join(trial.complaint.split())[:500] or "it said nothing"
            advice = USER_NAMESPACES if _REFUSED.search(text) else ""
            return _none(f"it could not be started: {text}. {advice}".strip())
        worked = set(trial.report.worked)
        worked.update({"write outside the workspace"} if (outside / "canary.new").exists() else ())
        is_here = os.path.exists(os.path.join(work, "control"))
        if trial.report.nonce != task["nonce"] or not is_here:
            return _none("what ran in it could not write to its own workspace.")
    worked.update(() if trial.was_admitted else {"begin before it was bounded"})
    worked -= frozenset() if recipe.confiner is None else ACCEPTED
    if not worked:
        return _bounded(recipe)
    could = f"a program in it could {', '.join(sorted(worked))}."
    is_root = recipe.user is None and os.geteuid() == 0
    if worked <= (SOFT if is_root else SOFT | {LENDING}):
        return SandboxStatus(strength=Strength.PARTIAL, reason=could, recipe=recipe)
    return _none(f"{could} {recipe.name} does not confine what it runs.")


class ProbeReport(msgspec.Struct, frozen=True):
    """The line that the probe prints: its nonce, and the names of the attempts that worked."""

    nonce: str = ""
    worked: tuple[str, ...] = ()


# Made here, by one thread: two that meet a type for the first time at once would crash.
_PROBE_REPORT = msgspec.json.Decoder(ProbeReport)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a trial: the probe's report, or the complaint that was put out in its place."""

    report: ProbeReport | None
    complaint: str
    was_admitted: bool
    lingers: bool


async def _try_out(recipe: Recipe, workspace: str, task: Mapping[str, str]) -> Trial:
    """Run the probe as any program is run, and kill it when it has reported."""
    reports: list[ProbeReport] = []

    def hear(line: str) -> None:
        with suppress(msgspec.DecodeError):
            reports.append(_PROBE_REPORT.decode(line))
            program.kill("kill")

    python = inner_python(recipe.view)
    order = Order(
        argv=(python, "-I", "-S", f"{FILES}/probe.py", json.dumps(task)),
        workspace=workspace,
        cwd=workspace,
        environment={},
        files={"probe.py": Path(__file__).with_name("probe.py").read_bytes()},
    )
    program = Program(recipe, order, hear)
    ran = await run_program(program, TRIAL_SECONDS)
    return Trial(
        report=reports[0] if reports else None,
        complaint=ran.stdout or ran.stderr,
        was_admitted=program.was_admitted,
        lingers=bool(unreaped().of(order.turn_id)),
    )


def _bounded(recipe: Recipe) -> SandboxStatus:
    """Return the status of one that confines: what it bounds, and whether that is enough."""
    bounded = recipe.groups.bounds if recipe.groups is not None else frozenset()
    if "pids" not in bounded and recipe.user is None and os.geteuid() == 0:
        return SandboxStatus(strength=Strength.PARTIAL, reason=UNBOUNDED, recipe=recipe)
    return SandboxStatus(strength=Strength.FULL, recipe=recipe, bounds=_bounds(recipe))


def _bounds(recipe: Recipe) -> str:
    if recipe.groups is None:
        return (
            "limits of each process, and a look at all of them every tenth of a second; no control "
            "group can be written here"
        )
    kinds = {"memory": "memory", "pids": "the number of processes"}
    named = " and ".join(kinds[kind] for kind in sorted(recipe.groups.bounds))
    return f"a control group of each sandbox (version {recipe.groups.version}) for {named}"


def _probe_task(recipe: Recipe, canary: Path, listener: socket.socket) -> dict[str, str]:
    names = ("ipc", "mnt", "net", "pid", "user", "uts")
    return {
        "outside": str(canary),
        "port": str(listener.getsockname()[1]),
        "control": "work/control",
        "nonce": secrets.token_hex(16),
        "pid": str(os.getpid()),
        "mark": f"task/{threading.get_native_id()}",
        "limits": json.dumps(
            {
                str(kind): bound
                for kind, bound in limits(recipe.settings).items()
                if recipe.confiner is None or kind != resource.RLIMIT_NPROC
            }
        ),
        **{name: os.readlink(f"/proc/self/ns/{name}") for name in names},
    }


def _none(reason: str) -> SandboxStatus:
    return SandboxStatus(strength=Strength.NONE, reason=reason)
