"""Connections for many requests at once: idle ones by origin and payer, as many more as are asked for.

No limit on their number, and so nobody ever waits for another request's connection: nothing can be
lost when a request is cancelled. What bounds them is what bounds the model calls and tools.
"""

from __future__ import annotations

import os
import ssl
import time
from pathlib import Path

import trio

from .connection import CONNECT_SECONDS, Connect, Destination, HttpConnection

MAX_IDLE_CONNECTIONS = 256
"""Kept to one destination for one payer: what a burst leaves open beyond them is closed at once,
before it fills the table of open files (1024 on many systems)."""
SWEEP_SECONDS = 60.0
"""Between two looks for idle connections that nobody came back for."""


class ConnectionPool:
    """Keeps connections between requests.

    Args:
        connect: Makes the TCP connections.
        connect_seconds: How long one may take, TLS included.
    """

    def __init__(
        self, connect: Connect | None = None, connect_seconds: float | None = None
    ) -> None:
        self._connect = connect or trio.open_tcp_stream
        self._connect_seconds = CONNECT_SECONDS if connect_seconds is None else connect_seconds
        self._tls: ssl.SSLContext | None = None
        self._active: set[HttpConnection] = set()
        # The latest last: it is the likeliest to be still open at the server.
        self._idle: dict[Destination, list[HttpConnection]] = {}
        self._swept_at = time.monotonic()

    def take(self, destination: Destination) -> HttpConnection:
        """A connection for one request; `give_back` must follow, whatever happens."""
        self._sweep()
        idle = self._idle.get(destination, [])
        while idle:
            connection = idle.pop()
            if not connection.has_expired():
                break
            connection.close()
        else:
            connection = HttpConnection(
                destination, self.tls_context, self._connect, self._connect_seconds
            )
        self._active.add(connection)
        return connection

    def give_back(self, connection: HttpConnection) -> None:
        """The request is over: kept when another can follow on it, else closed."""
        self._active.discard(connection)
        self._sweep()
        if connection.is_reusable():
            idle = self._idle.setdefault(connection.destination, [])
            idle.append(connection)
            if len(idle) > MAX_IDLE_CONNECTIONS:
                idle.pop(0).close()
        else:
            connection.close()

    def close(self) -> None:
        """Closes all connections; requests that run break."""
        for connection in [*self._active, *self._all_idle()]:
            connection.close()
        self._active.clear()
        self._idle.clear()

    def count(self) -> tuple[int, int]:
        """How many connections are in use, and how many idle."""
        return len(self._active), len(self._all_idle())

    def tls_context(self) -> ssl.SSLContext:
        """The one context, made when the first https URL is used."""
        if self._tls is None:
            self._tls = _make_tls_context()
        return self._tls

    def _all_idle(self) -> list[HttpConnection]:
        return [connection for idle in self._idle.values() for connection in idle]

    def _sweep(self) -> None:
        now = time.monotonic()
        if now - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = now
        before, self._idle = self._all_idle(), {}
        for connection in before:
            if connection.has_expired():
                connection.close()
            else:
                self._idle.setdefault(connection.destination, []).append(connection)


def _make_tls_context() -> ssl.SSLContext:
    """Verifies against the system's authorities (or `SSL_CERT_FILE`), else against certifi's.

    Not `ssl.create_default_context`: that writes every session's keys to `SSLKEYLOGFILE`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    folder = Path(paths.capath) if paths.capath else None
    if paths.cafile or (folder is not None and any(folder.glob("*.0"))):
        context.load_default_certs()
    else:
        import certifi  # comes with httpx; reading it takes longer than the system's

        context.load_verify_locations(cafile=os.fspath(certifi.where()))
    context.set_alpn_protocols(["http/1.1"])
    return context
