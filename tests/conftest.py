"""What all tests share: how long they search, that recordings are read, whose secrets are masked,
and that whatever they send to a model is what its provider accepts."""

from __future__ import annotations

import faulthandler
import functools
import gc
import inspect
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio
from hypothesis import settings
from hypothesis.internal.conjecture import providers as hypothesis_providers

from callboard.runtime.redaction import redactor
from support.sandbox.sandbox_users import measured_sandbox
from support.tools.workbench import caller, folder, outside, workspace  # ruff: ignore[unused-import] fixtures

# No deadlines: wall-clock time is nobody's promise. Derandomized: a failure is the same everywhere, and the examples
# are the same each time, so a few will do here; `make soak` is what searches.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("soak", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("soak" if os.environ.get("CALLBOARD_SOAK") else "default")
if not os.environ.get("CALLBOARD_SOAK"):
    # It tries constants of the modules that are imported by then, which depends on the tests that run.
    hypothesis_providers._get_local_constants = lambda: hypothesis_providers._local_constants

HOME_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}

# Folders that tests make are not to be refused because of who runs them, and programs that they start are not
# to ignore signals because of how they are run: by nohup, or in the background of a script.
os.umask(0o022)
for number, handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

pytest.register_assert_rewrite("support.providers.recordings", "support.providers.request_rules")


RUN = "CALLBOARD_TEST_RUN"
"""In the environment of every process of a run of tests: by it they are known."""
SECONDS_TO_END = 10.0
"""For what was told to end, such as the workers among which the tests were shared."""
_is_outermost = RUN not in os.environ
os.environ.setdefault(RUN, uuid.uuid4().hex)


class HangWatch:
    """A test that hangs has its stacks written, and ends its process, so that it fails under its name.

    First come the stacks of all threads. pytest's own `faulthandler_timeout` starts and ends a thread
    for each test, a millisecond for each of thousands; this one is started anew by the first test
    behind `REARM_SECONDS`. At `HANGS_TO_END` times as long the tasks of Trio follow, and the process
    ends: the others of `-n` go on, and say which test it was. Else a whole run would wait for it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed_at: float | None = None
        self._output = os.dup(2)  # before pytest captures it
        self._test = ""
        signal.signal(signal.SIGALRM, self._end)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._test = item.nodeid
        signal.setitimer(signal.ITIMER_REAL, HANGS_TO_END * self._seconds)
        now = time.monotonic()
        if self._armed_at is None or now - self._armed_at > REARM_SECONDS:
            faulthandler.dump_traceback_later(REARM_SECONDS + self._seconds, file=self._output)
            self._armed_at = now

    def pytest_exception_interact(self) -> None:
        self._armed_at = None  # pytest calls it off, each time

    def pytest_sessionfinish(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self._output)

    def _end(self, *_: object) -> None:
        with open(self._output, "w", closefd=False) as output:
            print(f"\n{self._test} hangs.", file=output)
            with suppress(RuntimeError):  # no Trio runs here, or it is just changing its tasks
                if root := trio.lowlevel.current_root_task():
                    for line in _tasks(root):
                        print(line, file=output)
        os._exit(1)


def _tasks(task: trio.lowlevel.Task, depth: int = 0) -> Iterator[str]:
    """A task of Trio and those below it, each with where it stands."""
    indent = "    " * depth
    yield f"{indent}{task.name}"
    for frame, line in task.iter_await_frames():
        yield f"{indent}  {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    for nursery in task.child_nurseries:
        for child in [*nursery.child_tasks]:
            yield from _tasks(child, depth + 1)


REARM_SECONDS = 10.0
"""By so much later than it should a hanging test may be told."""
HANGS_TO_END = 4
"""Longer than any test takes, on however busy a machine: most end by themselves before (`TEST_SECONDS`)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "hang_seconds", "after which a test hangs; 0 for never", type="string", default="60"
    )


def pytest_configure(config: pytest.Config) -> None:
    say_less(config)
    # As the workers of `-n` have threads: a `run` that a test executes in this process must not fork it.
    threading.Thread(target=threading.Event().wait, name="tests", daemon=True).start()
    if config.getoption("numprocesses", None):  # those who share the tests do not have it
        from support.compiled import compile_all

        compile_all()
    if seconds := float(config.getini("hang_seconds")):
        config.pluginmanager.register(HangWatch(seconds), "hang watch")


TEST_SECONDS = 120
"""For a test that waits; several times what any takes on a busy machine."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that waits ends in time or fails, so that its steps need no deadlines of their own.

    But where a mocked clock makes its seconds mean nothing.
    """
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        test = item.obj
        if not {"autojump_clock", "mock_clock", "leaping_clock"} & set(item.fixturenames):

            @functools.wraps(test)
            async def bounded(**fixtures: Any) -> None:
                with trio.fail_after(TEST_SECONDS):
                    await test(**fixtures)

            item.obj = bounded


def pytest_collectstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected stays to the end: nobody need look for garbage meanwhile, nor in it later."""
    if "callboard.cli.app" in sys.modules:
        from support.cli.parsing import without_pydantic

        without_pydantic()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)  # Tests make more in a second than they leave behind.
    gc.enable()


def say_less(config: pytest.Config) -> None:
    """A worker tells nothing of a test that its result does not say: that it begins, and was set up and taken down.

    That is half of its messages, and each costs the two processes a fifth of a millisecond.
    """
    if config.option.verbose > 0 or config.option.durations is not None:
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            config.pluginmanager.register(Terse(plugin), "terse")


class Terse:
    """Leaves out messages of a worker of pytest-xdist."""

    def __init__(self, worker: Any) -> None:
        self._send = worker.sendevent
        worker.sendevent = self._send_event

    def _send_event(self, name: str, **words: Any) -> None:
        if name != "logstart" and not (name == "testreport" and "is_left_out" in words["data"]):
            self._send(name, **words)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: Any) -> dict[str, Any] | None:
        is_test = isinstance(report, pytest.TestReport) and report.when != "call"
        return {"is_left_out": True} if is_test and report.passed else None


_lost_worker = pytest.StashKey[bool]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """A worker whose process ended with a test makes the run itself broken: `scripts/failed-again` leaves that alone."""
    if error:
        node.config.stash[_lost_worker] = True


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """A run of tests that leaves a process behind has failed."""
    yield
    if session.config.stash.get(_lost_worker, False):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    if not _is_outermost:
        return
    deadline = time.monotonic() + SECONDS_TO_END
    while (left := _processes_of_this_run()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        sys.stderr.write("\n".join(["", "Left running by the tests:", *left, ""]))
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def _processes_of_this_run() -> list[str]:
    mark = f"{RUN}={os.environ[RUN]}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes() and int(process.name) != os.getpid():
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"{process.name} {words.decode(errors='replace')}")
        except OSError:
            continue  # It ended meanwhile, or is somebody else's.
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In the whole check (`.ci/run`), recorded answers that are there and skipped are a failure."""
    report = yield
    if report.skipped and "recording" in getattr(item, "fixturenames", ()):
        from support.providers.recordings import FOLDER

        if os.environ.get("CI") and FOLDER.is_dir():
            report.outcome = "failed"
            report.longrepr = (
                f"skipped although there are recordings in {FOLDER}: {report.longrepr}"
            )
    return report


@pytest.fixture(autouse=True, scope="session")
def _no_home_of_a_person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test, and no process that it starts, reads or writes in the home of who runs it."""
    home = tmp_path_factory.getbasetemp() / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for variable, below in HOME_FOLDERS.items():
            patch.setenv(variable, str(home / below))
        patch.delenv("CALLBOARD_HOME", raising=False)
        yield


@pytest.fixture
def leaping_clock() -> trio.testing.MockClock:
    """A clock that keeps the pace of the real one, until the test leaps over a deadline (`support.waits.leap`)."""
    return trio.testing.MockClock(rate=1.0)


@pytest.fixture
def sandbox() -> None:
    """Skips a test where programs can't run in a sandbox."""
    from support.sandbox.sandbox_users import needs_sandbox

    needs_sandbox()


@pytest.fixture(autouse=True)
def _no_options_of_another_line() -> Iterator[None]:
    """A process has one command line, and here many: what one named is not in the hints of the next test."""
    yield
    if "callboard.cli.hints" in sys.modules:
        from callboard.cli.hints import note_options

        note_options({})


@pytest.fixture(autouse=True, scope="session")
def _warm_process_ends() -> Iterator[None]:
    """What the tests of the command line have started for all of them (tests/support/cli)."""
    yield
    if "support.cli.warm_process" in sys.modules:
        from support.cli.warm_process import end_warm

        end_warm()


@pytest.fixture(autouse=True, scope="session")
def _postgres_ends() -> Iterator[None]:
    """The server that tests of PostgreSQL have started for all of them (tests/support/postgres)."""
    yield
    if "support.postgres.server" in sys.modules:
        from support.postgres.databases import remove_databases
        from support.postgres.server import leave_server, server_url

        if server_url.cache_info().currsize:
            remove_databases()
            leave_server()


@pytest.fixture(autouse=True, scope="session")
def query_plans() -> Iterator[Any]:
    """Every statement that callboard runs in a test has its plan looked at."""
    from support.query_plans import QueryPlans

    plans = QueryPlans()
    apsw.connection_hooks.append(plans.watch)
    yield plans
    apsw.connection_hooks.remove(plans.watch)


@pytest.fixture(autouse=True, scope="session")
def declared_results() -> Iterator[Any]:
    """Every result that a built-in tool returns in a test is looked at."""
    from support.tools.declared_results import DeclaredResults

    results = DeclaredResults()
    with results.watching():
        yield results


@pytest.fixture(autouse=True)
def _what_holds_of_each_test(
    request: pytest.FixtureRequest, query_plans: Any, declared_results: Any
) -> Iterator[None]:
    """Several things in one fixture, for each costs a tenth of a millisecond in each of thousands of tests."""
    if "autojump_clock" in request.fixturenames:
        measured_sandbox()  # The clock would jump while a thread measures it.
    secrets = redactor.secrets
    servers = _servers()
    servers.clear()
    with _replayed(request) as records:
        yield
    # A key that a test opens is masked in the records of that test, not in those of later ones.
    for secret in redactor.secrets - secrets:
        redactor.discard(secret)
    found = [f"reads a growing table whole, or sorts it: {each}" for each in query_plans.take()]
    found += [f"is not what its tool declares: {each}" for each in declared_results.take()]
    if found:
        pytest.fail("\n".join(found))
    # Requests in the tests of the HTTP client are for no model.
    if request.path.parent.name != "runtime":
        _check_requests(servers)
    if records:
        from support.replayed import differences

        if found := trio.run(differences, records):
            pytest.fail("\n".join(["Replayed sessions differ:", *found]))


@contextmanager
def _replayed(request: pytest.FixtureRequest) -> Generator[list[Any]]:
    """The sessions of a flow, which come out of their records again as they are there.

    Elsewhere tests write records that no runtime would make.
    """
    is_flow = request.path.parent.name in {"flows", "gateway", "portal", "cli"}
    if is_flow and "callboard.embedding.runtime" in sys.modules:
        from support.replayed import is_replayed, kept_records

        if is_replayed(request.node.nodeid):
            has_folder = "tmp_path" in request.fixturenames
            folder = request.getfixturevalue("tmp_path") if has_folder else None
            with kept_records(folder) as records:
                yield records
            return
    yield []


@functools.cache
def _watched_servers(server: Any) -> list[Any]:
    """The scripted servers that were made since the list was cleared."""
    servers: list[Any] = []
    make = server.__init__

    def remember(made: Any, *args: Any) -> None:
        servers.append(made)
        make(made, *args)

    server.__init__ = remember
    return servers


def _servers() -> list[Any]:
    module = sys.modules.get("callboard.providers.testing.scripted_server")
    return [] if module is None else _watched_servers(module.ScriptedServer)


def _check_requests(servers: list[Any]) -> None:
    """Each request that a scripted server got is one by its provider's own types and rules."""
    if any(server.requests for server in servers):
        from support.providers.request_rules import check_request

        for server in servers:
            for sent in server.requests:
                check_request(sent.dialect, sent.body)
