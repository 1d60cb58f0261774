"""The connection pool: idle connections by destination and account, and new ones without limit.

The number of connections has no limit, so no request waits for the connection of another. That is
what makes the pool safe to cancel: there is no queue of waiters in which a cancelled request could
lose a connection, the fault behind most of the open reports on pools. The limits on model calls and
tools bound the number of connections.
"""

from __future__ import annotations

import os
import ssl
import time
from pathlib import Path

import trio

from ..errors import NetworkError
from .connection import CONNECT_SECONDS, Connect, Destination, HttpConnection, OutgoingHead
from .http1 import ResponseHead

MAX_IDLE_CONNECTIONS = 256
"""Idle connections to keep for one destination and account. Those that a burst opened beyond them are
closed at once, before they fill the table of open files (1024 on many systems)."""
SWEEP_SECONDS = 60.0
"""How often expired idle connections are looked for."""


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
        # The most recent last: the server has most likely not closed it yet.
        self._idle: dict[Destination, list[HttpConnection]] = {}
        self._swept_at = time.monotonic()

    async def send(
        self,
        destination: Destination,
        head: OutgoingHead,
        body: bytes | None,
        *,
        may_repeat: bool = False,
    ) -> tuple[HttpConnection, ResponseHead]:
        """Send a request and return its connection and the head of the response.

        The caller must `give_back` the connection when the response is over. With `may_repeat`, for a request that does no
        harm when its server reads it twice, it is sent once more over a new connection when a kept one was gone.
        """
        connection = self.take(destination)
        try:
            return connection, await connection.request(head, body or b"")
        except NetworkError:
            self.give_back(connection)
            if not (may_repeat and connection.was_gone):
                raise
        except BaseException:
            self.give_back(connection)
            raise
        connection = self._new(destination)
        try:
            return connection, await connection.request(head, body or b"")
        except BaseException:
            self.give_back(connection)
            raise

    def take(self, destination: Destination) -> HttpConnection:
        """Return a connection for one request; the caller must call `give_back` in any case."""
        self._sweep()
        idle = self._idle.get(destination, [])
        while idle:
            connection = idle.pop()
            if not connection.has_expired():
                self._active.add(connection)
                return connection
            connection.close()
        return self._new(destination)

    def _new(self, destination: Destination) -> HttpConnection:
        connection = HttpConnection(
            destination, self.tls_context, self._connect, self._connect_seconds
        )
        self._active.add(connection)
        return connection

    def give_back(self, connection: HttpConnection) -> None:
        """Keep a connection whose request is over, or close it if no other request can follow."""
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
        """Close all connections; running requests fail with `NetworkError`."""
        for connection in [*self._active, *self._all_idle()]:
            connection.close()
        self._active.clear()
        self._idle.clear()

    def count(self) -> tuple[int, int]:
        """Return how many connections are in use, and how many are idle."""
        return len(self._active), len(self._all_idle())

    def tls_context(self) -> ssl.SSLContext:
        """Return the one TLS context, making it when the first https URL is used."""
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
    """Return a context that trusts the system's authorities (or `SSL_CERT_FILE`), else certifi's.

    `ssl.create_default_context` is not used: it writes every session's keys to `SSLKEYLOGFILE`.
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
