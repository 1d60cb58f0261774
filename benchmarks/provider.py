"""A model server for the benchmarks: OpenAI Chat Completions, streamed, on 127.0.0.1 only.

    python benchmarks/provider.py [--port 0] [--max-seconds 600]

Prints its port. It keeps no state: the model's name says what to answer, and the messages say how
far the conversation is.

    text-N        N deltas of 20 characters in one burst, in HTTP chunks of 64 KiB
    textc-N       the same events, one HTTP chunk for each, as gateways send them
    text-N-pMS    an event every MS milliseconds
    tools-K-R     R answers that each ask for K calls of the request's first tool, then 5 deltas

It also takes traces and metrics of OpenTelemetry (/v1/traces, /v1/metrics), and forgets them.

Whoever starts it ends it; after `--max-seconds` it ends by itself.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import resource

import msgspec
import trio

PIECE = 65536
"""Bytes of an HTTP chunk in a burst."""
MAX_REQUEST = 64 * 2**20
"""Bytes of a request; the longest history of the benchmarks is a hundredth of it."""
MAX_CONNECTIONS = 65536
ARGUMENT_PIECE = 8
"""Characters of arguments in one delta, about what models send."""
WORDS = (
    "lorem ipsum dolor si",
    "t amet consectetur a",
    "dipiscing elit sed d",
    "o eiusmod tempor inc",
)

HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n"
    b"cache-control: no-cache\r\nx-request-id: req_0123456789abcdef\r\n\r\n"
)
END = b"0\r\n\r\n"
# As long as what a real service sends around each delta.
ENVELOPE = {
    "id": "chatcmpl-0123456789abcdefghijklmnopqrs",
    "object": "chat.completion.chunk",
    "created": 1700000000,
    "model": "benchmark-model-2024-01-01",
    "service_tier": "default",
    "system_fingerprint": "fp_0123456789",
}
USAGE = {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}


class Message(msgspec.Struct):
    """What counts of a message."""

    role: str


class Function(msgspec.Struct):
    name: str


class Tool(msgspec.Struct):
    function: Function


class Request(msgspec.Struct):
    """What counts of a request."""

    model: str
    messages: list[Message]
    tools: list[Tool] = []

    def results(self) -> int:
        """Results of tools behind the last message of the user."""
        behind = itertools.takewhile(lambda it: it.role != "user", reversed(self.messages))
        return sum(message.role == "tool" for message in behind)


class Answer(msgspec.Struct):
    """The pieces of a body in HTTP's chunked coding, and the seconds between two of them."""

    pieces: tuple[bytes, ...]
    pace: float = 0.0


# ── what is answered ─────────────────────────────────────────────────────────────────────────────


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + msgspec.json.encode({**ENVELOPE, "choices": [choice]}) + b"\n\n"


def text_events(count: int) -> list[bytes]:
    first = event({"role": "assistant", "content": "", "refusal": None})
    deltas = itertools.cycle([event({"content": words}) for words in WORDS])
    return [first, *itertools.islice(deltas, count), event({}, "stop")]


def call_events(count: int, turn: int, tool: str) -> list[bytes]:
    events = [event({"role": "assistant", "content": None})]
    for index in range(count):
        text = f'{{"x": {index}, "note": "round {turn} call {index}"}}'
        call = {"index": index, "id": f"call_{turn:04d}_{index:04d}_abcdefghij", "type": "function"}
        function = {"name": tool, "arguments": ""}
        events.append(event({"tool_calls": [{**call, "function": function}]}))
        for start in range(0, len(text), ARGUMENT_PIECE):
            piece = {"arguments": text[start : start + ARGUMENT_PIECE]}
            events.append(event({"tool_calls": [{"index": index, "function": piece}]}))
    return [*events, event({}, "tool_calls")]


@functools.lru_cache(maxsize=4096)
def answer(model: str, results: int, tool: str) -> Answer:
    """Raises ValueError when the model's name is none of the known ones."""
    kind, *numbers = model.split("-")
    pace = 0.0
    if kind == "tools":
        calls, turns = map(int, numbers)
        turn = results // calls
        events = call_events(calls, turn, tool) if turn < turns else text_events(5)
    elif kind in {"text", "textc"}:
        pace = float(numbers[1].removeprefix("p")) / 1000 if numbers[1:] else 0.0
        events = text_events(int(numbers[0]))
    else:
        raise ValueError(f"no model is called {model!r}")
    usage = msgspec.json.encode({**ENVELOPE, "choices": [], "usage": USAGE})
    events += [b"data: " + usage + b"\n\n", b"data: [DONE]\n\n"]
    if pace:
        return Answer((HEAD, *map(chunk, events), END), pace)
    if kind == "textc":
        body = b"".join(map(chunk, events))
    else:
        whole = b"".join(events)
        body = b"".join(chunk(whole[at : at + PIECE]) for at in range(0, len(whole), PIECE))
    return Answer((HEAD + body + END,))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# ── the server ───────────────────────────────────────────────────────────────────────────────────


async def serve(stream: trio.SocketStream) -> None:
    """Answers the requests of a connection until the client closes it."""
    rest = bytearray()
    try:
        while request := await next_request(stream, rest):
            await respond(stream, *request)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the client went away, as it may
    finally:
        await trio.aclose_forcefully(stream)


async def next_request(stream: trio.SocketStream, rest: bytearray) -> tuple[bytes, bytes] | None:
    """The head and the body, or None at the end; `rest` keeps what was read beyond."""
    while (end := rest.find(b"\r\n\r\n")) < 0:
        if not await receive(stream, rest):
            return None
    head = bytes(rest[:end]).lower()
    _, _, length = head.partition(b"\r\ncontent-length:")
    size = end + 4 + int(length.split(b"\r\n", 1)[0] or b"0")
    while len(rest) < size:
        if not await receive(stream, rest):
            return None
    body = bytes(rest[end + 4 : size])
    del rest[:size]
    return head, body


async def receive(stream: trio.SocketStream, rest: bytearray) -> bool:
    if len(rest) > MAX_REQUEST:
        return False
    data = await stream.receive_some(PIECE)
    rest += data
    return bool(data)


async def respond(stream: trio.SocketStream, head: bytes, body: bytes) -> None:
    if head.startswith(b"get "):
        await stream.send_all(plain(b"200 OK", {"object": "list", "data": []}))
        return
    if head.startswith((b"post /v1/traces ", b"post /v1/metrics ")):
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        return
    try:
        request = msgspec.json.decode(body, type=Request)
        tool = request.tools[0].function.name if request.tools else ""
        planned = answer(request.model, request.results(), tool)
    except ValueError as error:  # a wrong body or a wrong name; msgspec's errors are ValueErrors
        wrong = {"error": {"message": str(error), "type": "invalid_request_error"}}
        await stream.send_all(plain(b"400 Bad Request", wrong))
        return
    due = trio.current_time()
    for piece in planned.pieces:
        await stream.send_all(piece)
        if planned.pace:
            due += planned.pace
            await trio.sleep_until(due)


def plain(status: bytes, content: object) -> bytes:
    body = msgspec.json.encode(content)
    kind = b"content-type: application/json"
    return b"HTTP/1.1 %b\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (status, kind, len(body), body)


async def main() -> None:
    parser = argparse.ArgumentParser(description="A model server for the benchmarks.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MAX_CONNECTIONS), most))
    with trio.move_on_after(arguments.max_seconds):
        listeners = await trio.open_tcp_listeners(arguments.port, host="127.0.0.1")
        print(listeners[0].socket.getsockname()[1], flush=True)
        await trio.serve_listeners(serve, listeners)


if __name__ == "__main__":
    trio.run(main)
