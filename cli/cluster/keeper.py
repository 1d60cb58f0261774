"""Keeps one node running as its own process: starts it, starts it again when it ends, and says why it ended.

Ray runs this as an actor, on machines in whose Python there is Ray and no callboard, and gets the class itself. So the module imports nothing but what
Python has, and Ray where it runs. It is ordinary threads: no event loop of callboard runs here, and no prompt comes by.

The daemon ends in order when its keeper dies, by whatever: Ray may start another keeper elsewhere then, and two daemons of one name must not be.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

FIRST_PAUSE_SECONDS = 1.0
"""Before the first new start; each further one waits twice as long."""
MAX_PAUSE_SECONDS = 60.0
"""A database that is back is found within a minute."""
STEADY_SECONDS = 60.0
"""A daemon that ran for so long has its next start after the first pause again."""
MAX_SAID_LINES = 5
"""Of what the daemon said last: its error, and what led to it. The log of the actor has all."""
MAX_SAID_CHARS = 500
"""Of them, in a line for people."""
MAX_LINE_BYTES = 4096
"""Longer lines come in pieces."""
READER_SECONDS = 2.0
"""After the daemon's end, until what it said is read; a program that it left behind may hold the pipe."""
KILLED_SECONDS = 10.0
"""A killed process ends at once, unless the system itself waits for a disk; so does the thread that waits for one."""

KEPT_VARIABLES = frozenset({
    "HOME", "HTTPS_PROXY", "HTTP_PROXY", "LANG", "LOGNAME", "NO_PROXY", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR",
    "TZ", "USER", "https_proxy", "http_proxy", "no_proxy",
})  # fmt: skip
"""Of the environment of Ray's worker: what is Ray's own, like `RAY_*` and `PYTHONPATH`, would lead the daemon astray."""

LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG, which exec keeps
if os.getppid() != int(sys.argv[1]):
    sys.exit("its keeper has ended")
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Becomes the daemon, which gets SIGTERM when its parent ends."""


@dataclass(frozen=True)
class KeeperPlan:
    """What a keeper needs to know of its node.

    Attributes:
        node: Its name.
        python: The Python with callboard.
        arguments: Of that Python, but for the node's name and address.
        configuration: The text of its callboard.toml.
        home: The folder that has `config` and `data`.
        host: The address that it listens on.
        port: The port; 0 takes any.
        environment_file: A file with more of its environment, or nothing.
        password_file: A file with the password of the database, or nothing.
        stop_seconds: How long its end may take.
    """

    node: str
    python: str
    arguments: tuple[str, ...]
    configuration: str
    home: str
    host: str
    port: int
    environment_file: str
    password_file: str
    stop_seconds: float


class NodeKeeper:
    """Keeps the node of a plan running, from now on; its methods may be called from any thread.

    Args:
        plan: The node.
        address: By which other machines reach this one; by default the one by which Ray knows it.
    """

    def __init__(self, plan: KeeperPlan, address: str = "") -> None:
        self._plan = plan
        self._address = address or str(import_module("ray.util").get_node_ip_address())
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=MAX_SAID_LINES)
        self._starts = 0
        self._last_end = ""
        self._wanted.set()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._thread.start()

    def state(self) -> dict[str, Any]:
        """Return what the node does: `starting`, `serving`, `waiting` for its next start, or `ended`."""
        with self._lock:
            process, last_end, starts = self._process, self._last_end, self._starts
        found: dict[str, Any] = {
            "node": self._plan.node,
            "machine": self._address,
            "keeper": os.getpid(),
            "starts": starts,
            "last_end": last_end,
            "pid": None,
            "url": "",
        }
        if process is None or process.poll() is not None:  # or its end is just being looked at
            ended_in_order = process is not None and process.returncode == 0
            stays = ended_in_order or self._stopping.is_set() or not self._wanted.is_set()
            return {**found, "state": "ended" if stays else "waiting"}
        url = _serves_at(os.path.join(self._plan.home, "data", "daemon.json"), process.pid)
        return {**found, "state": "serving" if url else "starting", "pid": process.pid, "url": url}

    def begin(self) -> None:
        """Start the node again after it has ended in order."""
        self._wanted.set()

    def drain(self) -> str:
        """End the node in order, and keep it no more; return how it ended. Blocks for as long as that takes, which is bounded."""
        self._stopping.set()
        self._wanted.set()
        with self._lock:
            process = self._process
        if process is None:
            return "did not run"
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self._plan.stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(KILLED_SECONDS)
            self._thread.join(KILLED_SECONDS)
            return f"did not end within {self._plan.stop_seconds:g} s, and was killed"
        self._thread.join(KILLED_SECONDS)
        return "ended in order" if process.returncode == 0 else _ending(process.returncode)

    def _keep(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            began = time.monotonic()
            code = self._run_once()
            if self._stopping.is_set():
                return
            if code == 0:
                self._say(
                    "ended in order: it is not started again until `callboard cluster ray up`"
                )
                self._wanted.wait()
                pause = FIRST_PAUSE_SECONDS
                continue
            if time.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._say(f"{self._last_end}; it is started again in {pause:g} s")
            self._stopping.wait(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def _run_once(self) -> int:
        """Start the daemon and wait for its end; return its exit code, and -1 if it could not be started."""
        self._said.clear()
        try:
            process = self._start()
        except (OSError, ValueError) as error:
            with self._lock:
                self._starts += 1
                self._last_end = f"can't be started: {error}"
            return -1
        reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        reader.start()
        code = process.wait()
        with self._lock:
            self._process = None
            self._last_end = _ending(code)
            if code == 0:
                # It was drained by `callboard cluster drain`, or stopped by a person, who wants it so.
                self._wanted.clear()
        reader.join(READER_SECONDS)
        with self._lock:
            last = "; ".join(self._said)[-MAX_SAID_CHARS:]
            # Who was killed had no word about it.
            self._last_end = _ending(code) + (f", and said: {last}" if code > 0 and last else "")
        return code

    def _start(self) -> subprocess.Popen[bytes]:
        plan = self._plan
        configuration = os.path.join(plan.home, "config", "callboard.toml")
        for folder in (plan.home, os.path.dirname(configuration), os.path.join(plan.home, "data")):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        _write_private(configuration, plan.configuration)
        command = [plan.python, "-c", LAUNCH, str(os.getpid())]
        command += node_arguments(plan, self._address)
        environ = node_environment(plan, os.environ)
        with self._lock:
            if self._stopping.is_set():
                raise OSError("its keeper is ending")
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=plan.home,
                start_new_session=True,
            )
            self._starts += 1
            return self._process

    def _read(self, lines: IO[bytes] | None) -> None:
        """Keep the last lines that the daemon says, and pass all on to the log of this process."""
        assert lines is not None, "its output is a pipe"
        with lines:
            for line in iter(lambda: lines.readline(MAX_LINE_BYTES), b""):
                text = line.decode(errors="replace").rstrip("\n")
                self._said.append(text)
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

    def _say(self, words: str) -> None:
        sys.stderr.write(f"node {self._plan.node}: {words}\n")
        sys.stderr.flush()


def node_arguments(plan: KeeperPlan, address: str) -> list[str]:
    """Return the arguments of the daemon's Python on a machine of that address."""
    arguments = [*plan.arguments, "--node", plan.node]
    if plan.port:  # else only the daemon knows where it is
        host = plan.host if plan.host not in {"0.0.0.0", "::"} else address
        host = f"[{host}]" if ":" in host else host
        arguments += ["--node-url", f"http://{host}:{plan.port}"]
    return arguments


def node_environment(plan: KeeperPlan, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the daemon; reads the files that the plan names.

    Raises:
        OSError: A file can't be read.
        ValueError: A line of the file of variables is none.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if name in KEPT_VARIABLES or name.startswith("LC_")
    }
    kept["CALLBOARD_HOME"] = plan.home
    if plan.environment_file:
        with open(plan.environment_file, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text or text.startswith(("#", ";")):
                    continue
                name, equals, value = text.partition("=")
                if not equals or not name.replace("_", "a").isalnum():
                    raise ValueError(
                        f"{plan.environment_file}, line {number}: it is not NAME=value"
                    )
                if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                    value = value[1:-1]
                kept[name] = value
    if plan.password_file:
        kept["PGPASSWORD"] = Path(plan.password_file).read_text(encoding="utf-8").strip("\r\n")
    return kept


def _write_private(path: str, text: str) -> None:
    """Write a file whole, for its owner alone."""
    new = f"{path}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)


def _serves_at(path: str, pid: int) -> str:
    """Return where the daemon of a process serves, as its file says; an empty text before it does."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return str(found["url"]) if found["pid"] == pid else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _ending(code: int) -> str:
    if code == 0:
        return "ended in order"
    if code > 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
