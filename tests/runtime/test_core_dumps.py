"""Nothing of a process that holds keys is written to disk or shown to a debugger."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes, resource
from callboard.runtime.disk.core_dumps import forbid_core_dumps
def state():
    PR_GET_DUMPABLE = 3
    return ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0]
_, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
before = state()
forbid_core_dumps()
forbid_core_dumps()
print(before[0], state(), resource.getrlimit(resource.RLIMIT_CORE)[1])
"""


def test_a_process_gives_up_core_dumps_for_good() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "1 (0, 0) 0"
