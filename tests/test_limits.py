"""Every limit that can be set: its default, and what happens below, at and above it.

Limits of memory on the wire are in `tests/fuzz/test_bounded_memory.py`, floods and stalls over a
socket in `tests/flows/test_hostile_server.py`. A time limit has no "at": both sides would be due in
the same moment.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import trio
import trio.testing

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import ScriptedReply, Step, fail, raw_events, reply
from callboard.runtime.errors import DeadlineError
from callboard.runtime.http.client import open_http_client
from callboard.runtime.messages import ApprovalRequest
from callboard.runtime.stream import MAX_ARGUMENT_BYTES, Done, StopReason, StreamError
from callboard.tools.schema.parameters import WireName
from callboard.tools.tool import Arguments, FunctionTool
from support.stage import Played, open_in, open_local_stage, play, read_result

DEFAULTS: dict[str, float] = {
    "max_calls_per_session": 128,
    "max_calls_per_runtime": 512,
    "max_calls_per_response": 256,
    "max_arguments_bytes": 1024 * 1024,
    "max_result_bytes": 64 * 1024,
    "connect_seconds": 30,
    "first_byte_seconds": 60,
    "idle_seconds": 60,
    "progress_seconds": 120,
    "model_call_seconds": 15 * 60,
    "model_retries": 3,
    "retry_wait_seconds": 60,
    "max_tool_seconds": 600,
    "approval_seconds": 600,
    "deferred_seconds": 7 * 24 * 3600,
    "max_session_depth": 3,
    "max_child_sessions": 8,
    "max_repeats": 25,
}
"""As the design has them; those who change one change the documents too."""


def test_the_defaults_are_those_of_the_design() -> None:
    assert msgspec.structs.asdict(Limits()) == DEFAULTS


def test_constants_that_mean_the_same_are_the_same() -> None:
    assert Limits().max_arguments_bytes == MAX_ARGUMENT_BYTES


BOUNDS: dict[str, tuple[float, float]] = {
    "calls": (1, 100_000),
    "depth": (0, 16),
    "child": (1, 100_000),
    "repeats": (1, 100_000),
    "retries": (0, 20),
    "arguments_bytes": (1024, 1024 * 1024),
    "result_bytes": (1024, 8 * 1024 * 1024),
    "seconds": (0.001, 7 * 24 * 3600),
}
"""What a limit can be set to, by a part of its name."""


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_limit_of_nothing_or_of_everything_is_refused(name: str) -> None:
    [(least, most)] = [bounds for part, bounds in BOUNDS.items() if part in name]
    for value in (least, most):
        assert getattr(msgspec.convert({name: value}, Limits), name) == value
    for value in (-1, 0 if least else -1, least - 1, most + 1, 10**12, math.inf, math.nan):
        with pytest.raises(msgspec.ValidationError, match=name):
            msgspec.convert({name: value}, Limits)


@callboard.tool(tier="read_only")
async def echo(text: str) -> str:
    """Says the text."""
    await trio.lowlevel.checkpoint()
    return text


@callboard.tool(tier="read_only", timeout_seconds=100)
async def wait(seconds: float) -> str:
    """Waits."""
    await trio.sleep(seconds)
    return "waited"


class Crowd:
    """A tool that counts how many of it run at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

        @callboard.tool(tier="read_only")
        async def stay(number: int) -> int:
            """Stays a while."""
            self.now += 1
            self.most = max(self.most, self.now)
            await trio.sleep(1)
            self.now -= 1
            return number

        self.tool = stay


async def play_calls(
    folder: Path, calls: list[tuple[str, Any]], tools: list[Any], **options: Any
) -> Played:
    """A turn with one answer of these calls, and one that says it is done."""
    limits = Limits(**options.pop("limits", {}))
    async with open_local_stage(
        folder, [reply(calls=calls), reply("Done.")], tools=tools,
        settings=Settings(limits=limits), **options,
    ) as (runtime, _):  # fmt: skip
        return await play(await runtime.create_session(), "Go.")


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", ["max_calls_per_session", "max_calls_per_runtime"])
@pytest.mark.parametrize(("count", "at_once"), [(3, 3), (4, 4), (5, 4)])
async def test_calls_at_once(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    limit: str,
    count: int,
    at_once: int,
) -> None:
    crowd = Crowd()
    calls = [("stay", {"number": number}) for number in range(count)]
    played = await play_calls(tmp_path, calls, [crowd.tool], limits={limit: 4})
    assert played.statuses == [("stay", "success")] * count
    assert crowd.most == at_once
    assert trio.current_time() == (1 if count <= 4 else 2)


@pytest.mark.parametrize(("count", "refused"), [(3, 0), (4, 0), (5, 1)])
async def test_calls_of_a_response(tmp_path: Path, count: int, refused: int) -> None:
    calls = [("echo", {"text": "x"})] * count
    played = await play_calls(tmp_path, calls, [echo], limits={"max_calls_per_response": 4})
    statuses = [status for _, status in played.statuses]
    assert statuses == ["error"] * refused + ["success"] * (count - refused)


@pytest.mark.parametrize(("over", "status"), [(-1, "success"), (0, "success"), (1, "error")])
@pytest.mark.parametrize("letter", ["x", "é"])
async def test_arguments(tmp_path: Path, over: int, status: str, letter: str) -> None:
    room = 1024 + over - len('{"text":""}')
    size = len(letter.encode())
    text = letter * (room // size) + "x" * (room % size)
    calls = [("echo", f'{{"text":"{text}"}}'), ("echo", {"text": "sibling"})]
    played = await play_calls(tmp_path, calls, [echo], limits={"max_arguments_bytes": 1024})
    results = {result.status.value for result in played.results}
    assert results == {status, "success"}
    if over > 0:
        [refused] = [read_result(r) for r in played.results if r.status == "error"]
        assert refused["error_type"] == "validation_error"
        assert "larger than 1024 bytes" in refused["message"]


async def test_arguments_are_cut_while_they_stream(tmp_path: Path) -> None:
    played = await play_calls(
        tmp_path, [("echo", {"text": "x" * 100_000})], [echo], limits={"max_arguments_bytes": 1024}
    )
    [proposed] = [e for e in played.events if isinstance(e, callboard.CallProposed)]
    assert len(proposed.arguments) == 1025


@pytest.mark.parametrize(("over", "is_cut"), [(-1, False), (0, False), (1, True)])
async def test_a_result(tmp_path: Path, over: int, is_cut: bool) -> None:
    text = "x" * (2048 + over - 2)
    played = await play_calls(
        tmp_path, [("echo", {"text": text})], [echo], limits={"max_result_bytes": 2048}
    )
    result = read_result(played.results[0])
    assert ("truncated" in result) is is_cut
    assert is_cut or result["result"] == text


@pytest.mark.parametrize(("seconds", "status"), [(3.9, "success"), (4.1, "timeout")])
async def test_the_time_of_a_call(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, seconds: float, status: str
) -> None:
    played = await play_calls(
        tmp_path, [("wait", {"seconds": seconds})], [wait], limits={"max_tool_seconds": 4}
    )
    assert played.statuses == [("wait", status)]
    assert trio.current_time() == min(seconds, 4)


@callboard.tool(tier="read_only")
async def patient(seconds: Annotated[int | None, WireName("timeout")] = None) -> str:
    """Takes all the time that it is given."""
    await trio.sleep_forever()
    return "never"


@pytest.mark.parametrize("most", [300, 600, 1800])
@pytest.mark.parametrize("over", [-1, 0, 1, 10**400], ids=["below", "at", "above", "far above"])
async def test_the_time_that_a_call_asks_for(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, most: int, over: int
) -> None:
    """One bound, wherever it is set: above its default as well as below."""
    calls = [("patient", f'{{"timeout": {most + over}}}'), ("echo", {"text": "sibling"})]
    played = await play_calls(tmp_path, calls, [patient, echo], limits={"max_tool_seconds": most})
    assert played.statuses == [("echo", "success"), ("patient", "timeout")]
    assert trio.current_time() == min(most, most + over)
    assert read_result(played.results[1])["elapsed_seconds"] == min(most, most + over)


@pytest.mark.parametrize(("most", "lasts"), [(599, 599), (3600, 3600), (7200, 3600)])
async def test_the_time_that_a_tool_has(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, most: int, lasts: int
) -> None:
    long = callboard.tool(timeout_seconds=3600, name="long", tier="read_only")(patient.function)
    played = await play_calls(tmp_path, [("long", {})], [long], limits={"max_tool_seconds": most})
    assert played.statuses == [("long", "timeout")]
    assert trio.current_time() == lasts


class Reckless(FunctionTool):
    """A tool whose own code says how long a call may run, and fails at it."""

    def timeout_seconds(self, arguments: Arguments) -> float:
        """See `Tool`."""
        raise ZeroDivisionError("no time at all")


async def test_a_tool_that_can_not_tell_its_time_fails_alone(tmp_path: Path) -> None:
    broken = Reckless(patient.function, name="broken")
    calls = [("broken", {}), ("echo", {"text": "sibling"})]
    played = await play_calls(tmp_path, calls, [broken, echo])
    assert played.statuses == [("broken", "error"), ("echo", "success")]
    [refused] = [read_result(r) for r in played.results if r.name == "broken"]
    assert refused["message"] == "broken failed: ZeroDivisionError: no time at all"


@pytest.mark.parametrize("limit", ["approval_seconds", "deferred_seconds"])
@pytest.mark.parametrize(("seconds", "status"), [(29, "success"), (31, "denied")])
async def test_the_time_of_a_question(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, limit: str, seconds: float, status: str
) -> None:
    @callboard.tool(tier="elevated")
    async def act() -> str:
        """Is asked about."""
        await trio.lowlevel.checkpoint()
        return "acted"

    async def slow(request: ApprovalRequest) -> bool:
        await trio.sleep(seconds)
        return True

    async with open_local_stage(
        tmp_path, [reply(calls=[("act", {})]), reply("So."), reply("I see.")], tools=[act],
        agents=[callboard.Agent(defer=limit == "deferred_seconds")], on_approval=slow,
        settings=Settings(limits=msgspec.convert({limit: 30}, Limits)),
    ) as (runtime, _):  # fmt: skip
        await (await runtime.create_session()).run("Go.")
        await trio.sleep(60)
        [call] = await runtime.store.calls()
    assert call.status == status


@pytest.mark.parametrize(
    ("count", "outcome"), [(2, "answered"), (3, "loop_guard"), (4, "loop_guard")]
)
async def test_repeats(tmp_path: Path, count: int, outcome: str) -> None:
    again: list[ScriptedReply] = [reply(calls=[("echo", {"text": "x"})])] * count
    async with open_local_stage(
        tmp_path, [*again, reply("Done.")], tools=[echo],
        settings=Settings(limits=Limits(max_repeats=3)),
    ) as (runtime, _):  # fmt: skip
        played = await play(await runtime.create_session(), "Go.")
    assert played.ended.outcome == outcome
    assert len(played.results) == min(count, 3)


# ── a model that fails ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("failures", "outcome"), [(1, "answered"), (2, "answered"), (3, "failed")])
async def test_retries(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, failures: int, outcome: str
) -> None:
    busy = fail("Busy.", error_type="overloaded", retryable=True)
    steps: list[Step] = [*[busy] * failures, *([reply("Here.")] if outcome == "answered" else [])]
    async with open_local_stage(
        tmp_path, steps, settings=Settings(limits=Limits(model_retries=2))
    ) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    assert played.ended.outcome == outcome
    failed = [event for event in played.events if isinstance(event, callboard.AttemptFailed)]
    assert len(failed) == min(failures, 2)


@pytest.mark.parametrize(("seconds", "waited"), [(9.9, True), (10, True), (10.1, False)])
async def test_the_wait_before_a_retry(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, seconds: float, waited: bool
) -> None:
    busy = StreamError(
        error_type="overloaded", message="Busy.", retryable=True, retry_after_seconds=seconds
    )
    steps: list[Step] = [raw_events(busy), *([reply("Here.")] if waited else [])]
    async with open_local_stage(
        tmp_path, steps, settings=Settings(limits=Limits(retry_wait_seconds=10))
    ) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
    assert played.ended.outcome == ("answered" if waited else "failed")
    least, most = (seconds, 10) if waited else (0, 0)
    assert least <= trio.current_time() <= most


# ── a model's time ───────────────────────────────────────────────────────────────────────────────


class Pausing:
    """A model that waits these seconds before each of its words."""

    def __init__(self, *pauses: float) -> None:
        self._pauses = pauses

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        for pause in self._pauses:
            await trio.sleep(pause)
            await emit([callboard.TextDelta("x")])
        await emit([Done(StopReason.END)])


SLACK = 1.0
"""Deadlines are moved once a second at most, so they may be a second late, and never early."""


@pytest.mark.parametrize(
    ("limits", "pauses", "words"),
    [
        ({"first_byte_seconds": 10}, (9.9,), ""),
        ({"first_byte_seconds": 10}, (10.1,), "said nothing for 10 s"),
        ({"idle_seconds": 10}, (1, 9.9), ""),
        ({"idle_seconds": 10}, (1, 10.1 + SLACK), "fell silent for 10 s"),
        ({"model_call_seconds": 30}, (9.9, 10, 10), ""),
        ({"model_call_seconds": 30}, (10, 10, 10.1 + SLACK), "still speaking after 30 s"),
        ({"progress_seconds": 20, "idle_seconds": 40}, (1, 19.9), ""),
        ({"progress_seconds": 20, "idle_seconds": 40}, (1, 20.1 + SLACK), "pings for 20 s"),
    ],
)
async def test_the_time_of_a_model(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    limits: dict[str, float],
    pauses: tuple[float, ...],
    words: str,
) -> None:
    async with open_in(
        tmp_path, Pausing(*pauses), settings=msgspec.convert({"limits": limits}, Settings)
    ) as runtime:
        played = await play(await runtime.create_session(), "Go.")
    assert played.ended.outcome == ("failed" if words else "answered")
    assert words in played.ended.message


@pytest.mark.parametrize(("seconds", "late"), [(4.9, False), (5.1, True)])
async def test_the_time_of_connecting(
    autojump_clock: trio.testing.MockClock, seconds: float, late: bool
) -> None:
    async def connect(host: str, port: int) -> trio.SocketStream:
        await trio.sleep(seconds)
        raise OSError("nobody there")

    async with open_http_client(connect=connect, connect_seconds=5) as client:
        with pytest.raises(callboard.CallboardError) as refused:
            async with client.stream_post("http://h.example/v1", {}, b""):
                pass
    assert isinstance(refused.value, DeadlineError) is late
    assert trio.current_time() == min(seconds, 5)


class NoNames(trio.abc.HostnameResolver):
    """A name service that never answers."""

    async def getaddrinfo(self, *args: Any, **options: Any) -> Any:
        await trio.sleep_forever()

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        await trio.sleep_forever()


async def test_the_time_of_connecting_is_the_settings(tmp_path: Path) -> None:
    trio.socket.set_custom_hostname_resolver(NoNames())
    settings = Settings(limits=Limits(connect_seconds=0.05))
    async with open_in(tmp_path, "m", base_url="http://h.example/v1", settings=settings) as runtime:
        played = await play(await runtime.create_session(), "Go.")
    assert (played.ended.outcome, played.ended.error_type) == ("failed", "timeout")
    assert "within 0.05 s" in played.ended.message


def test_every_limit_is_read_somewhere() -> None:
    root = Path(callboard.__file__).parent
    files = [*(root / "actors").rglob("*.py"), root / "embedding" / "host.py"]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [name for name in DEFAULTS if f"limits.{name}" not in text] == []
