"""Recordings of a provider's raw answers: one JSON line a model call, to read and to replay.

What was asked and what came is kept as text, with every known secret masked; headers that carry a
key are never among it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.identity import now_ms
from ..runtime.redaction import redact
from .provider import Endpoint, HttpRequest, ModelRequest

MAX_RECORDED_BYTES = 64 * 1024 * 1024
"""Of one answer; a longer one is kept up to here and marked as cut."""
WRITE_SECONDS = 5.0
"""How long a cancelled call waits until what came of it is written."""
KEPT_HEADERS = ("content-type", "retry-after", "request-id", "x-request-id")
"""Of an answer: what explains it, and nothing that could name an account."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One model call as it went over the wire.

    Attributes:
        provider: The provider's name.
        model: The model's id there.
        dialect: Its wire format.
        at_ms: When it began, in Unix milliseconds.
        request: The body that was sent, secrets masked.
        status: The HTTP status of the answer; 0 when there was none.
        headers: Those of `KEPT_HEADERS` that came.
        body: What came, secrets masked; in base64 when `is_base64`, as it was no UTF-8.
        is_base64: Whether `body` is base64.
        is_cut: Whether there was more than `MAX_RECORDED_BYTES`.
        tool_names: The tools that were renamed: our name by the sent one.
    """

    provider: str
    model: str
    dialect: str
    at_ms: int
    request: str
    status: int = 0
    headers: dict[str, str] = {}
    body: str = ""
    is_base64: bool = False
    is_cut: bool = False
    tool_names: dict[str, str] = {}

    @property
    def answer(self) -> bytes:
        """The bytes of the answer."""
        return base64.b64decode(self.body) if self.is_base64 else self.body.encode()


class Recording:
    """One model call while it is recorded."""

    def __init__(
        self, path: Path, endpoint: Endpoint, request: ModelRequest, post: HttpRequest
    ) -> None:
        self._path = path
        self._provider, self._dialect = endpoint.name, endpoint.dialect.name
        self._model, self._post = request.model, post
        self._at_ms = now_ms()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._room = MAX_RECORDED_BYTES
        self._is_cut = False

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the answer came."""
        self._status = status
        self._headers = {name: headers[name] for name in KEPT_HEADERS if name in headers}

    def add(self, data: bytes) -> None:
        """A piece of the answer came."""
        self._is_cut = self._is_cut or len(data) > self._room
        self._pieces.append(data[: self._room])
        self._room -= len(self._pieces[-1])

    async def write(self) -> None:
        """Appends the call to its file; bounded, and not interrupted by a cancellation."""
        line = msgspec.json.encode(self._call()) + b"\n"
        with trio.move_on_after(WRITE_SECONDS, shield=True):
            await trio.to_thread.run_sync(_append, self._path, line)

    def _call(self) -> RecordedCall:
        data = b"".join(self._pieces)
        try:
            body, is_base64 = redact(data.decode()), False
        except UnicodeDecodeError:
            # A key is plain text: masked as such, the rest keeps its bytes.
            masked = redact(data.decode("latin-1")).encode("latin-1")
            body, is_base64 = base64.b64encode(masked).decode(), True
        return RecordedCall(
            provider=self._provider,
            model=self._model,
            dialect=self._dialect,
            at_ms=self._at_ms,
            request=redact(self._post.body.decode(errors="replace")),
            status=self._status,
            headers={name: redact(value) for name, value in self._headers.items()},
            body=body,
            is_base64=is_base64,
            is_cut=self._is_cut,
            tool_names=dict(self._post.tool_names),
        )


class Recorder:
    """Keeps the model calls of each session in a file of its own.

    Args:
        folder: Where `SESSION_ID.jsonl` files go; made when it is missing, for this user alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, session_id: str) -> Path:
        """The file of a session; exists once something was recorded."""
        return self._folder / f"{session_id}.jsonl"

    def recording(
        self, session_id: str, endpoint: Endpoint, request: ModelRequest, post: HttpRequest
    ) -> Recording:
        """For a call that begins now."""
        return Recording(self.path(session_id), endpoint, request, post)


def read_recording(path: Path) -> list[RecordedCall]:
    """The calls of a recording, in their order.

    Raises:
        NotFoundError: There is no such file.
        ValidationError: A line of it is no recorded call.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise NotFoundError(f"There is no recording {path}.") from None
    calls: list[RecordedCall] = []
    for number, line in enumerate(lines, 1):
        try:
            calls.append(msgspec.json.decode(line, type=RecordedCall))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValidationError(f"{path}, line {number} is no recorded call: {error}.") from error
    return calls


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(line)
