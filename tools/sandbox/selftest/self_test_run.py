"""One trial of a sandbox: the probe is started in it as any program is, heard, and killed."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from ..box.control_group import ControlGroup
from ..box.protected import Protection
from ..box.recipe import FILES, Recipe
from ..box.start_gate import Gate, admit, open_info
from ..box.user import as_user
from ..running.descriptors import hand_over
from ..tiers.landlock import filter_of

TRIAL_SECONDS = 10.0
"""For the whole trial, on a machine that is busy."""
GONE_SECONDS = 2.0
"""In which everything must be gone that was killed."""
MAX_SAID_BYTES = 64 * 1024


Process = subprocess.Popen[bytes]


class Said(msgspec.Struct, frozen=True):
    """What the probe said: that it ran, and what it could do."""

    nonce: str = ""
    worked: tuple[str, ...] = ()


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial.

    Attributes:
        line: The probe's, or what bubblewrap complained of in its place.
        is_admitted: Whether it was bounded before anything ran in it.
        lingers: Whether something of it was left when it was killed.
    """

    line: bytes
    is_admitted: bool
    lingers: bool

    def said(self) -> Said | None:
        """What the probe said; `None` when that was something else."""
        try:
            return msgspec.json.decode(self.line, type=Said)
        except msgspec.DecodeError:
            return None


def try_out(recipe: Recipe, python: str, workspace: str, told: Mapping[str, str]) -> Heard:
    """Plays the probe in a sandbox on this workspace, in this thread.

    Raises:
        OSError: It could not be started or bounded.
    """
    with ExitStack() as stack:
        protection = Protection(workspace, is_mounted=recipe.confiner is None)
        stack.callback(protection.close)
        group = None if recipe.groups is None else recipe.groups.open(recipe.settings)
        if group is not None:
            stack.callback(group.close)
        gate = Gate(filter_of(recipe))
        stack.callback(gate.close)
        given = stack.enter_context(
            hand_over(
                recipe,
                workspace=workspace,
                cwd=workspace,
                environment={},
                files={"probe.py": Path(__file__).with_name("probe.py").read_bytes()},
                mounts=protection.mounts,
                gate=gate.theirs,
            )
        )
        info, info_end = open_info(recipe)
        stack.callback(os.close, info)
        stack.callback(os.close, info_end)
        probe = [python, "-I", "-S", f"{FILES}/probe.py", json.dumps(told)]
        command = recipe.command(given.arguments, info_end, probe)
        process = _spawn(recipe, command, (*given.all, info_end))
        return _heard(process, info, stack, recipe, group, gate)


def _spawn(recipe: Recipe, command: Sequence[str], descriptors: Sequence[int]) -> Process:
    return subprocess.Popen(
        command,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
        cwd="/",
        start_new_session=True,
        **as_user(recipe.user),
    )


def _heard(
    process: Process,
    info: int,
    stack: ExitStack,
    recipe: Recipe,
    group: ControlGroup | None,
    gate: Gate,
) -> Heard:
    """Lets the probe begin once it is bounded, hears it, and ends it."""
    firsts: list[int] = []
    begun: list[int] = []

    def begin(said: bytes) -> None:
        pid = int(json.loads(said)["child-pid"])
        begun.append(pid)
        firsts.append(os.pidfd_open(pid))
        stack.callback(os.close, firsts[0])
        admit(pid, recipe, group)
        gate.open()

    with process:
        try:
            line = _Ears(process, info, begin).first_line()
        finally:
            recipe.end(process.pid)
            process.wait()
        is_gone = _ends(process) and all(_is_ready(fd) for fd in firsts)
        return Heard(line=line, is_admitted=bool(begun), lingers=not is_gone)


class _Ears:
    """Hears three streams at once, within the time of the trial."""

    def __init__(
        self, process: subprocess.Popen[bytes], info: int, begin: Callable[[bytes], None]
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._out, self._err, self._info = process.stdout.fileno(), process.stderr.fileno(), info
        self._begin = begin
        self._said = {self._out: bytearray(), self._err: bytearray(), self._info: bytearray()}

    def first_line(self) -> bytes:
        """The probe's line, or what was complained of in its place."""
        deadline = time.monotonic() + TRIAL_SECONDS
        waiting = set(self._said)
        while (
            waiting & {self._out, self._err}
            and b"\n" not in self._said[self._out]
            and (left := deadline - time.monotonic()) > 0
        ):
            for fd in select.select(list(waiting), [], [], left)[0]:
                chunk = os.read(fd, MAX_SAID_BYTES)
                self._said[fd] += chunk
                if not chunk or len(self._said[fd]) > MAX_SAID_BYTES:
                    waiting.discard(fd)
                if fd == self._info and b"}" in self._said[fd]:
                    waiting.discard(fd)
                    self._begin(bytes(self._said[fd]))
        return bytes(self._said[self._out] or self._said[self._err])


def _is_ready(pidfd: int) -> bool:
    """Whether a process ends in time."""
    return bool(select.select([pidfd], [], [], GONE_SECONDS)[0])


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
