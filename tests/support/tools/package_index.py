"""A package index on this machine, as pip and npm ask one: a few files by their paths."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Pages = dict[str, tuple[str, bytes]]
"""By path the content type and the content."""


@contextmanager
def open_index(pages: Mapping[str, tuple[str, bytes]]) -> Generator[int]:
    """Serves pages around the block, on the port that it gives."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = pages.get(self.path)
            kind, content = found or ("text/plain", b"nothing")
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # ruff: ignore[builtin-argument-shadowing]
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listening.server_address[1]
        finally:
            listening.shutdown()
            thread.join()


def pip_pages(sign: str, *, wheel_version: str = "1.0") -> Pages:
    """`tiny` as a wheel, and `built` as sources whose build makes a sign."""
    wheel, sources = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as file:
        info = "tiny-1.0.dist-info"
        file.writestr("tiny.py", "VALUE = 1\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL",
            f"Wheel-Version: {wheel_version}\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr(f"{info}/RECORD", "")
    with tarfile.open(fileobj=sources, mode="w:gz") as archive:
        _add(archive, "built-1.0/backend.py", f"open({sign!r}, 'w')\nraise SystemExit('ran')\n")
        system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        _add(archive, "built-1.0/pyproject.toml", system)
        _add(archive, "built-1.0/PKG-INFO", "Metadata-Version: 2.1\nName: built\nVersion: 1.0\n")
    links = {"tiny": "tiny-1.0-py3-none-any.whl", "built": "built-1.0.tar.gz"}
    listed = {
        f"/simple/{name}/": ("text/html", f'<a href="/files/{file}">{file}</a>'.encode())
        for name, file in links.items()
    }
    binary = "application/octet-stream"
    return {
        **listed,
        f"/files/{links['tiny']}": (binary, wheel.getvalue()),
        f"/files/{links['built']}": (binary, sources.getvalue()),
    }


def npm_pages(port_of: str, sign: str) -> Pages:
    """`tiny` with a script that makes a sign; `port_of` is the index's origin."""
    packed = io.BytesIO()
    about = {"name": "tiny", "version": "1.0.0", "scripts": {"postinstall": f"touch {sign}"}}
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        _add(archive, "package/package.json", json.dumps(about))
    content = packed.getvalue()
    whole = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    place = {"tarball": f"{port_of}/tiny-1.0.0.tgz", "integrity": whole}
    versions = {"1.0.0": {**about, "hasInstallScript": True, "dist": place}}
    document = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": versions}
    return {
        "/tiny": ("application/json", json.dumps(document).encode()),
        "/tiny-1.0.0.tgz": ("application/octet-stream", content),
    }


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(text.encode())
    archive.addfile(info, io.BytesIO(text.encode()))
