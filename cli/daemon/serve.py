"""`callboard serve`: the daemon in the foreground, as a terminal or a supervisor runs it."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import msgspec
import trio

from ...config.files import config_file, load_settings, watched_files
from ...config.keys.tokens import Credentials, Role
from ...config.sections import ClusterSettings, ServerSettings, checked_roots
from ...config.settings import Settings, StoreSettings
from ...embedding.configuration import Configuration
from ...embedding.runtime import Runtime, open_runtime
from ...gateway.lifecycle import DaemonPlan, run_daemon
from ...gateway.shared.clients_channel import ClientsChannel
from ...providers.catalog.book import ProviderBook
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import CallboardError, ConflictError, NodeFenced, ValidationError
from ...tools.registry import unknown_in_rules
from ...tools.workspace.roots import check_root
from ..exit_codes import ANSWERED
from ..hints import runnable
from ..log_file import LOG_NAME
from ..terminal.escaping import safe_line
from .roots import own_folders, read_roots
from .serve_log import LogFormat, serve_log

OWNER = "owner"
"""The name of the token that the first start makes, when a person sees what it prints."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `callboard serve`; `None` is what the configuration says."""

    host: str | None = None
    port: int | None = None
    roots: tuple[Path, ...] = ()
    is_exposed: bool = False
    log_format: LogFormat = "text"
    model: str | None = None
    has_console: bool | None = None
    store: str | None = None
    node: str | None = None
    node_url: str | None = None


ROOT_PROGRAMS = "  programs:      run as root, but in workspaces of ordinary users; `callboard doctor` says more"


def serve(
    options: ServeOptions, config: Path | None, data: Path, had_hangup: Callable[[], bool]
) -> int:
    """Run the daemon until a signal or a client ends it.

    `had_hangup` says whether a SIGHUP came while the process started.
    """
    forbid_core_dumps()

    bound: list[int] = []  # the port, once it is taken
    asked: list[bool] = []  # for its end

    def load() -> Settings:
        found = load_settings(config)
        found = rooted(found, options)
        server, store = served(found, options, data), found.store
        if options.store is not None:
            store = stored_at(options.store)
        cluster = clustered(found.cluster, options, server.host, next(iter(bound), server.port))
        return msgspec.structs.replace(found, server=server, store=store, cluster=cluster)

    def opened(port: int) -> AbstractAsyncContextManager[Runtime]:
        bound.append(port)
        return open_runtime(
            model=options.model,
            workspace=data / "workspaces",
            data=data,
            channel=ClientsChannel(),
            settings=load() if settings.cluster.node else settings,
        )

    settings, file = load(), config_file(config)
    plan = DaemonPlan(
        settings=settings.server,
        data=data,
        open_runtime=opened,
        configuration=Configuration(
            load, watched_files(file), ProviderBook(config, data, os.environ)
        ),
        tell_ready=partial(_welcome, data, file, settings),
        had_hangup=had_hangup,
        tell_stopping=lambda: asked.append(True),
    )
    gc.freeze()  # modules stay: looking through them for garbage held all turns up for 50 ms now and then
    was_fenced = _was_fenced(plan, data, options.log_format)
    if was_fenced and not asked:  # else whoever wanted its end has it
        # Nothing of this process is of use: its sessions go on elsewhere. The same command begins anew.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return ANSWERED


def _was_fenced(plan: DaemonPlan, data: Path, log_format: LogFormat) -> bool:
    """Run the daemon to its end; return whether that was because its node was fenced.

    The log is written when this returns: a process that begins anew before loses what waits, and never says why.
    """
    with serve_log(data, log_format):
        try:
            _run(plan)
        except NodeFenced as error:
            logging.getLogger(__name__).warning("%s", error)
            return True
    return False


def _run(plan: DaemonPlan) -> None:
    try:
        trio.run(run_daemon, plan)
    except BaseExceptionGroup as group:
        fenced = fenced_in(group)
        if fenced is None:
            raise
        raise fenced from group


def fenced_in(error: BaseException) -> NodeFenced | None:
    """Return that this node was fenced, if that alone is why a daemon ended: several of its tasks may have met it at once,
    and what can't be stored then fails as well."""
    if isinstance(error, NodeFenced):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    fenced, others = error.split(NodeFenced)
    if fenced is None or (others is not None and others.split(CallboardError)[1] is not None):
        return None
    return next(filter(None, map(fenced_in, fenced.exceptions)))


def clustered(
    found: ClusterSettings, options: ServeOptions, host: str, port: int
) -> ClusterSettings:
    """Return this daemon's part in a cluster, with what the command line says, and with its address.

    Raises:
        ValidationError: The name of the node can't be one.
    """
    given = {"node": options.node, "url": options.node_url}
    changed = {name: value for name, value in given.items() if value is not None}
    try:
        cluster = msgspec.convert({**msgspec.structs.asdict(found), **changed}, ClusterSettings)
    except msgspec.ValidationError as error:
        raise ValidationError(f"callboard serve: --node, --node-url: {error}") from error
    if not cluster.node or cluster.url:
        return cluster
    from ...actors.cluster.opening import default_url  # here: most daemons are alone

    return msgspec.structs.replace(cluster, url=default_url(host, port))


def stored_at(url: str) -> StoreSettings:
    """Return where sessions are kept by the command line."""
    from ...runtime.store.postgres.address import address_of  # here: few have a database

    address_of(url, may_hold_password=False)
    return StoreSettings(url=url)


def rooted(found: Settings, options: ServeOptions) -> Settings:
    """Return the settings with the named roots of the command line, which win over those of the file."""
    named = read_roots(options.roots)[1]
    if not named:
        return found
    roots = {**found.roots, **named}
    try:
        checked_roots(roots)
    except ValueError as error:
        raise ValidationError(f"callboard serve: {error}", field="roots") from error
    return msgspec.structs.replace(found, roots=roots)


def served(found: Settings, options: ServeOptions, data: Path) -> ServerSettings:
    """Return the settings of the socket, with what the command line says.

    Raises:
        ValidationError: A value can't be, or the address is not this machine's alone and `--expose`
            is missing.
    """
    settings, own = found.server, own_folders(data, found.files)
    given = {"host": options.host, "port": options.port, "console": options.has_console}
    changed = {name: value for name, value in given.items() if value is not None}
    roots = read_roots(options.roots)[0]
    for root in roots:  # `ServerSettings` knows no disk, and says less
        check_root(root, own)
    wanted = {**msgspec.structs.asdict(settings), **changed, "roots": (*settings.roots, *roots)}
    try:
        server = msgspec.convert(wanted, ServerSettings)
    except msgspec.ValidationError as error:
        raise ValidationError(f"callboard serve: {error}") from error
    if server.host not in LOOPBACK and not options.is_exposed:
        raise ValidationError(
            f"{server.host} can be reached from other machines, and what travels is not encrypted. "
            "Use 127.0.0.1 behind a reverse proxy with TLS, or say --expose if the network is "
            "yours.",
            field="host",
        )
    for root in (*settings.roots, *(named.path for named in found.named_roots.values())):
        check_root(root, own)
    return server


def _welcome(
    data: Path, config: Path, settings: Settings, url: str, link: Callable[[], str]
) -> None:
    """Print where things are, once clients may come; make the first token."""
    is_root = os.geteuid() == 0 and settings.sandbox.run_as is None
    lines = [
        f"callboard serves at {url} (process {os.getpid()})",
        f"  data:          {data}",
        *([f"  store:         {settings.store.url}"] if settings.store.url else []),
        f"  configuration: {config}" + ("" if config.exists() else " (not there)"),
        f"  log:           {data / LOG_NAME}",
        *(f"  root:          {root}" for root in settings.server.roots),
        *(
            f"  root:          {name} = {root.path}" + (", shared" if root.shared else "")
            for name, root in settings.named_roots.items()
        ),
        *([ROOT_PROGRAMS] if is_root else []),
        *(f"  rule:          {safe_line(line)}" for line in unknown_in_rules(settings)),
        *_token(data),
        *_console(link),
        "Stop it with Ctrl-C or `callboard stop`.",
    ]
    sys.stdout.write("\n".join(map(runnable, lines)) + "\n")
    sys.stdout.flush()


def _console(link: Callable[[], str]) -> list[str]:
    # Who reads a file, a pipe or a journal later finds a ticket that is over.
    if not sys.stdout.isatty() or not (address := link()):
        return []
    return [
        f"  console:       {address}",
        "                 Once, within a minute; `callboard console` opens it again.",
    ]


def _token(data: Path) -> list[str]:
    credentials = Credentials(data)
    if credentials.list():
        return []
    if not sys.stdout.isatty():  # a file, a pipe or a journal keeps what is printed
        return [
            f"  token:         none yet; `callboard token create {OWNER} --role admin` makes one",
            "                 and shows it at your terminal, not in this log.",
        ]
    try:
        token = credentials.create(OWNER, Role.ADMIN)
    except ConflictError:
        return []  # another command was first
    return [
        f"  token:         {token.reveal()}",
        "                 For programs of yours, and clients on other machines. It is shown this",
        "                 once; commands of yours on this machine need none.",
    ]
