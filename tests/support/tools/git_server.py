"""A git server on this machine: `git http-backend` behind HTTP, which may want a credential."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


class GitServer:
    """Serves the repositories of a folder.

    Attributes:
        credential: `USER:TOKEN` that a request must bring; `None` wants none.
        redirect: Where every request is sent instead, or `None`.
        seen: The credentials that came, decoded; an empty one for a request without.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.credential: str | None = None
        self.redirect: str | None = None
        self.seen: list[str] = []
        self.port = 0

    def url(self, name: str, user: str = "") -> str:
        """Where one of its repositories is."""
        return f"http://{user}127.0.0.1:{self.port}/{name}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answers one request."""
        given = handler.headers.get("Authorization", "").removeprefix("Basic ")
        told = base64.b64decode(given).decode()
        self.seen.append(told)
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if self.redirect is not None:
            return _send(handler, 302, {"Location": self.redirect + handler.path}, b"")
        if self.credential is not None and told != self.credential:
            return _send(handler, 401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
        return self._serve(handler, body)

    def _serve(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        parts = urlsplit(handler.path)
        ran = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
                "REMOTE_USER": "somebody",
                "REQUEST_METHOD": handler.command,
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            },
        )
        head, _, content = ran.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split(" ")[0])
        _send(handler, status, headers, content)


@contextmanager
def open_git_server(folder: Path) -> Generator[GitServer]:
    """A server around the block."""
    server = GitServer(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def do_POST(self) -> None:
            server.answer(self)

        def log_message(self, format: str, *args: object) -> None:  # ruff: ignore[builtin-argument-shadowing]
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


def _send(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
) -> None:
    handler.send_response(status)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
