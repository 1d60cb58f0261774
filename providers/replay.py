"""A model that plays a recording, through the decoder that read the answer first."""

from __future__ import annotations

from pathlib import Path

import trio

from ..runtime.stream import Done, StreamError
from .dialects import dialect_named
from .provider import Emit, ModelRequest
from .recording import RecordedCall, read_recording

PIECE_BYTES = 4096
"""Size of the pieces in which a recorded answer is played, as a network read brings them."""


class ReplayProvider:
    """A `LocalModel` that answers its n-th request with the n-th recorded call.

    What failed fails again, and what was cut off breaks off.

    Attributes:
        requests: The requests in order, including those beyond the recording.

    Args:
        path: A file that `callboard record` or `open_runtime(record=...)` wrote. One that is
            written by hand needs no more than what the example has.

    Example:
        import json
        from pathlib import Path

        body = 'data: {"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\\n\\n'
        call = {"dialect": "openai_chat", "status": 200, "body": body + "data: [DONE]\\n\\n"}
        Path("hello.jsonl").write_text(json.dumps(call))
        async with callboard.open_runtime(model=callboard.ReplayProvider("hello.jsonl")) as runtime:
            session = await runtime.create_session()
            print(await session.run("Hello."))
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._calls = read_recording(self._path)
        self._taken = 0
        self.requests: list[ModelRequest] = []

    def assert_complete(self) -> None:
        """Raise `AssertionError` unless every call was played, and no further request came."""
        if len(self.requests) != len(self._calls):
            raise AssertionError(
                f"the recording has {len(self._calls)} calls, and {len(self.requests)} "
                f"requests came"
            )

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """Play the next call."""
        self.requests.append(request)
        if self._taken >= len(self._calls):
            text = f"{self._path.name} has no call number {self._taken + 1}: it was recorded with "
            text += "fewer. The program asks for more than it did then."
            await emit([StreamError(error_type="provider", message=text)])
            return
        call = self._calls[self._taken]
        self._taken += 1
        await _play(call, emit)


async def _play(call: RecordedCall, emit: Emit) -> None:
    dialect = dialect_named(call.dialect)
    answer = call.answer
    if call.status == 0:
        text = "The provider gave no answer when this call was recorded."
        await emit([StreamError(error_type="network", message=text, retryable=True)])
        return
    if call.status != 200:
        await emit([dialect.read_error(call.status, call.headers, answer)])
        return
    decoder = dialect.decoder(call.tool_names)
    for start in range(0, len(answer), PIECE_BYTES):
        events = decoder.feed(answer[start : start + PIECE_BYTES])
        if events:
            await emit(events)
            if isinstance(events[-1], Done | StreamError):
                return
        await trio.lowlevel.checkpoint()
    await emit(decoder.finish())
