"""How a runtime is reached over its socket: the settings of the daemon."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=24 * 3600)]
FrameBytes = Annotated[int, msgspec.Meta(ge=64 * 1024, le=256 * 1024 * 1024)]

MAX_PATH_BYTES = 4095
"""More than this no call of the system takes."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The socket of `callboard serve`.

    Attributes:
        host: The address to listen on. 127.0.0.1; any other one needs `--expose` besides.
        port: The port. 8790; 0 takes a free one.
        allowed_hosts: Names that clients may call it by, as `host` or `host:port`, beside its own
            address and localhost. A page that makes a browser call it by another name is refused.
        allowed_origins: Origins of web pages that may connect, like `https://board.example`, beside
            the console's own.
        roots: Folders below which a client may choose workspaces, as absolute paths. Without one, each
            session gets a folder of its own in the data folder.
        max_connections: At once. 2,000: as many descriptors are left for the rest where a process
            may have 4,096. Where it may have too few, fewer are let in.
        max_peer_connections: At once from one address. 1,000: all clients of one machine.
        max_frame_bytes: Of one message of a client. 24 MiB: the attachments of an input.
        max_outbox_bytes: That wait for a slow client. 4 MiB: some seconds of a busy session.
        head_seconds: For the head of a request. 5: it is a kilobyte.
        send_seconds: For a client to take 64 KiB of what is sent to it. 10: a slow line does it.
        ping_seconds: Between pings; who misses two is gone. 20: proxies forget after 60.
        drain_seconds: For turns to end when the daemon stops. 20: supervisors kill after 90.
        log_level: Of the daemon's log: `debug`, `info`, `warning` or `error`. `info`: what begins,
            ends and fails.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8790
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    max_connections: Count = 2000
    max_peer_connections: Count = 1000
    max_frame_bytes: FrameBytes = 24 * 1024 * 1024
    max_outbox_bytes: FrameBytes = 4 * 1024 * 1024
    head_seconds: Seconds = 5.0
    send_seconds: Seconds = 10.0
    ping_seconds: Seconds = 20.0
    drain_seconds: Seconds = 20.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __post_init__(self) -> None:
        for root in self.roots:
            if not root.startswith("/") or os.path.normpath(root).strip("/") == "" or "\0" in root:
                raise ValueError(f"roots: {root!r} is not an absolute path below /")
            if len(root.encode()) > MAX_PATH_BYTES:
                raise ValueError(f"roots: a path has at most {MAX_PATH_BYTES} bytes")
        for origin in self.allowed_origins:
            if not origin.startswith(("http://", "https://")) or origin.endswith("/"):
                raise ValueError(
                    f"allowed_origins: {origin!r} is not an origin like https://board.example:8443"
                )
