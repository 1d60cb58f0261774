"""The options of `serve`, `status`, `stop`, `logs`, `service` and `protocol`; what they do is imported
when they run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ..exit_codes import ANSWERED
from ..parameters import Config, Data, Json, data_path

Host = Annotated[str | None, Parameter(help="The address to listen on; 127.0.0.1 by default.")]
Port = Annotated[int | None, Parameter(help="The port; 8790 by default, 0 for a free one.")]
Roots = Annotated[
    tuple[Path, ...],
    Parameter(
        name="--root",
        help="A folder below which sessions may work; more than once for more.",
        negative=(),
        show_default=False,
    ),
]
Expose = Annotated[
    bool, Parameter(help="Listen on an address that other machines reach.", negative=())
]
LogFormatOption = Annotated[
    Literal["text", "json"], Parameter(help="How the log is written, one line a record.")
]
Model = Annotated[str | None, Parameter(help="PROVIDER/MODEL, or a provider's name.")]
Now = Annotated[bool, Parameter(help="Cancel what runs instead of letting it end.", negative=())]
Follow = Annotated[
    bool, Parameter(name=("--follow", "-f"), help="Go on with what is written.", negative=())
]
Lines = Annotated[int, Parameter(help="How many, the last ones.")]


def serve(
    *,
    host: Host = None,
    port: Port = None,
    roots: Roots = (),
    expose: Expose = False,
    log_format: LogFormatOption = "text",
    model: Model = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Run the daemon in the foreground: sessions go on in it, whoever listens.

    Ctrl-C or SIGTERM ends it in order, a second one at once. SIGHUP reads the configuration again.
    """
    with _noted_hangups() as had_hangup:  # first: what is imported for a daemon takes a while
        from .serve import ServeOptions
        from .serve import serve as run_daemon

        options = ServeOptions(
            host=host, port=port, roots=roots, is_exposed=expose, log_format=log_format, model=model
        )
        return run_daemon(options, config, data_path(data), had_hangup)


@contextmanager
def _noted_hangups() -> Generator[Callable[[], bool]]:
    """Note SIGHUP around the block, until the daemon listens for it; it would end the process.

    Gives whether one came: the configuration may have been read before it did.
    """
    import signal

    came: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGHUP, before)


def status(*, json: Json = False, data: Data = None) -> int:
    """Say whether a daemon runs, where, and what it does.

    Exits with 1 when none runs.
    """
    from .status import show_status

    return show_status(data_path(data), json=json)


def stop(*, now: Now = False, data: Data = None) -> int:
    """End the daemon in order, and wait until it has ended."""
    from .stop import stop_daemon

    return stop_daemon(data_path(data), now=now)


def logs(*, follow: Follow = False, lines: Lines = 100, data: Data = None) -> int:
    """Print the end of the log."""
    from .logs import show_logs

    return show_logs(data_path(data), lines=lines, follow=follow)


service = App(
    name="service", help="Have the system keep a daemon running: systemd, or launchd on macOS."
)

System = Annotated[
    bool,
    Parameter(help="Of the machine, and not of your login; needs root.", negative=()),
]
User = Annotated[
    str | None,
    Parameter(help="The account that --system runs it as; by default yours, who said sudo."),
]
NoStart = Annotated[bool, Parameter(help="Write the unit, and start nothing.", negative=())]


@service.command
def install(
    *,
    system: System = False,
    user: User = None,
    no_start: NoStart = False,
    roots: Roots = (),
    config: Config = None,
    data: Data = None,
) -> int:
    """Write the unit and start it."""
    from .service import install_service

    return install_service(
        is_system=system, user=user, data=data, config=config, roots=roots, starts=not no_start
    )


@service.command
def uninstall(*, system: System = False) -> int:
    """Stop the unit and remove it; what is stored stays."""
    from .service import uninstall_service

    return uninstall_service(is_system=system)


Schema = Annotated[
    bool,
    Parameter(name="--json-schema", help="Print everything, as one JSON Schema.", negative=()),
]


def protocol(*, json_schema: Schema = False) -> int:
    """List the methods of the daemon's websocket with the role that each takes."""
    import sys

    import msgspec

    from ...gateway.methods.all import protocol_schema

    schema = protocol_schema()
    if json_schema:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n")
        return ANSWERED
    for name, method in schema["methods"].items():
        sys.stdout.write(f"{name:22}  {method['role']:8}  {method['summary']}\n")
    for name in schema["notifications"]:
        sys.stdout.write(f"{name:22}  {'(sent)':8}\n")
    return ANSWERED
