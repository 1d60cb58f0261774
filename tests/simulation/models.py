"""A model whose answers follow from the world's seed and from what it is asked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import trio

from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import ScriptedReply, events_of, reply
from callboard.runtime.history import Answer, Input
from callboard.runtime.stream import StreamError, TextDelta
from simulation.edges import chance

CHECKED_SHARE = 4
"""Of so many requests, one is checked as each wire format would send it."""
TWINS = 0.15
"""How often an answer has the same call twice."""
MAX_CALLS = 3
SECONDS = (0.0, 0.0, 0.001, 0.05, 1.0, 8.0)
Call = tuple[str, dict[str, Any]]


class PlayedModel:
    """A `LocalModel`: an input has a script, drawn from the seed and its text.

    Attributes:
        asked: How often it was asked in this world.
        is_quick: Whether it answers at once, and never fails.
    """

    def __init__(
        self,
        seed: int,
        steps: int,
        check_format: Callable[[ModelRequest], None],
        check: Callable[[ModelRequest], None],
    ) -> None:
        self._seed = seed
        self._check_format = check_format
        self._steps = steps
        self._check = check
        self._asked: Counter[str] = Counter()
        self.asked = 0
        self.is_quick = False

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        self.asked += 1
        self._check(request)
        if self.asked % CHECKED_SHARE == 0:
            self._check_format(request)
        text, step = place_in(request)
        name = f"{text}/{step}"
        self._asked[name] += 1
        random = chance(self._seed, f"model/{name}/{self._asked[name]}")
        await trio.sleep(0 if self.is_quick else random.choice(SECONDS))
        fault = "" if self._asked[name] > 2 or self.is_quick else _fault(random)
        if fault == "stall":
            await emit([TextDelta("Well")])
            await trio.sleep_forever()
        if fault in {"error", "passing", "too long"}:
            kind = "context_overflow" if fault == "too long" else "provider"
            error = StreamError(error_type=kind, message="It broke.", retryable=fault == "passing")
            await emit([error] if fault == "too long" else [TextDelta("So"), error])
            return
        for event in events_of(self._answer(random, text, step, request)):
            await trio.sleep(0 if self.is_quick else random.choice(SECONDS[:4]))
            await emit([event])
            if fault == "crash":
                raise RuntimeError("the played model crashes")

    def _answer(
        self, random: random.Random, text: str, step: int, request: ModelRequest
    ) -> ScriptedReply:
        length = chance(self._seed, f"length/{text}").randint(0, self._steps - 1)
        if step >= length or not text.startswith("p") or not request.tools:
            return reply(["I am ", f"done with {text[:20]}."])
        names = {tool.name for tool in request.tools}
        count = random.randint(1, MAX_CALLS)
        drawn = [draw_call(random, f"{text}.{step}.{each}") for each in range(count)]
        calls = [call for call in drawn if call[0] in names]
        if calls and random.random() < TWINS:
            calls.append(calls[0])
        return reply(random.choice(["", "Let me see."]), calls=calls)


def _fault(random: random.Random) -> str:
    if random.random() < 0.85:
        return ""
    return random.choice(("passing", "passing", "error", "stall", "crash", "too long", "too long"))


def place_in(request: ModelRequest) -> tuple[str, int]:
    """The text of the last input, and how many answers came since."""
    text, step = "", 0
    for round_ in request.rounds:
        for item in round_.items:
            if isinstance(item, Input):
                text, step = item.text, 0
            elif isinstance(item, Answer):
                step += 1
    return text, step


def draw_call(random: random.Random, name: str) -> Call:
    """A call whose arguments name it, so that each is one of its kind."""
    tool = random.choices(tuple(CALLS), tuple(CALLS.values()))[0]
    match tool:
        case "delegate":
            kind = random.choice(("branch", "branch", "worker"))
            return tool, {"kind": kind, "task": name, "wait": random.random() < 0.7}
        case "ask_user":
            return tool, {"question": f"What about {name}?", "options": ["this", "that"]}
        case "message":
            return tool, {"text": f"About {name}."}
        case "memory_store":
            return tool, {"text": f"Remember {name}."}
        case "plan":
            return tool, {"items": [{"text": name}]}
        case "write_file":
            return tool, {"path": random.choice(FILES), "content": name}
        case "read_file" | "delete_file":
            return tool, {"path": random.choice(FILES)}
        case "move_file":
            return tool, {"from": FILES[0], "to": FILES[1], "overwrite": True}
    if random.random() < 0.05:
        return tool, {"wrong": name}
    arguments: dict[str, Any] = {"name": name, "seconds": random.choice((0, 0, 0.01, 3.0, 50.0))}
    if random.random() < 0.1:
        arguments["fails"] = random.choice(("failure", "crash"))
    return tool, arguments


FILES = ("a.txt", "b.txt")
CALLS = {
    "look": 4, "note": 3, "post": 5, "put": 2, "delegate": 2, "ask_user": 1, "message": 0.5,
    "memory_store": 0.5, "plan": 0.5, "fetch": 1, "write_file": 2, "read_file": 1.5, "delete_file": 0.3,
    "move_file": 0.3,
}  # fmt: skip
"""How often each tool is called."""
