"""A PostgreSQL cluster in a temporary folder, for one run of tests.

The first test that wants one starts it, on a unix socket, and the last process of the run that used it ends it.
`CALLBOARD_TEST_POSTGRES=postgresql://…` names one that runs already; its user must be allowed to make databases.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psycopg

from support.sandbox.sandbox_users import give_up

START_SECONDS = 60.0
"""It takes two on an idle machine."""
MAX_RUN_SECONDS = 7200
"""A run of tests that was killed leaves its cluster behind for as long."""
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    # A machine that crashes ends the tests too.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "256MB",
    "jit": "off",
}


def programs() -> Path | None:
    """Return the folder of initdb and its like: Debian keeps it off the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: p.parts[-3])
    return versions[-1].parent if versions else None


def user_of_server() -> str | None:
    """Return as whom the server must run; `None` is as ourselves. It refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise AssertionError("there is no user for the server")


class Cluster:
    """A cluster in a folder; `start` and `stop` may alternate."""

    _initdb_options: tuple[str, ...] = ()

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._settings = {**SETTINGS, **(settings or {})}
        self._port = self._settings.get("port", "5432")
        found = programs()
        assert found is not None
        self._programs, self._user = found, user_of_server()

    @property
    def url(self) -> str:
        """The address of its first database."""
        return self.url_of("postgres")

    def url_of(self, database: str, user: str = "callboard") -> str:
        """Return the address of one of its databases."""
        where = f"host={quote(str(self.folder), safe='')}&port={self._port}"
        return f"postgresql://{user}@/{database}?{where}"

    def make(self) -> None:
        """Make the cluster, once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._run("initdb", "-D", self._data, "-U", "callboard", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync", *self._initdb_options)  # fmt: skip
        lines = [f"{name} = '{value}'" for name, value in self._settings.items()]
        lines.append(f"unix_socket_directories = '{self.folder}'")
        with open(f"{self._data}/postgresql.conf", "a", encoding="utf-8") as config:
            config.write("\n".join(["", *lines, ""]))

    def start(self) -> None:
        """Start the server and wait until it answers."""
        # In the background of a shell that ends: another process of this run may be the one that stops it.
        words = ["timeout", "--signal=QUIT", str(MAX_RUN_SECONDS), str(self._programs / "postgres")]
        self._begin([*words, "-D", self._data])
        self._wait_ready()

    def _begin(self, words: list[str]) -> None:
        started = f'exec setsid "$@" </dev/null >>{self._data}/log 2>&1 &'
        subprocess.run(
            ["sh", "-c", started, "sh", *words],
            check=True, cwd="/",
            user=self._user, group=self._user, extra_groups=[] if self._user else None,
        )  # fmt: skip

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        where = ("-h", str(self.folder), "-p", self._port)
        while self._run("pg_isready", "-q", *where, check=False):
            if time.monotonic() > deadline:
                raise AssertionError(
                    (self.folder / "data" / "log").read_text(errors="replace")[-3000:]
                )
            time.sleep(0.05)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `immediate` is like a crash."""
        self._run("pg_ctl", "stop", "-D", self._data, "-m", mode, "-w", "-t", "60", check=False)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, program: str, *words: str, check: bool = True) -> int:
        ran = subprocess.run(
            [str(self._programs / program), *words],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd="/",
            user=self._user, group=self._user, extra_groups=[] if self._user else None,
        )  # fmt: skip
        if check and ran.returncode:
            raise AssertionError(f"{program}: {ran.stderr.decode(errors='replace')}")
        return ran.returncode


@contextmanager
def own_cluster(settings: dict[str, str] | None = None) -> Generator[Cluster]:
    """Give a cluster for one test, which may stop, start and break it; its commits are on the disk when they return."""
    # A path that is short enough for a socket, and which the user of the server may enter.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    cluster = Cluster(folder, {"synchronous_commit": "on", **(settings or {})})
    try:
        cluster.make()
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)


class Standby(Cluster):
    """A server that follows another one, a moment behind, and can take over."""

    def __init__(self, folder: Path, primary: Cluster) -> None:
        super().__init__(folder, {"synchronous_commit": "on"})
        self._primary = primary

    def make(self) -> None:
        """Copy the primary."""
        self.folder.chmod(0o755)
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._run("pg_basebackup", "-D", self._data, "-d", self._primary.url, "-R", "-X", "stream", "-c", "fast")  # fmt: skip
        with open(f"{self._data}/postgresql.conf", "a", encoding="utf-8") as config:
            config.write(f"\nunix_socket_directories = '{self.folder}'\n")

    def wait_caught_up(self) -> None:
        """Wait until it has all that the primary has."""
        with psycopg.connect(self._primary.url) as connection:
            (written,) = connection.execute("select pg_current_wal_lsn()").fetchall()[0]
        has = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
        with psycopg.connect(self.url, autocommit=True) as connection:
            while connection.execute(has, (written,)).fetchone() != (True,):
                time.sleep(0.02)

    def fall_behind(self) -> None:
        """Follow no more: what the primary commits from now on is not here."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
            while connection.execute("select 1 from pg_stat_wal_receiver").fetchone() is not None:
                time.sleep(0.02)

    def promote(self) -> None:
        """Take over."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("select pg_promote()")


@contextmanager
def own_pair() -> Generator[tuple[Cluster, Standby, str]]:
    """Give a server, one that follows it, and the address that finds whichever takes writes."""
    with own_cluster() as primary:
        folder = Path(tempfile.mkdtemp(prefix="pg-"))
        standby = Standby(folder, primary)
        try:
            standby.make()
            standby.start()
            hosts = quote(f"{primary.folder},{folder}", safe="")
            url = f"postgresql://callboard@/postgres?host={hosts}&target_session_attrs=read-write"
            yield primary, standby, url
        finally:
            standby.stop()
            shutil.rmtree(folder)


class SmallDisk(Cluster):
    """A cluster whose tables are on a disk of few bytes, which can be filled; it has one life.

    The disk is a tmpfs that only the server sees, made in a user namespace, which needs no rights. The log of the server
    (WAL) is elsewhere, as in many installations: a commit that finds no room for the log ends the server.
    """

    def __init__(self, folder: Path, size_bytes: int) -> None:
        super().__init__(folder, {"synchronous_commit": "on"})
        self._size_bytes = size_bytes
        self._disk, self._pid = folder / "disk", folder / "pid"

    def start(self) -> None:
        """Start the server on its disk."""
        self._disk.mkdir()
        made, words = f"{self._disk}/data", ["bwrap", "--dev-bind", "/", "/"]
        words += ["--size", str(self._size_bytes), "--tmpfs", str(self._disk)]
        copied = (
            f"cp -a {self._data} {made} && mv {self._data}/pg_wal {self.folder}/wal && rm -r {made}/pg_wal"
            f" && ln -s {self.folder}/wal {made}/pg_wal && echo $$ > {self._pid}"
            f" && exec {self._programs}/postgres -D {made}"
        )
        self._begin(["timeout", str(MAX_RUN_SECONDS), *words, "sh", "-c", copied])
        self._wait_ready()

    def stop(self, mode: str = "immediate") -> None:
        """End the server and its disk."""
        with suppress(OSError, ValueError):
            pid = int(self._pid.read_text(encoding="ascii"))
            os.kill(pid, signal.SIGQUIT)
            for _ in range(int(START_SECONDS / 0.05)):
                os.kill(pid, 0)
                time.sleep(0.05)

    def fill(self) -> None:
        """Leave no byte of the disk."""
        self._shell(f"head -c {self._size_bytes} /dev/zero > {self._disk}/ballast || true")

    def free(self) -> None:
        """Give the room back."""
        self._shell(f"rm {self._disk}/ballast")

    def _shell(self, line: str) -> None:
        """Run a line where the server is: nobody else sees its disk."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"copy (select 1) to program '{line}'".encode())


class SmallLogDisk(Cluster):
    """A cluster whose log (WAL) is on a disk of few bytes, which can be filled; the tables are elsewhere.

    The server ends when it finds no room for its log, and is started again where its disk is, once there is room. The disk is
    a tmpfs, as that of `SmallDisk`.
    """

    _initdb_options: tuple[str, ...] = ("--wal-segsize=1",)

    def __init__(self, folder: Path, size_bytes: int) -> None:
        super().__init__(
            folder, {"synchronous_commit": "on", "max_wal_size": "8MB", "min_wal_size": "2MB"}
        )
        self._size_bytes = size_bytes
        self._disk, self._pid = folder / "disk", folder / "pid"

    def start(self) -> None:
        """Start the server on its disk, and keep the disk when it ends."""
        self._disk.mkdir()
        words = ["bwrap", "--dev-bind", "/", "/", "--size", str(self._size_bytes)]
        words += ["--tmpfs", str(self._disk)]
        wal, filled, freed = f"{self._data}/pg_wal", self.folder / "fill", self.folder / "free"
        kept = (
            f"mv {wal} {self._disk}/wal && ln -s {self._disk}/wal {wal}; echo $$ > {self._pid};"
            f" (while [ ! -e {filled} ]; do sleep 0.1; done; cat /dev/zero > {self._disk}/ballast; rm {filled}) &"
            f" {self._programs}/postgres -D {self._data};"
            f" while [ ! -e {freed} ]; do sleep 0.1; done;"
            f" rm -f {self._disk}/ballast; exec {self._programs}/postgres -D {self._data}"
        )
        self._begin(["timeout", str(MAX_RUN_SECONDS), *words, "sh", "-c", kept])
        self._wait_ready()

    def fill(self) -> None:
        """Leave no byte of the disk."""
        filled = self.folder / "fill"
        filled.touch()
        filled.chmod(0o666)
        while filled.exists():
            time.sleep(0.05)

    def free(self) -> None:
        """Give the room back, and start the server."""
        (self.folder / "free").touch()
        self._wait_ready()


def needs_postgres() -> None:
    """Skip a test where PostgreSQL is not installed; in the whole check, fail it."""
    if not os.environ.get("CALLBOARD_TEST_POSTGRES") and programs() is None:
        give_up("PostgreSQL is not installed: scripts/system-packages installs it")


@cache
def server_url() -> str:
    """Return the address of the server of this run, which is started if it does not run yet."""
    needs_postgres()
    if given := os.environ.get("CALLBOARD_TEST_POSTGRES"):
        return given
    with _counted(+1) as (cluster, count):
        if count == 1:
            cluster.make()
            cluster.start()
    return cluster.url


def leave_server() -> None:
    """Stop the server if nobody of this run uses it any more; call it when the tests of a process have ended."""
    server_url.cache_clear()
    if not os.environ.get("CALLBOARD_TEST_POSTGRES"):
        with _counted(-1) as (cluster, count):
            if count == 0:
                cluster.stop()
                shutil.rmtree(cluster.folder)


@contextmanager
def _counted(change: int) -> Generator[tuple[Cluster, int]]:
    """Count the processes of this run that use the server; nobody else counts meanwhile."""
    run = os.environ["CALLBOARD_TEST_RUN"]
    place = Path(tempfile.gettempdir()) / f"callboard-postgres-{run}"
    while True:
        with open(f"{place}.users", "a+", encoding="ascii") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            if os.fstat(users.fileno()).st_nlink == 0:
                continue  # the last one has removed it meanwhile
            users.seek(0)
            count = int(users.read() or 0) + change
            try:
                yield Cluster(place), count
            finally:
                users.truncate(0)
                users.write(str(count))
                if count == 0:
                    os.unlink(users.name)
            return
