"""A conversation of the floor: OpenAI Chat Completions, decoded and encoded by hand."""

from __future__ import annotations

import msgspec
import trio


class FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct):
    index: int
    id: str | None = None
    function: FunctionDelta | None = None


class Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[CallDelta] | None = None


class Choice(msgspec.Struct):
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice]


class Arguments(msgspec.Struct):
    x: int
    note: str


PARAMETERS = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["x", "note"],
    "additionalProperties": False,
}

decode = msgspec.json.Decoder(Chunk).decode
decode_arguments = msgspec.json.Decoder(Arguments).decode
encode = msgspec.json.Encoder().encode


class Session:
    """`post(body)` is the context manager of httpx around the answer to a request; `keep(data)` blocks."""

    def __init__(self, post, model, tool, keep=None) -> None:
        self._post = post
        self._keep = keep
        self._kept = 0
        self._tool = tool
        self._head = b'{"model":' + encode(model) + b',"stream":true,'
        self._head += b'"stream_options":{"include_usage":true},'
        if tool:
            function = {"name": tool.__name__, "description": tool.__doc__}
            function["parameters"] = PARAMETERS
            self._head += b'"tools":' + encode([{"type": "function", "function": function}]) + b","
        self._history: list[bytes] = []

    async def turn(self, prompt, on_delta):
        self._history.append(encode({"role": "user", "content": prompt}))
        while True:
            text, calls = await self._answer(on_delta)
            if not calls:
                self._history.append(encode({"role": "assistant", "content": text}))
                return text
            await self._run(calls)

    async def _answer(self, on_delta):
        text, calls = [], []
        rest = b""
        body = self._head + b'"messages":[' + b",".join(self._history) + b"]}"
        async with self._post(body) as answer:
            if answer.status_code != 200:
                raise RuntimeError(await answer.aread())
            async for data in answer.aiter_raw():
                parts = (rest + data).split(b"\n\n") if rest else data.split(b"\n\n")
                rest = parts.pop()
                for part in parts:
                    if part == b"data: [DONE]":
                        continue
                    choices = decode(part[6:]).choices
                    if not choices:
                        continue
                    delta = choices[0].delta
                    if delta.content:
                        text.append(delta.content)
                        on_delta(delta.content)
                    if delta.tool_calls:
                        for call in delta.tool_calls:
                            if call.index == len(calls):
                                calls.append((call.id, call.function.name, []))
                            calls[call.index][2].append(call.function.arguments)
        return "".join(text), [(call_id, name, "".join(args)) for call_id, name, args in calls]

    async def _run(self, calls) -> None:
        asked = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ]
        self._history.append(encode({"role": "assistant", "content": None, "tool_calls": asked}))
        results = [""] * len(calls)
        if self._keep is not None:
            new, self._kept = b"\n".join(self._history[self._kept :]), len(self._history)
            await trio.to_thread.run_sync(self._keep, new)

        async def run_one(index: int) -> None:
            arguments = decode_arguments(calls[index][2])
            results[index] = await self._tool(arguments.x, arguments.note)

        if len(calls) == 1:
            await run_one(0)
        else:
            async with trio.open_nursery() as nursery:
                for index in range(len(calls)):
                    nursery.start_soon(run_one, index)
        self._history += [
            encode({"role": "tool", "tool_call_id": call[0], "content": result})
            for call, result in zip(calls, results, strict=True)
        ]
