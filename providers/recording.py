"""Recordings of a provider's raw answers: one JSON line a model call, to read and to replay.

Requests and answers are kept as text. Every known secret, and whatever looks like a key, is masked,
and headers that carry a key are left out. An answer whose pieces, put together, hold a known secret
is not kept.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from ..runtime.disk.private_folder import make_folders
from ..runtime.errors import NotFoundError, StorageError, ValidationError
from ..runtime.identity import now_ms
from ..runtime.redaction import mask, redact, redacting_logger, redactor
from ..runtime.stream import OpaquePart, RefusalDelta, TextDelta, ThinkingDelta, ToolCallDelta
from .provider import Dialect, Endpoint, HttpRequest, ModelRequest

logger = redacting_logger(__name__)

MAX_RECORDED_BYTES = 16 * 1024 * 1024
"""Bytes kept of one answer, far above what models write; a longer one is cut and marked."""
MAX_REQUEST_BYTES = 1024 * 1024
"""Bytes kept of one request, which people read and nobody replays. Each holds the whole history again, and
may hold megabytes of attachments."""
MAX_SECRET_BYTES = 4096
"""Bytes checked beyond the end of what is kept, so that no part of a secret stays there."""
MAX_WRITERS = 4
"""Threads that write at once, so that one hanging disk does not hold up all others."""
WRITE_SECONDS = 5.0
"""How long a call waits until its recording is written, even if it was cancelled."""
KEPT_HEADERS = (
    "content-type", "date", "retry-after", "retry-after-ms", "request-id", "x-request-id",
)  # fmt: skip
"""Headers of an answer that explain it and name no account."""

RECORDINGS = "recordings"
"""Where the recordings of commands lie in the data folder."""

SPELLED_SECRET = "The answer held a secret in several pieces, and was not kept."

_PIECES = re.compile(r'(?s:.{1,65536})[^"]*"?')
"""Keys don't span a quotation mark; short searches let other threads run in between."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One model call as it went over the wire.

    Attributes:
        dialect: Its wire format.
        provider: The provider's name.
        model: The model's id there.
        at_ms: When it began, in Unix milliseconds.
        request: The body that was sent, secrets masked.
        is_request_cut: Whether the request was longer than `MAX_REQUEST_BYTES`.
        status: The HTTP status of the answer; 0 when there was none.
        headers: The headers of `KEPT_HEADERS` that came.
        body: The answer with secrets masked, in base64 if `is_base64`, since it was not UTF-8.
        is_base64: Whether `body` is base64.
        is_cut: Whether it was longer than `MAX_RECORDED_BYTES`, or was not kept.
        note: Why it was not kept.
        tool_names: The tools that were renamed: our name by the sent one.
    """

    dialect: str
    provider: str = ""
    model: str = ""
    at_ms: int = 0
    request: str = ""
    is_request_cut: bool = False
    status: int = 0
    headers: dict[str, str] = {}
    body: str = ""
    is_base64: bool = False
    is_cut: bool = False
    note: str = ""
    tool_names: dict[str, str] = {}

    def __post_init__(self) -> None:
        try:
            _ = self.answer
        except binascii.Error:
            raise ValueError("its body is not base64") from None

    @property
    def answer(self) -> bytes:
        """The bytes of the answer."""
        return base64.b64decode(self.body, validate=True) if self.is_base64 else self.body.encode()


# Made here, by one thread: two that meet a type for the first time at once would crash.
_RECORDED_CALL = msgspec.json.Decoder(RecordedCall)


class Recording:
    """One model call while it is recorded."""

    def __init__(
        self,
        path: Path,
        endpoint: Endpoint,
        request: ModelRequest,
        post: HttpRequest,
        writers: trio.CapacityLimiter,
    ) -> None:
        self._path = path
        self._writers = writers
        self._provider, self._dialect = endpoint.name, endpoint.dialect
        self._model, self._post = request.model, post
        self._at_ms = now_ms()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._room = MAX_RECORDED_BYTES + MAX_SECRET_BYTES
        self._is_written = False

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the head of the answer."""
        self._status = status
        self._headers = {name: headers[name] for name in KEPT_HEADERS if name in headers}

    def add(self, data: bytes) -> None:
        """Add a piece of the answer."""
        if self._room:
            self._pieces.append(data[: self._room])
            self._room -= len(self._pieces[-1])

    async def write(self) -> None:
        """Append the call to its file, once; bounded, and not interrupted by a cancellation.

        A disk that fails is logged: the answer itself was received, and the turn goes on.
        """
        if self._is_written:
            return
        self._is_written = True
        try:
            with trio.move_on_after(WRITE_SECONDS, shield=True) as scope:
                # An abandoned thread still writes its whole line, or none, when the disk answers.
                await trio.to_thread.run_sync(
                    self._write, abandon_on_cancel=True, limiter=self._writers
                )
        except OSError as error:
            logger.warning("a model call was not recorded in %s: %s", self._path, error)
            return
        if scope.cancelled_caught:
            logger.warning("a model call was not recorded in %s in time", self._path)

    def _write(self) -> None:
        _append(self._path, msgspec.json.encode(self._call()) + b"\n")

    def _call(self) -> RecordedCall:
        data = b"".join(self._pieces)
        body, is_base64 = _scrubbed(data, MAX_RECORDED_BYTES)
        sent = self._post.body[: MAX_REQUEST_BYTES + MAX_SECRET_BYTES].decode(errors="replace")
        call = RecordedCall(
            dialect=self._dialect.name,
            provider=self._provider,
            model=self._model,
            at_ms=self._at_ms,
            request=_masked(sent)[:MAX_REQUEST_BYTES],
            is_request_cut=len(self._post.body) > MAX_REQUEST_BYTES,
            status=self._status,
            headers={name: redact(value) for name, value in self._headers.items()},
            body=body,
            is_base64=is_base64,
            is_cut=len(data) > MAX_RECORDED_BYTES,
            tool_names=dict(self._post.tool_names),
        )
        if call.status == 200 and _spells_secret(call.answer, self._dialect, call.tool_names):
            return msgspec.structs.replace(
                call, body="", is_base64=False, is_cut=True, note=SPELLED_SECRET
            )
        return call


class Recorder:
    """Keeps the model calls of each session in a file of its own.

    Args:
        folder: Where `SESSION_ID.jsonl` files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers = trio.CapacityLimiter(MAX_WRITERS)

    def recording(
        self, session_id: str, endpoint: Endpoint, request: ModelRequest, post: HttpRequest
    ) -> Recording:
        """Return the recording of a call that begins now."""
        path = recording_path(self._folder, session_id)
        return Recording(path, endpoint, request, post, self._writers)


def recording_path(folder: Path, session_id: str) -> Path:
    """Return the file of a session in a folder of recordings; it may not exist yet."""
    return folder / f"{session_id}.jsonl"


async def open_recorder(folder: Path) -> Recorder:
    """Return a recorder for a folder, which is created for this user alone if missing.

    Raises:
        StorageError: It can't be made, or is none.
    """
    try:
        await trio.to_thread.run_sync(make_folders, folder)
    except OSError as error:
        raise StorageError(
            f"{folder} can't hold recordings: {error.strerror}. Name another folder."
        ) from error
    return Recorder(folder)


def read_recording(path: Path) -> list[RecordedCall]:
    """Return the calls of a recording, in order. Blocks.

    Raises:
        NotFoundError: There is no such file.
        StorageError: It can't be read.
        ValidationError: A line is not a recorded call.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise NotFoundError(f"There is no recording {path}.") from None
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}.") from error
    calls: list[RecordedCall] = []
    for number, line in enumerate(lines, 1):
        try:
            calls.append(_RECORDED_CALL.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValidationError(
                f"{path}, line {number} is not a recorded call: {error}."
            ) from error
    return calls


def _scrubbed(data: bytes, limit: int) -> tuple[str, bool]:
    """Return bytes as text without secrets, up to a limit, and whether that is base64."""
    try:
        return _masked(data.decode()).encode()[:limit].decode(), False
    except UnicodeDecodeError:
        # A key is plain ASCII: masking it this way leaves the other bytes unchanged.
        masked = _masked(data.decode("latin-1")).encode("latin-1")
        return base64.b64encode(masked[:limit]).decode(), True


def _spells_secret(answer: bytes, dialect: Dialect, tool_names: Mapping[str, str]) -> bool:
    """Return whether the pieces of an answer, put together, hold a known secret."""
    if not redactor.secrets:
        return False
    decoder = dialect.decoder(tool_names)
    said: dict[str, list[str]] = {}
    for event in [*decoder.feed(answer), *decoder.finish()]:
        match event:
            case TextDelta(text) | RefusalDelta(text) | ThinkingDelta(text):
                said.setdefault(type(event).__name__, []).append(text)
            case ToolCallDelta(index, arguments):
                said.setdefault(f"call {index}", []).append(arguments)
            case OpaquePart(data=data):
                said.setdefault("parts", []).append(bytes(data).decode(errors="replace"))
            case _:
                pass
    return any(mask(text) != text for text in map("".join, said.values()))


def _masked(text: str) -> str:
    return "".join(redact(piece) for piece in _PIECES.findall(mask(text)))


def _append(path: Path, line: bytes) -> None:
    """Append a line to a file, wholly or not at all."""
    make_folders(path.parent)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # a crash cut the last one off
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
