"""`callboard serve`, which notes signals before it imports a daemon, and `callboard protocol`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Literal

from cyclopts import Parameter

from ..exit_codes import ANSWERED
from ..parameters import Config, Data, Roots, data_path

Host = Annotated[str | None, Parameter(help="The address to listen on; 127.0.0.1 by default.")]
Port = Annotated[int | None, Parameter(help="The port; 8790 by default, 0 for a free one.")]
Expose = Annotated[
    bool, Parameter(help="Listen on an address that other machines reach.", negative=())
]
LogFormatOption = Annotated[
    Literal["text", "json"], Parameter(help="How the log is written, one line a record.")
]
NoConsole = Annotated[
    bool, Parameter(name="--no-console", help="Serve no web console.", negative=())
]
StoreUrl = Annotated[
    str | None,
    Parameter(
        name="--store",
        help="postgresql://USER@HOST/DATABASE, in place of a file of the data folder.",
    ),
]
Node = Annotated[
    str | None, Parameter(help="The name of this node of a cluster, in place of [cluster] node.")
]
NodeUrl = Annotated[
    str | None,
    Parameter(help="Where other nodes and clients reach it, in place of [cluster] url."),
]
Model = Annotated[str | None, Parameter(help="PROVIDER/MODEL, or a provider's name.")]


def serve(
    *,
    host: Host = None,
    port: Port = None,
    roots: Roots = (),
    expose: Expose = False,
    log_format: LogFormatOption = "text",
    model: Model = None,
    no_console: NoConsole = False,
    store: StoreUrl = None,
    node: Node = None,
    node_url: NodeUrl = None,
    config: Config = None,
    data: Data = None,
) -> int:
    """Run the daemon in the foreground: its sessions go on when no client is connected.

    Ctrl-C or SIGTERM ends it in order, a second one at once. SIGHUP reads the configuration again.
    """
    with _noted_hangups() as had_hangup:  # first: what is imported for a daemon takes a while
        from .serve import ServeOptions
        from .serve import serve as run_daemon

        options = ServeOptions(
            host=host,
            port=port,
            roots=roots,
            is_exposed=expose,
            log_format=log_format,
            model=model,
            has_console=False if no_console else None,
            store=store,
            node=node,
            node_url=node_url,
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


Schema = Annotated[
    bool, Parameter(name="--json-schema", help="Print everything, as one JSON Schema.", negative=())
]


def protocol(*, json_schema: Schema = False) -> int:
    """List the daemon's methods and the role that each takes."""
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
