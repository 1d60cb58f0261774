"""From one wire format to another in the middle of a turn: a valid history on both."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path

import pytest

import callboard
from callboard.providers.testing.script import Step, fail, reply, status
from callboard.providers.testing.scripted_server import ServerStep
from support.flows.format_stage import FORMATS, open_formats
from support.flows.sent_parts import Part, answer_parts, conversation
from support.stage import play

A_PROOF, B_PROOF = (base64.b64encode(b"the proof of %b" % who).decode() for who in (b"a", b"b"))

PAIRS = [
    *itertools.permutations(FORMATS, 2),
    # Another provider of the same wire format is another one all the same.
    *((name, f"{name}2") for name in FORMATS),
]


@callboard.tool(tier="read_only", effect="read")
async def halve(number: int) -> int:
    """Halves an even number."""
    if number % 2:
        raise callboard.ToolFailure(callboard.ErrorType.EXECUTION_ERROR, f"{number} is odd.")
    return number // 2


CALLS = [[("halve", {"number": 4}), ("halve", {"number": 3})], [("halve", {"number": 8})]]
RESULTS: list[list[Part]] = [[("result", 2), ("result", "3 is odd.")], [("result", 4)]]


def plain(parts: list[Part]) -> list[Part]:
    """With what a result says alone."""
    return [
        ("result", part[1].get("result") or part[1]["message"]) if part[0] == "result" else part
        for part in parts
    ]


@pytest.mark.parametrize(
    "failure",
    [status(404, message="gone"), fail("broken", text="Well, ")],
    ids=["before", "within"],
)
@pytest.mark.parametrize(("a", "b"), PAIRS)
async def test_turns_go_on_in_another_format(tmp_path: Path, a: str, b: str, failure: Step) -> None:
    scripts: dict[str, list[ServerStep]] = {
        a: [
            reply("A asks.", thinking="A thinks.", signature=A_PROOF, calls=CALLS[0]),
            failure,
            reply("I am back."),
        ],
        b: [
            reply("B asks.", thinking="B thinks.", signature=B_PROOF, calls=CALLS[1]),
            reply("B is done."),
        ],
    }
    async with open_formats(tmp_path, scripts, tools=[halve]) as stage:
        session = await stage.session()
        played = await play(session, "Go.")
        assert (played.ended.outcome, played.text) == ("answered", "A asks.B asks.B is done.")
        [switched] = [e for e in played.events if isinstance(e, callboard.ModelSwitched)]
        assert switched.provider == b
        assert len(played.results) == 3
        assert await session.run("And?") == "I am back."
        requests = {name: server.requests for name, server in stage.servers.items()}
    asked: list[Part] = [("input", "Go.")]
    for own, other in ((a, b), (b, a)):
        dialect = own.rstrip("2")
        of_a = answer_parts(dialect, "A thinks.", A_PROOF, "A asks.", CALLS[0], is_own=own == a)
        of_b = answer_parts(dialect, "B thinks.", B_PROOF, "B asks.", CALLS[1], is_own=own == b)
        first, then = [*asked, *of_a, *RESULTS[0]], [*of_b, *RESULTS[1]]
        last = [("text", "B is done."), ("input", "And?")]
        expected = {a: [asked, first, [*first, *then, *last]], b: [first, [*first, *then]]}
        assert [plain(conversation(request)) for request in requests[own]] == expected[own]
        for request in requests[own]:
            sent = json.dumps([request.body, dict(request.headers)])
            assert (B_PROOF if own == a else A_PROOF) not in sent
            assert f"key-of-{other}" not in request.headers.values()
            assert f"{other} thinks" not in sent
