"""A line to a database that can be cut in one direction or both, as a network can be, and mended again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from typing import Literal
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

Direction = Literal["to the database", "to the node"]
PIECE_BYTES = 65_536


class CutLine:
    """Passes what comes until it is cut; what was on its way then arrives when the line is mended.

    Attributes:
        url: The database at the other end, over this line.
    """

    def __init__(self, url: str) -> None:
        target = conninfo_to_dict(url)
        self._host, self._port = str(target["host"]), int(target.get("port") or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        user, database = quote(str(target["user"])), quote(str(target["dbname"]))
        self.url = f"postgresql://{user}@127.0.0.1:{port}/{database}"
        self._passes = {"to the database": threading.Event(), "to the node": threading.Event()}
        self._ends: list[socket.socket] = []
        self.mend()

    def cut(self, *directions: Direction) -> None:
        """Let nothing pass in these directions."""
        for direction in directions:
            self._passes[direction].clear()

    def mend(self) -> None:
        """Let everything pass."""
        for passes in self._passes.values():
            passes.set()

    def serve(self) -> None:
        """Take connections until closed."""
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._ends += [near, far := self._reached()]
                for source, sink, direction in (
                    (near, far, "to the database"),
                    (far, near, "to the node"),
                ):
                    words = (source, sink, self._passes[direction])
                    threading.Thread(target=_pass, args=words, daemon=True).start()

    def close(self) -> None:
        """Break all connections."""
        self.mend()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _reached(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        far = socket.socket(socket.AF_UNIX)
        far.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return far


def _pass(source: socket.socket, sink: socket.socket, passes: threading.Event) -> None:
    with suppress(OSError):
        while data := source.recv(PIECE_BYTES):
            passes.wait()
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def open_line(url: str) -> Generator[CutLine]:
    """Give a line to a database around the block."""
    with closing(CutLine(url)) as line:
        server = threading.Thread(target=line.serve, daemon=True)
        server.start()
        yield line
    server.join()
