"""The filter of system calls, loaded into a fresh process: what is denied fails, the rest works."""

from __future__ import annotations

import errno
import json
import os
import platform
import struct
import subprocess
import sys

import pytest

from callboard.tools.sandbox.box.seccomp import is_known, seccomp_program

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the numbers of the calls below are x86-64's"
)

PROGRAM = """
import ctypes, fcntl, json, os, socket, struct, subprocess, sys, threading

libc = ctypes.CDLL(None, use_errno=True)

def load(program):
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
    held = ctypes.create_string_buffer(program, len(program))
    steps = Filter(len(program) // 8, ctypes.addressof(held))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.byref(steps), 0, 0) == 0  # PR_SET_SECCOMP

def call(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    return ctypes.get_errno()

def family(number):
    try:
        socket.socket(number, socket.SOCK_STREAM).close()
    except OSError as error:
        return error.errno
    return 0

def control(request):
    try:
        fcntl.ioctl(0, request, b"x")
    except OSError as error:
        return error.errno
    return 0

if sys.argv[1] != "none":
    load(open(int(sys.argv[1]), "rb").read())
ran = []
thread = threading.Thread(target=ran.append, args=("thread",))
thread.start()
thread.join()
ran.append(subprocess.run(["echo", "process"], capture_output=True, text=True).stdout.strip())
print(json.dumps({
    "ran": ran,
    "families": {number: family(number) for number in (1, 2, 10, 16, 17, 38, 40)},
    "pair": [end.fileno() > 0 for end in socket.socketpair()],
    "unshare": call(272, 0),
    "keyctl": call(250, 0, -3, 0),
    "io_uring": call(425, 0, 0),
    "clone3": call(435, 0, 0),
    "openat2": call(437, -100, 0, 0, 0),
    # A new user namespace that shares its folders: no kernel makes such a process.
    "clone": call(56, 0x10000000 | 0x00000200 | 17, 0, 0, 0, 0),
    "x32": call(0x40000000 + 39),
    "tiocsti": control(0x5412),
    "tiocgwinsz": control(0x5413),
}))
"""


def outcome(*, filtered: bool) -> dict[str, object]:
    descriptor = os.memfd_create("filter")
    os.write(descriptor, seccomp_program())
    os.lseek(descriptor, 0, os.SEEK_SET)
    ended = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(descriptor) if filtered else "none"],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    result: dict[str, object] = json.loads(ended.stdout)
    return result


def test_what_leads_around_a_sandbox_is_denied_and_programs_work() -> None:
    result = outcome(filtered=True)
    assert result["ran"] == ["thread", "process"]
    denied = errno.EAFNOSUPPORT
    assert result["families"] == {
        "1": 0, "2": 0, "10": 0, "16": denied, "17": denied, "38": denied, "40": denied,
    }  # fmt: skip
    assert result["pair"] == [True, True]
    assert result["unshare"] == result["keyctl"] == result["io_uring"] == errno.EPERM
    assert result["clone"] == errno.EPERM
    assert result["clone3"] == result["openat2"] == result["x32"] == errno.ENOSYS
    assert result["tiocsti"] == errno.EPERM
    assert result["tiocgwinsz"] == errno.ENOTTY  # the control: other requests reach the device


def test_without_it_the_same_calls_reach_the_kernel() -> None:
    result = outcome(filtered=False)
    assert result["unshare"] == 0
    assert result["clone"] == errno.EINVAL
    assert errno.EPERM not in {result["keyctl"], result["tiocsti"]}
    assert errno.ENOSYS not in {result["clone3"], result["openat2"]}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_stays_inside_the_program(machine: str) -> None:
    program = seccomp_program(machine)
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    for at, (operation, if_so, if_not, _) in enumerate(steps):
        if operation & 0x07 == 0x05:  # a jump
            assert at + 1 + max(if_so, if_not) < len(steps)
    assert steps[-1][0] == 0x06
    assert steps[2] == (0x06, 0, 0, 0x80000000)  # another architecture ends the process


def test_an_unknown_machine_has_none() -> None:
    assert is_known("x86_64")
    assert not is_known("riscv64")
    with pytest.raises(KeyError):
        seccomp_program("riscv64")
