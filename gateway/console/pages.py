"""The files of the console: read once into a table, and answered from memory with the headers of a closed page."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import msgspec
import trio

from ...runtime.redaction import redacting_logger
from ..door.exchange import Exchange, Route
from ..door.http import BadHead, Headers, HttpAnswer
from ..shared.state import DaemonState

logger = redacting_logger(__name__)

FOLDER = Path(__file__).parents[2] / "console" / "dist"
INDEX = "index.html"
ASSETS = "assets/"
MAX_TABLE_BYTES = 2 * 1024 * 1024
"""Of all files as they are: the build stays below a third of it, and a folder of something else is not served."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}
"""What is served at all, by the end of its name."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'none'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types callboard dompurify"
)
"""Nothing but our own files and our own port; no inline script or style; no text becomes markup by accident."""

_CLOSED: Headers = (
    ("content-security-policy", POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()"),
    ("vary", "accept-encoding"),
)
FOR_EVER = ("cache-control", "public, max-age=31536000, immutable")
"""Of files whose name has a hash of what is in them."""


class ConsoleFile(msgspec.Struct, frozen=True):
    """A file as it is answered."""

    content: bytes
    packed: bytes
    content_type: str
    etag: str


class ConsolePages:
    """The files of the console and their routes.

    Args:
        daemon: Its settings say whether they are served.
        folder: Where they are.
    """

    def __init__(self, daemon: DaemonState, folder: Path | None = None) -> None:
        self._daemon = daemon
        self._folder = FOLDER if folder is None else folder
        self._table: dict[str, ConsoleFile] | None = None

    @property
    def are_served(self) -> bool:
        """Whether this daemon has a console, and may show it."""
        return self._daemon.settings.console and (self._folder / INDEX).is_file()

    @property
    def routes(self) -> dict[str, Route]:
        """The routes by path. They ask for no token: they hold no data."""
        named = {
            "/": INDEX,
            "/console/icon.svg": "icon.svg",
            "/console/manifest.json": "manifest.json",
        }
        routes = {path: self._route(name) for path, name in named.items()}
        return {**routes, "/console/assets/": self._route(ASSETS)}

    def _route(self, name: str) -> Route:
        async def answer(exchange: Exchange) -> HttpAnswer:
            return await self._answer(name + exchange.rest, exchange)

        # A page, a mail or the console's own redirecting file may lead a person here.
        return Route(answer=answer, token="none", is_linked=name == INDEX)

    async def _answer(self, name: str, exchange: Exchange) -> HttpAnswer:
        if not self._daemon.settings.console:
            raise BadHead(404, "this daemon serves no console ([server] console, --no-console)")
        if self._table is None:
            self._table = await trio.to_thread.run_sync(read_table, self._folder)
        page = self._table.get(name)
        if page is None:
            missing = "" if self._table else ": this build of callboard has no console"
            raise BadHead(404, f"there is nothing here{missing}")
        headers = (*_CLOSED, ("etag", page.etag))
        if name.startswith(ASSETS):
            headers = (*headers, FOR_EVER)
            if page.etag in (exchange.head.one("if-none-match") or ""):
                return HttpAnswer(304, b"", page.content_type, headers)
        if _takes_gzip(exchange.head.all("accept-encoding")):
            packed = (*headers, ("content-encoding", "gzip"))
            return HttpAnswer(200, page.packed, page.content_type, packed)
        return HttpAnswer(200, page.content, page.content_type, headers)


def read_table(folder: Path) -> dict[str, ConsoleFile]:
    """Return the files of a built console by name; blocks. Empty when it is not there, or too large to be one."""
    table: dict[str, ConsoleFile] = {}
    size = 0
    try:
        for path in sorted([*folder.glob("*"), *folder.glob(f"{ASSETS}*")]):
            if (content_type := TYPES.get(path.suffix)) is None or not path.is_file():
                continue
            size += path.stat().st_size
            if size > MAX_TABLE_BYTES:
                logger.error("%s has more than %d bytes: no console is served", folder, size)
                return {}
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            packed = gzip.compress(content, mtime=0)
            table[path.relative_to(folder).as_posix()] = ConsoleFile(
                content, packed, content_type, etag
            )
    except OSError as error:
        logger.error("the console can't be read: %s", error)
        return {}
    return table


def _takes_gzip(values: tuple[str, ...]) -> bool:
    """Whether `Accept-Encoding` names gzip; a weight of nothing refuses it (RFC 9110, 12.5.3)."""
    for each in ",".join(values).split(","):
        name, _, weight = each.partition(";")
        if name.strip().lower() == "gzip":
            return weight.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
